package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// missedChunk returns a node and some witnesses. first are the witnesses of the chunks that were
// made for block 2, of which block 2 does not include one. second is the witness of the chunk for
// height 3 in the same shard as that missing chunk. Its main transition is that of block 1, the
// same as in the missing chunk's witness in first.
func missedChunk(t *testing.T, mains int) (n *node, first []*primitives.ChunkStateWitness, second *primitives.ChunkStateWitness) {
	t.Helper()
	n, err := openChanged(t, testGenesis(t, "aa", "zz"), storage.NewMemDisk(), storage.Options{}, func(o *Options) { o.MainResults = mains })
	if err != nil {
		t.Fatal(err)
	}
	witnesses := func(chunks []*primitives.Chunk) (out []*primitives.ChunkStateWitness) {
		for _, c := range chunks {
			w, err := n.Witness(c)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, w.ChunkStateWitness)
		}
		return out
	}
	root := n.Head().Hash
	n.accept(n.make(n.Head().Hash, 1, false, transfer(root, 1)))
	_, chunks := n.make(n.Head().Hash, 2, false, transfer(root, 2))
	first = witnesses(chunks)
	n.accept(n.make(n.Head().Hash, 2, true, transfer(root, 2)))
	_, chunks = n.make(n.Head().Hash, 3, false, transfer(root, 3))
	for _, w := range witnesses(chunks) {
		if len(w.Implicit) > 0 {
			second = w
		}
	}
	if second == nil {
		t.Fatal("no chunk was missed")
	}
	return n, first, second
}

// TestCheckedMainTransitionIsNotAppliedAgain: if a main transition was checked with an earlier
// chunk of the shard, the next witness need not contain its state and code (nearcore
// chunk_validation.rs:594). Everything else is checked as usual. A refused witness does not change
// the cache.
func TestCheckedMainTransitionIsNotAppliedAgain(t *testing.T) {
	junk := func(w *primitives.ChunkStateWitness) { w.Main.Base = [][]byte{[]byte("junk")} }
	n, first, second := missedChunk(t, 0)
	with := func(change ...func(*primitives.ChunkStateWitness)) error {
		w := *second
		w.Implicit = append([]primitives.StateTransition(nil), w.Implicit...)
		for _, f := range change {
			f(&w)
		}
		return n.Witnesses().CheckWitness(&w, nil)
	}
	for range 2 {
		if err := with(junk); !errors.Is(err, ErrWitness) {
			t.Errorf("junk, nothing checked before: %v, want ErrWitness", err)
		}
	}
	for _, w := range first {
		if err := n.Witnesses().CheckWitness(w, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := with(junk); err != nil {
		t.Errorf("junk, and the transition was checked before: %v", err)
	}
	if err := with(); err != nil {
		t.Errorf("the unchanged witness: %v", err)
	}
	for name, change := range map[string]func(*primitives.ChunkStateWitness){
		"state behind main":    func(w *primitives.ChunkStateWitness) { w.Main.PostState[3] ^= 1 },
		"implicit state":       func(w *primitives.ChunkStateWitness) { w.Implicit[0].Base = nil },
		"state behind missing": func(w *primitives.ChunkStateWitness) { w.Implicit[0].PostState[3] ^= 1 },
		"no implicit":          func(w *primitives.ChunkStateWitness) { w.Implicit = nil },
		"receipts":             func(w *primitives.ChunkStateWitness) { w.AppliedReceipts[3] ^= 1 },
		"transactions": func(w *primitives.ChunkStateWitness) {
			w.Transactions = append(w.NewTransactions, transfer(w.EpochID, 7))
		},
		"header's state": func(w *primitives.ChunkStateWitness) { w.Header.PrevStateRoot[3] ^= 1 },
		"header's gas":   func(w *primitives.ChunkStateWitness) { w.Header.PrevGasUsed++ },
	} {
		t.Run(name, func(t *testing.T) {
			if err := with(junk, change); !errors.Is(err, ErrWitness) {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := with(junk); err != nil {
		t.Errorf("junk, after others were refused: %v", err)
	}

	n, first, second = missedChunk(t, -1)
	for _, w := range first {
		if err := n.Witnesses().CheckWitness(w, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := with(junk); !errors.Is(err, ErrWitness) {
		t.Errorf("junk, and no result is kept: %v", err)
	}
}

// TestMainResultsEvictLeastRecentlyUsed: in each shard the most recently used results stay, as in
// nearcore's LruCache. The results of a split shard are dropped when no more chunks of it can come.
func TestMainResultsEvictLeastRecentlyUsed(t *testing.T) {
	before, after := primitives.NewShardLayoutV0(2, 1), primitives.NewShardLayoutV0(3, 2)
	m := newMainResults(0)
	at := func(l primitives.ShardLayout, i byte) mainKey { return mainKey{l.ShardUIDs()[0], primitives.Hash{i}} }
	for i := range byte(DefaultMainResults) {
		m.put(at(before, i), &chain.ChunkExtra{GasUsed: primitives.Gas(i)}, nil, before, 0)
	}
	if x, _, ok := m.get(at(before, 0)); !ok || x.GasUsed != 0 {
		t.Fatal("the first result was evicted")
	}
	x, _, _ := m.get(at(before, 5))
	x.StateRoot = primitives.Hash{9} // as implicit transitions do with the result
	m.put(at(before, DefaultMainResults), &chain.ChunkExtra{}, nil, before, 0)
	for i, want := range map[byte]bool{0: true, 1: false, 2: true, 5: true, DefaultMainResults: true} {
		x, _, ok := m.get(at(before, i))
		if ok != want || ok && !x.StateRoot.IsZero() {
			t.Errorf("result %d: %v, %+v, want %v", i, ok, x, want)
		}
	}
	if n := len(m.shards[before.ShardUIDs()[0]].list); n != DefaultMainResults {
		t.Errorf("%d results of a shard", n)
	}
	m.put(at(after, 1), &chain.ChunkExtra{}, nil, after, 0)
	if _, _, ok := m.get(at(before, 0)); !ok {
		t.Error("the results of the split shard are dropped too early")
	}
	m.put(at(after, 1), &chain.ChunkExtra{}, nil, after, 1)
	if _, _, ok := m.get(at(before, 0)); ok || len(m.shards) != 1 {
		t.Errorf("%d shards", len(m.shards))
	}
}

// TestProofOfGenesisTransitionIsIgnored: if the main transition is the genesis, its proof is
// ignored (nearcore chunk_validation.rs MainTransition::Genesis), but its post-state root is
// checked.
func TestProofOfGenesisTransitionIsIgnored(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb"))
	_, chunks := n.make(n.Head().Hash, n.Head().Height()+1, false, transfer(n.Head().Hash, 1))
	for _, c := range chunks {
		given, err := n.Witness(c)
		if err != nil {
			t.Fatal(err)
		}
		w := *given.ChunkStateWitness
		w.Main.Base = [][]byte{[]byte("not read")}
		if err := n.Witnesses().CheckWitness(&w, nil); err != nil {
			t.Errorf("shard %d, with a proof that is not read: %v", c.Header.ShardID, err)
		}
		w.Main.PostState[3] ^= 1
		if err := n.Witnesses().CheckWitness(&w, nil); !errors.Is(err, ErrWitness) {
			t.Errorf("shard %d, with another post-state root: %v", c.Header.ShardID, err)
		}
	}
}
