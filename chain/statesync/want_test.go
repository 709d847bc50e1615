package statesync

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestWantedItemIsRequestedUntilValid: wanted items, also those of shards not passed to New, are
// requested from one host at a time until a valid one arrives or Dropped cancels the request. A
// host that sends an invalid item is not asked again, and the item is requested from another host.
func TestWantedItemIsRequestedUntilValid(t *testing.T) {
	t.Parallel()
	m := New(nil, Options{Wait: 1000})
	hosts := []Host{{ID: "a", Shards: []primitives.ShardID{7}}, {ID: "b", Shards: []primitives.ShardID{7, 8}}}
	m.Step(0, Hosts{hosts})
	header, part := Item{Shard: 7, Header: true}, Item{Shard: 8, Part: 3}
	asked := func(out Out, want ...Item) (peers []PeerID) {
		t.Helper()
		var got []Item
		for _, a := range out.Ask {
			got, peers = append(got, a.Item), append(peers, a.Peer)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("asked for %v, want %v", got, want)
		}
		return peers
	}
	first := asked(m.Step(0, Want{header}), header)[0]
	asked(m.Step(0, Want{header}))
	if p := asked(m.Step(1, Want{part}), part); p[0] != "b" {
		t.Errorf("the part is requested from %s", p[0])
	}
	m.Step(2, Arrived{first, header})
	out := m.Step(3, ItemVerified{From: first, Item: header, Bad: true})
	if len(out.Ban) != 1 || out.Ban[0] != first {
		t.Errorf("banned: %v", out.Ban)
	}
	second := asked(out, header)[0]
	if second == first {
		t.Errorf("%s is asked again", first)
	}
	m.Step(4, Arrived{second, header})
	asked(m.Step(5, ItemVerified{From: second, Item: header}))
	asked(m.Step(100_000, Tick{}))
	// host b has disconnected, or was banned
	asked(m.Step(200_000, Hosts{[]Host{{ID: "c", Shards: []primitives.ShardID{8}}}}), part)
	m.Step(200_000, Dropped{part})
	asked(m.Step(300_000, Tick{}))
	if len(m.wanted) > 0 {
		t.Errorf("wanted: %v", m.wanted)
	}
}

// TestReconnectedHostGetsFullShare: a host that disconnects while its response is validated, and
// reconnects, may get as many requests at once as others.
func TestReconnectedHostGetsFullShare(t *testing.T) {
	t.Parallel()
	m := New(nil, Options{})
	hosts := Hosts{[]Host{{ID: "a", Shards: []primitives.ShardID{7}}}}
	item := Item{Shard: 7, Part: 1}
	m.Step(0, hosts)
	m.Step(0, Want{item})
	m.Step(1, Arrived{"a", item})
	m.Step(2, Hosts{})
	m.Step(3, hosts)
	m.Step(4, ItemVerified{From: "a", Item: item})
	if n := m.hosts["a"].asked; n != 0 {
		t.Errorf("the host has %d open requests", n)
	}
}
