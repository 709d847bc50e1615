package engine

import (
	"github.com/troupe-chain/troupe/primitives"
)

// ancestry answers which blocks a transaction may refer to: known, an ancestor, and at most the validity period old.
type ancestry struct {
	e *Engine
	// recent maps the canonical blocks that were asked for or came lately to their heights.
	recent map[primitives.Hash]primitives.Height
	order  []primitives.Hash // in which they are forgotten
}

// ancestryCache bounds what is remembered; beyond it the store is asked.
const ancestryCache = 4096

func (a *ancestry) init(e *Engine) { a.e, a.recent = e, map[primitives.Hash]primitives.Height{} }

func (a *ancestry) remember(hash primitives.Hash, height primitives.Height) {
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

// extend remembers a new head.
func (a *ancestry) extend(head *Entry) { a.remember(head.Hash, head.Height()) }

// valid tells whether base may be the block hash of a transaction in a child of parent (nearcore chain/chain/src/store/mod.rs
// check_transaction_validity_period): an ancestor of the child, with parent.height <= base.height + validity period.
func (a *ancestry) valid(parent *Entry, base primitives.Hash) bool {
	height, ok := a.height(parent, base)
	return ok && parent.Height() <= height+a.e.chain.ValidityPeriod
}

// height returns the height of base if it is parent or one of its ancestors.
func (a *ancestry) height(parent *Entry, base primitives.Hash) (primitives.Height, bool) {
	at := parent
	for at != nil { // entries above the folded block, on any branch
		if at.Hash == base {
			return at.Height(), true
		}
		if at == a.e.folded {
			break
		}
		at = a.e.Entry(at.Header().PrevHash)
	}
	if h, ok := a.recent[base]; ok && a.e.Entry(base) == nil {
		return h, true
	}
	if a.e.Entry(base) != nil {
		return 0, false // known, but not an ancestor
	}
	h, ok := a.e.canonicalHeight(base)
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
