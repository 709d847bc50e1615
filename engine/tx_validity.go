package engine

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// ancestry answers which blocks a transaction may refer to: ancestors of the block at most a
// validity period old.
type ancestry struct {
	e *Engine
	// recent maps canonical blocks below the flat head to their heights, for those that were asked
	// for.
	mu     sync.Mutex // guards recent and order: Check runs on any goroutine
	recent map[primitives.Hash]primitives.Height
	order  []primitives.Hash // keys of recent, oldest first
}

// ancestryCache bounds recent. Other blocks are looked up in the store.
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

// valid reports whether base may be the reference block of a transaction in a child of parent: an
// ancestor of the child with parent.height <= base.height + validity period (nearcore
// chain/chain/src/store/mod.rs check_transaction_validity_period).
func (a *ancestry) valid(parent *BlockNode, base primitives.Hash) bool {
	height, ok := a.height(parent, base)
	return ok && parent.Height() <= height+a.e.chain.ValidityPeriod
}

// height returns the height of base if it is parent or an ancestor of it.
func (a *ancestry) height(parent *BlockNode, base primitives.Hash) (primitives.Height, bool) {
	if at := a.e.Imported(base); at != nil { // above the flat head, on any branch
		x := parent
		for ; x != nil && x.Height() >= at.Height(); x = a.e.Imported(x.Header().PrevHash) {
			if x.Hash == at.Hash { // the node may have been replaced, so compare hashes
				return at.Height(), true
			}
		}
		if x != nil {
			return 0, false // not an ancestor
		}
		// The blocks between were passed by the flat head meanwhile. So was base, or it is gone
		// with its branch.
	}
	a.mu.Lock()
	h, ok := a.recent[base]
	a.mu.Unlock()
	if ok {
		return h, true
	}
	h, ok = a.e.canonicalHeight(base)
	if !ok && a.e.o.Base != nil { // an ancestor in the remote chain
		h, ok, _ = a.e.o.Base.Height(base)
	}
	if ok {
		a.remember(base, h)
	}
	return h, ok
}

// canonicalHeight looks up a block below the flat head, where the store keeps only the canonical
// chain.
func (e *Engine) canonicalHeight(hash primitives.Hash) (primitives.Height, bool) {
	rec, err := e.store.BlockByHash(hash)
	if err != nil {
		return 0, false
	}
	canonical, err := e.store.IsCanonical(rec.Ref())
	return rec.Ref().Height, err == nil && canonical
}
