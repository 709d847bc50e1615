package engine

import "testing"

// TestBodiesAreFreedBelowFlatHead: once the flat head has passed a block, its chunks, results and
// receipts are freed.
func TestBodiesAreFreedBelowFlatHead(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	for i := range 40 {
		n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false))
		if i%10 != 9 {
			continue
		}
		if err := n.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		for _, x := range n.resident {
			if n.Imported(x.Hash) != x {
				t.Errorf("block %d is held, block %d is folded", x.Height(), n.flatHead.Height())
			}
		}
		if len(n.resident) > 10 {
			t.Errorf("%d blocks are held behind block %d", len(n.resident), n.flatHead.Height())
		}
	}
}
