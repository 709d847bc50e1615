package engine

import (
	"fmt"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// reshardChildren are the states with which the shards of a new layout start after a block. The
// states are computed once, at the first request.
type reshardChildren struct {
	shards []ShardState
	shared []*sharedParent
}

// sharedParent is the part of a split shard's trie that one child keeps. The nodes of that part are
// in the forest of the split shard. The child's forest copies each node when the node is first
// read. When the last block before the split is released, the sharedParent is cleared. Otherwise
// nodes that were never read would keep the split shard's forest in memory.
type sharedParent struct {
	// last block before the split, held while whole is used; nil: the block was released
	of    atomic.Pointer[BlockNode]
	whole atomic.Pointer[trie.Root]
}

// use calls f with the root of the shared part. use returns false if the shared part was released.
func (l *sharedParent) use(f func(*trie.Root) error) (bool, error) {
	at := l.of.Load()
	if at == nil || !at.Acquire() {
		return false, nil
	}
	defer at.Release()
	return true, f(l.whole.Load())
}

// inherited returns the states with which children of parent start, by shard index in layout. If
// layout is the layout of parent, the result is the states after parent. If the layout changes, the
// result is the states that reshard computes. The caller holds the states of parent. Safe for
// concurrent use.
func (e *Engine) inherited(parent *BlockNode, layout primitives.ShardLayout) ([]ShardState, error) {
	if layout.Equal(parent.Layout) {
		return parent.Shards, nil
	}
	parent.childrenMu.Lock()
	defer parent.childrenMu.Unlock()
	if parent.children == nil {
		h, err := e.reshard(parent, layout)
		if err != nil {
			h.release(parent)
			return nil, fmt.Errorf("engine: shard layout after block %d: %w", parent.Height(), err)
		}
		parent.children = h
	}
	return parent.children.shards, nil
}

// release releases the states that only the new shards use.
func (h *reshardChildren) release(parent *BlockNode) {
	for i := range h.shards {
		if s := &h.shards[i]; s.root != nil && !parent.Layout.Has(s.ID) {
			s.root.Release()
		}
	}
	for _, l := range h.shared {
		l.whole.Load().Release()
		l.of.Store(nil)
		l.whole.Store(nil)
	}
}

// reshard computes the states with which the shards of the new layout start (nearcore
// chain/chain/src/resharding/manager.rs:234). It returns ErrReshard if the change is not a split of
// one shard.
func (e *Engine) reshard(parent *BlockNode, layout primitives.ShardLayout) (*reshardChildren, error) {
	h := &reshardChildren{shards: make([]ShardState, layout.NumShards())}
	if layout.Tag() < 2 || len(layout.SplitParents()) > 1 {
		return h, fmt.Errorf("%w: from %v to %v, must split exactly one shard", ErrReshard, parent.Layout, layout)
	}
	for i, id := range layout.ShardIDs() {
		from, err := layout.Parent(id)
		if err != nil {
			return h, err
		}
		index, err := parent.Layout.Index(from)
		if err != nil {
			return h, err
		}
		prev := &parent.Shards[index]
		if !prev.Held() || from != id && !e.tracks(layout, id) {
			h.shards[i] = ShardState{ID: id}
			continue
		}
		h.shards[i] = ShardState{ID: id, Extra: prev.Extra, Outgoing: prev.Outgoing, OutgoingAt: prev.OutgoingAt,
			OutgoingOf: prev.OutgoingOf, root: prev.root}
		if from == id {
			continue
		}
		h.shards[i].root = nil
		if err := e.makeChild(h, i, parent, prev, layout); err != nil {
			return h, fmt.Errorf("split off shard %d from shard %d: %w", id, from, err)
		}
	}
	return h, nil
}

// makeChild computes the state with which one child of a split shard starts: its part of the trie
// in a forest of its own, and a chunk extra with its part of the congestion info. The outgoing
// receipts of the shard's last chunk belong to the child with the smaller id.
func (e *Engine) makeChild(
	h *reshardChildren,
	i int,
	parent *BlockNode,
	prev *ShardState,
	layout primitives.ShardLayout,
) error {
	s := &h.shards[i]
	keep, err := childIntervals(layout, prev.ID, s.ID)
	if err != nil {
		return err
	}
	family, _ := layout.Children(prev.ID)
	left := family[0] == s.ID
	whole, err := e.splitOff(parent, prev, s.ID, left, keep)
	if err != nil {
		return err
	}
	l := new(sharedParent)
	l.of.Store(parent)
	l.whole.Store(whole)
	h.shared = append(h.shared, l)
	forest := trie.New(e.o.Tries)
	forest.SetSource(e.childSource(l, ref(parent), prev.ID, keep, accounts(layout, primitives.ShardIndex(i))))
	if s.root, err = forest.Inherit(whole); err != nil {
		return err
	}
	if s.ID != min(family[0], family[1]) {
		s.Outgoing, s.OutgoingAt = nil, primitives.Hash{}
	}
	extra := *prev.Extra
	s.Extra, extra.StateRoot = &extra, whole.Hash()
	if !left {
		if err := dropBuffered(&extra, stateTrie{prev.root}, parent.Layout); err != nil {
			return err
		}
	}
	extra.CongestionInfo.AllowedShard = childAllowedShard(layout, primitives.ShardIndex(i))
	return nil
}

// childAllowedShard returns the allowed shard (CongestionInfo) with which a child of a split
// starts. nearcore computes it from the shard index alone, without the height.
func childAllowedShard(layout primitives.ShardLayout, i primitives.ShardIndex) uint16 {
	return uint16(congestion.AllowedShard(0, i, layout.ShardIDs()))
}

// childIntervals returns the key ranges of the trie that one of the two children of a split shard
// keeps.
func childIntervals(layout primitives.ShardLayout, parent, child primitives.ShardID) ([]trie.Interval, error) {
	family, _ := layout.Children(parent)
	if len(family) != 2 {
		return nil, fmt.Errorf("%w: shard %d has %d children, must have 2", ErrReshard, parent, len(family))
	}
	left, err := layout.Index(family[0])
	if err != nil {
		return nil, err
	}
	b := layout.Boundaries()
	if int(left) >= len(b) {
		return nil, fmt.Errorf("%w: shard %d has no upper boundary account", ErrReshard, family[0])
	}
	return trie.SplitIntervals(b[left], child == family[0]), nil
}

// dropBuffered subtracts the buffered receipts from the congestion info of the right child, because
// the left child inherits all buffered receipts.
func dropBuffered(x *chain.ChunkExtra, t state.Trie, layout primitives.ShardLayout) error {
	u, account := state.NewUnrecorded(t), congestion.Account{Info: &x.CongestionInfo}
	for _, to := range layout.ShardIDs() {
		g, err := u.Groups(to)
		if err != nil {
			return err
		}
		if g == nil {
			continue
		}
		gas, ok := x.CongestionInfo.BufferedReceiptsGas.Sub(g.TotalGas)
		if !ok {
			return fmt.Errorf("%w: the buffered receipt groups for shard %d have more gas than all buffered receipts", ErrInconsistent, to)
		}
		x.CongestionInfo.BufferedReceiptsGas = gas
		if err := account.RemoveBytes(g.TotalSize); err != nil {
			return err
		}
	}
	if !x.CongestionInfo.BufferedReceiptsGas.IsZero() {
		return fmt.Errorf("%w: the receipt groups lack %v gas of the buffered receipts",
			ErrInconsistent, x.CongestionInfo.BufferedReceiptsGas)
	}
	return nil
}

// childSource returns the source from which a child shard's forest loads nodes that the forest has
// not copied yet: the split shard's state after its last block. Until the flat state contains the
// child, that block is held and the source reads from memory. Afterwards the source reads from the
// store's history.
func (e *Engine) childSource(
	l *sharedParent,
	at storage.BlockRef,
	of primitives.ShardID,
	keep []trie.Interval,
	r storage.AccountRange,
) trie.Source {
	lend := func(use func(*trie.Root) error) error {
		_, err := l.use(use)
		return err
	}
	return trie.Source{
		Borrow: lend,
		Rows:   e.rows(of),
		Load: func(from, to []byte, yield func(key, value []byte) bool) error {
			if there, err := l.use(func(whole *trie.Root) error { return whole.Range(from, to, yield) }); there {
				return err
			}
			return e.store.Load(at, of, r, from, to, func(key, value []byte) bool {
				return !trie.Kept(keep, key) || yield(key, value)
			})
		},
	}
}

// accounts returns the range of accounts in the shard with index i.
func accounts(layout primitives.ShardLayout, i primitives.ShardIndex) (r storage.AccountRange) {
	b := layout.Boundaries()
	if i > 0 && int(i) <= len(b) {
		r.Lo = b[i-1]
	}
	if int(i) < len(b) {
		r.Hi = b[i]
	}
	return r
}

// Accounts returns the range of accounts in the shard with this id.
func Accounts(layout primitives.ShardLayout, id primitives.ShardID) (storage.AccountRange, error) {
	i, err := layout.Index(id)
	return accounts(layout, i), err
}

// splits returns the shards that are split between two layouts, as the store expects them.
func splits(from, to primitives.ShardLayout) (out []storage.Split) {
	if from.Equal(to) {
		return nil
	}
	for _, parent := range to.SplitParents() {
		if family, _ := to.Children(parent); from.Has(parent) && len(family) == 2 {
			out = append(out, storage.Split{Parent: parent, Left: family[0], Right: family[1]})
		}
	}
	return out
}
