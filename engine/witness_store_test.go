package engine

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// openKeeping opens a node that keeps the transitions for the chunks of the account `of`, or of all
// chunks if that is empty.
func openKeeping(t *testing.T, disk *storage.MemDisk, of primitives.AccountID, validators ...primitives.AccountID) *node {
	t.Helper()
	n, err := openChanged(t, testGenesis(t, validators...), disk, storage.Options{FlatHeadBlocks: 2}, func(o *Options) {
		o.Tries, o.ProofBytes, o.ProofsFor = trie.Options{Poison: true}, 1<<30, of
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// row returns the saved transitions.
func (n *node) row() []*Transition {
	n.t.Helper()
	raw, err := storage.Misc.Get(n.store.Reader(), transitionsRow)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		n.t.Fatal(err)
	}
	list, err := readTransitions(raw)
	if err != nil {
		n.t.Fatal(err)
	}
	return list
}

// TestWitnessesOutliveFlatHeadAndRestart: a node that advances its flat head and restarts after
// each block builds the same witnesses as a node that never stops, even if a shard has had no
// chunks for so long that the flat head has passed its newest one. The transitions that it saves
// for this are removed when they are no longer needed.
func TestWitnessesOutliveFlatHeadAndRestart(t *testing.T) {
	whole, disk := openKeeping(t, storage.NewMemDisk(), "", "aa", "bb"), storage.NewMemDisk()
	n := openKeeping(t, disk, "", "aa", "bb")
	root := whole.Head().Hash
	longest, kept := 0, 0
	for i := range 60 {
		skip := i%20 >= 4 && i%20 < 15 || i%20 == 17
		b, chunks := whole.make(whole.Head().Hash, whole.Head().Height()+1, skip, transfer(root, primitives.Nonce(i+1)))
		a := whole.accept(b, chunks)
		n.accept(b, chunks)
		if err := n.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		if i%7 == 3 { // a branch of one block
			fork, its := whole.make(whole.Head().Header().PrevHash, whole.Head().Height()+1, true)
			whole.accept(fork, its)
			n.accept(fork, its)
			b, chunks = whole.make(a.Entry.Hash, whole.Head().Height()+1, skip)
			a = whole.accept(b, chunks)
			n.accept(b, chunks)
		}
		if err := errors.Join(n.Close(), n.store.Close()); err != nil {
			t.Fatal(err)
		}
		n = openKeeping(t, disk, "", "aa", "bb")
		if i%20 == 1 && len(n.row()) > 0 {
			t.Errorf("block %d: every shard has its chunks, and %d transitions are kept", a.Entry.Height(), len(n.row()))
		}
		kept = max(kept, len(n.row()))
		for _, id := range a.Entry.Layout.ShardIDs() {
			main, steps, err := n.Transitions(a.Entry.Hash, id)
			if err != nil {
				t.Fatalf("block %d, shard %d: %v", a.Entry.Height(), id, err)
			}
			wantMain, want, err := whole.Transitions(a.Entry.Hash, id)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(main, wantMain) || !reflect.DeepEqual(steps, want) {
				t.Errorf("block %d, shard %d: other transitions than without a restart", a.Entry.Height(), id)
			}
			longest = max(longest, len(steps))
		}
	}
	if longest < 10 || kept < 8 {
		t.Errorf("at most %d steps and %d kept by a fold: the test reaches too little", longest, kept)
	}
}

// TestSavedTransitionsFitIntoLogRecord: the saved transitions fit into a record of the log, even if
// there are more in memory.
func TestSavedTransitionsFitIntoLogRecord(t *testing.T) {
	n := openKeeping(t, storage.NewMemDisk(), "", "aa")
	for h := range primitives.Height(10) {
		n.accept(n.make(n.Head().Hash, h+1, h > 1))
	}
	if f := n.flatHeadUpdate; f != nil { // the update reads what the test changes below
		if err := n.finishFlatHeadUpdate(f.wait()); err != nil {
			t.Fatal(err)
		}
	}
	blob, all := make([]byte, 100<<20), int64(0)
	for _, x := range n.proofs.kept {
		x.Proof = [][]byte{blob}
		all += x.size()
	}
	if all <= 1<<30 {
		t.Fatalf("only %d bytes of proofs are in memory", all)
	}
	size := int64(0)
	for _, x := range n.proofs.toSave(n.Head()) {
		size += x.size()
	}
	if size == 0 || size > maxSavedTransitions {
		t.Errorf("%d bytes are saved, want 1 to %d", size, maxSavedTransitions)
	}
}

// TestTransitionsAreKeptForProducedShards: transitions are kept for the shards whose chunks the
// account produces in this epoch or the next, provided that there are other validators.
func TestTransitionsAreKeptForProducedShards(t *testing.T) {
	for _, c := range []struct {
		of         primitives.AccountID
		validators []primitives.AccountID
		some, all  bool
	}{
		{"aa", []primitives.AccountID{"aa"}, false, false},
		{"aa", []primitives.AccountID{"aa", "bb", "cc", "dd"}, true, false},
		{"zz", []primitives.AccountID{"aa", "bb"}, false, false},
		{"", []primitives.AccountID{"aa"}, true, true},
	} {
		n := openKeeping(t, storage.NewMemDisk(), c.of, c.validators...)
		made, not := 0, 0
		for range 40 {
			head := n.Head()
			b, chunks := n.make(head.Hash, head.Height()+1, false)
			p, err := n.BeginImport(b, chunks, false)
			if err != nil {
				t.Fatal(err)
			}
			for i := range p.jobs {
				j := &p.jobs[i]
				j.Run()
				want := c.of == ""
				if c.of != "" && len(c.validators) > 1 {
					if err := n.Epochs(func(m *epoch.Manager) error {
						now, err := m.CaresAboutShard(b.Header.EpochID, c.of, j.ID)
						next, err2 := m.CaresAboutShard(b.Header.NextEpochID, c.of, j.ID)
						want = now || next
						return errors.Join(err, err2)
					}); err != nil {
						t.Fatal(err)
					}
				}
				if (j.transition != nil) != want {
					t.Errorf("%q of %v: block %d, shard %d: a proof is made: %v", c.of, c.validators, b.Header.Height, j.ID, !want)
				}
				if want {
					made++
				} else {
					not++
				}
			}
			if _, err := n.Commit(p); err != nil {
				t.Fatal(err)
			}
		}
		if made > 0 != c.some || c.all && not > 0 {
			t.Errorf("%q of %v: %d proofs, %d steps without one", c.of, c.validators, made, not)
		}
	}
}

// FuzzTransitions fuzzes the decoder of saved transitions. Input that it accepts must be equal to
// the encoding of the result.
func FuzzTransitions(f *testing.F) {
	f.Add(appendTransitions(nil, []*Transition{{Kind: TransitionSplit, Block: primitives.Hash{1}, Height: 2, Shard: 3, Pre: primitives.Hash{4}, Proof: [][]byte{{5}, {}}}}))
	f.Add(appendTransitions(nil, nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		if list, err := readTransitions(in); err == nil && !bytes.Equal(appendTransitions(nil, list), in) {
			t.Errorf("%x became %x", in, appendTransitions(nil, list))
		}
	})
}
