package storage

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// A record of a rewind is a type and the block that became the head again. What the log has before it, beside that block and its
// ancestors, never was: a start reads it and forgets it there. So going back costs one small record, and is whole or has not happened.

// isRewind tells whether a record is one of a rewind.
func isRewind(payload []byte) bool {
	return payload[0] == recordRewind || payload[0] == recordRewind+recordAfterUnsynced
}

// rewindOf reads a record of a rewind.
func rewindOf(payload []byte) (BlockRef, error) {
	r := borsh.NewReader(payload)
	r.Byte()
	to := readRef(r)
	return to, r.Close()
}

// Rewind makes a block of the head's branch the head again, which is the folded one or above it. Whatever was stored behind it on this
// branch, and all other branches, are gone when it returns nil, for good; their heights may come again. Rows of Write stay. On ErrFull and
// ErrOrder nothing has changed.
func (s *Store) Rewind(to BlockRef) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	next := *s.view.Load()
	p, err := next.canonicalBlock(to)
	if err != nil {
		return err
	}
	if len(next.shards) > 0 { // where they stand is no part of this
		return fmt.Errorf("%w: back to %v, where shards have come or gone beside the others", ErrOrder, to)
	}
	at, err := s.appendRecord(appendRef([]byte{recordRewind}, to))
	if err != nil {
		return err
	}
	if err := s.flushLog(); err != nil {
		return err
	}
	s.segments[at.Segment] = max(s.segments[at.Segment], next.head.Height)
	next.rewind(p)
	s.view.Store(&next)
	s.dropDescendants(p)
	return nil
}

// recoverRewind does it again, while the store opens.
func (s *Store) recoverRewind(v *view, at position, payload []byte) error {
	to, err := rewindOf(payload)
	if err != nil {
		return err
	}
	p, err := v.canonicalBlock(to)
	if err != nil {
		return damaged("the log goes back to a block that it does not have: %w", err)
	}
	s.segments[at.Segment] = max(s.segments[at.Segment], v.head.Height)
	v.rewind(p)
	s.dropDescendants(p)
	return nil
}

// canonicalBlock finds a block of the head's branch, from the folded one on.
func (v *view) canonicalBlock(ref BlockRef) (*pendingBlock, error) {
	p := v.canonicalAt(ref.Height)
	if ref.Height == v.flatHead.Height {
		p = v.base
	}
	if v.empty || p == nil || p.ref != ref {
		return nil, fmt.Errorf("%w: back to %v, which is not between the folded block %v and the head %v", ErrOrder, ref, v.flatHead, v.head)
	}
	return p, nil
}

// rewind makes p the head.
func (v *view) rewind(p *pendingBlock) {
	v.head = p.ref
	v.final = v.base.entry.head.Final
	switch {
	case !v.overlayFinal.IsZero():
		v.final = v.overlayFinal
	case !v.base.entry.head.Prev.IsZero(): // whatever is folded was final
		v.final = laterRef(v.final, v.flatHead)
	}
	n := 0
	for n < len(v.canon) && v.canon[n].ref.Height <= p.ref.Height {
		n++
	}
	if n > 0 {
		v.final = laterRef(v.final, p.entry.head.Final)
	}
	v.canon = append([]*pendingBlock(nil), v.canon[:n]...) // fresh memory: readers have the old one
}

// dropDescendants takes from the tree what is neither p nor one of its ancestors.
func (s *Store) dropDescendants(p *pendingBlock) {
	for _, q := range p.children {
		s.dropBranch(q)
	}
	p.children = nil
	for x := p.parent.Load(); x != nil; p, x = x, x.parent.Load() {
		for _, q := range x.children {
			if q != p {
				s.dropBranch(q)
			}
		}
		x.children = append(x.children[:0], p)
	}
	s.tree.sweep()
	s.forgetBodies()
}
