package importer

import (
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/primitives"
)

// TestMissingChunksDelayIsMeasured: the delay of a block begins when the block first lacks bodies,
// and ends when its import begins. It is 0 for a block that lacks nothing, and nothing is kept of
// blocks that have left the pool.
func TestMissingChunksDelayIsMeasured(t *testing.T) {
	n := newNodes(t, 2)
	list := n[0].chainOf(t, 2)
	r := newRecorder(n[1])
	r.Importer.o.Measured = new(metrics.Set)
	r.take(list[1]) // an orphan
	second := list[1].Hash()
	r.lacks(second, 100)
	r.lacks(second, 300)
	r.lacks(list[0].Hash(), 300) // not in the pool
	if len(r.lacking) != 1 {
		t.Fatalf("%d blocks lack bodies", len(r.lacking))
	}
	_, _ = r.Take(blockpool.Block{Block: list[0], From: "peer"}, 600)
	for run := r.Next(600); run != nil; run = r.Next(600) {
		r.work(run)
	}
	if c, v := r.o.Measured.Count(missingDelay), r.o.Measured.Value(missingDelay); c != 2 || v != 500 || len(r.lacking) > 0 {
		t.Errorf("%d delays of together %d ns, want 2 of 500; %d blocks lack bodies", c, v, len(r.lacking))
	}
	if c := r.o.Measured.Count(orphanedDelay); c != 2 || len(r.orphans) > 0 {
		t.Errorf("%d delays of orphans, want 2, one of them 0; %d blocks lack their parent", c, len(r.orphans))
	}
}

// TestOrphanedDelayIsMeasured: the delay of a block begins when the block is first an orphan, and ends
// when its parent is imported. Nothing is kept of blocks that have left the pool.
func TestOrphanedDelayIsMeasured(t *testing.T) {
	n := newNodes(t, 2)
	list := n[0].chainOf(t, 3)
	r := newRecorder(n[1])
	r.Importer.o.Measured = new(metrics.Set)
	take := func(b *primitives.Block, now uint64) { _, _ = r.Take(blockpool.Block{Block: b, From: "peer"}, now) }
	take(list[1], 100)
	take(list[1], 300) // another copy
	take(list[2], 350)
	r.orphaned(list[0].Hash(), 300) // not in the pool
	if len(r.orphans) != 2 {
		t.Fatalf("%d orphans", len(r.orphans))
	}
	r.parentImported(list[2].Hash(), 400) // and again below, which does not count
	take(list[0], 600)
	for run := r.Next(600); run != nil; run = r.Next(700) {
		r.work(run)
	}
	m := r.o.Measured
	if c, v := m.Count(orphanedDelay), m.Value(orphanedDelay); c != 3 || v != 600+50 || len(r.orphans) > 0 {
		t.Errorf("%d delays of together %d ns, want 3 of 650; %d orphans", c, v, len(r.orphans))
	}
}

// TestInvalidBlocksAreCounted: invalid blocks count under the label of the rule, except those with a
// wrong signature or height.
func TestInvalidBlocksAreCounted(t *testing.T) {
	n := newNodes(t, 2)
	list := n[0].chainOf(t, 1)
	for _, stage := range []string{"precheck", "begin", "finish"} {
		r := newRecorder(n[1])
		r.Importer.o.Measured = new(metrics.Set)
		for _, err := range []error{chain.InvalidSignature, chain.InvalidBlockHeight, chain.InvalidApprovals} {
			r.Reset(0, 0)
			switch stage {
			case "precheck":
				r.precheck = err
			case "begin":
				r.begin = err
			case "finish":
				r.finish = err
			}
			if got := r.take(list[0]); len(got) != 1 || got[0] != "Rejected 1" {
				t.Fatalf("%s, %v: %v", stage, err, got)
			}
		}
		for label, want := range map[string]int64{"invalid_approvals": 1, "invalid_signature": 0, "invalid_block_height": 0} {
			if got := r.o.Measured.Value(invalidBlocks, label); got != want {
				t.Errorf("%s: %d blocks of %s, want %d", stage, got, label, want)
			}
		}
	}
}

// TestPendingBlockIsMeasured: a block whose import needs jobs of an optimistic block counts until the
// last of them has ended, and the delay is measured when the import ends. Other blocks have no delay.
func TestPendingBlockIsMeasured(t *testing.T) {
	t.Parallel()
	m := new(metrics.Set)
	i := New(Options{Measured: m})
	i.run = &Run{Import: new(engine.BlockImport)}
	i.beginPending(1000) // the import has no such job
	i.OptimisticEnded(1500)
	i.measurePending(2000)
	if c, v := m.Count(pendingDelay), m.Value(pendingDelay); c != 1 || v != 0 || m.Value(pendingBlocks) != 0 {
		t.Errorf("of a block that does not wait: %d values, %d ns, %d pending", c, v, m.Value(pendingBlocks))
	}
	i.beginPending(3000)
	i.pending = true // as with such a job
	m.Put(pendingBlocks, 1)
	i.OptimisticEnded(3400)
	if n := m.Value(pendingBlocks); n != 0 || m.Count(pendingDelay) != 1 {
		t.Errorf("after the job: %d pending, %d values", n, m.Count(pendingDelay))
	}
	i.measurePending(9000)
	if c, v := m.Count(pendingDelay), m.Value(pendingDelay); c != 2 || v != 400 {
		t.Errorf("%d values, %d ns, want 2 and 400", c, v)
	}
}
