package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestHeadersAheadOfBlocksRevealLaterEpochs: with headers above its blocks a node knows later
// epochs, so it checks the producer of a block in such an epoch on arrival, also after a restart.
// Without the headers that epoch is unknown. Headers at or below the flat head are removed, and
// headers can be added after blocks have overtaken them.
func TestHeadersAheadOfBlocksRevealLaterEpochs(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc")
	maker, disk := openNode(t, g), storage.NewMemDisk()
	n := openOn(t, g, disk, storage.Options{})
	var list []*primitives.Block
	var bodies [][]*primitives.Chunk
	var heads []*primitives.BlockHeader
	for len(list) < 70 {
		b, chunks := maker.make(maker.Head().Hash, maker.Head().Height()+1, false)
		maker.accept(b, chunks)
		list, bodies, heads = append(list, b), append(bodies, chunks), append(heads, b.Header)
	}
	other := seedKey("nobody")
	standing := func(when string, h int, want blockpool.Status) {
		t.Helper()
		b := list[h-1]
		a, err := n.Precheck(b)
		if err != nil || a.Standing != want {
			t.Fatalf("%s: block %d: standing %d, %v; want %d", when, h, a.Standing, err, want)
		}
		if by, _ := maker.BlockProducer(b.Header.PrevHash, b.Header.Height); want != blockpool.UnknownEpoch && (a.Producer != by.AccountID || len(a.Needs) != 2) {
			t.Errorf("%s: block %d by %q, want %q; needs %v", when, h, a.Producer, by.AccountID, a.Needs)
		}
		_, err = n.Precheck(changed(b, &other, func(*primitives.BlockHeader) {}))
		if refused := errors.Is(err, chain.InvalidSignature); refused != (want != blockpool.UnknownEpoch) {
			t.Errorf("%s: block %d with an invalid signature: %v", when, h, err)
		}
	}
	add := func(from, to, want int) {
		t.Helper()
		if got, err := n.HeaderChain().Add(heads[from-1 : to]); err != nil || got != want {
			t.Fatalf("headers %d to %d: %d taken, %v; want %d", from, to, got, err, want)
		}
		if at, err := n.HeaderChain().Head(); err != nil || at.Hash != list[to-1].Hash() {
			t.Fatalf("head by headers %v, %v; want %d", at, err, to)
		}
	}
	rows := func() (out []primitives.Height) {
		if err := n.store.HeadersUpTo(1<<40, func(ref storage.BlockRef, _ storage.Raw) bool { out = append(out, ref.Height); return true }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	reopen := func() {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		_ = n.store.Close()
		n = openOn(t, g, disk, storage.Options{})
	}
	standing("without headers", 45, blockpool.UnknownEpoch)
	if _, err := n.HeaderChain().Add(heads[1:5]); !errors.Is(err, headerchain.ErrOrphan) {
		t.Errorf("headers without their parent: %v", err)
	}
	add(1, 20, 20)
	standing("with 20 headers", 45, blockpool.UnknownEpoch)
	reopen()
	bad := append(append([]*primitives.BlockHeader{}, heads[15:30]...), changed(list[30], &other, func(*primitives.BlockHeader) {}).Header)
	if got, err := n.HeaderChain().Add(bad); got != 10 || !errors.Is(err, chain.InvalidSignature) {
		t.Fatalf("a header with an invalid signature: %d accepted before it, %v", got, err)
	}
	add(31, 40, 10)
	standing("with 40 headers", 45, blockpool.Orphan)
	reopen()
	standing("after a restart", 45, blockpool.Orphan)
	standing("after a restart", 70, blockpool.UnknownEpoch)
	if got := rows(); len(got) != 40 {
		t.Errorf("%d headers are kept", len(got))
	}
	for i, b := range list[:50] { // the blocks overtake the headers
		n.accept(b, bodies[i])
		if i%4 == 3 {
			if err := n.AdvanceFlatHead(); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(51, 58, 8)
	if got, folded := rows(), n.store.Tip().FlatHead.Height; folded < 40 || len(got) == 0 || got[0] <= folded {
		t.Errorf("headers %v are kept, the folded block is %d", got, folded)
	}
	reopen()
	add(59, 70, 12)
	for i := 50; i < 70; i++ {
		n.accept(list[i], bodies[i])
	}
	standingOver, err := n.Precheck(changed(list[2], nil, func(h *primitives.BlockHeader) { h.PrevHash, h.PrevHeight, h.Height = primitives.Hash{1}, 70, 71 }))
	if err != nil || standingOver.Standing != blockpool.UnknownEpoch {
		t.Errorf("a block of an epoch that is over: %+v, %v", standingOver, err)
	}
}

// TestPruneRemovesHeadersOfLostBranch: prune removes the headers of an abandoned branch. It keeps
// the epoch start of the surviving branch, even if the epoch starts at a lower height on the
// abandoned branch.
func TestPruneRemovesHeadersOfLostBranch(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	rows := n.headerChain.newRows()
	rows.reset()
	write := func() {
		t.Helper()
		if err := n.store.PutHeaders(&rows.batch); err != nil {
			t.Fatal(err)
		}
		rows.reset()
	}
	id := primitives.EpochID{7}
	put := func(h primitives.Height, name byte) {
		t.Helper()
		info := &epoch.BlockInfo{Hash: primitives.Hash{name}, Height: h, EpochID: id}
		r := &headerchain.Row{Header: n.Head().Header(), Info: info, Tree: new(primitives.PartialMerkleTree)}
		if err := rows.Put(r, &epoch.Changes{BlockInfo: info, EpochStart: true}, false); err != nil {
			t.Fatal(err)
		}
	}
	put(5, 1) // on the branch that loses
	put(9, 2)
	write()
	for _, c := range []struct {
		upto primitives.Height
		want bool
	}{{5, true}, {9, false}} {
		if err := rows.prune(c.upto); err != nil {
			t.Fatal(err)
		}
		write()
		if h, ok, err := rows.EpochStart(id); err != nil || ok != c.want || ok && h != 9 {
			t.Errorf("headers up to %d are removed: the epoch begins at %d (%v), %v", c.upto, h, ok, err)
		}
	}
}

// TestOvertakenHeaderChainIsNotRebuilt: when blocks overtake the headers, the head counts as the
// highest header, and the header chain is not rebuilt until headers arrive again.
func TestOvertakenHeaderChainIsNotRebuilt(t *testing.T) {
	g := testGenesis(t, "aa", "bb")
	n, maker := openNode(t, g), openNode(t, g)
	if _, err := n.HeaderChain().Head(); err != nil {
		t.Fatal(err)
	}
	made := n.headerChain.chain
	var heads []*primitives.BlockHeader
	for range 12 {
		b, chunks := maker.make(maker.Head().Hash, maker.Head().Height()+1, false)
		maker.accept(b, chunks)
		if heads = append(heads, b.Header); len(heads) > 8 {
			continue
		}
		n.accept(b, chunks)
		if at, err := n.HeaderChain().Head(); err != nil || at.Hash != n.Head().Hash || n.headerChain.chain != made {
			t.Fatalf("after block %d: %v, %v; rebuilt: %v", b.Header.Height, at, err, n.headerChain.chain != made)
		}
		if h := n.HeaderChain().Highest(); h == nil || h.Hash() != n.Head().Hash {
			t.Fatalf("after block %d the highest header is %v", b.Header.Height, h)
		}
	}
	if got, err := n.HeaderChain().Add(heads); err != nil || got != 4 {
		t.Fatalf("%d headers accepted, %v; want 4", got, err)
	}
	if at, err := n.HeaderChain().Head(); err != nil || at.Hash != heads[11].Hash() {
		t.Errorf("head by headers %v, %v; want %v", at, err, heads[11].Hash())
	}
}

// TestHeaderFromTheFutureIsNotStored: neither a header too far ahead of the clock nor its
// descendants are stored. The header is accepted once the clock has advanced.
func TestHeaderFromTheFutureIsNotStored(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc")
	maker, n := openNode(t, g), openNode(t, g)
	var heads []*primitives.BlockHeader
	for len(heads) < 8 {
		b, chunks := maker.make(maker.Head().Hash, maker.Head().Height()+1, false)
		maker.accept(b, chunks)
		heads = append(heads, b.Header)
	}
	clock := heads[4].Timestamp - chain.AcceptableTimeDifference // the fifth header is as far ahead as is allowed
	n.headerChain.now = func() uint64 { return clock }
	if got, err := n.HeaderChain().Add(heads); got != 5 || !errors.Is(err, chain.InvalidBlockFutureTime) || VerdictOf(err) != VerdictEarly {
		t.Fatalf("%d headers accepted, %v, want 5 and %v", got, err, chain.InvalidBlockFutureTime)
	}
	if at, err := n.HeaderChain().Head(); err != nil || at.Height != heads[4].Height {
		t.Errorf("header head %v, %v, want %d", at, err, heads[4].Height)
	}
	clock = heads[7].Timestamp
	if got, err := n.HeaderChain().Add(heads); got != 3 || err != nil {
		t.Errorf("%d headers accepted once the clock has advanced, %v, want 3", got, err)
	}
}
