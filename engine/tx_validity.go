package engine

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// ancestry answers which blocks a transaction may refer to: known, an ancestor, and at most the validity period old.
type ancestry struct {
	e *Engine
	// recentHashes maps folded, hence canonical, blocks that were asked for to their heights.
	mu     sync.Mutex // of recent and order: doors ask from any goroutine
	recent map[primitives.Hash]primitives.Height
	order  []primitives.Hash // in which they are forgotten
}

// ancestryCache bounds what is remembered; beyond it the store is asked.
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

// valid tells whether base may be the block hash of a transaction in a child of parent (nearcore chain/chain/src/store/mod.rs
// check_transaction_validity_period): an ancestor of the child, with parent.height <= base.height + validity period.
func (a *ancestry) valid(parent *BlockNode, base primitives.Hash) bool {
	height, ok := a.height(parent, base)
	return ok && parent.Height() <= height+a.e.chain.ValidityPeriod
}

// height returns the height of base if it is parent or one of its ancestors.
func (a *ancestry) height(parent *BlockNode, base primitives.Hash) (primitives.Height, bool) {
	if at := a.e.Imported(base); at != nil { // above the folded block, on any branch
		x := parent
		for ; x != nil && x.Height() >= at.Height(); x = a.e.Imported(x.Header().PrevHash) {
			if x.Hash == at.Hash { // which may be another entry of it by now
				return at.Height(), true
			}
		}
		if x != nil {
			return 0, false // known, but not an ancestor
		}
		// What lies between was folded meanwhile, so base is as well, or it is gone with its branch.
	}
	a.mu.Lock()
	h, ok := a.recent[base]
	a.mu.Unlock()
	if ok {
		return h, true
	}
	h, ok = a.e.canonicalHeight(base)
	if !ok && a.e.o.Base != nil { // an ancestor that the other chain made
		h, ok, _ = a.e.o.Base.Height(base)
	}
	if ok {
		a.remember(base, h)
	}
	return h, ok
}

// canonicalHeight looks a folded block up in the store; only canonical ones are kept there.
func (e *Engine) canonicalHeight(hash primitives.Hash) (primitives.Height, bool) {
	rec, err := e.store.BlockByHash(hash)
	if err != nil {
		return 0, false
	}
	canonical, err := e.store.IsCanonical(rec.Ref())
	return rec.Ref().Height, err == nil && canonical
}
