package engine

import (
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestAncestryWhileFolding: a block that a transaction refers to stays an ancestor of the head, also for a door that looks while blocks are folded: what it looked
// up as one above the folded block may lie below it a moment later.
func TestAncestryWhileFolding(t *testing.T) {
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

// TestAncestryOfReplaced: where the entry of a block is replaced, as when it becomes light or a shard comes in, the block stays an ancestor for who holds the one before.
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
