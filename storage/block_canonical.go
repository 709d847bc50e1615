package storage

import (
	"cmp"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// view is where the chain stands, for readers; it is replaced, never changed.
type view struct {
	head, final  BlockRef
	flatHead     BlockRef
	overlayFinal BlockRef // what was final when a child began; zero: it is none
	tail         primitives.Height
	empty        bool                             // no genesis yet
	shards       map[primitives.ShardID]shardCell // that are not, or were not always, where the store is; never changed

	base  *pendingBlock   // the folded block
	canon []*pendingBlock // the head's branch above it, ascending; never written again below its length
}

// canonicalAt returns the block of the head's branch at a height above the folded one; nil: it was skipped, or is to come.
func (v *view) canonicalAt(height primitives.Height) *pendingBlock {
	i, ok := slices.BinarySearchFunc(v.canon, height, func(p *pendingBlock, h primitives.Height) int { return cmp.Compare(p.ref.Height, h) })
	if !ok {
		return nil
	}
	return v.canon[i]
}

// canonical tells whether a pending block is the head or one of its ancestors.
func (v *view) canonical(p *pendingBlock) bool { return v.canonicalAt(p.ref.Height) == p }

// ancestor tells whether a block above the folded one is p or one of its ancestors. Beside the head's branch it walks.
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

// branch is the way from a block above the folded one down to that, as a view had it.
type branch struct {
	v    *view
	side []*pendingBlock   // of these blocks those that are not canonical, the newest first
	from primitives.Height // of the newest canonical one, or of the folded block
}

// branchOf returns the branch of a block; false: it does not lead to the folded block.
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

// hasShard returns whether a block above the folded one is of the branch.
func (b *branch) has(q *pendingBlock) bool {
	if q.ref.Height <= b.from {
		return b.v.canonicalAt(q.ref.Height) == q
	}
	i, ok := slices.BinarySearchFunc(b.side, q.ref.Height, func(p *pendingBlock, h primitives.Height) int { return cmp.Compare(h, p.ref.Height) })
	return ok && b.side[i] == q
}

// add takes up a stored block of the tree.
func (v *view) add(p *pendingBlock) {
	if h := &p.entry.head; h.IsHead {
		v.head, v.final = p.ref, laterRef(v.final, h.Final)
		v.follow(p)
	}
}

// follow makes the branch of p, which becomes the head, the canonical one.
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
	v.canon = slices.Concat(v.canon[:kept], branch) // fresh memory: readers have the old one
}

func laterRef(a, b BlockRef) BlockRef {
	if b.Height > a.Height || a.IsZero() {
		return b
	}
	return a
}
