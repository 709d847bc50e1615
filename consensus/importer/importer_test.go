package importer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// node is an engine of a chain with one validator and two shards.
type node struct {
	*engine.Engine
	key primitives.SecretKey
}

// newNodes returns engines of one new chain.
func newNodes(t *testing.T, n int) (out []*node) {
	t.Helper()
	c, key := testnode.Sandbox(t, 2, nil)
	for range n {
		out = append(out, &node{testnode.Open(t, testnode.Options{Chain: c}), key})
	}
	return out
}

// propose makes a block on the tip, without new chunks.
func (n *node) propose(t *testing.T) *primitives.Block {
	t.Helper()
	tip := n.Tip()
	height := tip.Height() + 1
	inner := primitives.NewApprovalInner(tip.Hash, tip.Height(), height)
	b, err := n.NewBlock(&engine.Proposal{
		Parent: tip.Hash, Height: height, Approvals: []primitives.Signature{n.key.Sign(inner.SignedBytes(height))},
		Timestamp: tip.Header().Timestamp + uint64(time.Second),
		Chunks:    make([]*primitives.Chunk, 2), Endorsements: make([][]primitives.Signature, 2),
		Vote: parameters.Newest(primitives.NumberingRelease),
	}, n.key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// chainOf imports n blocks into an engine and returns them.
func (n *node) chainOf(t *testing.T, count int) (list []*primitives.Block) {
	t.Helper()
	r := newRecorder(n)
	for range count {
		b := n.propose(t)
		run, err := r.Produced(b, make([]*primitives.Chunk, 2))
		if err != nil {
			t.Fatal(err)
		}
		r.work(run)
		list = append(list, b)
	}
	return list
}

// recorder is an Importer whose effects are recorded, over an engine that fails where the test says.
type recorder struct {
	*Importer
	*node
	precheck, begin, finish error // what these methods return; nil: what the engine does
	effects                 []string
	failed                  *Failed
}

func (r *recorder) Precheck(b *primitives.Block) (engine.Prechecked, error) {
	if r.precheck != nil {
		return engine.Prechecked{}, r.precheck
	}
	return r.node.Precheck(b)
}

func (r *recorder) BeginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*engine.BlockImport, error) {
	if r.begin != nil {
		return nil, r.begin
	}
	return r.node.BeginImport(b, chunks, produced)
}

func (r *recorder) FinishImport(p *engine.BlockImport, stored func()) (*engine.Imported, error) {
	if r.finish != nil {
		return nil, r.finish
	}
	return r.node.FinishImport(p, stored)
}

func newRecorder(n *node) *recorder {
	r := &recorder{node: n}
	r.Importer = New(Options{Engine: r, Tip: n.Tip().Height(), Final: n.TipFinal().Height, Emit: func(e Effect) {
		name := fmt.Sprintf("%T", e)[len("importer."):]
		switch e := e.(type) {
		case Rejected:
			name += fmt.Sprint(" ", e.Block.Header.Height)
		case Dropped:
			name += fmt.Sprint(" ", e.Block.Header.Height)
		case Imported:
			name += fmt.Sprint(" ", e.Imported.Entry.Height())
		case Failed:
			r.failed = &e
		case Missing, BadBody, Ahead, OwnFailed:
		}
		r.effects = append(r.effects, name)
	}})
	return r
}

// take adds blocks of a peer and imports what is ready.
func (r *recorder) take(list ...*primitives.Block) (effects []string) {
	r.effects = nil
	for _, b := range list {
		_, _ = r.Take(blockpool.Block{Block: b, From: "peer"}, 0)
		for run := r.Next(0); run != nil; run = r.Next(0) {
			r.work(run)
		}
	}
	return r.effects
}

// work runs the jobs of an import and finishes it.
func (r *recorder) work(run *Run) {
	var jobs []*engine.Job
	ready := run.Start(func(j *engine.Job) { jobs = append(jobs, j) })
	for _, j := range jobs {
		j.Run()
		ready = run.Done()
	}
	if ready {
		r.Finish(nil, 0)
	}
}

// TestEachVerdictHasItsEffect lets the engine return an error of each verdict from each method. It
// checks what happens to a peer's block, to its descendant that waits for it, and to an own block.
// The second line of each case is what happens when the peer sends both blocks again and the engine
// returns no more errors.
func TestEachVerdictHasItsEffect(t *testing.T) {
	invalid, early := error(chain.InvalidApprovals), error(chain.InvalidBlockFutureTime)
	badCopy := errors.Join(engine.ErrPartialBody, chain.InvalidSignature)
	waiting, stale, fault := engine.ErrOrphan, engine.ErrKnown, errors.New("disk error")
	rejected, again := []string{"Rejected 1", "Rejected 2"}, []string{"Imported 1", "Imported 2"}
	imports := map[string]struct {
		err          error
		first, later []string
	}{
		"invalid":     {invalid, rejected, rejected},
		"early":       {early, []string{"Dropped 1"}, again},
		"bad copy":    {badCopy, []string{"Rejected 1"}, again},
		"waiting":     {waiting, []string{"Dropped 1"}, again},
		"stale":       {stale, []string{"Dropped 1"}, again},
		"local fault": {fault, []string{"Failed"}, nil},
	}
	for name, tt := range imports {
		for stage, at := range map[string]func(*recorder) *error{
			"BeginImport":  func(r *recorder) *error { return &r.begin },
			"FinishImport": func(r *recorder) *error { return &r.finish },
		} {
			t.Run(stage+"/peer/"+name, func(t *testing.T) {
				n := newNodes(t, 2)
				list := n[0].chainOf(t, 2)
				r := newRecorder(n[1])
				if got := r.take(list[1]); !slices.Equal(got, []string{"Missing"}) {
					t.Fatalf("an orphan: %v", got)
				}
				*at(r) = tt.err
				if got := r.take(list[0]); !slices.Equal(got, tt.first) {
					t.Errorf("effects %v, want %v", got, tt.first)
				}
				if r.Running() != nil {
					t.Error("an import is running")
				}
				if r.failed != nil && (r.failed.Run != nil) != (stage == "FinishImport") {
					t.Errorf("failed with import %v", r.failed.Run)
				}
				*at(r) = nil
				if got := r.take(list...); !slices.Equal(got, tt.later) {
					t.Errorf("later effects %v, want %v", got, tt.later)
				}
			})
		}
		t.Run("FinishImport/own/"+name, func(t *testing.T) {
			r := newRecorder(newNodes(t, 1)[0])
			b := r.propose(t)
			run, err := r.Produced(b, make([]*primitives.Chunk, 2))
			if err != nil || !run.Own {
				t.Fatal(run, err)
			}
			r.finish = tt.err
			want := []string{"OwnFailed"}
			if tt.err == fault {
				want = []string{"Failed"}
			}
			if r.work(run); !slices.Equal(r.effects, want) {
				t.Errorf("effects %v, want %v", r.effects, want)
			}
		})
	}
	for name, tt := range map[string]struct {
		err          error
		first, later []string
	}{
		"invalid":     {invalid, []string{"Rejected 1"}, again}, // another copy may be valid
		"early":       {early, []string{"Dropped 1"}, again},
		"bad copy":    {badCopy, []string{"Rejected 1"}, again},
		"waiting":     {waiting, []string{"Dropped 1"}, again},
		"stale":       {stale, []string{"Dropped 1"}, again},
		"local fault": {fault, []string{"Failed"}, nil},
	} {
		t.Run("Precheck/peer/"+name, func(t *testing.T) {
			n := newNodes(t, 2)
			list := n[0].chainOf(t, 2)
			r := newRecorder(n[1])
			r.precheck = tt.err
			if got := r.take(list[0]); !slices.Equal(got, tt.first) {
				t.Errorf("effects %v, want %v", got, tt.first)
			}
			r.precheck = nil
			if got := r.take(list...); !slices.Equal(got, tt.later) {
				t.Errorf("later effects %v, want %v", got, tt.later)
			}
		})
	}
}

// TestNextImportMayStartInsideImported: the owner may start the next import while it handles the
// effect Imported. The imported block's child is ready then.
func TestNextImportMayStartInsideImported(t *testing.T) {
	n := newNodes(t, 2)
	list := n[0].chainOf(t, 4)
	r := newRecorder(n[1])
	emit := r.Importer.o.Emit
	r.Importer.o.Emit = func(e Effect) {
		emit(e)
		if e, ok := e.(Imported); ok {
			height := e.Imported.Entry.Height()
			if run := r.Next(0); run != nil {
				r.work(run)
			} else if height < 4 {
				t.Errorf("the child of block %d is not ready when the block is imported", height)
			}
		}
	}
	slices.Reverse(list)
	got := r.take(list...)
	want := []string{"Missing", "Missing", "Missing", "Imported 1", "Imported 2", "Imported 3", "Imported 4"}
	if !slices.Equal(got, want) {
		t.Errorf("effects %v, want %v", got, want)
	}
}

// TestStoppedImporterForgetsAllBlocks and the running import. A reset importer forgets which blocks
// were invalid.
func TestStoppedImporterForgetsAllBlocks(t *testing.T) {
	n := newNodes(t, 2)
	list := n[0].chainOf(t, 2)
	r := newRecorder(n[1])
	_, _ = r.Take(blockpool.Block{Block: list[0], From: "peer"}, 0)
	_, _ = r.Take(blockpool.Block{Block: list[1], From: "peer"}, 0)
	run := r.Next(0)
	if run == nil || r.Next(0) != nil || r.Running() != run {
		t.Fatal("two imports run at a time")
	}
	if got := r.Stop(); got != run || r.Running() != nil {
		t.Errorf("stopped %v", got)
	}
	run.Import.Drop()
	if blocks, _ := r.Pool().Len(); blocks != 0 || r.Next(0) != nil {
		t.Errorf("%d blocks are kept, want 0", blocks)
	}
	r.begin = chain.InvalidApprovals
	r.take(list[0])
	r.begin = nil
	if got := r.take(list[0]); !slices.Equal(got, []string{"Rejected 1"}) {
		t.Errorf("an invalid block again: %v", got)
	}
	r.Reset(r.node.Tip().Height(), r.node.TipFinal().Height)
	if got := r.take(list...); !slices.Equal(got, []string{"Imported 1", "Imported 2"}) {
		t.Errorf("after a reset: %v", got)
	}
}
