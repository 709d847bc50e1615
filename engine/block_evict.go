package engine

import (
	"fmt"
	"slices"
)

// Where finality stands still, blocks gather whose states, chunks, results and receipts nobody asks for but the newest ones'. Beyond those
// an entry becomes light: what it is called, its header, its layout and its extras. The rest is in the store.

func (e *Engine) warmBlocks() int {
	if e.o.WarmBlocks > 0 {
		return e.o.WarmBlocks
	}
	return maxUnfolded
}

// shed makes entries light beyond the newest. The last block of a layout stays as it is, for its heirs' sake.
func (e *Engine) shed() {
	for len(e.warm) > e.warmBlocks() {
		x := e.warm[0]
		if !x.stored.Load() && e.Adopted(x.Hash) == x {
			return
		}
		e.warm[0] = nil
		e.warm = e.warm[1:]
		if x == e.foldedAt || e.folding != nil && (x == e.folding.from || x == e.folding.to) {
			continue
		}
		x.heirsMu.Lock()
		kept := x.heirs != nil
		x.heirsMu.Unlock()
		if kept || e.Adopted(x.Hash) != x {
			continue
		}
		e.mu.Lock()
		e.entries[x.Hash] = lightened(x)
		e.mu.Unlock()
		x.Release()
	}
}

func lightened(x *BlockNode) *BlockNode {
	l := &BlockNode{Block: x.Block, Hash: x.Hash, Layout: x.Layout, Config: x.Config, Tree: x.Tree, Shards: make([]ShardState, len(x.Shards)),
		finalHeight: x.finalHeight, above: x.above, light: true}
	l.stored.Store(true)
	l.rules.Store(x.rules.Load())
	for i := range x.Shards {
		s := &x.Shards[i]
		l.Shards[i] = ShardState{ID: s.ID, Extra: s.Extra, OutgoingAt: s.OutgoingAt, OutgoingOf: s.OutgoingOf}
	}
	return l
}

// full returns a block with its chunks.
func (e *Engine) full(x *BlockNode) *BlockNode {
	if x.light {
		if rec, err := e.store.Block(ref(x)); err == nil {
			if y, err := e.load(rec); err == nil {
				return y
			}
		}
	}
	return x
}

// revive makes a light block what it was: its state is that of the next ancestor that has one, with the stored changes of the blocks
// between. It takes as long as applying these. So a branch may go on from any block above the final one.
func (e *Engine) revive(x *BlockNode) (*BlockNode, error) {
	var path []*BlockNode
	at := x
	for at.light {
		path = append(path, at)
		if at = e.Adopted(at.Header().PrevHash); at == nil {
			return nil, fmt.Errorf("%w: block %v without its parent", ErrInconsistent, ref(path[len(path)-1]))
		}
	}
	if !at.Acquire() {
		return nil, fmt.Errorf("engine: the states of block %d are gone", at.Height())
	}
	for _, p := range slices.Backward(path) {
		next, err := e.again(at, p, p == x)
		at.Release()
		if err != nil {
			return nil, fmt.Errorf("engine: state of block %d: %w", p.Height(), err)
		}
		at = next
	}
	at.above = x.above
	e.mu.Lock()
	e.entries[x.Hash] = at
	e.mu.Unlock()
	e.warm = append(e.warm, at)
	return at, nil
}

// again applies the stored changes of a light block to the states of its parent, which are held. whole: with its chunks and receipts.
func (e *Engine) again(parent, p *BlockNode, whole bool) (next *BlockNode, err error) {
	rec, err := e.store.Block(ref(p))
	if err != nil {
		return nil, err
	}
	if whole {
		next, err = e.load(rec)
	} else {
		next = lightened(p)
		next.light = false
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
