package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TestSplitProvesBuffers: what proves the right child of a split shows how much is buffered, which the child's congestion info is without.
func TestSplitProvesBuffers(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb"))
	at := n.Head()
	layout := at.Layout
	gas, size := primitives.NEAR(3), uint64(1234)
	row := borsh.AppendUint64([]byte{0}, 0)
	row = gas.AppendBorsh(borsh.AppendUint64(borsh.AppendUint64(row, 1), size))
	row = borsh.AppendUint64(row, 1)
	root, err := at.Shards[0].root.Forest().Update(at.Shards[0].root, []trie.Change{{Key: primitives.AppendBufferedGroupsKey(nil, layout.ShardIDs()[0]), Value: row}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Release()
	prev := &ShardState{root: root}
	for _, left := range []bool{true, false} {
		whole, tr, err := restrict(at, prev, 9, left, trie.SplitIntervals("ab", left))
		if err != nil {
			t.Fatal(err)
		}
		whole.Release()
		p, err := trie.NewPartial(tr.Proof, tr.Pre)
		if err != nil {
			t.Fatal(err)
		}
		x := new(chain.ChunkExtra)
		x.CongestionInfo.BufferedReceiptsGas, x.CongestionInfo.ReceiptBytes = gas, size
		if err = unbuffered(x, proofTrie{p}, layout); left != errors.Is(err, state.ErrMissing) || !left && (err != nil || x.CongestionInfo.ReceiptBytes != 0) {
			t.Errorf("left %v: %v, %+v", left, err, x.CongestionInfo)
		}
	}
}

// TestWitnessOfUnknown: whoever asks too early is told so.
func TestWitnessOfUnknown(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	w := new(primitives.ChunkStateWitness)
	w.Header.PrevBlockHash = primitives.Hash{1}
	if err := n.CheckWitness(w, nil); !errors.Is(err, ErrOrphan) || VerdictOf(err) != Waits {
		t.Errorf("of an unknown block: %v", err)
	}
	w.Header.PrevBlockHash, w.Header.ShardID = n.Head().Hash, 77
	if err := n.CheckWitness(w, nil); VerdictOf(err) != Bad {
		t.Errorf("of no shard: %v", err)
	}
}

// FuzzCheckWitness: whatever somebody calls a witness is refused, and it is its fault, or that of a block that is not here; what is accepted is of a chunk
// that was made.
func FuzzCheckWitness(f *testing.F) {
	n := openNode(f, testGenesis(f, "aa", "bb"))
	root, good := n.Head().Hash, map[primitives.Hash]bool{}
	for i := range primitives.Height(6) {
		b, chunks := n.make(n.Head().Hash, i+1, i == 3, transfer(root, primitives.Nonce(i+1)))
		for _, c := range chunks {
			if c == nil {
				continue
			}
			w, err := n.Witness(c)
			if err != nil {
				f.Fatal(err)
			}
			if err := n.CheckWitness(w.ChunkStateWitness, nil); err != nil {
				f.Fatal(err)
			}
			good[c.Hash] = true
			f.Add(w.AppendBorsh(nil))
		}
		n.accept(b, chunks)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := new(primitives.ChunkStateWitness)
		if borsh.Unmarshal(raw, w) != nil {
			return
		}
		for _, judge := range []func() error{
			func() error { return n.CheckWitness(w, nil) },
			func() error { _, err := n.CheckHeld(w); return err },
		} {
			err := judge()
			if v := VerdictOf(err); err != nil && v != Bad && v != Waits {
				t.Errorf("verdict %d: %v", v, err)
			}
			if err == nil && !good[w.Header.ChunkHash()] {
				t.Errorf("a chunk that nobody made is accepted: %+v", w.Header)
			}
		}
	})
}
