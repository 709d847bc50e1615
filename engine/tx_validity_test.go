package engine

import (
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestAncestryWhileFlatHeadAdvances: a transaction's reference block stays an ancestor of the head
// for a concurrent check: a block found above the flat head may be below it a moment later.
func TestAncestryWhileFlatHeadAdvances(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	var (
		mu    sync.Mutex
		bases = []primitives.Hash{n.Genesis().Hash}
		ended = make(chan struct{})
		doors sync.WaitGroup
	)
	for range 4 {
		doors.Go(func() {
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
	doors.Wait()
}

// TestAncestryOfReplaced: when a block's node is replaced, by eviction or a caught up shard, the
// block stays an ancestor for holders of the previous node.
func TestAncestryOfReplaced(t *testing.T) {
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
