package engine

import (
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestReferenceBlockIsFoundWhileFlatHeadMoves: height finds a reference block although the flat
// head passes it during the search.
func TestReferenceBlockIsFoundWhileFlatHeadMoves(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	var (
		mu      sync.Mutex
		bases   = []primitives.Hash{n.Genesis().Hash}
		ended   = make(chan struct{})
		readers sync.WaitGroup
	)
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				mu.Lock()
				list := bases[max(0, len(bases)-8):]
				mu.Unlock()
				head := n.Head()
				for _, base := range list {
					if _, ok := n.ancestry.height(head, base); !ok {
						t.Error("a block of the chain is no ancestor of its head")
						return
					}
				}
			}
		})
	}
	for i := range 400 {
		n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false))
		mu.Lock()
		bases = append(bases, n.Head().Hash)
		mu.Unlock()
		if i%3 == 2 {
			if err := n.AdvanceFlatHead(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(ended)
	readers.Wait()
}

// TestReplacedBlockNodeStaysAncestor: after a block's node was replaced, by eviction or because a
// shard was caught up, the block is still an ancestor for readers that hold the node before.
func TestReplacedBlockNodeStaysAncestor(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	for range 3 {
		n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false))
	}
	head := n.Head()
	n.mu.Lock()
	n.entries[head.Hash] = evictedCopy(head)
	n.mu.Unlock()
	if h, ok := n.ancestry.height(head, head.Hash); !ok || h != head.Height() {
		t.Errorf("a block is no ancestor of its child: %d, %v", h, ok)
	}
	n.mu.Lock()
	n.entries[head.Hash] = head
	n.mu.Unlock()
}
