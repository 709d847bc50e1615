package storage

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
)

// MinKeptEpochs is the least that garbage collection may keep (nearcore chain/chain/src/garbage_collection.rs).
const MinKeptEpochs = 3

// CollectOptions bound what Collect takes away.
type CollectOptions struct {
	// KeepEpochs is gc_num_epochs_to_keep, the head's epoch included; at least MinKeptEpochs.
	KeepEpochs int
	// Before: only blocks with an earlier timestamp go: now less gc_min_age, in nanoseconds since 1970.
	Before uint64
	// MaxHeights bounds the work of one call.
	MaxHeights int
}

// Collected is what a call of Collect did.
type Collected struct {
	Tail   primitives.Height // the lowest height that is kept
	Blocks int               // removed
	More   bool              // another call would remove more
}

// collectBatch is how many bytes of deletions go into one batch.
const collectBatch = 1 << 20

// Collect removes the oldest blocks: an epoch goes once KeepEpochs younger ones, or their beginnings, are folded, so that
// the state at the first block that stays can still be read. Genesis itself stays. An archival node does not call it.
// Reads go on meanwhile; those of a block that goes may fail with ErrGone.
func (s *Store) Collect(o CollectOptions) (Collected, error) {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	if err := s.writable(); err != nil {
		return Collected{}, err
	}
	if err := s.endAllLeaving(); err != nil {
		return Collected{}, s.fail(err)
	}
	v := s.view.Load()
	done := Collected{Tail: v.tail}
	stop, err := s.collectStop(max(o.KeepEpochs, MinKeptEpochs))
	if err != nil || stop <= v.tail {
		return done, err
	}
	var batch Batch
	height := v.tail
	for end := v.tail + primitives.Height(max(o.MaxHeights, 1)); height < min(stop, end) && batch.Size() < collectBatch; {
		n, young, err := s.collectHeight(&batch, height, o.Before)
		if err != nil {
			return done, err
		}
		if young {
			stop = height
			break
		}
		done.Blocks += n
		height++
	}
	if height == v.tail {
		return done, nil
	}
	if err := s.dropEntries(&batch, v.tail, height); err != nil {
		return done, err
	}
	if err := s.collectShards(&batch, height); err != nil {
		return done, err
	}
	putCell(&batch, cellTail, Uint64(height))
	// Readers learn first: whoever then misses something, or has a snapshot without it, finds the new tail.
	s.commitMu.Lock()
	next := *s.view.Load()
	next.tail = height
	s.view.Store(&next)
	s.commitMu.Unlock()
	if err := s.step(&batch); err != nil {
		return done, s.fail(err)
	}
	done.Tail, done.More = height, height < stop
	s.cache.clear()
	return done, s.dropSegments(height)
}

// collectStop returns the first height that must stay: the beginning of the oldest epoch that is kept.
func (s *Store) collectStop(keep int) (primitives.Height, error) {
	var first []primitives.Height
	err := epochFirst.Scan(s.db, nil, nil, func(key []byte, _ primitives.Hash) bool {
		first = append(first, heightOf(key))
		return true
	})
	if err != nil || len(first) < keep {
		return 0, err
	}
	stop := min(first[len(first)-keep], s.fold.Folded.Height)
	for _, c := range s.view.Load().shards { // what a shard that came in has yet to take over stays
		if !c.Left && !c.With {
			stop = min(stop, c.At.Height)
		}
	}
	return stop, nil
}

// collectHeight gathers the deletions of a height, but for the entries themselves. young: its block must stay for its age.
func (s *Store) collectHeight(batch *Batch, height primitives.Height, before uint64) (n int, young bool, err error) {
	var all []entry
	lo := appendHeight(nil, height)
	err = entries.Scan(s.db, lo, PrefixEnd(lo), func(_ []byte, e entry) bool {
		all = append(all, e)
		return true
	})
	if err != nil {
		return 0, false, err
	}
	for i := range all {
		if all[i].head.Timestamp >= before {
			return 0, true, nil
		}
	}
	canonical, err := blockHeight.Get(s.db, height)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, false, err
	}
	for i := range all {
		e := &all[i]
		if e.head.Prev.IsZero() {
			continue // genesis
		}
		n++
		if e.head.Ref.Hash == canonical {
			child, err := s.child(e.head.Ref)
			if err == nil {
				err = s.uncount(batch, e, child)
			}
			if err != nil {
				return n, false, err
			}
		}
		dropNames(batch, &e.head)
	}
	return n, false, nil
}

// dropNames removes by what a block of any branch is found.
func dropNames(batch *Batch, h *head) {
	hashHeights.Delete(batch, shortRef{h.Ref.Hash, h.Ref.Height})
	for j := range h.Shards {
		if sh := &h.Shards[j]; sh.HasChunk {
			chunkPlaces.Delete(batch, pointer{sh.Chunk, h.Ref.Height, sh.ID, 0})
		}
	}
}

// child loads the canonical child of a canonical block; nil: there is none.
func (s *Store) child(ref BlockRef) (*pendingBlock, error) {
	next, err := s.NextBlock(ref.Height + 1)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := s.entry(next)
	if err != nil {
		return nil, err
	}
	return s.loadPending(e)
}

// uncount removes what folding a canonical block added: Undo, the pointers, its names.
func (s *Store) uncount(batch *Batch, e *entry, child *pendingBlock) error {
	p, err := s.loadPending(e)
	if err != nil {
		return err
	}
	d := p.body.Load()
	var other *body
	if child != nil {
		other = child.body.Load()
	}
	executed := executedBy(d, other)
	for _, late := range s.lateEntries(p.ref) {
		executed = func(primitives.Hash) bool { return false } // all were written
		if err := s.addLate(d, late); err != nil {
			return err
		}
		lates.Delete(batch, lateKey{p.ref, late.head.Shards[0].ID})
	}
	d.sortKeys()
	for i := range d.keys {
		undo.Delete(batch, undoKey{d.keys[i].flat, p.ref.Height})
	}
	remove := func(c *Column[pointer, Nothing], k pointer) { c.Delete(batch, k) }
	d.eachPointer(p.ref.Height, remove)
	d.eachReceipt(p.ref.Height, executed, remove)
	blockHeight.Delete(batch, p.ref.Height)
	collected.Put(batch, p.ref.Height, &p.ref.Hash)
	blockOrdinal.Delete(batch, e.head.Ordinal)
	if !e.head.Prev.IsZero() {
		epochFirst.Delete(batch, p.ref.Height)
	}
	return nil
}

// executedBy tells of ids whether one of two blocks executes them; the second may be nil.
func executedBy(p, child *body) func(primitives.Hash) bool {
	set := map[primitives.Hash]bool{}
	for _, b := range []*body{p, child} {
		if b == nil {
			continue
		}
		for i := range b.shards {
			for _, id := range b.shards[i].outcomes {
				set[id] = true
			}
		}
	}
	return func(id primitives.Hash) bool { return set[id] }
}

// dropEntries removes the entries of heights that chunks above the new tail can't refer to any more.
func (s *Store) dropEntries(batch *Batch, oldTail, newTail primitives.Height) error {
	back := func(h primitives.Height) primitives.Height { return h - min(h, ReceiptsReach) }
	var begin Uint64
	if _, err := getCell(s.db, cellBegin, &begin); err != nil {
		return err
	}
	from := back(oldTail)
	if primitives.Height(begin) > back(oldTail) { // else the blocks that it began with are gone
		from = 0
	}
	return entries.Scan(s.db, appendHeight(nil, from), appendHeight(nil, back(newTail)), func(_ []byte, e entry) bool {
		h := &e.head
		if h.Prev.IsZero() {
			return true
		}
		entries.Delete(batch, h.Ref)
		if h.Ref.Height < primitives.Height(begin) { // nobody has collected it by its height
			dropNames(batch, h)
			blockHeight.Delete(batch, h.Ref.Height)
			blockOrdinal.Delete(batch, h.Ordinal)
			epochFirst.Delete(batch, h.Ref.Height)
			collected.Put(batch, h.Ref.Height, &h.Ref.Hash)
		}
		return true
	})
}

// dropSegments removes the segments of the log that hold nothing above the tail, but the first, which is genesis's own.
func (s *Store) dropSegments(tail primitives.Height) error {
	var gone []uint32
	err := segments.Scan(s.db, nil, nil, func(key []byte, info segmentInfo) bool {
		n := segmentNumber(key)
		if n >= s.fold.From.Segment {
			return false
		}
		if n > 0 && info.Highest+ReceiptsReach < tail {
			gone = append(gone, n)
		}
		return true
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	var batch Batch
	for _, n := range gone {
		if err := s.log.remove(n); err != nil {
			return err
		}
		segments.Delete(&batch, n)
	}
	return s.fail(s.step(&batch)) // lost: the next call removes what is not there
}
