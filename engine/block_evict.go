package engine

import (
	"fmt"
	"slices"
)

// Where finality stands still, blocks gather whose states, chunks, results and receipts nobody asks for but the newest ones'. Beyond those
// an entry becomes light: what it is called, its header, its layout and its extras. The rest is in the store.

func (e *Engine) residentBlocks() int {
	if e.o.ResidentBlocks > 0 {
		return e.o.ResidentBlocks
	}
	return maxAboveFlatHead
}

// evictBlocks makes entries light beyond the newest. The last block of a layout stays as it is, for its heirs' sake.
func (e *Engine) evictBlocks() {
	for len(e.resident) > e.residentBlocks() {
		x := e.resident[0]
		if !x.persisted.Load() && e.Imported(x.Hash) == x {
			return
		}
		e.resident[0] = nil
		e.resident = e.resident[1:]
		if x == e.flatHead || e.flatHeadUpdate != nil && (x == e.flatHeadUpdate.from || x == e.flatHeadUpdate.to) {
			continue
		}
		x.childrenMu.Lock()
		kept := x.children != nil
		x.childrenMu.Unlock()
		if kept || e.Imported(x.Hash) != x {
			continue
		}
		e.mu.Lock()
		e.entries[x.Hash] = evictedCopy(x)
		e.mu.Unlock()
		x.Release()
	}
}

func evictedCopy(x *BlockNode) *BlockNode {
	l := &BlockNode{Block: x.Block, Hash: x.Hash, Layout: x.Layout, Config: x.Config, Tree: x.Tree, Shards: make([]ShardState, len(x.Shards)),
		finalHeight: x.finalHeight, descendsFrom: x.descendsFrom, evicted: true}
	l.persisted.Store(true)
	l.rules.Store(x.rules.Load())
	for i := range x.Shards {
		s := &x.Shards[i]
		l.Shards[i] = ShardState{ID: s.ID, Extra: s.Extra, OutgoingAt: s.OutgoingAt, OutgoingOf: s.OutgoingOf}
	}
	return l
}

// withChunks returns a block with its chunks.
func (e *Engine) withChunks(x *BlockNode) *BlockNode {
	if x.evicted {
		if rec, err := e.store.Block(ref(x)); err == nil {
			if y, err := e.load(rec); err == nil {
				return y
			}
		}
	}
	return x
}

// restoreEvicted makes a light block what it was: its state is that of the next ancestor that has one, with the stored changes of the blocks
// between. It takes as long as applying these. So a branch may go on from any block above the final one.
func (e *Engine) restoreEvicted(x *BlockNode) (*BlockNode, error) {
	var path []*BlockNode
	at := x
	for at.evicted {
		path = append(path, at)
		if at = e.Imported(at.Header().PrevHash); at == nil {
			return nil, fmt.Errorf("%w: block %v without its parent", ErrInconsistent, ref(path[len(path)-1]))
		}
	}
	if !at.Acquire() {
		return nil, fmt.Errorf("engine: the states of block %d are gone", at.Height())
	}
	for _, p := range slices.Backward(path) {
		next, err := e.reapplyStored(at, p, p == x)
		at.Release()
		if err != nil {
			return nil, fmt.Errorf("engine: state of block %d: %w", p.Height(), err)
		}
		at = next
	}
	at.descendsFrom = x.descendsFrom
	e.mu.Lock()
	e.entries[x.Hash] = at
	e.mu.Unlock()
	e.resident = append(e.resident, at)
	return at, nil
}

// reapplyStored applies the stored changes of a light block to the states of its parent, which are held. whole: with its chunks and receipts.
func (e *Engine) reapplyStored(parent, p *BlockNode, whole bool) (next *BlockNode, err error) {
	rec, err := e.store.Block(ref(p))
	if err != nil {
		return nil, err
	}
	if whole {
		next, err = e.load(rec)
	} else {
		next = evictedCopy(p)
		next.evicted = false
		next.refs.Store(1)
	}
	if err != nil {
		return nil, err
	}
	w := &waiting{rec: rec, entry: next, parent: parent}
	if w.prev, err = e.inherited(parent, next.Layout); err != nil {
		return nil, err
	}
	for i := range next.Shards {
		if err := e.restoreShard(w, i); err != nil {
			next.Release()
			return nil, err
		}
	}
	return next, nil
}
