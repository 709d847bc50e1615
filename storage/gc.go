package storage

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
)

// MinKeptEpochs is the smallest number of epochs that garbage collection keeps (nearcore
// chain/chain/src/garbage_collection.rs).
const MinKeptEpochs = 3

// GCOptions bound one call of CollectGarbage.
type GCOptions struct {
	// KeepEpochs is gc_num_epochs_to_keep, including the head's epoch. Values below MinKeptEpochs
	// count as MinKeptEpochs.
	KeepEpochs int
	// From is a height: blocks at this height and above are kept, whatever their epoch. 0: there is
	// no such bound.
	From primitives.Height
	// Before is a timestamp in nanoseconds since 1970, normally now minus gc_min_age. Only blocks
	// with a timestamp before Before are removed.
	Before uint64
	// MaxHeights bounds the heights that one call removes. 0 counts as 1.
	MaxHeights int
}

// GCResult is the result of CollectGarbage.
type GCResult struct {
	Tail   primitives.Height // lowest height whose data is kept
	Blocks int               // number of removed blocks
	More   bool              // true: another call would remove more blocks
	Stop   primitives.Height // height up to which blocks are to be removed; 0: none
}

// collectBatch is the number of bytes of deletions in one batch.
const collectBatch = 1 << 20

// CollectGarbage removes the oldest blocks.
//
// Problem: the rows that locate a block's contents by ID or key are scattered over the whole index.
// To find the rows of one block, the block's record must be read.
//
// Invariants: the new tail is published before any row is removed, so a read that misses a removed
// row reports ErrGone. The state before the first block of the oldest kept epoch stays readable.
// Nothing is removed that an unfinished catchup, a state snapshot, a chunk above the tail or a
// backup still needs.
//
// Outline: an epoch is removed once KeepEpochs epochs after it have begun at or below the flat
// head. The last block of the removed epoch stays and becomes the tail, as in nearcore. Names of
// blocks are deleted height by height. History and places of IDs are deleted one whole history
// bucket at a time, once the tail has passed the bucket (history_bucket.go). Log segments are
// deleted as files. No record is read. The genesis block stays.
//
// Rejected: deleting the rows of each block separately, which would read every record again and
// scatter deletions over all tables.
//
// Reads continue meanwhile. An archival node does not call CollectGarbage. CollectGarbage returns
// only errors of writes.
func (s *Store) CollectGarbage(o GCOptions) (GCResult, error) {
	if err := s.FinishUntrack(); err != nil {
		return GCResult{}, err
	}
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return GCResult{}, err
	}
	if err := s.deleteUntracked(); err != nil { // deletes the shards that FinishUntrack has untracked, too
		return GCResult{}, s.fail(err)
	}
	v := s.view.Load()
	c := collection{s: s, o: o, done: GCResult{Tail: v.tail}}
	stop, err := c.limit()
	c.done.Stop = stop
	if err != nil || v.empty {
		return c.done, err
	}
	if err := c.blocks(stop); err != nil {
		return c.done, err
	}
	more, err := s.dropBuckets(receiptsTail(c.done.Tail))
	c.done.More = c.done.More || more
	return c.done, err
}

// collection is one call of CollectGarbage, which holds indexMu.
type collection struct {
	s     *Store
	o     GCOptions
	done  GCResult
	batch Batch // deletions of the removed blocks
}

// blocks raises the tail, at most to stop.
func (c *collection) blocks(stop primitives.Height) error {
	v := c.s.view.Load()
	height := v.tail
	for end := v.tail + primitives.Height(max(c.o.MaxHeights, 1)); height < min(stop, end) && c.batch.Size() < collectBatch; {
		n, young, err := c.height(height)
		if err != nil {
			return err
		}
		if young {
			stop = height
			break
		}
		c.done.Blocks += n
		height++
	}
	if height == v.tail {
		return nil
	}
	if err := c.dropEntries(v.tail, height); err != nil {
		return err
	}
	if err := c.shards(height); err != nil {
		return err
	}
	putCell(&c.batch, cellTail, Uint64(height))
	// Publish the tail first: a reader that then misses a row, even one that reads an older
	// snapshot, finds that the tail has passed the height.
	c.s.commitMu.Lock()
	next := *c.s.view.Load()
	next.tail = height
	c.s.view.Store(&next)
	c.s.commitMu.Unlock()
	if err := c.s.step(&c.batch); err != nil {
		return c.s.fail(err)
	}
	c.done.Tail, c.done.More = height, height < stop
	c.s.cache.clear()
	c.s.recent.clear()
	return c.dropSegments(height)
}

// limit returns the lowest height that must be kept. The result is the height of the last block
// before the oldest kept epoch (nearcore chain/chain/src/garbage_collection.rs:239), or a lower
// height that a catchup or a state snapshot needs. 0 means that nothing may be removed.
func (c *collection) limit() (primitives.Height, error) {
	keep, from := max(c.o.KeepEpochs, MinKeptEpochs), c.o.From
	var first []primitives.Height
	err := epochFirst.Scan(c.s.db, nil, nil, func(key []byte, _ primitives.Hash) bool {
		first = append(first, heightOf(key))
		return true
	})
	if err != nil || len(first) < keep {
		return 0, err
	}
	before, err := c.parentAt(first[len(first)-keep])
	if err != nil {
		return 0, err
	}
	stop := min(before, c.s.flatHead.Block.Height)
	if from > 0 {
		stop = min(stop, from)
	}
	// A shard that is catching up needs the blocks from its current block on.
	for _, x := range c.s.view.Load().shards {
		if !x.Untracked && !x.InSync {
			stop = min(stop, x.At.Height)
		}
	}
	err = stateSnapshots.Scan(c.s.db, nil, nil, func(key []byte, _ snapshotCell) bool { // the lowest height comes first
		stop = min(stop, heightOf(key))
		return false
	})
	return stop, err
}

// parentAt returns the height of the parent of the canonical block at a height. The parent itself
// may be collected.
func (c *collection) parentAt(height primitives.Height) (primitives.Height, error) {
	hash, err := blockHeight.Get(c.s.db, height)
	if err != nil {
		return 0, err
	}
	e, err := c.s.entry(BlockRef{height, hash})
	if err != nil {
		return 0, err
	}
	return e.head.Prev.Height, nil
}

// height adds to the batch the deletions of the blocks at a height. height leaves the
// entries of the blocks to dropEntries. young is true if a block is too recent to be removed.
func (c *collection) height(height primitives.Height) (n int, young bool, err error) {
	var all []entry
	lo := appendHeight(nil, height)
	err = entries.Scan(c.s.db, lo, PrefixEnd(lo), func(_ []byte, e entry) bool {
		all = append(all, e)
		return true
	})
	if err != nil {
		return 0, false, err
	}
	for i := range all {
		if all[i].head.Timestamp >= c.o.Before {
			return 0, true, nil
		}
	}
	canonical, err := blockHeight.Get(c.s.db, height)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, false, err
	}
	for i := range all {
		e := &all[i]
		if e.head.Prev.IsZero() {
			continue // the genesis block stays
		}
		n++
		if e.head.Ref.Hash == canonical {
			if err := c.dropCanonicalNames(&e.head); err != nil {
				return n, false, err
			}
		}
		dropNames(&c.batch, &e.head)
	}
	return n, false, nil
}

// dropNames removes the rows that locate by hash a block of any branch and the block's chunks.
func dropNames(batch *Batch, h *head) {
	hashHeights.Delete(batch, shortRef{h.Ref.Hash, h.Ref.Height})
	for j := range h.Shards {
		if sh := &h.Shards[j]; sh.HasChunk {
			chunkPlaces.Delete(batch, pointer{sh.Chunk, h.Ref.Height, sh.ID, 0})
		}
	}
}

// dropCanonicalNames removes the rows that a canonical block got when the flat head passed it. The
// block's rows in Undo and the pointers to the block's content are removed with their history
// bucket.
func (c *collection) dropCanonicalNames(h *head) error {
	blockHeight.Delete(&c.batch, h.Ref.Height)
	collected.Put(&c.batch, h.Ref.Height, &h.Ref.Hash)
	blockOrdinal.Delete(&c.batch, h.Ordinal)
	// The light client's view of an epoch is requested by the hash of a block of the epoch before,
	// and no such block is left. All other data of the epoch stays, since clients can request it by
	// epoch ID at any time.
	if epoch, err := epochFirst.Get(c.s.db, h.Ref.Height); err == nil {
		EpochLightClientBlock.Delete(&c.batch, epoch)
		epochFirst.Delete(&c.batch, h.Ref.Height)
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if !c.s.hasCatchup.Load() {
		return nil
	}
	catchup, err := c.s.catchupEntries(h.Ref)
	if err != nil {
		return err
	}
	for _, e := range catchup {
		dropNames(&c.batch, &head{Ref: h.Ref, Shards: e.head.Shards})
	}
	lo := append([]byte{catchupRecords.id}, appendRef(nil, h.Ref)...)
	return deleteRange(c.s.db, &c.batch, lo, PrefixEnd(lo))
}

// receiptsTail returns the lowest height whose receipts a block at or above the tail may process.
func receiptsTail(tail primitives.Height) primitives.Height { return tail - min(tail, ReceiptsReach) }

// dropEntries removes the entries of heights whose receipts no chunk above the new tail can refer
// to.
func (c *collection) dropEntries(oldTail, newTail primitives.Height) error {
	var begin Uint64
	if _, err := getCell(c.s.db, cellBegin, &begin); err != nil {
		return err
	}
	from := receiptsTail(oldTail)
	// Entries of the blocks with which the folder began have not been deleted yet.
	if primitives.Height(begin) > receiptsTail(oldTail) {
		from = 0
	}
	return entries.Scan(c.s.db, appendHeight(nil, from), appendHeight(nil, receiptsTail(newTail)),
		func(_ []byte, e entry) bool {
			h := &e.head
			if h.Prev.IsZero() {
				return true
			}
			entries.Delete(&c.batch, h.Ref)
			// height deletes these rows only for blocks from begin on
			if h.Ref.Height < primitives.Height(begin) {
				dropNames(&c.batch, h)
				blockHeight.Delete(&c.batch, h.Ref.Height)
				blockOrdinal.Delete(&c.batch, h.Ordinal)
				epochFirst.Delete(&c.batch, h.Ref.Height)
				collected.Put(&c.batch, h.Ref.Height, &h.Ref.Hash)
			}
			return true
		})
}

// dropSegments removes the log segments that hold nothing above the tail, except the first segment,
// which has the genesis.
func (c *collection) dropSegments(tail primitives.Height) error {
	if c.s.segmentHolds > 0 {
		return nil // a running backup still copies segments, so the next call removes them
	}
	var gone []uint32
	err := segments.Scan(c.s.db, nil, nil, func(key []byte, info segmentInfo) bool {
		n := segmentNumber(key)
		if n >= c.s.flatHead.From.Segment {
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
		if err := c.s.log.remove(n); err != nil {
			return err
		}
		segments.Delete(&batch, n)
	}
	// If the process ends before this write, the next call removes the files again. A file that is
	// already absent is no error.
	return c.s.fail(c.s.step(&batch))
}
