package engine

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// ancestry looks up whether a block is an ancestor of another. A transaction's reference block must
// be an ancestor that is at most a validity period old. Safe for concurrent use.
type ancestry struct {
	e *Engine
	// recent caches, by hash, the heights of canonical blocks that were looked up in the store or in
	// the remote chain.
	mu     sync.Mutex // guards recent and order
	recent map[primitives.Hash]primitives.Height
	order  []primitives.Hash // keys of recent, oldest first
}

// ancestryCache is the capacity of ancestry.recent.
const ancestryCache = 4096

func (a *ancestry) init(e *Engine) { a.e, a.recent = e, map[primitives.Hash]primitives.Height{} }

func (a *ancestry) remember(hash primitives.Hash, height primitives.Height) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.recent[hash]; ok {
		return
	}
	if len(a.order) >= ancestryCache {
		delete(a.recent, a.order[0])
		a.order = a.order[1:]
	}
	a.recent[hash] = height
	a.order = append(a.order, hash)
}

// valid returns whether base may be the reference block of a transaction in a child of parent. base
// must be an ancestor of the child, and parent.height <= base.height + validity period (nearcore
// chain/chain/src/store/mod.rs check_transaction_validity_period).
func (a *ancestry) valid(parent *BlockNode, base primitives.Hash) bool {
	height, ok := a.height(parent, base)
	return ok && parent.Height() <= height+a.e.chain.ValidityPeriod
}

// height returns the height of base. The bool is false if base is neither parent nor an ancestor of
// parent.
func (a *ancestry) height(parent *BlockNode, base primitives.Hash) (primitives.Height, bool) {
	if at := a.e.Imported(base); at != nil { // the base block is above the flat head, on any branch
		x := parent
		for ; x != nil && x.Height() >= at.Height(); x = a.e.Imported(x.Header().PrevHash) {
			if x.Hash == at.Hash { // compare hashes, because the node may have been replaced
				return at.Height(), true
			}
		}
		if x != nil {
			return 0, false // the base block is no ancestor
		}
		// The flat head has passed the blocks in between during the loop. Either the flat head has
		// also passed base, or base was dropped with its branch. In both cases the store has the
		// answer.
	}
	a.mu.Lock()
	h, ok := a.recent[base]
	a.mu.Unlock()
	if ok {
		return h, true
	}
	h, ok = a.e.canonicalHeight(base)
	if !ok && a.e.o.Base != nil { // base may be on the remote chain
		h, ok, _ = a.e.o.Base.Height(base)
	}
	if ok {
		a.remember(base, h)
	}
	return h, ok
}

// canonicalHeight returns the height of a canonical block. The bool is false if the store does not
// have the block on the canonical chain.
func (e *Engine) canonicalHeight(hash primitives.Hash) (primitives.Height, bool) {
	rec, err := e.store.BlockByHash(hash)
	if err != nil {
		return 0, false
	}
	canonical, err := e.store.IsCanonical(rec.Ref())
	return rec.Ref().Height, err == nil && canonical
}
