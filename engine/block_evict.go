package engine

import (
	"fmt"
	"slices"
)

// While finality stalls, blocks accumulate and only the newest are read in full. An older block is
// evicted: its node keeps the hash, header, layout and chunk extras, and drops its states, chunks,
// results and receipts, which the store has.

// residentBlocks returns how many of the newest blocks keep everything in memory.

func (e *Engine) residentBlocks() int {
	if e.o.ResidentBlocks > 0 {
		return e.o.ResidentBlocks
	}
	return maxAboveFlatHead
}

// evictBlocks evicts all but the newest resident blocks. The last block of a shard layout stays
// resident because the child shards' states depend on it.
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

// evictedCopy returns an evicted copy of a node.
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

// withChunks returns a block with its chunks, read from the store if the node is evicted. If the
// store cannot give them it returns x.
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

// restoreEvicted makes an evicted block resident again: it takes the states of the nearest resident
// ancestor and applies the stored changes of the blocks between. The cost is that of applying those
// changes. It allows a branch to continue from any block above the final one.
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
		return nil, fmt.Errorf("engine: the states of block %d were released", at.Height())
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

// reapplyStored applies the stored changes of an evicted block to the states of its parent, which
// the caller holds. With whole, the result also has its chunks and receipts.
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
