package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestUnreadWitnessFieldsMayHaveAnyValue: the fields of a witness that neard ignores
// (chunk_validation.rs, chunk_validation_actor.rs start_validating_chunk) may have any value: the
// block hashes of its transitions, and header fields that the chunk hash does not cover. All other
// fields are checked; the number of transitions only by a node that applies them.
func TestUnreadWitnessFieldsMayHaveAnyValue(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb"))
	root := n.Head().Hash
	for h := range primitives.Height(6) {
		b, chunks := n.make(n.Head().Hash, h+1, h >= 4, transfer(root, primitives.Nonce(h+1))) // the last two lack a chunk
		n.accept(b, chunks)
	}
	_, chunks := n.make(n.Head().Hash, n.Head().Height()+1, false, transfer(root, 9))
	implicit := 0
	for _, c := range chunks {
		given, err := n.Witness(c)
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range map[string]struct {
			change      func(w *primitives.ChunkStateWitness) bool
			held, shown bool // the verdict of a node with the shard's state, and without
		}{
			"nothing":         {func(*primitives.ChunkStateWitness) bool { return true }, true, true},
			"height included": {func(w *primitives.ChunkStateWitness) bool { w.Header.HeightIncluded = 7; return true }, true, true},
			"signature": {func(w *primitives.ChunkStateWitness) bool {
				w.Header.Signature = primitives.ZeroED25519Signature
				return true
			}, true, true},
			"main block": {func(w *primitives.ChunkStateWitness) bool { w.Main.Block[3] ^= 1; return true }, true, true},
			"implicit blocks": {func(w *primitives.ChunkStateWitness) bool {
				for i := range w.Implicit {
					w.Implicit[i].Block[3] ^= 1
					implicit++
				}
				return len(w.Implicit) > 0
			}, true, true},
			"a transition more": {func(w *primitives.ChunkStateWitness) bool { w.Implicit = append(w.Implicit, w.Main); return true }, true, false},
			"state behind main": {func(w *primitives.ChunkStateWitness) bool { w.Main.PostState[3] ^= 1; return true }, true, false},
			"epoch":             {func(w *primitives.ChunkStateWitness) bool { w.EpochID[3] ^= 1; return true }, false, false},
			"receipts":          {func(w *primitives.ChunkStateWitness) bool { w.AppliedReceipts[3] ^= 1; return true }, false, false},
			"sources": {func(w *primitives.ChunkStateWitness) bool {
				w.Sources = append(w.Sources, primitives.SourceProof{})
				return true
			}, false, false},
			"transactions before": {func(w *primitives.ChunkStateWitness) bool {
				w.Transactions = append(w.Transactions, transfer(root, 1))
				return true
			}, false, false},
			"header's state root": {func(w *primitives.ChunkStateWitness) bool { w.Header.PrevStateRoot[3] ^= 1; return true }, false, false},
		} {
			w := *given.ChunkStateWitness
			w.Implicit = append([]primitives.StateTransition(nil), w.Implicit...)
			if !x.change(&w) {
				continue
			}
			if held, err := n.Witnesses().CheckHeld(&w, nil); !held || (err == nil) != x.held || err != nil && !errors.Is(err, ErrWitness) {
				t.Errorf("%s, shard %d, by the state: %v, %v", name, c.Header.ShardID, held, err)
			}
			if err := n.Witnesses().CheckWitness(&w, nil); (err == nil) != x.shown || err != nil && !errors.Is(err, ErrWitness) {
				t.Errorf("%s, shard %d: %v", name, c.Header.ShardID, err)
			}
		}
	}
	if implicit == 0 {
		t.Error("no chunk was missed")
	}
}
