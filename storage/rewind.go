package storage

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// A rewind is a record in the log: a type, and the block that became the head again. A rewind voids
// all blocks before it in the log except the block that became the head and that block's ancestors.
// When Open reads the rewind, Open drops the voided blocks that it has read so far. So a rewind
// takes one small record and is atomic. Rejected: truncating the log, which takes several steps and
// is not atomic.

// isRewind returns whether a record is a rewind.
func isRewind(payload []byte) bool {
	return payload[0] == recordRewind || payload[0] == recordRewind+recordAfterUnsynced
}

// rewindOf decodes a rewind.
func rewindOf(payload []byte) (BlockRef, error) {
	r := borsh.NewReader(payload)
	r.Byte()
	to := readRef(r)
	return to, r.Close()
}

// Rewind makes a block of the head's branch the head again. The block must be the flat head or
// above the flat head.
//
// Once Rewind has returned nil, all blocks above the flat head except the block `to` and its
// ancestors are removed for good. New blocks may use the heights of removed blocks. Rows that Write
// stored remain. If Rewind returns ErrFull or ErrOrder, nothing has changed.
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
	if len(next.shards) > 0 { // a rewind does not support shards whose state is at another block
		return fmt.Errorf("%w: cannot rewind to %v while a shard is catching up or after a shard was untracked",
			ErrOrder, to)
	}
	at, err := s.appendRecord(appendRef([]byte{recordRewind}, to))
	if err == nil {
		err = s.flushLog()
	}
	if err != nil {
		return s.undoRecord(err)
	}
	s.segments[at.Segment] = max(s.segments[at.Segment], next.head.Height)
	next.rewind(p)
	s.view.Store(&next)
	s.dropDescendants(p)
	return nil
}

// recoverRewind applies a rewind while the store opens.
func (s *Store) recoverRewind(v *view, at position, payload []byte) error {
	to, err := rewindOf(payload)
	if err != nil {
		return err
	}
	p, err := v.canonicalBlock(to)
	if err != nil {
		return damaged("the log rewinds to a block that is not in it: %w", err)
	}
	s.segments[at.Segment] = max(s.segments[at.Segment], v.head.Height)
	v.rewind(p)
	s.dropDescendants(p)
	return nil
}

// canonicalBlock returns a block of the head's branch that is the flat head or above the flat head.
func (v *view) canonicalBlock(ref BlockRef) (*pendingBlock, error) {
	p := v.canonicalAt(ref.Height)
	if ref.Height == v.flatHead.Height {
		p = v.base
	}
	if v.empty || p == nil || p.ref != ref {
		return nil, fmt.Errorf("%w: cannot rewind to %v, which is not between the flat head %v and the head %v",
			ErrOrder, ref, v.flatHead, v.head)
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
	case !v.base.entry.head.Prev.IsZero(): // the flat head's block is final unless that block is the genesis
		v.final = laterRef(v.final, v.flatHead)
	}
	n := 0
	for n < len(v.canon) && v.canon[n].ref.Height <= p.ref.Height {
		n++
	}
	if n > 0 {
		v.final = laterRef(v.final, p.entry.head.Final)
	}
	v.canon = append([]*pendingBlock(nil), v.canon[:n]...) // copy, because readers hold the old slice
}

// dropDescendants removes from the tree every block that is neither p nor an ancestor of p.
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
