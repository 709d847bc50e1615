package near

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestBlockIsNotSentToSendersNeighbours: four connected nodes, and a fifth that only the fourth
// knows. A block is not sent to neighbours of its first sender. It is sent at some heights, if it
// was requested, if it came by gossip, and to peers that have it from no one. Other messages go to
// all.
func TestBlockIsNotSentToSendersNeighbours(t *testing.T) {
	for _, sparing := range []bool{true, false} {
		f := newTestNetwork(t, 1)
		var m [5]*testNode
		for i := range m {
			m[i] = f.add(fmt.Sprint("n", i), func(c *Config) {
				withoutDialling(c)
				c.Sparing = sparing
			})
		}
		for i := range 4 {
			for j := range i {
				f.dial(m[i], m[j], wire.T2)
			}
		}
		f.dial(m[4], m[3], wire.T2)
		f.run(10 * time.Second)
		told := func(from int, h primitives.Height, again bool) string {
			f.log = nil
			f.step(m[from], ToAll{Msg: &wire.Block{Block: headAt(h).Block}, Again: again})
			f.run(time.Second)
			return strings.Join(f.log, ", ")
		}
		tell := func(from int, h primitives.Height) string { return told(from, h, false) }
		say := func(what, got string, all int, want string) {
			t.Helper()
			if n := strings.Count(got, "block_response"); !sparing && n != all || sparing && got != want {
				t.Errorf("sparing %v, %s: %s", sparing, what, got)
			}
		}
		block := " block_response"
		if got := tell(0, 9); strings.Count(got, block) != 3 {
			t.Errorf("its own block: %s", got)
		}
		say("one that was told to all", tell(1, 9), 3, "")
		say("and here not to the fifth", tell(3, 9), 4, "n3>n4"+block)
		say("who has it by the fourth alone", tell(4, 9), 1, "")
		// the first sender has it
		once := map[bool]string{true: "n1>n2" + block + ", n1>n3" + block, false: "n1>n2" + block}
		for range 2 {
			if got := told(1, 9, true); got != once[sparing] {
				t.Errorf("sent again although the head is unchanged: %s", got)
			}
		}
		if got, want := told(2, 9, true), map[bool]string{true: "n2>n3" + block, false: ""}[sparing]; got != want {
			t.Errorf("sent again by the next node: %s", got)
		}
		if tell(0, 16); strings.Count(tell(1, 16), block) != 3 {
			t.Error("at a height of full relay not all peers get the block")
		}
		f.step(m[1], ToPeer{Peer: m[0].me, Msg: &wire.BlockRequest{Hash: headAt(17).Block.Hash()}})
		f.step(m[0], ToPeer{Peer: m[1].me, Msg: &wire.Block{Block: headAt(17).Block}})
		f.run(time.Second)
		if got := tell(1, 17); strings.Count(got, block) != 3 {
			t.Errorf("an answer: %s", got)
		}
		f.step(m[2], Gossiped{Peer: m[0].me, Msg: &wire.Block{Block: headAt(18).Block}})
		if got := tell(2, 18); strings.Count(got, block) != 3 {
			t.Errorf("by gossip: %s", got)
		}
	}
	b := New(Config{Key: keyFor("b")}, start).blockSources
	for i := range primitives.Height(2 * maxBlockSources) {
		b.Put(headAt(i).Block.Hash(), "a")
		b.Put(headAt(i).Block.Hash(), "b")
	}
	if by, _ := b.Get(headAt(2*maxBlockSources - 1).Block.Hash()); b.Len() != maxBlockSources || by != "a" {
		t.Errorf("%d blocks are remembered, the last one by %q", b.Len(), by)
	}
}

// TestPeerThatAsksGetsLaterBlocks: a peer that requests a block, since a neighbour did not send it,
// gets the later blocks of that neighbour from the node it asked. That ends after silentLife.
func TestPeerThatAsksGetsLaterBlocks(t *testing.T) {
	f := newTestNetwork(t, 1)
	var m [4]*testNode
	for i := range m {
		m[i] = f.add(fmt.Sprint("n", i), func(c *Config) {
			withoutDialling(c)
			c.Sparing = true
		})
		for j := range i {
			f.dial(m[i], m[j], wire.T2)
		}
	}
	f.run(10 * time.Second)
	tell := func(h primitives.Height) int {
		for _, to := range []int{1, 2} { // not the last one
			f.step(m[0], ToPeer{Peer: m[to].me, Msg: &wire.Block{Block: headAt(h).Block}})
		}
		f.run(time.Second)
		f.log = nil
		for _, from := range []int{1, 2} {
			f.step(m[from], ToAll{Msg: &wire.Block{Block: headAt(h).Block}})
		}
		f.run(time.Second)
		return strings.Count(strings.Join(f.log, " "), "n1>n3 block_response")
	}
	ask := func(h primitives.Height) {
		f.step(m[3], ToPeer{Peer: m[1].me, Msg: &wire.BlockRequest{Hash: headAt(h).Block.Hash()}})
		f.run(time.Second)
	}
	if n := tell(9); n != 0 {
		t.Errorf("sent %d times to its sender's neighbour, want none", n)
	}
	ask(9)
	if n := tell(10); n != 1 {
		t.Errorf("sent %d times after a request, want once", n)
	}
	f.run(silentLife)
	if n := tell(11); n != 0 {
		t.Errorf("sent %d times after silentLife, want none", n)
	}
	ask(2) // with an unknown first sender
	if n := tell(12); n != 0 {
		t.Errorf("sent %d times after a request for another block, want none", n)
	}
	c := m[1].PeerManager.ready[wire.T2][m[3].me]
	if c.silentNeighbours == nil {
		t.Fatal("its question is not noted")
	}
	for i := range maxSilentNeighbours {
		c.silentNeighbours[primitives.SecretKeyFromSeed(primitives.ED25519, fmt.Sprint(i)).PublicKey()] = time.Time{}
	}
	if ask(12); len(c.silentNeighbours) == 0 || len(c.silentNeighbours) > maxSilentNeighbours {
		t.Errorf("%d are kept", len(c.silentNeighbours))
	}
}

// TestSparingSendsRoutedMessagesOnce: a message that may be lost on a route is sent three times,
// but once with Sparing.
func TestSparingSendsRoutedMessagesOnce(t *testing.T) {
	for _, sparing := range []bool{true, false} {
		f := newTestNetwork(t, 1)
		a, b := f.add("a", func(c *Config) {
			withoutDialling(c)
			c.Sparing = sparing
		}), f.add("b", withoutDialling)
		f.dial(a, b, wire.T2)
		f.run(5 * time.Second)
		key := keyFor("v")
		f.step(a, AnnouncementsVerified{Good: []*wire.Announcement{{AccountID: "v.near", PeerID: b.me, Signature: key.Sign(nil)}}})
		f.log = nil
		f.step(a, RouteToAccount{AccountID: "v.near", Body: &wire.BlockApproval{Approval: primitives.Approval{Inner: primitives.ApprovalInner{Skip: true}, AccountID: "w.near", Signature: key.Sign(nil)}}})
		f.run(time.Second)
		if n := strings.Count(strings.Join(f.log, " "), "routed"); sparing && n != 1 || !sparing && n != 3 {
			t.Errorf("sparing %v: %d copies", sparing, n)
		}
	}
}

// TestTrackedShardsReachAllNodes: with Sparing, a validator's tracked shards reach all nodes with
// its account data, and again when they change.
func TestTrackedShardsReachAllNodes(t *testing.T) {
	f := newTestNetwork(t, 1)
	hurries := func(c *Config) {
		withoutDialling(c)
		c.Sparing = true
	}
	a, b, c := f.add("a", withoutDialling), f.add("b", withoutDialling), f.add("c", hurries)
	h := headAt(5)
	h.T1 = map[primitives.AccountID][]primitives.PublicKey{}
	for _, m := range []*testNode{a, b, c} {
		h.T1[primitives.AccountID(m.name)] = []primitives.PublicKey{keyFor("v" + m.name).PublicKey()}
		f.step(m, Validator{AccountID: primitives.AccountID(m.name), Key: keyFor("v" + m.name)})
	}
	h.TrackedShards = []primitives.ShardID{3, 4}
	for _, m := range []*testNode{a, b, c} {
		f.step(m, h)
	}
	f.dial(a, b, wire.T2)
	f.dial(b, c, wire.T2)
	f.run(30 * time.Second)
	if got := a.Info().Holders; len(got) != 1 || fmt.Sprint(got["c"]) != "[3 4]" {
		t.Errorf("a has holders %v", got)
	}
	next := keyFor("next").PublicKey() // the node of c in the next epoch, which tracks more
	h.T1["c"] = append(h.T1["c"], next)
	f.step(a, h)
	a.accounts.data[next] = &wire.AccountData{AccountKey: next, Holds: []primitives.ShardID{3, 4, 5}}
	if got := a.Info().Holders; fmt.Sprint(got["c"]) != "[3 4]" {
		t.Errorf("with the next epoch's node a has holders %v", got)
	}
	delete(a.accounts.data, h.T1["c"][0])
	if got := a.Info().Holders; len(got) != 0 {
		t.Errorf("this epoch's node announced nothing, but a has holders %v", got)
	}
	h.T1["c"] = h.T1["c"][:1]
	f.step(a, h)
	c.accounts.connected = []wire.PeerAddr{{Addr: netip.MustParseAddrPort("1.2.3.4:5"), PeerID: a.me}}
	// more than account data may contain
	c.accounts.trackedShards = make([]primitives.ShardID, wire.MaxAccountData/8)
	if d := c.accounts.signed(time.Unix(1, 0), 9); len(d.Holds) != 0 || len(d.Proxies) != 1 || d.Signature == "" {
		t.Errorf("of too many shards %d are announced, with %d proxies", len(d.Holds), len(d.Proxies))
	}
	h.TrackedShards = nil
	f.step(c, h)
	f.run(30 * time.Second)
	if got := a.Info().Holders; len(got) != 0 {
		t.Errorf("when it holds nothing at all times any more: %v", got)
	}
}

// TestGossipOfDisconnectedPeerCounts: gossip counts even if its sender is disconnected, not
// connected yet, or banned for another reason, since it would not be delivered again.
func TestGossipOfDisconnectedPeerCounts(t *testing.T) {
	f := newTestNetwork(t, 1)
	a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
	gossip := func(h primitives.Height) string {
		a.delivered = nil
		f.step(a, Gossiped{Peer: b.me, Msg: &wire.Block{Block: headAt(h).Block}})
		out := ""
		for _, d := range a.delivered {
			out += fmt.Sprint(d.Msg.(*wire.Block).Block.Header.Height, d.From == b.me, d.Tier == wire.T2 && d.Gossiped)
		}
		return out
	}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	want("not yet connected", gossip(1), "1 true true")
	f.dial(b, a, wire.T2)
	f.run(5 * time.Second)
	want("connected", gossip(2), "2 true true")
	f.step(a, Closed{Conn: a.ready[wire.T2][b.me].id})
	if a.ready[wire.T2][b.me] != nil {
		t.Fatal("the connection is not closed")
	}
	want("gone", gossip(3), "3 true true")
	f.step(a, Ban{Peer: b.me, Reason: Abusive})
	want("banned", gossip(4), "4 true true")
}
