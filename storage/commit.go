package storage

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Commit stores a block with all that came of it. When it returns nil the block survives a power cut (Options.NoSync: a
// kill). The parent must be the folded block or younger. On ErrFull and ErrOrder nothing has changed and the store goes on;
// after other errors it takes no more writes.
func (s *Store) Commit(b *Block) error {
	_, err := s.CommitAll([]*Block{b})
	return err
}

// CommitAll is Commit for several blocks, parents first, which share one sync. n of them, the first ones, are stored; readers
// see these together. An error is that of block n, for which it says what Commit would.
func (s *Store) CommitAll(blocks []*Block) (n int, err error) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.writable(); err != nil {
		return 0, err
	}
	old := s.view.Load()
	next := *old
	next.pending = clonePending(old.pending)
	written := make([]*entry, 0, len(blocks))
	var refused error
	for _, b := range blocks {
		e, err := s.write(&next, b)
		if err != nil {
			refused = err
			break
		}
		written = append(written, e)
		next.add(newPending(e, b), b)
	}
	if len(written) == 0 {
		return 0, refused
	}
	if err := s.log.flush(); err != nil {
		return 0, s.fail(err)
	}
	// From here on the blocks are stored: if the index refuses, the next Open takes them from the log.
	at := *old
	for i, e := range written {
		if err := s.enter(&at, e, blocks[i].Puts); err != nil {
			return 0, s.fail(err)
		}
	}
	s.view.Store(&next)
	return len(written), refused
}

// add takes up a stored block.
func (v *view) add(p *pendingBlock, b *Block) {
	v.pending[b.Ref.Hash] = p
	if b.Head {
		v.head, v.final = b.Ref, laterRef(v.final, b.Final)
	}
}

// write writes a block's record, which is yet to be synced; v is the view before it.
func (s *Store) write(v *view, b *Block) (*entry, error) {
	if err := s.fits(v, b); err != nil {
		return nil, err
	}
	if err := s.lookUpOld(v, b); err != nil {
		return nil, err
	}
	return s.append(b)
}

// enter writes what the index says about a block, whose record is synced; v is the tip before it, and then the one after.
func (s *Store) enter(v *view, e *entry, puts *Batch) error {
	var batch Batch
	if err := s.index(&batch, e, puts); err != nil {
		return err
	}
	switch {
	case e.head.IsHead && s.named && e.head.Prev == v.head: // no other name changes
		name(&batch, &e.head)
	case e.head.IsHead:
		if err := s.makeCanonical(&batch, &e.head); err != nil {
			return err
		}
	}
	s.tip(&batch, v, e)
	if err := s.db.write(&batch, false); err != nil {
		return err
	}
	if e.head.IsHead {
		v.head, v.final = e.head.Ref, laterRef(v.final, e.head.Final)
		s.named = true
	}
	return nil
}

// fits tells whether b may be stored.
func (s *Store) fits(v *view, b *Block) error {
	if err := b.check(); err != nil {
		return err
	}
	switch {
	case v.empty:
		return fmt.Errorf("%w: no genesis yet", ErrOrder)
	case v.pending[b.Ref.Hash] != nil:
		return fmt.Errorf("%w: block %v is stored already", ErrOrder, b.Ref)
	case b.Prev != v.folded && (v.pending[b.Prev.Hash] == nil || v.pending[b.Prev.Hash].ref != b.Prev):
		return fmt.Errorf("%w: parent %v of block %v is not stored, or is older than %v", ErrOrder, b.Prev, b.Ref, v.folded)
	}
	if b.Final.IsZero() || b.Final == b.Ref || b.Final.Height <= v.folded.Height {
		return nil
	}
	for p := v.pending[b.Prev.Hash]; p != nil; p = v.pending[p.prev.Hash] {
		if p.ref == b.Final {
			return nil
		}
	}
	return fmt.Errorf("%w: final block %v is no ancestor of %v", ErrOrder, b.Final, b.Ref)
}

// lookUpOld fills in the values before, where the engine did not know them; v is the view before the block.
func (s *Store) lookUpOld(v *view, b *Block) error {
	for i := range b.Shards {
		for j := range b.Shards[i].Changes {
			c := &b.Shards[i].Changes[j]
			if !c.OldUnknown {
				continue
			}
			old, err := s.oldValue(v, b, b.Shards[i].ID, c.Key)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			c.Old, c.OldUnknown = old, false
		}
	}
	return nil
}

// oldValue returns what a key had in the parent of b.
func (s *Store) oldValue(v *view, b *Block, shard primitives.ShardID, key []byte) ([]byte, error) {
	if x := splitOf(b.Splits, shard); x != nil {
		if len(key) > 0 && !x.inherits(shard, key[0]) {
			return nil, ErrNotFound
		}
		shard = x.Parent
	}
	return s.valueAt(v, b.Prev, shard, key)
}

// append writes the record, unsynced. An error leaves everything as it was, unless the log is broken.
func (s *Store) append(b *Block) (*entry, error) {
	w := b.encode()
	payload, headLen := w.bytes()
	at, err := s.log.append(payload)
	if err != nil {
		if errors.Is(err, ErrFailed) {
			_ = s.fail(err)
		}
		return nil, err
	}
	return &entry{at: at, headLen: headLen, head: w.head}, nil
}

// index gathers what the index says about a block because of its record.
func (s *Store) index(batch *Batch, e *entry, puts *Batch) error {
	h := &e.head
	entries.Put(batch, h.Ref, e)
	hashHeights.Put(batch, shortRef{h.Ref.Hash, h.Ref.Height}, &Nothing{})
	for i := range h.Shards {
		if sh := &h.Shards[i]; sh.HasChunk {
			chunkPlaces.Put(batch, pointer{sh.Chunk, h.Ref.Height, sh.ID, 0}, &Nothing{})
		}
	}
	if puts != nil {
		if err := puts.b.Replay(&batch.b); err != nil {
			return wrapIndex("puts", err)
		}
	}
	if s.highest == nil || e.at.Segment != s.segment {
		info, err := segments.Get(s.db, e.at.Segment)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		s.segment, s.highest = e.at.Segment, &info
	}
	s.highest.Highest = max(s.highest.Highest, h.Ref.Height)
	segments.Put(batch, e.at.Segment, s.highest)
	return nil
}

// tip writes the cell of the tip after a block; v is the one before.
func (s *Store) tip(batch *Batch, v *view, e *entry) {
	h := &e.head
	c := commitCell{Head: v.head, Final: v.final, Log: e.end()}
	if h.IsHead {
		c.Head, c.Final = h.Ref, laterRef(v.final, h.Final)
	}
	putCell(batch, cellCommit, &c)
}

func laterRef(a, b BlockRef) BlockRef {
	if b.Height > a.Height || a.IsZero() {
		return b
	}
	return a
}

// makeCanonical makes the branch of h the one that heights and ordinals name: what differs below it is replaced, what
// stands above it removed. It reads the index, which holds all ancestors of h.
func (s *Store) makeCanonical(batch *Batch, h *head) error {
	drop := func(ref BlockRef) error { return s.uncanonical(batch, ref) }
	// Above: left by a longer branch.
	if err := s.canonicalRange(h.Ref.Height+1, 1<<48, drop); err != nil {
		return err
	}
	branch := []*head{h} // to be named after all deletions: an ordinal may move to another height
	for !h.Prev.IsZero() {
		// Between: heights that this branch skips.
		if err := s.canonicalRange(h.Prev.Height+1, h.Ref.Height, drop); err != nil {
			return err
		}
		got, err := blockHeight.Get(s.db, h.Prev.Height)
		if err == nil && got == h.Prev.Hash {
			break
		}
		if err == nil {
			err = drop(BlockRef{h.Prev.Height, got})
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		e, err := entries.Get(s.db, h.Prev)
		if err != nil {
			return err
		}
		h = &e.head
		branch = append(branch, h)
	}
	for _, h := range branch {
		name(batch, h)
	}
	return nil
}

// name makes a block the one of its height and ordinal.
func name(batch *Batch, h *head) {
	blockHeight.Put(batch, h.Ref.Height, &h.Ref.Hash)
	ordinal := Uint64(h.Ref.Height)
	blockOrdinal.Put(batch, h.Ordinal, &ordinal)
}

// canonicalRange calls f for the canonical blocks of heights in [lo, hi).
func (s *Store) canonicalRange(lo, hi primitives.Height, f func(BlockRef) error) error {
	var ferr error
	err := blockHeight.Scan(s.db, appendHeight(nil, lo), appendHeight(nil, hi), func(key []byte, hash primitives.Hash) bool {
		ferr = f(BlockRef{heightOf(key), hash})
		return ferr == nil
	})
	return errors.Join(err, ferr)
}

// uncanonical takes the names of a block that lost.
func (s *Store) uncanonical(batch *Batch, ref BlockRef) error {
	blockHeight.Delete(batch, ref.Height)
	e, err := entries.Get(s.db, ref)
	if errors.Is(err, ErrNotFound) { // a replay met a name whose block a crash cut off; it comes again
		return nil
	}
	if err != nil {
		return err
	}
	at, err := blockOrdinal.Get(s.db, e.head.Ordinal)
	if err == nil && primitives.Height(at) == ref.Height {
		blockOrdinal.Delete(batch, e.head.Ordinal)
	}
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return err
}

// dropStale removes replayed blocks that a fold had forgotten already.
func (s *Store) dropStale(seen []BlockRef) error {
	var batch Batch
	for _, ref := range seen {
		if ref.Height > s.fold.Folded.Height {
			continue
		}
		hash, err := blockHeight.Get(s.db, ref.Height)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err == nil && hash == ref.Hash {
			continue
		}
		e, err := entries.Get(s.db, ref)
		if err != nil {
			return err
		}
		forget(&batch, &e.head, nil)
	}
	if batch.Len() == 0 {
		return nil
	}
	return s.db.write(&batch, false)
}

// reindex puts a record into the index again, while the store opens.
func (s *Store) reindex(e *entry, data []byte) error {
	var puts *Batch
	for i := range e.head.Sections {
		sec := &e.head.Sections[i]
		if sec.Kind != kindPuts || len(sec.Frames) != 1 {
			continue
		}
		f := sec.Frames[0]
		if sec.offset+f.Stored > len(data) {
			return damaged("record of block %v is too short", e.head.Ref)
		}
		items, err := unpackFrame(f, data[sec.offset:sec.offset+f.Stored])
		if err != nil || len(items) != 1 {
			return errors.Join(damaged("puts of block %v", e.head.Ref), err)
		}
		puts = &Batch{}
		if err := puts.b.Load(items[0]); err != nil {
			return damaged("puts of block %v: %w", e.head.Ref, err)
		}
	}
	var batch Batch
	if err := s.index(&batch, e, puts); err != nil {
		return err
	}
	v := s.view.Load()
	s.log.end = e.end()
	var names Batch
	isHead := e.head.IsHead
	if isHead {
		switch err := s.makeCanonical(&names, &e.head); {
		case errors.Is(err, ErrNotFound): // a child of a block that lost and was forgotten: so was this one
			isHead = false
		case err != nil:
			return err
		}
	}
	if isHead {
		if err := names.b.Replay(&batch.b); err != nil {
			return wrapIndex("names", err)
		}
		s.tip(&batch, v, e)
	}
	if err := s.db.write(&batch, false); err != nil {
		return err
	}
	if isHead {
		next := *v
		next.head, next.final = e.head.Ref, laterRef(v.final, e.head.Final)
		s.view.Store(&next)
	}
	return nil
}
