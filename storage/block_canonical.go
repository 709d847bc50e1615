package storage

import (
	"cmp"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// view is an immutable snapshot of the chain's canonical state for readers. A writer publishes a
// new view; a published view never changes.
type view struct {
	head, final  BlockRef
	flatHead     BlockRef // the index holds the state after this block
	overlayFinal BlockRef // last final block when an overlay was created; zero if the store is no overlay
	tail         primitives.Height
	empty        bool // true: the store has no genesis block yet
	// shards holds each shard whose state is, or once was, at another block than the flat head. The
	// map is immutable.
	shards map[primitives.ShardID]shardCell

	base *pendingBlock // block of the flat head, whose state the index holds
	// canon is the head's branch above the flat head, ascending. Views published before share the
	// array of canon, so elements are appended but never overwritten.
	canon []*pendingBlock
}

// canonicalAt returns the block of the head's branch at a height above the flat head. canonicalAt
// returns nil if the height was skipped or lies above the head.
func (v *view) canonicalAt(height primitives.Height) *pendingBlock {
	i, ok := slices.BinarySearchFunc(v.canon, height,
		func(p *pendingBlock, h primitives.Height) int { return cmp.Compare(p.ref.Height, h) })
	if !ok {
		return nil
	}
	return v.canon[i]
}

// canonical returns whether a pending block is the head or one of its ancestors.
func (v *view) canonical(p *pendingBlock) bool { return v.canonicalAt(p.ref.Height) == p }

// ancestor returns whether ref, a block above the flat head, is p or an ancestor of p. The method
// follows parent pointers only outside the head's branch.
func (v *view) ancestor(ref BlockRef, p *pendingBlock) bool {
	for p != nil && p.ref.Height >= ref.Height {
		if p.ref == ref {
			return true
		}
		if v.canonical(p) {
			q := v.canonicalAt(ref.Height)
			return q != nil && q.ref == ref
		}
		p = p.parent.Load()
	}
	return false
}

// branch is the path from a block above the flat head down to the flat head, as of one view.
type branch struct {
	v    *view
	side []*pendingBlock   // blocks of the path that are not canonical, newest first
	from primitives.Height // height of the newest canonical block of the path, or of the flat head
}

// branchOf returns the branch of a block. whole is false if the branch does not lead to the flat
// head.
func (v *view) branchOf(p *pendingBlock) (b branch, whole bool) {
	b.v = v
	for p != nil && p != v.base && !v.canonical(p) {
		b.side = append(b.side, p)
		p = p.parent.Load()
	}
	if p == nil {
		return b, false
	}
	b.from = p.ref.Height
	return b, true
}

// has returns whether a block above the flat head is on the branch.
func (b *branch) has(q *pendingBlock) bool {
	if q.ref.Height <= b.from {
		return b.v.canonicalAt(q.ref.Height) == q
	}
	i, ok := slices.BinarySearchFunc(b.side, q.ref.Height,
		func(p *pendingBlock, h primitives.Height) int { return cmp.Compare(h, p.ref.Height) })
	return ok && b.side[i] == q
}

// add adds a stored block to the view.
func (v *view) add(p *pendingBlock) {
	if h := &p.entry.head; h.IsHead {
		v.head, v.final = p.ref, laterRef(v.final, h.Final)
		v.follow(p)
	}
}

// follow makes the branch of p, the new head, the canonical branch.
func (v *view) follow(p *pendingBlock) {
	n := len(v.canon)
	if n == 0 && p.parent.Load() == v.base || n > 0 && p.parent.Load() == v.canon[n-1] {
		v.canon = append(v.canon, p)
		return
	}
	var branch []*pendingBlock
	for p != nil && p != v.base && !v.canonical(p) {
		branch = append(branch, p)
		p = p.parent.Load()
	}
	kept := 0
	if p != nil && p != v.base {
		kept = 1 + slices.Index(v.canon, p)
	}
	slices.Reverse(branch)
	// Use fresh memory, because readers hold the old slice.
	v.canon = slices.Concat(v.canon[:kept], branch)
}

func laterRef(a, b BlockRef) BlockRef {
	if b.Height > a.Height || a.IsZero() {
		return b
	}
	return a
}
