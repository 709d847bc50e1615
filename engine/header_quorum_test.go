package engine

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestVotedNeedsTwoThirdsOfStake: Voted returns true for a block of a known epoch that contains
// approvals by more than two thirds of the stake, whichever validator produced it and whether or
// not its parent is known.
func TestVotedNeedsTwoThirdsOfStake(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc")
	maker, n := openNode(t, g), openNode(t, g)
	var list []*primitives.Block
	for len(list) < 25 {
		b, chunks := maker.make(maker.Head().Hash, maker.Head().Height()+1, false)
		maker.accept(b, chunks)
		list = append(list, b)
	}
	key := seedKey("nobody")
	check := func(name string, b *primitives.Block, want bool) {
		t.Helper()
		if got, err := n.Voted(b.Header); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	change := func(h int, f func(*primitives.BlockHeader)) *primitives.Block { return changed(list[h-1], &key, f) }
	check("the next", list[0], true)
	check("one after it", list[4], true)
	check("one of the next epoch", list[12], true)
	check("one of an epoch that is not known", list[24], false)
	check("another height", change(5, func(h *primitives.BlockHeader) { h.Height = 1_000_000 }), false)
	check("another parent", change(5, func(h *primitives.BlockHeader) { h.PrevHash[0] ^= 1 }), false)
	check("without a vote", change(5, func(h *primitives.BlockHeader) { h.Approvals = nil }), false)
	check("without enough votes", change(5, func(h *primitives.BlockHeader) { h.Approvals = h.Approvals[:1] }), false)
	check("another timestamp", change(5, func(h *primitives.BlockHeader) { h.Timestamp++ }), true)
	check("with votes of nobody", change(5, func(h *primitives.BlockHeader) {
		h.Approvals = append([]primitives.Signature{}, h.Approvals...)
		for i := range h.Approvals {
			h.Approvals[i] = list[0].Header.Approvals[0]
		}
	}), false)
	if h := n.HeaderChain().Highest(); h != nil {
		t.Errorf("headers lead to %d, and none has come", h.Height)
	}
	var headers []*primitives.BlockHeader
	for _, b := range list {
		headers = append(headers, b.Header)
	}
	if _, err := n.HeaderChain().Add(headers); err != nil {
		t.Fatal(err)
	}
	if h := n.HeaderChain().Highest(); h == nil || h.Height != 25 {
		t.Errorf("headers lead to %v", h)
	}
	check("one of an epoch that headers tell of", list[24], true)
}
