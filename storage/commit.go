package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Commit stores a block with all its results. Once it has returned nil, the block survives a power
// cut (with Options.NoSync, only a kill of the process).
//
// The parent must be the flat head or a block above it. After ErrFull and ErrOrder nothing has
// changed and the store can be used further. After any other error the store takes no more writes.
func (s *Store) Commit(b *Block) error {
	_, err := s.CommitAll([]*Block{b})
	return err
}

// CommitAll is Commit for several blocks, parents first, with one sync for all of them. It returns
// the number n of stored blocks: blocks[:n] are stored. Readers see all n blocks at the same
// moment. An error concerns blocks[n], and has the meaning of an error of Commit for that block.
func (s *Store) CommitAll(blocks []*Block) (n int, err error) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.writable(); err != nil {
		return 0, err
	}
	next := *s.view.Load()
	written := make([]*pendingBlock, 0, len(blocks))
	var refused error
	for _, b := range blocks {
		parent, err := s.fits(&next, b, written)
		if err != nil {
			refused = err
			break
		}
		e, err := s.append(b)
		if err != nil {
			refused = err
			break
		}
		p := newPending(e, b, parent)
		written = append(written, p)
		next.add(p)
	}
	if len(written) == 0 {
		return 0, refused
	}
	if err := s.flushLog(); err != nil {
		if !IsFull(err) || s.writable() != nil {
			return 0, err
		}
		refused, next = err, *s.view.Load()
		kept := written[:0]
		// blocks in segments before the current one are on disk, because rotate syncs a segment
		for _, p := range written {
			if !s.log.end.before(p.entry.end()) {
				kept = append(kept, p)
				next.add(p)
			}
		}
		if written = kept; len(kept) == 0 {
			return 0, err
		}
	}
	for _, p := range written {
		s.enter(p)
	}
	s.view.Store(&next)
	return len(written), refused
}

// enter adds a stored block to the tree. The caller publishes the view afterwards.
func (s *Store) enter(p *pendingBlock) {
	parent := p.parent.Load()
	parent.children = append(parent.children, p)
	s.tree.add(p)
	s.tree.keys.build()
	s.trackResident(p)
	s.noteSegment(p.entry)
}

// noteSegment updates the greatest height in a log segment. The next advance of the flat head
// writes that height.
func (s *Store) noteSegment(e *entry) {
	at := e.at.Segment
	s.segments[at] = max(s.segments[at], e.head.Ref.Height)
}

// fits returns the parent of b, or an error if b may not be stored. The parent may be one of
// written, the blocks that the same call of CommitAll has already written.
func (s *Store) fits(v *view, b *Block, written []*pendingBlock) (parent *pendingBlock, err error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	named := func(ref BlockRef) *pendingBlock {
		for i := range written {
			if p := written[len(written)-1-i]; p.ref == ref {
				return p
			}
		}
		if p := s.tree.get(ref.Hash); p != nil && p.ref == ref {
			return p
		}
		return nil
	}
	switch {
	case v.empty:
		return nil, fmt.Errorf("%w: the store has no genesis yet", ErrOrder)
	case b.Ref == v.flatHead || named(b.Ref) != nil:
		return nil, fmt.Errorf("%w: block %v is stored already", ErrOrder, b.Ref)
	case b.Prev == v.flatHead:
		parent = v.base
	default:
		parent = named(b.Prev)
	}
	if parent == nil {
		return nil, fmt.Errorf("%w: parent %v of block %v is not stored, or is below the flat head %v", ErrOrder, b.Prev,
			b.Ref, v.flatHead)
	}
	if b.Final.IsZero() || b.Final == b.Ref || b.Final.Height <= v.flatHead.Height || v.ancestor(b.Final, parent) {
		return parent, nil
	}
	return nil, fmt.Errorf("%w: final block %v is not an ancestor of block %v", ErrOrder, b.Final, b.Ref)
}

// append writes the record without a sync. After an error nothing has changed, unless the log is
// broken.
func (s *Store) append(b *Block) (*entry, error) {
	by := recordBufs.Get().(*recordBuffers)
	w := b.encodeInto(by, s.o.NoCompression)
	payload, headLen := w.appendTo(by.payload[:0])
	defer by.done(w, payload)
	at, err := s.appendRecord(payload)
	if err != nil {
		return nil, err
	}
	return &entry{at: at, headLen: headLen, head: w.head}, nil
}

func (s *Store) appendRecord(payload []byte) (position, error) {
	at, err := s.log.append(payload)
	switch {
	case errors.Is(err, ErrFailed):
		_ = s.fail(err)
	case IsFull(err):
		s.space.noteFull(err, int64(len(payload)), false)
	}
	return at, err
}

// flushLog syncs the log. If flushLog returns ErrFull, it has removed the appended records that
// were not synced, and the store can be used further. The removal is not synced: a power cut before
// the next flush may bring the records back (see undoRecord).
func (s *Store) flushLog() error {
	err := s.log.flush()
	if IsFull(err) && !errors.Is(err, ErrFailed) {
		s.space.noteFull(err, 0, false)
		return err
	}
	return s.fail(err)
}

// undoRecord makes sure that a power cut cannot bring back a record whose write or sync failed with
// err. The log has cut the record off, but the cut is not synced. undoRecord is needed for records
// that take acknowledged blocks away. If its own sync fails too, the store accepts no writes until
// it is opened again, because opening syncs the log. undoRecord returns err, or ErrFailed.
func (s *Store) undoRecord(err error) error {
	if errors.Is(err, ErrFailed) {
		return err
	}
	if serr := s.log.syncCut(); serr != nil {
		return s.fail(fmt.Errorf("%w: %w, then %w", ErrFailed, err, serr))
	}
	return err
}

// Write stores rows of the engine's columns that belong to no block. Once Write has returned nil,
// the rows are as durable as a committed block.
func (s *Store) Write(b *Batch) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	if b.Len() == 0 {
		return nil
	}
	if s.view.Load().empty {
		return fmt.Errorf("%w: the store has no genesis yet", ErrOrder)
	}
	rows := &Batch{b: append([]byte(nil), b.b...), n: b.n}
	at, err := s.appendRecord(append([]byte{recordRows}, rows.b...))
	if err != nil {
		return err
	}
	if err := s.flushLog(); err != nil {
		return err
	}
	s.segments[at.Segment] = max(s.segments[at.Segment], s.view.Load().head.Height)
	s.tree.write(rows)
	s.rows = append(s.rows, rows)
	return nil
}

// Reader reads the engine's rows, for example EpochInfo.Get(s.Reader(), id). Safe for concurrent
// use.
func (s *Store) Reader() Getter { return rows{s} }

// rows resolves a row of the engine. The order of precedence is: the newest version that Write or a
// pending block of the head's branch wrote; the row of the index; the newest version that a block
// outside the head's branch wrote. Such a version is safe to return: its key names a block of the
// branch that wrote it, so no other branch has a row with this key.
type rows struct{ s *Store }

func (r rows) get(key []byte) ([]byte, error) {
	list := r.s.tree.put(key)
	if len(list) == 0 {
		return r.stored(key)
	}
	v := r.s.view.Load() // load the view after reading the tree, as type tree requires
	for _, x := range slices.Backward(list) {
		if x.owner == nil || x.owner.ref.Height > v.flatHead.Height && v.canonical(x.owner) {
			return valueOf(x.value)
		}
	}
	got, err := r.stored(key)
	if errors.Is(err, ErrNotFound) {
		return valueOf(list[len(list)-1].value)
	}
	return got, err
}

// stored returns the row of the index, or, in an overlay, of the parent.
func (r rows) stored(key []byte) ([]byte, error) {
	if p := r.s.parent; p != nil {
		return p.rowBelow(r.s.view.Load().flatHead, key)
	}
	return r.s.db.get(key)
}

// valueOf copies a row. If the row is nil, it was deleted, and valueOf returns ErrNotFound.
func valueOf(value []byte) ([]byte, error) {
	if value == nil {
		return nil, ErrNotFound
	}
	return bytes.Clone(value), nil
}

// rowsOf decodes a record of Write.
func rowsOf(payload []byte) (*Batch, error) {
	r := borsh.NewReader(payload)
	r.Byte()
	return parseBatch(r.Rest())
}
