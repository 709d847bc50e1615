package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestDistantHostIsAskedIfPeersAreFew: connected peers are asked for state on their connections.
// Distant hosts are asked by routed messages, only for shards that too few connected peers serve,
// and only if they can reach this node.
func TestDistantHostIsAskedIfPeersAreFew(t *testing.T) {
	host := func(id wire.PeerID, shards ...primitives.ShardID) *wire.SnapshotHost {
		return &wire.SnapshotHost{PeerID: id, Shards: shards}
	}
	info := &near.Info{Peers: make([]near.PeerState, 2), Public: netip.MustParseAddrPort("1.2.3.4:5"),
		Hosts: []*wire.SnapshotHost{host("near", 0, 1), host("far", 0, 1, 2), host("other", 0), host("me", 2),
			host("old", 2)}}
	info.Peers[0].Info.ID, info.Peers[1].Info.ID = "near", "other"
	fits := func(h *wire.SnapshotHost) bool { return h.PeerID != "old" }
	a := stateHostsOf("me", info, newHostLottery(nil).draw(0))
	if got, want := a.list(statesync.New(nil, statesync.Options{}), fits), []statesync.Host{{ID: "near", Shards: []primitives.ShardID{0, 1}},
		{ID: "other", Shards: []primitives.ShardID{0}}, {ID: "far",
			Shards: []primitives.ShardID{1, 2}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("hosts are %v, want %v", got, want)
	}
	info.Public = netip.AddrPort{}
	b := stateHostsOf("me", info, newHostLottery(nil).draw(0))
	if got := b.list(statesync.New(nil, statesync.Options{}), fits); slices.ContainsFunc(got, func(h statesync.Host) bool { return h.ID == "far" }) {
		t.Errorf("%v: an unreachable node asks a distant host to connect to it", got)
	}
	sync := primitives.Hash{7}
	for _, x := range []struct {
		q    statesync.Ask
		want near.Event
	}{
		{statesync.Ask{Peer: "near", Item: statesync.Item{Shard: 1, Header: true}},
			near.ToPeer{Peer: "near", Msg: &wire.StateHeaderRequest{ShardID: 1, SyncHash: sync}}},
		{statesync.Ask{Peer: "near", Item: statesync.Item{Shard: 1, Part: 3}},
			near.ToPeer{Peer: "near", Msg: &wire.StatePartRequest{ShardID: 1, SyncHash: sync, Part: 3}}},
		{statesync.Ask{Peer: "far", Item: statesync.Item{Shard: 1, Header: true}},
			near.AskState{Host: "far", SyncHash: sync, ShardID: 1, IsHeader: true}},
		{statesync.Ask{Peer: "far", Item: statesync.Item{Shard: 1, Part: 3}},
			near.AskState{Host: "far", SyncHash: sync, ShardID: 1, Part: 3}},
	} {
		if got := a.request(statesync.New(nil, statesync.Options{}), x.q, sync); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%+v leads to request %+v, want %+v", x.q, got, x.want)
		}
	}
}

// TestFalseNeighboursDoNotReplaceDistantHosts: if the connected peers that announce a shard do not answer,
// or answer that they do not have it, distant hosts are asked, too. Once the peers deliver, they suffice.
func TestFalseNeighboursDoNotReplaceDistantHosts(t *testing.T) {
	info := &near.Info{Peers: make([]near.PeerState, 2), Public: netip.MustParseAddrPort("1.2.3.4:5")}
	for _, id := range []wire.PeerID{"silent", "empty", "far"} {
		info.Hosts = append(info.Hosts, &wire.SnapshotHost{PeerID: id, Shards: []primitives.ShardID{1}})
	}
	info.Peers[0].Info.ID, info.Peers[1].Info.ID = "silent", "empty"
	m := statesync.New([]primitives.ShardID{1}, statesync.Options{})
	hosts := stateHostsOf("me", info, newHostLottery(nil).draw(0))
	now, lie, parts := int64(0), true, map[statesync.PeerID]int{}
	step := func(ev statesync.Event) {
		list := []statesync.Event{ev}
		for len(list) > 0 {
			out := m.Step(now, list[0])
			list = list[1:]
			for _, q := range out.Ask {
				switch parts[q.Peer]++; {
				case lie && q.Peer == "empty":
					list = append(list, statesync.None{From: q.Peer, Item: q.Item})
				case !lie || q.Peer == "far":
					list = append(list, statesync.Arrived{From: q.Peer, Item: q.Item}, statesync.ItemVerified{From: q.Peer, Item: q.Item})
				}
			}
		}
	}
	asksFar := func(within int64) bool {
		for end := now + within; now < end; now += 1000 {
			list := hosts.list(m, func(*wire.SnapshotHost) bool { return true })
			if slices.ContainsFunc(list, func(h statesync.Host) bool { return h.ID == "far" }) {
				return true
			}
			step(statesync.Hosts{List: list})
		}
		return false
	}
	step(statesync.Known{Shard: 1, Total: 2000})
	if !asksFar(10 * 60_000) {
		t.Fatalf("the distant host is not asked; requests: %v", parts)
	}
	t.Logf("the distant host is asked after %d s", now/1000)
	ask := statesync.Ask{Peer: "empty", Item: statesync.Item{Shard: 1}}
	if got, is := hosts.request(m, ask, primitives.Hash{}).(near.AskState); !is || got.Host != "empty" {
		t.Error("a connected host that does not deliver is not asked by a routed message")
	}
	hosts.public = false
	if _, is := hosts.request(m, ask, primitives.Hash{}).(near.ToPeer); !is {
		t.Error("a host that cannot reach this node is asked by a routed message")
	}
	hosts.public = true
	lie = false
	for range 60 {
		step(statesync.Hosts{List: hosts.list(m, func(*wire.SnapshotHost) bool { return true })})
		now += 1000
	}
	if asksFar(10_000) {
		t.Errorf("the distant host is still asked; requests: %v", parts)
	}
}

// TestHonestHostIsAskedAmongManyMalicious: many malicious hosts that announce state do not keep an
// honest one from being asked. The distant hosts that are asked stay the same for lotteryPeriod and
// then change.
func TestHonestHostIsAskedAmongManyMalicious(t *testing.T) {
	info := &near.Info{Public: netip.MustParseAddrPort("1.2.3.4:5")}
	for i := range 100 {
		info.Hosts = append(info.Hosts, &wire.SnapshotHost{PeerID: wire.PeerID(fmt.Sprint("liar", i)),
			Shards: []primitives.ShardID{1}})
	}
	// The newest announcement comes first.
	info.Hosts = append(info.Hosts, &wire.SnapshotHost{PeerID: "honest", Shards: []primitives.ShardID{1}})
	turns := 0
	l := newHostLottery(rand.New(rand.NewPCG(1, 2)).IntN)
	for ms := int64(0); ms < 60*lotteryPeriod; ms += lotteryPeriod / 2 {
		a := stateHostsOf("me", info, l.draw(ms))
		got := a.list(statesync.New(nil, statesync.Options{}), func(*wire.SnapshotHost) bool { return true })
		if len(got) != maxFar {
			t.Fatalf("%d hosts are asked", len(got))
		}
		if ms%lotteryPeriod != 0 {
			b := stateHostsOf("me", info, l.draw(ms-lotteryPeriod/2))
			if !reflect.DeepEqual(got, b.list(statesync.New(nil, statesync.Options{}), func(*wire.SnapshotHost) bool { return true })) {
				t.Error("the hosts changed within a period")
			}
		} else if slices.ContainsFunc(got, func(h statesync.Host) bool { return h.ID == "honest" }) {
			turns++
		}
	}
	if turns == 0 || turns == 60 {
		t.Errorf("the honest host is asked in %d of 60 periods", turns)
	}
}

// TestRefusedStateRequestAsksAnotherHost: after a host has refused a request, another one is asked
// at once.
func TestRefusedStateRequestAsksAnotherHost(t *testing.T) {
	s, p := newTestShards()
	item := statesync.Item{Shard: 7, Part: 3}
	s.step(p, statesync.Want{Item: item})
	first := s.awaitRequest(t, p, item, "")
	ack := &primitives.StateRequestAck{ShardID: 7, SyncHash: p.sync, Part: 3, Body: primitives.StateWillRespond}
	if !s.addAck(first, ack) || s.awaitRequest(t, p, item, "") != first {
		t.Error("another host is asked although the first acknowledged")
	}
	ack.Body = primitives.StateBusy
	s.addAck("stranger", ack)
	if s.awaitRequest(t, p, item, "") != first {
		t.Error("a refusal of a host that was not asked counts")
	}
	s.addAck(first, ack)
	s.awaitRequest(t, p, item, first)
}
