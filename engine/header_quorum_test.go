package engine

import (
	"testing"
	"time"

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

// TestStakeProvesThatClockIsBehind: a header in the future whose child has the approvals of two thirds
// of the stake proves that the clock is behind. The header's own approvals do not, and neither do
// approvals that name no hash. A list of headers that the clock allows proves nothing.
func TestStakeProvesThatClockIsBehind(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc")
	maker, n := openNode(t, g), openNode(t, g)
	var list []*primitives.BlockHeader
	for len(list) < 8 {
		b, chunks := maker.make(maker.Head().Hash, maker.Head().Height()+1, false)
		maker.accept(b, chunks)
		list = append(list, b.Header)
	}
	key := seedKey("aa")
	change := func(h *primitives.BlockHeader, f func(*primitives.BlockHeader)) *primitives.BlockHeader {
		return changed(&primitives.Block{Header: h}, &key, f).Header
	}
	at := func(i int) time.Time { return time.Unix(0, int64(list[i].Timestamp)) }
	const behind = 5 * time.Minute
	// the timestamps of the other headers are less than 2 minutes ahead of now
	later := change(list[5], func(h *primitives.BlockHeader) { h.Timestamp += uint64(time.Hour) })
	skips, _ := maker.make(maker.Head().Hash, maker.Head().Height()+2, false) // its approvals name the height of its parent
	skipped := change(list[7], func(h *primitives.BlockHeader) { h.Height, h.Timestamp = h.Height+1, h.Timestamp+uint64(time.Hour) })
	skipping := change(skips.Header, func(h *primitives.BlockHeader) { h.PrevHash = skipped.Hash() })
	if voted, err := n.Voted(skipping); err != nil || !voted {
		t.Fatalf("the approvals of a block after a skipped height do not verify, %v", err)
	}
	for name, x := range map[string]struct {
		list []*primitives.BlockHeader
		now  time.Time
		want time.Duration
	}{
		"behind":                             {list, at(0).Add(-behind), behind},
		"unproven headers before":            {append([]*primitives.BlockHeader{list[7], list[3]}, list[1:]...), at(1).Add(-behind), behind},
		"right":                              {list, at(7), 0},
		"behind by as much as is allowed":    {list, at(7).Add(-2 * time.Minute), 0},
		"one header":                         {list[:1], at(0).Add(-behind), 0},
		"none":                               {nil, at(0), 0},
		"a producer's false header":          {[]*primitives.BlockHeader{list[4], later}, at(4), 0},
		"and the true child of another":      {[]*primitives.BlockHeader{list[4], later, list[6]}, at(4), 0},
		"and a false child with other votes": {[]*primitives.BlockHeader{skipped, skipping}, at(7), 0},
		"and a false child with its votes": {[]*primitives.BlockHeader{list[4], later, change(list[6], func(h *primitives.BlockHeader) {
			h.PrevHash = later.Hash()
		})}, at(4), 0},
	} {
		if got, err := n.ProvenAhead(x.list, x.now); err != nil || got != x.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, x.want)
		}
	}
}
