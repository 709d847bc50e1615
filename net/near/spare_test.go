package near

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestSpare: four nodes that are all connected, a fifth that only the fourth knows. A block that its neighbours were told of by who has brought it is not told again, one of
// some heights is, one that was asked for, or that gossip has brought, is, and whoever nobody has told is told. Others tell all of everything.
func TestSpare(t *testing.T) {
	for _, sparing := range []bool{true, false} {
		f := newFabric(t, 1)
		var m [5]*member
		for i := range m {
			m[i] = f.add(fmt.Sprint("n", i), func(c *Config) {
				quiet(c)
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
		tell := func(from int, h primitives.Height) string {
			f.log = nil
			f.step(m[from], ToAll{Msg: &wire.Block{Block: headAt(h).Block}})
			f.run(time.Second)
			return strings.Join(f.log, ", ")
		}
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
		if got := tell(1, 9); strings.Count(got, block) != 3 {
			t.Errorf("told once more, as nothing moves: %s", got)
		}
		if tell(0, 16); strings.Count(tell(1, 16), block) != 3 {
			t.Error("one of the heights at which all are told is not told to all")
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
	var b brought
	for i := range primitives.Height(2 * maxBrought) {
		b.put(headAt(i).Block.Hash(), "a")
		b.put(headAt(i).Block.Hash(), "b")
	}
	if len(b.by) != maxBrought || len(b.order) != maxBrought || b.by[headAt(2*maxBrought-1).Block.Hash()] != "a" {
		t.Errorf("%d and %d blocks are remembered", len(b.by), len(b.order))
	}
}

// TestCopies: what might get lost on a way over others is sent three times, but once where all hurry.
func TestCopies(t *testing.T) {
	for _, sparing := range []bool{true, false} {
		f := newFabric(t, 1)
		a, b := f.add("a", func(c *Config) {
			quiet(c)
			c.Sparing = sparing
		}), f.add("b", quiet)
		f.dial(a, b, wire.T2)
		f.run(5 * time.Second)
		key := keyFor("v")
		f.step(a, Judged{Good: []*wire.Announcement{{AccountID: "v.near", PeerID: b.me, Signature: key.Sign(nil)}}})
		f.log = nil
		f.step(a, RouteToAccount{AccountID: "v.near", Body: &wire.BlockApproval{Approval: primitives.Approval{Inner: primitives.ApprovalInner{Skip: true}, AccountID: "w.near", Signature: key.Sign(nil)}}})
		f.run(time.Second)
		if n := strings.Count(strings.Join(f.log, " "), "routed"); sparing && n != 1 || !sparing && n != 3 {
			t.Errorf("sparing %v: %d copies", sparing, n)
		}
	}
}

// TestHolders: what a validator holds is known to all whom its data comes to, if it hurries, and anew when that changes.
func TestHolders(t *testing.T) {
	f := newFabric(t, 1)
	hurries := func(c *Config) {
		quiet(c)
		c.Sparing = true
	}
	a, b, c := f.add("a", quiet), f.add("b", quiet), f.add("c", hurries)
	h := headAt(5)
	h.T1 = map[primitives.AccountID][]primitives.PublicKey{}
	for _, m := range []*member{a, b, c} {
		h.T1[primitives.AccountID(m.name)] = []primitives.PublicKey{keyFor("v" + m.name).PublicKey()}
		f.step(m, Validator{AccountID: primitives.AccountID(m.name), Key: keyFor("v" + m.name)})
	}
	h.TrackedShards = []primitives.ShardID{3, 4}
	for _, m := range []*member{a, b, c} {
		f.step(m, h)
	}
	f.dial(a, b, wire.T2)
	f.dial(b, c, wire.T2)
	f.run(30 * time.Second)
	if got := a.Info().Holders; len(got) != 1 || fmt.Sprint(got["c"]) != "[3 4]" {
		t.Errorf("a knows of %v", got)
	}
	h.TrackedShards = nil
	f.step(c, h)
	f.run(30 * time.Second)
	if got := a.Info().Holders; len(got) != 0 {
		t.Errorf("when it holds nothing at all times any more: %v", got)
	}
}
