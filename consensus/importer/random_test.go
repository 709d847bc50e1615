package importer

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
)

// TestRandomSequencesLoseNoImport: whatever the order of calls, of errors of the engine and of
// calls from effects, no import is lost, and once there are no more errors all blocks are imported.
func TestRandomSequencesLoseNoImport(t *testing.T) {
	const seeds, steps, blocks = 60, 80, 6
	n := newNodes(t, seeds+1)
	list := n[0].chainOf(t, blocks)
	wrong := []error{chain.InvalidApprovals, chain.InvalidBlockFutureTime, engine.ErrOrphan, engine.ErrMissing,
		engine.ErrKnown, engine.ErrNoCode,
		errors.Join(engine.ErrPartialBody, chain.InvalidSignature)}
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newRecorder(n[seed+1])
		var run *Run
		var now uint64
		depth := 0
		invalid := seed%2 == 0 // a block that was found invalid once stays so
		fault := func() error {
			if random.IntN(3) > 0 {
				return nil
			}
			if invalid {
				return wrong[random.IntN(len(wrong))]
			}
			return wrong[1+random.IntN(len(wrong)-1)]
		}
		var step func()
		emit := r.Importer.o.Emit
		r.Importer.o.Emit = func(e Effect) {
			emit(e)
			if random.IntN(2) == 0 && depth < 5 {
				depth++
				step()
				depth--
			}
		}
		take := func() {
			b := list[random.IntN(blocks)]
			_, _ = r.Take(blockpool.Block{Block: b, From: "peer"}, now)
		}
		finish := func() {
			if run == nil || run != r.Running() {
				return
			}
			of := run
			run = nil
			if of.Start(func(j *engine.Job) { j.Run(); of.Done() }); of.left != 0 {
				t.Fatalf("seed %d: %d jobs are left", seed, of.left)
			}
			r.Finish(nil, now)
		}
		step = func() {
			now += uint64(random.IntN(2e9))
			r.precheck, r.begin, r.finish = fault(), fault(), fault()
			switch random.IntN(8) {
			case 0, 1, 2:
				take()
			case 3, 4:
				if x := r.Next(now); x != nil {
					if run != nil {
						t.Fatalf("seed %d: two imports", seed)
					}
					run = x
				}
			case 5:
				finish()
			case 6:
				r.Refresh(now)
			case 7:
				if r.Running() == nil {
					r.Reset(r.node.Tip().Height(), r.node.TipFinal().Height)
				}
			}
			if (run != nil) != (r.Running() != nil) || run != nil && run != r.Running() {
				t.Fatalf("seed %d: the running import is %p, want %p", seed, r.Running(), run)
			}
		}
		for range steps {
			step()
		}
		r.precheck, r.begin, r.finish = nil, nil, nil
		r.Importer.o.Emit = emit
		finish()
		r.precheck, r.begin, r.finish = nil, nil, nil
		for x := r.Next(now); x != nil; x = r.Next(now) {
			r.work(x)
		}
		for _, b := range r.Pool().Blocks() {
			if r.node.Imported(b.Header.PrevHash) != nil {
				t.Errorf("seed %d: block %d has its parent and stays in the pool", seed, b.Header.Height)
			}
		}
		if invalid {
			r.Reset(r.node.Tip().Height(), r.node.TipFinal().Height)
		}
		at := r.node.Tip().Height()
		r.take(list...)
		if got := r.node.Tip().Height(); got != list[blocks-1].Header.Height {
			t.Errorf("seed %d: the tip is %d after %d\n%v", seed, got, at, r.effects)
		}
		if blocks, _ := r.Pool().Len(); blocks != 0 {
			t.Errorf("seed %d: %d blocks are pooled", seed, blocks)
		}
	}
}
