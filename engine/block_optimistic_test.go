package engine

import (
	"errors"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// announced makes the next block on the head with transactions, and the optimistic block that its
// producer announces before.
func (n *node) announced(txs ...*primitives.SignedTransaction) (*primitives.OptimisticBlock, *primitives.Block, []*primitives.Chunk) {
	n.t.Helper()
	at := n.Head()
	o, err := n.NewOptimisticBlock(at.Hash, at.Height()+1, at.Header().Timestamp+1_000_000_000, n.producer(at.Hash, at.Height()+1))
	if err != nil {
		n.t.Fatal(err)
	}
	b, chunks := n.make(at.Hash, at.Height()+1, false, txs...)
	return o, b, chunks
}

// begin begins an optimistic block that the engine accepts.
func (n *node) begin(o *primitives.OptimisticBlock, chunks []*primitives.Chunk) *OptimisticApply {
	n.t.Helper()
	if _, err := n.CheckOptimistic(o, 0); err != nil {
		n.t.Fatal(err)
	}
	a, err := n.BeginOptimistic(o, chunks)
	if err != nil {
		n.t.Fatal(err)
	}
	return a
}

// finish runs all jobs and reports their ends.
func (o *OptimisticApply) finish() {
	for _, j := range o.jobs {
		j.Run()
		j.Ended()
	}
}

// hits returns the uses of optimistic results in all shards.
func (n *node) hits() (u Uses) {
	for _, x := range n.times.Optimistic.Read() {
		u.Hits += x.Hits
		u.Misses += x.Misses
	}
	return u
}

// TestOptimisticBlockGivesResultsOfItsBlock: an engine that applies the chunks of optimistic blocks
// computes the states, results, changes and witness transitions of one that does not, whether the
// jobs end before the block arrives, run meanwhile, or were not started. No state is left over.
func TestOptimisticBlockGivesResultsOfItsBlock(t *testing.T) {
	for _, when := range []string{"before", "meanwhile", "never started"} {
		t.Run(when, func(t *testing.T) {
			g := testGenesis(t, "aa", "bb")
			plain, ahead := openNode(t, g), openNode(t, g)
			root := plain.Head().Hash
			var held []*BlockNode
			for i := range primitives.Nonce(14) { // more than an epoch
				o, b, chunks := plain.announced(transfer(root, 2*i+1), transfer(root, 2*i+2))
				if b.Header.Timestamp != o.Timestamp || b.Header.RandomValue != o.RandomValue || b.Body.VRFProof != o.VRFProof ||
					b.Body.VRFValue != o.VRFValue {
					t.Fatal("the block differs from its optimistic block")
				}
				a := ahead.begin(o, chunks)
				held = append(held, a.p.parent)
				var running sync.WaitGroup
				switch when {
				case "before":
					a.finish()
				case "meanwhile":
					for _, j := range a.jobs {
						running.Go(j.Run)
					}
				}
				p, err := ahead.BeginImport(b, chunks, false)
				if err != nil {
					t.Fatal(err)
				}
				takes := false
				for k := range p.jobs {
					takes = takes || p.jobs[k].optimistic != nil
				}
				if is, want := p.AwaitsOptimistic(), takes && when != "before"; is != want {
					t.Errorf("the import waits for the optimistic block: %v, want %v", is, want)
				}
				for k := range p.jobs {
					j := &p.jobs[k]
					if taken := j.optimistic != nil; when == "before" && taken && !j.Trivial() {
						t.Error("a finished job is not trivial")
					}
					j.Run()
				}
				running.Wait()
				if when != "before" {
					a.finish()
				}
				if p.AwaitsOptimistic() {
					t.Error("the import waits for jobs that have ended")
				}
				got, err := ahead.Commit(p)
				if err != nil {
					t.Fatal(err)
				}
				want := plain.accept(b, chunks)
				for k := range want.Entry.Shards {
					x, y := &want.Entry.Shards[k], &got.Entry.Shards[k]
					if x.Extra.StateRoot != y.Extra.StateRoot || x.root.Hash() != y.root.Hash() ||
						x.Result.OutcomeRoot != y.Result.OutcomeRoot || !primitives.SameReceipts(x.Outgoing, y.Outgoing) ||
						x.Extra.GasUsed != y.Extra.GasUsed || x.Result.RecordedSize != y.Result.RecordedSize {
						t.Errorf("block %d, shard %d: another result", b.Header.Height, x.ID)
					}
				}
				if len(ahead.optimistic) != 0 {
					t.Errorf("block %d: %d optimistic blocks are left", b.Header.Height, len(ahead.optimistic))
				}
			}
			if u := ahead.hits(); u.Hits == 0 || u.Misses != 0 {
				t.Errorf("%+v", u)
			}
			// the jobs of a block are measured together, and those of an optimistic block if all were applied
			for name, x := range map[string]struct {
				n          *node
				kind       blockType
				some, each bool
			}{
				"blocks": {plain, normalBlock, true, true}, "blocks after optimistic ones": {ahead, normalBlock, true, true},
				"optimistic blocks": {ahead, optimisticBlock, true, false}, "no optimistic blocks": {plain, optimisticBlock, false, false},
			} {
				got := x.n.times.Applied.set.Count(applyAllTime, blockTypeLabels[x.kind])
				if got > 14 || got > 0 != x.some || x.each && got != 14 {
					t.Errorf("%s: the time of %d of 14 was measured", name, got)
				}
			}
			if u := plain.hits(); u.Hits != 0 || u.Misses == 0 {
				t.Errorf("without optimistic blocks %+v", u)
			}
			for i, x := range held { // the block tree holds each node once, or has let go of it
				if refs := x.refs.Load(); refs > 1 {
					t.Errorf("parent of block %d has %d holders", i+1, refs)
				}
			}
		})
	}
}

// TestOtherInputDoesNotUseOptimisticResult: an optimistic block that differs from the block in any
// field, or in a chunk, has no effect on the block's result. It is cancelled when the block's import
// begins, also if its height is greater, and its states are released.
func TestOtherInputDoesNotUseOptimisticResult(t *testing.T) {
	type change = func(n *node, o *primitives.OptimisticBlock, chunks []*primitives.Chunk)
	for name, change := range map[string]change{
		"timestamp":    func(_ *node, o *primitives.OptimisticBlock, _ []*primitives.Chunk) { o.Timestamp++ },
		"random value": func(_ *node, o *primitives.OptimisticBlock, _ []*primitives.Chunk) { o.RandomValue[0]++ },
		"height":       func(_ *node, o *primitives.OptimisticBlock, _ []*primitives.Chunk) { o.Height++ },
		"chunk": func(n *node, o *primitives.OptimisticBlock, chunks []*primitives.Chunk) {
			by, err := n.ChunkProducer(o.PrevBlockHash, chunks[0].Header.ShardID)
			if err != nil {
				n.t.Fatal(err)
			}
			if chunks[0], err = n.NewChunk(o.PrevBlockHash, 0, nil, seedKey(by.AccountID)); err != nil {
				n.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := testGenesis(t, "aa")
			plain, ahead := openNode(t, g), openNode(t, g)
			root := plain.Head().Hash
			o, b, chunks := plain.announced(transfer(root, 1))
			other, list := *o, append([]*primitives.Chunk{}, chunks...)
			change(plain, &other, list)
			a, err := ahead.BeginOptimistic(&other, list) // of which CheckOptimistic refuses some
			if err != nil {
				t.Fatal(err)
			}
			a.finish()
			want, got := plain.accept(b, chunks), ahead.accept(b, chunks)
			for k := range want.Entry.Shards {
				if want.Entry.Shards[k].Extra.StateRoot != got.Entry.Shards[k].Extra.StateRoot {
					t.Errorf("shard %d: another state", k)
				}
			}
			if u := ahead.hits(); u.Hits != 0 || u.Misses == 0 {
				t.Errorf("%+v", u)
			}
			if refs := a.p.parent.refs.Load(); refs > 1 || len(ahead.optimistic) > 0 {
				t.Errorf("the parent has %d holders, %d optimistic blocks are left", refs, len(ahead.optimistic))
			}
		})
	}
}

// TestOptimisticBlockIsUsedOnce: of two blocks with the same input only the first gets the results.
func TestOptimisticBlockIsUsedOnce(t *testing.T) {
	g := testGenesis(t, "aa")
	plain, ahead := openNode(t, g), openNode(t, g)
	o, b, chunks := plain.announced(transfer(plain.Head().Hash, 1))
	twin := *b
	header := *b.Header
	twin.Header = &header
	header.LatestProtocolVersion++ // nothing that applying reads
	header.Init()
	chain.SignBlock(&twin, plain.producer(header.PrevHash, header.Height))
	ahead.begin(o, chunks).finish()
	first, second := ahead.accept(b, chunks), ahead.accept(&twin, chunks)
	if u := ahead.hits(); u.Hits == 0 || u.Hits != u.Misses {
		t.Errorf("%+v", u)
	}
	for k := range first.Entry.Shards {
		if first.Entry.Shards[k].Extra.StateRoot != second.Entry.Shards[k].Extra.StateRoot {
			t.Errorf("shard %d: another state", k)
		}
	}
}

// TestOptimisticBlocksAreBounded: the engine keeps the two highest, drops those whose parent is not
// on the final chain any more, and holds no state of them when their jobs have ended.
func TestOptimisticBlocksAreBounded(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	root := n.Head()
	key := n.producer(root.Hash, 1)
	_, chunks := n.make(root.Hash, 1, false, transfer(root.Hash, 1))
	var all []*OptimisticApply
	for h := range primitives.Height(4) {
		o, err := n.NewOptimisticBlock(root.Hash, h+1, 0, key)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n.begin(o, chunks))
	}
	if usable := n.usableOptimistic(); len(usable) != maxOptimistic || usable[0] != all[2] || len(n.optimistic) != 4 {
		t.Fatalf("%d of %d are usable", len(usable), len(n.optimistic))
	}
	for _, j := range all[0].jobs { // cancelled before they began
		if j.Run(); !errors.Is(j.job.err, errCanceled) || j.Failed() {
			t.Errorf("job: %v", j.job.err)
		}
		j.Ended()
	}
	if len(n.optimistic) != 3 {
		t.Errorf("%d are held", len(n.optimistic))
	}
	all[1].finish()
	for len(n.optimistic) < maxOptimistic+maxOptimisticEnding {
		o, err := n.NewOptimisticBlock(root.Hash, primitives.Height(len(all)+1), 0, key)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n.begin(o, chunks))
	}
	o, _ := n.NewOptimisticBlock(root.Hash, 50, 0, key)
	if _, err := n.BeginOptimistic(o, chunks); err == nil {
		t.Error("one more is begun")
	}
	for range 4 { // the genesis is below the final block
		at := n.Head()
		b, chunks := n.make(at.Hash, at.Height()+1, false)
		n.accept(b, chunks)
	}
	if usable := n.usableOptimistic(); len(usable) != 0 {
		t.Errorf("%d are usable on a block below the final one", len(usable))
	}
	for _, a := range all[2:] {
		a.finish()
	}
	if refs := root.refs.Load(); refs > 1 || len(n.optimistic) != 0 {
		t.Errorf("the parent has %d holders; %d optimistic blocks are left", refs, len(n.optimistic))
	}
}

// TestCheckOptimistic: what the engine refuses of an optimistic block that differs from what its
// producer signs, and of one that the producer itself has changed.
func TestCheckOptimistic(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb"))
	at := n.Head()
	key := n.producer(at.Hash, 1)
	for name, c := range map[string]struct {
		change func(o *primitives.OptimisticBlock)
		resign bool
		want   error
	}{
		"valid":                {func(*primitives.OptimisticBlock) {}, false, nil},
		"other time, unsigned": {func(o *primitives.OptimisticBlock) { o.Timestamp++ }, false, chain.InvalidSignature},
		"other time":           {func(o *primitives.OptimisticBlock) { o.Timestamp++ }, true, nil},
		"parent's time":        {func(o *primitives.OptimisticBlock) { o.Timestamp = at.Header().Timestamp }, true, chain.InvalidBlockPastTime},
		"future":               {func(o *primitives.OptimisticBlock) { o.Timestamp = 1_800_000_000_000_000_000 + 121e9 }, true, chain.InvalidBlockFutureTime},
		"random value":         {func(o *primitives.OptimisticBlock) { o.RandomValue[3]++ }, true, chain.InvalidRandomness},
		"vrf value":            {func(o *primitives.OptimisticBlock) { o.VRFValue[3]++ }, true, chain.InvalidRandomness},
		"vrf proof":            {func(o *primitives.OptimisticBlock) { o.VRFProof[3]++ }, true, chain.InvalidRandomness},
		"height of the head":   {func(o *primitives.OptimisticBlock) { o.Height = 0 }, true, chain.InvalidBlockHeight},
		"far height":           {func(o *primitives.OptimisticBlock) { o.Height = 4 }, true, chain.InvalidBlockHeight},
		"unknown parent":       {func(o *primitives.OptimisticBlock) { o.PrevBlockHash[0]++ }, true, ErrOrphan},
		"unknown parent, unsigned": {func(o *primitives.OptimisticBlock) { o.PrevBlockHash[0]++ }, false,
			chain.InvalidSignature},
		"another validator": {func(o *primitives.OptimisticBlock) {
			other := seedKey("aa")
			if other == key {
				other = seedKey("bb")
			}
			hash := o.Hash()
			o.Signature = other.Sign(hash[:])
		}, false, chain.InvalidSignature},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := n.NewOptimisticBlock(at.Hash, 1, 0, key)
			if err != nil {
				t.Fatal(err)
			}
			if c.change(o); c.resign {
				hash := o.Hash()
				o.Signature = key.Sign(hash[:])
			}
			shards, err := n.CheckOptimistic(o, 3)
			if !errors.Is(err, c.want) || (err == nil) != (len(shards) == 2) {
				t.Errorf("%v, %d shards, want %v", err, len(shards), c.want)
			}
		})
	}
}

// TestOptimisticBlockNeedsItsChunks: an optimistic block whose chunks are missing, of another
// parent or invalid is not begun, and holds nothing.
func TestOptimisticBlockNeedsItsChunks(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	at := n.Head()
	o, _, chunks := n.announced(transfer(at.Hash, 1))
	invalid := *chunks[0]
	invalid.Header.PrevGasUsed++
	invalid.Hash = invalid.Header.ChunkHash()
	moved := *chunks[0]
	moved.Header.PrevBlockHash[0]++
	for name, c := range map[string]struct {
		chunks []*primitives.Chunk
		want   error
	}{
		"too few":        {chunks[:1], nil},
		"another shard":  {[]*primitives.Chunk{chunks[1], chunks[0]}, ErrChunk},
		"another parent": {[]*primitives.Chunk{&moved, chunks[1]}, ErrChunk},
		"invalid":        {[]*primitives.Chunk{&invalid, chunks[1]}, chain.InvalidChunk},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.BeginOptimistic(o, c.chunks)
			if err == nil || c.want != nil && !errors.Is(err, c.want) && name != "invalid" {
				t.Errorf("%v, want %v", err, c.want)
			}
			if refs := at.refs.Load(); refs != 1 || len(n.optimistic) != 0 {
				t.Errorf("%d holders of the parent, %d optimistic blocks", refs, len(n.optimistic))
			}
		})
	}
	n.begin(o, chunks).finish() // nothing of the above prevents it
	n.DropOptimistic()
}
