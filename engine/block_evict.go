package engine

import (
	"fmt"
	"slices"
)

// While finality stalls, blocks accumulate above the flat head, and usually only the newest blocks
// are needed in full. The remaining blocks are evicted: the node of an evicted block in the block
// tree keeps the hash, header, layout and chunk extras, while the states, chunks, results and
// receipts are only in the store.

// residentBlocks returns how many of the newest blocks stay complete in memory.
func (e *Engine) residentBlocks() int {
	if e.o.ResidentBlocks > 0 {
		return e.o.ResidentBlocks
	}
	return maxAboveFlatHead
}

// evictBlocks evicts all but the newest residentBlocks blocks. It does not evict the last block of
// a shard layout, because the states of child shards depend on that block.
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

// evictedCopy returns a copy of x without states, chunks, results and receipts.
func evictedCopy(x *BlockNode) *BlockNode {
	l := &BlockNode{
		Block:        x.Block,
		Hash:         x.Hash,
		Layout:       x.Layout,
		Config:       x.Config,
		Tree:         x.Tree,
		Shards:       make([]ShardState, len(x.Shards)),
		finalHeight:  x.finalHeight,
		descendsFrom: x.descendsFrom,
		evicted:      true,
	}
	l.persisted.Store(true)
	l.rules.Store(x.rules.Load())
	for i := range x.Shards {
		s := &x.Shards[i]
		l.Shards[i] = ShardState{ID: s.ID, Extra: s.Extra, OutgoingAt: s.OutgoingAt, OutgoingOf: s.OutgoingOf}
	}
	return l
}

// withChunks returns x with its chunks. If x is evicted, withChunks reads the chunks from the
// store. If reading fails, withChunks returns x without chunks.
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

// restoreEvicted makes an evicted block resident again. restoreEvicted starts with the states of
// the nearest resident ancestor, and applies the stored changes of the blocks between that ancestor
// and x. So a branch can continue from any block above the final block.
func (e *Engine) restoreEvicted(x *BlockNode) (*BlockNode, error) {
	var path []*BlockNode
	at := x
	for at.evicted {
		path = append(path, at)
		if at = e.Imported(at.Header().PrevHash); at == nil {
			return nil, fmt.Errorf("%w: the parent of block %v is not in memory", ErrInconsistent, ref(path[len(path)-1]))
		}
	}
	if !at.Acquire() {
		return nil, fmt.Errorf("engine: the states after block %d are no longer in memory", at.Height())
	}
	for _, p := range slices.Backward(path) {
		next, err := e.reapplyStored(at, p, p == x)
		at.Release()
		if err != nil {
			return nil, fmt.Errorf("engine: restore the state after block %d: %w", p.Height(), err)
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

// reapplyStored applies the stored changes of p, an evicted block, to the states of parent. The
// caller holds the states of parent. If whole is set, next also has chunks and receipts.
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
