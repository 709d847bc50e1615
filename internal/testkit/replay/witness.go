package replay

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/state"
)

// keptProofs is the memory, in bytes, that the engine uses for state proofs. The replay needs the
// proofs of only a few blocks.
const keptProofs = 1 << 28

// witnesses checks the state transitions that the witness of each shard's next chunk would contain.
// It applies the transitions of this block from their proofs alone.
func (r *runner) witnesses(entry *engine.BlockNode) error {
	var layout primitives.ShardLayout
	err := r.e.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayoutFromPrev(entry.Hash)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range layout.ShardIDs() {
		where := fmt.Sprintf("witness of shard %d on block %d", id, entry.Height())
		main, implicit, err := r.e.Transitions(entry.Hash, id)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		list := append([]*engine.Transition{main}, implicit...)
		for i, t := range list {
			if i > 0 && t.Pre != list[i-1].Post {
				r.differs(where, fmt.Sprintf("transition %d begins at %v", i, t.Pre), list[i-1].Post)
			}
			if t.Block != entry.Hash {
				continue // t was checked when its block was the last imported one
			}
			if err := r.witness(where, entry, t); err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
		}
	}
	return nil
}

func (r *runner) differs(where string, got, want any) {
	r.found([]Difference{{Where: where, Got: fmt.Sprintf("%+v", got), Want: fmt.Sprintf("%+v", want)}})
}

// witness applies a transition from its proof. Then it removes some nodes from the proof, one at a
// time, and expects that applying the transition fails.
func (r *runner) witness(where string, entry *engine.BlockNode, t *engine.Transition) error {
	if r.proven[t] {
		return nil // both children of a split shard have this transition
	}
	if r.proven == nil || len(r.proven) > 64 {
		r.proven = map[*engine.Transition]bool{}
	}
	r.proven[t] = true
	codes, err := r.e.Codes(t)
	if err != nil {
		return err
	}
	got, err := r.e.ApplyTransition(t, codes)
	if err != nil {
		r.differs(where, err, "applied")
		return nil
	}
	r.report.Transitions++
	if got.Trie.Root() != t.Post {
		r.differs(where, got.Trie.Root(), t.Post)
	}
	if !slices.IsSortedFunc(t.Proof, bytes.Compare) {
		r.differs(where, "unsorted proof entries", "ascending ones")
	}
	for i := r.report.Transitions % 5; i < len(t.Proof); i += max(1, len(t.Proof)/3) {
		less := *t
		less.Proof = slices.Delete(slices.Clone(t.Proof), i, i+1)
		if _, err := r.e.ApplyTransition(&less, codes); !errors.Is(err, state.ErrMissing) {
			r.differs(where, fmt.Sprintf("without proof entry %d: %v", i, err), state.ErrMissing)
		}
	}
	if t.Kind == engine.TransitionSplit {
		r.report.Splits++
		return nil
	}
	index, err := entry.Layout.Index(t.Shard)
	if err != nil {
		return err
	}
	if proof := engine.Proof(got.Recording); !slices.EqualFunc(proof, t.Proof, bytes.Equal) {
		r.differs(where, fmt.Sprintf("%d proof entries read", len(proof)), len(t.Proof))
	}
	for _, d := range unlike(got, entry.Shards[index].Result) {
		r.differs(where, d, "as on the whole trie")
	}
	return nil
}

// unlike returns descriptions of the fields in which two results of applying a chunk differ. It
// ignores fields that depend on the trie, on parallelism and on the clock.
func unlike(got, want *apply.Result) (out []string) {
	a, b := *got, *want
	for _, r := range []*apply.Result{&a, &b} {
		r.Trie, r.Recording, r.Olds, r.Accesses = nil, nil, nil, nil
		r.Stats.RanInParallel, r.Stats.RanAgain = 0, 0
		for i := range r.Stats.Stages {
			r.Stats.Stages[i].Nanoseconds = 0
		}
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if f, g := x.Field(i).Interface(), y.Field(i).Interface(); !reflect.DeepEqual(f, g) {
			out = append(out, fmt.Sprintf("%s = %.300s, want %.300s", x.Type().Field(i).Name, fmt.Sprintf("%+v", f), fmt.Sprintf("%+v", g)))
		}
	}
	return out
}
