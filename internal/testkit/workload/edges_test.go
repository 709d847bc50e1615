package workload

import (
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// manualChain drives a chain by hand.
type manualChain struct {
	t *testing.T
	*Chain
	gen  *Generator
	all  map[primitives.Hash]*engine.BlockNode
	last *Made
}

func newManualChain(t *testing.T, o ChainOptions) *manualChain {
	t.Helper()
	if o.Accounts == 0 {
		o.Accounts = 20
	}
	c, err := OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &manualChain{t: t, Chain: c, gen: NewGenerator(c.o.Options), all: map[primitives.Hash]*engine.BlockNode{}}
	p.all[c.Engine.Genesis().Hash] = c.Engine.Genesis()
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (p *manualChain) find(h primitives.Hash) *engine.BlockNode { return p.all[h] }

// txs returns n transfers, and n transactions of any kind, for a block.
func (p *manualChain) txs(n int, at Base) (out []*primitives.SignedTransaction) {
	for range n {
		out = append(out, p.gen.Transfer(at), p.gen.Transaction(at))
	}
	return out
}

// on produces and imports a block of a height on parent; missing may be nil.
func (p *manualChain) on(parent primitives.Hash, height primitives.Height, n int, missing func(primitives.ShardIndex) bool) *engine.Imported {
	p.t.Helper()
	plan := &Plan{Parent: parent, Height: height, Missing: missing}
	plan.Transactions = p.txs(n, Base{Height: height, Hash: parent})
	return p.plan(plan)
}

func (p *manualChain) plan(plan *Plan) *engine.Imported {
	p.t.Helper()
	b, chunks, err := p.Make(plan)
	if err != nil {
		p.t.Fatalf("making block %d: %v", plan.Height, err)
	}
	a, err := p.Accept(b, chunks, true)
	if err != nil {
		p.t.Fatalf("accepting block %d: %v", plan.Height, err)
	}
	p.all[a.Entry.Hash] = a.Entry
	p.last = &Made{Block: b, Chunks: chunks, Accepted: a}
	return a
}

func (p *manualChain) next(n int) *engine.Imported {
	p.t.Helper()
	head := p.Engine.Head()
	return p.on(head.Hash, head.Height()+1, n, nil)
}

func (p *manualChain) restart() {
	p.t.Helper()
	if err := p.Restart(); err != nil {
		p.t.Fatalf("restart at %d: %v", p.Engine.Head().Height(), err)
	}
}

// TestReceiptsSurviveLongMissingChunks: a shard misses chunks for longer than blocks stay in
// memory, then applies the receipts that arrived meanwhile. Restarts in between make no difference.
func TestReceiptsSurviveLongMissingChunks(t *testing.T) {
	var prints []primitives.Hash
	for _, every := range []int{0, 1, 13} {
		if testutil.Racing && every == 1 {
			continue
		}
		o := ChainOptions{Options: Options{Seed: 3, Shards: 4}}
		o.EpochLength, o.Validity = 40, 80
		if every == 1 {
			o.Store.FlatHeadBlocks = 5
		}
		p := newManualChain(t, o)
		var got []primitives.Hash
		for i := range 190 {
			head := p.Engine.Head()
			missing := func(s primitives.ShardIndex) bool {
				return s == 2 && i >= 10 && i < 170 || s == 1 && i >= 60 && i < 130
			}
			n := 2
			if i > 20 && i < 165 {
				n = 1
			}
			a := p.on(head.Hash, head.Height()+1, n, missing)
			got = append(got, Fingerprint(a.Entry))
			if i%20 == 0 || i >= 165 {
				checkSupply(t, p.Chain, a.Entry, p.find)
			}
			if every > 0 && i%every == 0 {
				p.restart()
			}
		}
		if prints == nil {
			prints = got
		}
		if at := firstDifference(got, prints); at >= 0 {
			t.Errorf("restart every %d blocks: block %d has other results", every, at)
		}
	}
}

func firstDifference(a, b []primitives.Hash) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// TestFlatHeadWaitsForFinality: while every other height is skipped no block becomes final, so the
// flat head does not advance and all blocks stay in memory. When no height is skipped any more, the
// flat head passes all of them.
func TestFlatHeadWaitsForFinality(t *testing.T) {
	o := ChainOptions{Options: Options{Seed: 4, Shards: 4}}
	o.EpochLength, o.Validity = 30, 60
	p := newManualChain(t, o)
	p.next(2)
	for i := range 150 {
		head := p.Engine.Head()
		a := p.on(head.Hash, head.Height()+2, 1, nil)
		if i%50 == 0 {
			p.restart()
			checkSupply(t, p.Chain, a.Entry, p.find)
		}
		if f := p.Engine.Final().Height; f > 1 {
			t.Fatalf("block %d is final at %d", f, head.Height()+2)
		}
	}
	p.restart()
	for range 80 {
		p.next(1)
	}
	head := p.Engine.Head()
	if got, want := p.Engine.Final().Height, head.Height()-2; got != want {
		t.Errorf("final height %d, want %d", got, want)
	}
	checkSupply(t, p.Chain, p.all[head.Hash], p.find)
	p.restart()
	checkSupply(t, p.Chain, p.all[head.Hash], p.find)
}

// hashes lists the transactions' hashes, sorted.
func hashes(txs []*primitives.SignedTransaction) (out []string) {
	for _, tx := range txs {
		h := tx.Hash()
		out = append(out, string(h[:]))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func chunkTxs(entries ...*engine.BlockNode) (out []*primitives.SignedTransaction) {
	for _, e := range entries {
		for i := range e.Shards {
			if c := e.Shards[i].Chunk; c != nil {
				out = append(out, c.Transactions...)
			}
		}
	}
	return out
}

// TestLongerBranchBecomesCanonical: of two blocks of one height the branch of the second grows
// longer and becomes canonical. Transactions that only the old branch included are returned to the
// pool. The stored chain is the new branch, also after a restart.
func TestLongerBranchBecomesCanonical(t *testing.T) {
	for _, restart := range []bool{false, true} {
		p := newManualChain(t, ChainOptions{Options: Options{Seed: 5, Shards: 2}})
		again := func() {
			if restart {
				p.restart()
			}
		}
		for range 4 {
			p.next(2)
		}
		root := p.Engine.Head() // 4
		again()
		shared := p.gen.Transfer(Base{root.Height() + 1, root.Hash})
		plan := &Plan{Parent: root.Hash, Height: root.Height() + 1, Transactions: append(p.txs(2, Base{root.Height() + 1, root.Hash}), shared)}
		a1 := p.plan(plan) // 5
		again()
		b := *plan
		b.Delay = 7
		b.Transactions = append(p.txs(1, Base{root.Height() + 1, root.Hash}), shared)
		b1 := p.plan(&b) // 5'
		if b1.IsHead || len(b1.Returned) != 0 {
			t.Fatalf("the second block of a height became the head")
		}
		if p.Engine.Head().Hash != a1.Entry.Hash {
			t.Fatalf("head %v, want the first block of its height", p.Engine.Head().Hash)
		}
		again()
		a2 := p.on(a1.Entry.Hash, root.Height()+2, 1, nil) // 6, of the first branch
		final := p.Engine.Final()
		again()
		b2 := p.on(b1.Entry.Hash, root.Height()+3, 1, nil) // 7', skipping 6'
		if !b2.IsHead || b2.OldHead.Hash != a2.Entry.Hash {
			t.Fatalf("the longer branch did not become the head")
		}
		want := hashes(chunkTxs(p.all[a1.Entry.Hash], p.all[a2.Entry.Hash]))
		kept := hashes(chunkTxs(p.all[b1.Entry.Hash], b2.Entry))
		want = slices.DeleteFunc(want, func(h string) bool { return slices.Contains(kept, h) })
		if got := hashes(b2.Returned); !slices.Equal(got, want) {
			t.Errorf("restart %v: %d transactions returned, want %d", restart, len(got), len(want))
		}
		if got := p.Engine.Final(); got.Height < final.Height {
			t.Errorf("restart %v: the final block went back from %v to %v", restart, final, got)
		}
		again()
		if got := p.Engine.Final(); got.Height < final.Height {
			t.Errorf("restart %v: the final block went back from %v to %v after it", restart, final, got)
		}
		for _, tx := range chunkTxs(p.all[a1.Entry.Hash]) {
			_, _, err := p.Engine.Transactions().Transaction(tx.Hash())
			if lost := slices.Contains(want, string(bytesOf(tx.Hash()))); lost != errors.Is(err, engine.ErrUnknown) {
				t.Errorf("restart %v: transaction of the lost branch: %v, lost %v", restart, err, lost)
			}
		}
		for _, e := range []*engine.BlockNode{p.all[a2.Entry.Hash], b2.Entry, p.all[b1.Entry.Hash]} {
			checkSupply(t, p.Chain, e, p.find)
		}
		for range 70 { // until the lost branch is folded away
			p.next(1)
		}
		again()
		head := p.Engine.Head()
		checkSupply(t, p.Chain, p.all[head.Hash], p.find)
		if ref, err := p.Store.BlockAt(root.Height() + 1); err != nil || ref.Ref().Hash != b1.Entry.Hash {
			t.Errorf("restart %v: stored block of height %d: %v", restart, root.Height()+1, err)
		}
		if _, err := p.Store.BlockAt(root.Height() + 2); err == nil {
			t.Errorf("restart %v: a stored block of height %d, which the chain skips", restart, root.Height()+2)
		}
	}
}

func bytesOf(h primitives.Hash) []byte { return h[:] }

// TestForkBelowFinalBlockIsRefused: a block that does not descend from the last final block is
// refused, whether its parent is still in memory or not.
func TestForkBelowFinalBlockIsRefused(t *testing.T) {
	p := newManualChain(t, ChainOptions{Options: Options{Seed: 6, Shards: 1}})
	var plans []*Plan
	for range 8 {
		head := p.Engine.Head()
		plans = append(plans, &Plan{Parent: head.Hash, Height: head.Height() + 20, Delay: 3})
		p.next(1)
	}
	final := p.Engine.Final() // 6
	refused := func(plan *Plan) {
		t.Helper()
		b, chunks, err := p.Make(plan)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Accept(b, chunks, false); !errors.Is(err, engine.ErrOld) {
			t.Errorf("block on one below the final %d: %v, want %v", final.Height, err, engine.ErrOld)
		}
	}
	for _, plan := range plans[:6] { // on 0 to 5
		refused(plan)
	}
	if _, chunks, err := p.Make(plans[6]); err != nil || chunks[0] == nil {
		t.Fatal(err)
	}
	a := p.plan(plans[6]) // on 6, the final one
	if !a.IsHead || a.Final.Height != final.Height {
		t.Errorf("fork on the final block: head %v, final %v, want final %v", a.IsHead, a.Final, final)
	}
}

// TestChunksMayBeInTwoBlocks: the same chunks may be in two blocks, at other heights.
func TestChunksMayBeInTwoBlocks(t *testing.T) {
	p := newManualChain(t, ChainOptions{Options: Options{Seed: 7, Shards: 2}})
	for range 3 {
		p.next(2)
	}
	root := p.Engine.Head()
	a := p.on(root.Hash, root.Height()+1, 3, nil)
	first, chunks := p.last.Block, p.last.Chunks
	before := first.AppendBorsh(nil)
	b := p.plan(&Plan{Parent: root.Hash, Height: root.Height() + 3, Chunks: chunks})
	if !slices.Equal(first.AppendBorsh(nil), before) {
		t.Errorf("making another block with the same chunks changed the first one")
	}
	if !b.IsHead || len(b.Returned) != 0 {
		t.Errorf("head %v, %d transactions returned, want the head and none", b.IsHead, len(b.Returned))
	}
	checkSupply(t, p.Chain, a.Entry, p.find)
	checkSupply(t, p.Chain, b.Entry, p.find)
	p.restart()
	for range 70 {
		p.next(1)
	}
	checkSupply(t, p.Chain, p.all[p.Engine.Head().Hash], p.find)
	for _, tx := range chunkTxs(b.Entry) {
		if _, at, err := p.Engine.Transactions().Transaction(tx.Hash()); err != nil || at.Block.Ref().Hash != b.Entry.Hash {
			t.Errorf("transaction of a chunk in two blocks: %v", err)
		}
	}
}
