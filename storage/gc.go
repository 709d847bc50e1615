package storage

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
)

// MinKeptEpochs is the least that garbage collection may keep (nearcore chain/chain/src/garbage_collection.rs).
const MinKeptEpochs = 3

// GCOptions bound what Collect takes away.
type GCOptions struct {
	// KeepEpochs is gc_num_epochs_to_keep, the head's epoch included; at least MinKeptEpochs.
	KeepEpochs int
	// From: blocks from this height on stay, whatever their epoch; 0: none for that.
	From primitives.Height
	// Before: only blocks with an earlier timestamp go: now less gc_min_age, in nanoseconds since 1970.
	Before uint64
	// MaxHeights bounds the work of one call.
	MaxHeights int
}

// GCResult is what a call of Collect did.
type GCResult struct {
	Tail   primitives.Height // the lowest height that is kept
	Blocks int               // removed
	More   bool              // another call would remove more
}

// collectBatch is how many bytes of deletions go into one batch.
const collectBatch = 1 << 20

// Collect removes the oldest blocks: an epoch goes once KeepEpochs younger ones, or their beginnings, are folded, but for its last block, so that
// the state before the first block of the oldest whole epoch can still be read. That block is the tail, as in nearcore. No record is read for it: what is found by ids and keys stands in eras, of which each goes when
// the tail has passed it. Genesis itself stays. An archival node does not call it.
// Reads go on meanwhile; those of a block that goes may fail with ErrGone.
func (s *Store) CollectGarbage(o GCOptions) (GCResult, error) {
	if err := s.FinishUntrack(); err != nil {
		return GCResult{}, err
	}
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return GCResult{}, err
	}
	if err := s.deleteUntracked(); err != nil { // what began to leave just now
		return GCResult{}, s.fail(err)
	}
	v := s.view.Load()
	done := GCResult{Tail: v.tail}
	stop, err := s.gcLimit(max(o.KeepEpochs, MinKeptEpochs), o.From)
	if err != nil || v.empty {
		return done, err
	}
	if err := s.collectBlocks(&done, stop, o); err != nil {
		return done, err
	}
	more, err := s.dropBuckets(receiptsTail(done.Tail))
	done.More = done.More || more
	return done, err
}

// collectBlocks raises the tail, at most up to stop.
func (s *Store) collectBlocks(done *GCResult, stop primitives.Height, o GCOptions) error {
	v := s.view.Load()
	var batch Batch
	height := v.tail
	for end := v.tail + primitives.Height(max(o.MaxHeights, 1)); height < min(stop, end) && batch.Size() < collectBatch; {
		n, young, err := s.collectHeight(&batch, height, o.Before)
		if err != nil {
			return err
		}
		if young {
			stop = height
			break
		}
		done.Blocks += n
		height++
	}
	if height == v.tail {
		return nil
	}
	if err := s.dropEntries(&batch, v.tail, height); err != nil {
		return err
	}
	if err := s.collectShards(&batch, height); err != nil {
		return err
	}
	putCell(&batch, cellTail, Uint64(height))
	// Readers learn first: whoever then misses something, or has a snapshot without it, finds the new tail.
	s.commitMu.Lock()
	next := *s.view.Load()
	next.tail = height
	s.view.Store(&next)
	s.commitMu.Unlock()
	if err := s.step(&batch); err != nil {
		return s.fail(err)
	}
	done.Tail, done.More = height, height < stop
	s.cache.clear()
	s.recent.clear()
	return s.dropSegments(height)
}

// gcLimit returns the first height that must stay: that of the last block before the oldest epoch that is kept (nearcore
// chain/chain/src/garbage_collection.rs:239), or one below for whose sake that is. 0: nothing may go.
func (s *Store) gcLimit(keep int, from primitives.Height) (primitives.Height, error) {
	var first []primitives.Height
	err := epochFirst.Scan(s.db, nil, nil, func(key []byte, _ primitives.Hash) bool {
		first = append(first, heightOf(key))
		return true
	})
	if err != nil || len(first) < keep {
		return 0, err
	}
	before, err := s.parentAt(first[len(first)-keep])
	if err != nil {
		return 0, err
	}
	stop := min(before, s.flatHead.Block.Height)
	if from > 0 {
		stop = min(stop, from)
	}
	for _, c := range s.view.Load().shards { // what a shard that came in has yet to take over stays
		if !c.Untracked && !c.InSync {
			stop = min(stop, c.At.Height)
		}
	}
	err = stateSnapshots.Scan(s.db, nil, nil, func(key []byte, _ snapshotCell) bool { // the lowest comes first
		stop = min(stop, heightOf(key))
		return false
	})
	return stop, err
}

// parentAt returns the height of the parent of the canonical block at a height. The parent need not be kept.
func (s *Store) parentAt(height primitives.Height) (primitives.Height, error) {
	hash, err := blockHeight.Get(s.db, height)
	if err != nil {
		return 0, err
	}
	e, err := s.entry(BlockRef{height, hash})
	if err != nil {
		return 0, err
	}
	return e.head.Prev.Height, nil
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
			if err := s.dropCanonicalNames(batch, &e.head); err != nil {
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

// dropCanonicalNames removes the names that folding a canonical block gave it, and what else stands there by its height. Its rows in Undo and the
// pointers to what is in it go with their era.
func (s *Store) dropCanonicalNames(batch *Batch, h *head) error {
	blockHeight.Delete(batch, h.Ref.Height)
	collected.Put(batch, h.Ref.Height, &h.Ref.Hash)
	blockOrdinal.Delete(batch, h.Ordinal)
	// The light client's view of an epoch is asked for with a block of the epoch before, of which there is none any more. What the epochs
	// were is asked for by their ids, at any time.
	if epoch, err := epochFirst.Get(s.db, h.Ref.Height); err == nil {
		EpochLightClientBlock.Delete(batch, epoch)
		epochFirst.Delete(batch, h.Ref.Height)
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if !s.hasCatchup.Load() {
		return nil
	}
	for _, e := range s.catchupEntries(h.Ref) {
		dropNames(batch, &head{Ref: h.Ref, Shards: e.head.Shards})
	}
	lo := append([]byte{catchupRecords.id}, appendRef(nil, h.Ref)...)
	return deleteRange(s.db, batch, lo, PrefixEnd(lo))
}

// receiptsTail is the lowest height whose receipts the blocks from a tail on may process.
func receiptsTail(tail primitives.Height) primitives.Height { return tail - min(tail, ReceiptsReach) }

// dropEntries removes the entries of heights that chunks above the new tail can't refer to any more.
func (s *Store) dropEntries(batch *Batch, oldTail, newTail primitives.Height) error {
	var begin Uint64
	if _, err := getCell(s.db, cellBegin, &begin); err != nil {
		return err
	}
	from := receiptsTail(oldTail)
	if primitives.Height(begin) > receiptsTail(oldTail) { // else the blocks that it began with are gone
		from = 0
	}
	return entries.Scan(s.db, appendHeight(nil, from), appendHeight(nil, receiptsTail(newTail)), func(_ []byte, e entry) bool {
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
	if s.segmentHolds > 0 {
		return nil // a backup has yet to copy them; the next call removes them
	}
	var gone []uint32
	err := segments.Scan(s.db, nil, nil, func(key []byte, info segmentInfo) bool {
		n := segmentNumber(key)
		if n >= s.flatHead.From.Segment {
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
