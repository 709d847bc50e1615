package engine

import (
	"errors"
	"maps"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TestSourceKeepsValuesOfItsBlock: a source returns values as of the block that it was made for,
// even after the flat head has advanced.
func TestSourceKeepsValuesOfItsBlock(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb"))
	pairs := func(load trie.Loader) map[string]string {
		out := map[string]string{}
		if err := load(nil, nil, func(k, v []byte) bool {
			out[string(k)] = string(v)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := n.flatHead
	taken := n.source(ref(first), first.Layout, 0) // the source of a load that continues later
	before := pairs(first.Shards[0].root.Range)
	for h := primitives.Height(1); h < 8; h++ {
		n.accept(n.make(n.Head().Hash, h, false, transfer(n.Genesis().Hash, primitives.Nonce(h))))
	}
	if err := n.AdvanceFlatHead(); err != nil {
		t.Fatal(err)
	}
	if n.flatHead == first {
		t.Fatal("the flat head did not advance")
	}
	if got := pairs(taken.Load); !maps.Equal(got, before) {
		t.Errorf("a source of block %d yields the pairs of another block", first.Height())
	}
	now := pairs(n.source(ref(n.flatHead), n.flatHead.Layout, 0).Load)
	if want := pairs(n.flatHead.Shards[0].root.Range); !maps.Equal(now, want) || maps.Equal(now, before) {
		t.Errorf("the source of block %d yields the pairs of another block", n.flatHead.Height())
	}
}

// TestVerifyKeepsReadNodesWithinBudget: the verification after a start keeps the nodes that it read
// in memory, as far as the budget allows.
func TestVerifyKeepsReadNodesWithinBudget(t *testing.T) {
	g, disk, small := testGenesis(t, "aa", "bb"), storage.NewMemDisk(), trie.Options{Frontier: 256}
	n := openWith(t, g, disk, storage.Options{}, small)
	for h := primitives.Height(1); h < 8; h++ {
		n.accept(n.make(n.Head().Hash, h, false))
	}
	if err := errors.Join(n.AdvanceFlatHead(), n.Close(), n.store.Close()); err != nil {
		t.Fatal(err)
	}
	n = openWith(t, g, disk, storage.Options{}, small)
	check := func() uint64 {
		v := n.Verify()
		for done := false; !done; {
			var err error
			if done, err = v.Step(1); err != nil {
				t.Fatal(err)
			}
		}
		return n.Head().Root(0).Forest().Bytes() + n.Head().Root(1).Forest().Bytes()
	}
	bare := check()
	n.o.StateBytes = 1
	if got := check(); got != bare {
		t.Errorf("%d bytes after a verification without budget, %d before", got, bare)
	}
	n.o.StateBytes = 1 << 30
	if got := check(); got <= bare {
		t.Errorf("%d bytes after a verification with budget, %d before", got, bare)
	}
}
