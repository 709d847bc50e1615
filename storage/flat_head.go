package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Advancing the flat head.
//
// Problem: an LSM tree writes each row about four times, so a row that changes in every block
// should be written once for many blocks. Blocks on abandoned branches should not be written to the
// index at all. And if the index were written with each commit and without a sync, Open could not
// tell the effects of a crash from damage.
//
// Invariants: the index always describes the state at one final block, the flat head, and contains
// no block above the flat head. Open rebuilds everything above the flat head from the log, starting
// at a position that the index records (flatHeadCell). Rows that are written before the synced
// batch below are harmless if that batch is never written.
//
// Outline: AdvanceFlatHead takes the blocks between the flat head and upto (finalChain).
// AdvanceFlatHead begins a history bucket if a bucket is due. writeHistory writes the locations of
// replaced values and the places of IDs, in several synced batches. Then one synced batch writes
// everything else: names of blocks, starts of epochs, the last value of each key, the frontier,
// rows of the engine, and the new flat head with its log position. A key that changes in many
// blocks is written once. Then the view with the new flat head is published, and the blocks leave
// the tree.
//
// Concurrency: indexMu excludes other writers of the index for the whole step. commitMu is taken
// only for moments, so commits continue. Readers are never blocked: see tree.
//
// Rejected: deleting the rows of an unfinished advance at open (more to write, same result);
// goleveldb's strict mode (it also refuses journals with a torn end, which a crash leaves); rows of
// pending blocks in the index (they would have to be removed when a branch is abandoned).

// FrontierChange is an entry of a shard's frontier that is new, has changed or was removed.
type FrontierChange struct {
	Shard primitives.ShardID
	FrontierNode
	Removed bool
}

// FlatHeadDue returns the block to which AdvanceFlatHead should advance the flat head, and whether
// the advance is due. The advance is due once the final blocks above the flat head reach
// Options.FlatHeadBytes or FlatHeadBlocks. Larger steps write frequently changed keys fewer times;
// smaller steps shorten the replay at a restart. In an overlay an advance is never due.
func (s *Store) FlatHeadDue() (BlockRef, bool) {
	v := s.view.Load()
	p := v.canonicalAt(v.final.Height)
	if p == nil || s.parent != nil {
		return v.final, false
	}
	return v.final, p.sum-v.base.sum >= s.o.FlatHeadBytes || p.count-v.base.count >= s.o.FlatHeadBlocks
}

// AdvanceFlatHead moves the flat head, and with it everything in the index, to the final block
// upto.
//
// upto must be the last final block or one of its ancestors. changes is the difference of the
// frontier between the old flat head and upto. For a shard that a split created since, changes has
// the whole frontier; for a shard that was split, it has nothing. Blocks that are neither ancestors
// nor descendants of upto are dropped. A block that splits shards must be the first block after the
// old flat head.
//
// The advance is atomic and synced. Commit and reads continue meanwhile. AdvanceFlatHead returns
// ErrOrder if upto or the splits break these rules, or the error of a write.
func (s *Store) AdvanceFlatHead(upto BlockRef, changes []FrontierChange) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	if s.parent != nil {
		return fmt.Errorf("%w: an overlay store has a fixed flat head", ErrOrder)
	}
	v := s.view.Load()
	chain, err := finalChain(v, upto)
	if err != nil || len(chain) == 0 {
		return err
	}
	for _, p := range chain[1:] {
		if len(p.entry.head.Splits) > 0 {
			return fmt.Errorf("%w: block %v splits shards, so it must be the first block of an advance: advance to its parent first",
				ErrOrder, p.ref)
		}
	}
	s.pinBodies(upto.Height)
	defer s.pinBodies(0)
	if err := s.beginBucket(chain[0].ref.Height); err != nil {
		return s.fail(err)
	}
	last, err := s.writeHistory(v, chain, changes)
	if err != nil {
		return s.fail(err)
	}
	batch := &s.flatHeadRows
	batch.begin()
	putBlockNames(batch, chain)
	putEpochStarts(batch, v.base, chain)
	for _, x := range chain[0].entry.head.Splits {
		splitParents.Put(batch, splitKey{chain[0].ref.Height, x.Parent}, &Nothing{})
	}
	putFlatState(batch, last)
	putFrontier(batch, changes, chain[0].entry.head.Splits)
	shards, err := s.advanceShards(batch, v, chain)
	if err != nil {
		return s.fail(err)
	}
	cell, touched, written := s.takeLogPoint(chain[len(chain)-1])
	for _, p := range chain {
		if p.puts != nil {
			batch.add(p.puts)
		}
	}
	for _, b := range written {
		batch.add(b)
	}
	if err := s.putSegments(batch, touched); err != nil {
		return s.fail(err)
	}
	putCell(batch, cellFlatHead, &cell)
	if err := s.step(batch); err != nil {
		return s.fail(err)
	}
	s.flatHead = cell
	s.publishFlatHead(chain, v, written, shards)
	return nil
}

// pinBodies prevents the eviction of resident bodies up to a height. With 0 it allows the eviction
// again.
func (s *Store) pinBodies(upto primitives.Height) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	s.pinnedUpTo = upto
}

// takeLogPoint returns the log position from which Open must read once the block `last` is the flat
// head. takeLogPoint also takes from the store, and returns, the segments and rows that are not yet
// in the index.
func (s *Store) takeLogPoint(last *pendingBlock) (cell flatHeadCell, touched map[uint32]primitives.Height,
	written []*Batch) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	cell = flatHeadCell{Block: last.ref, From: s.log.end, To: s.log.end}
	// In the log, each descendant of `last` comes after one of these children.
	for _, p := range last.children {
		if at := p.entry.start(); at.before(cell.From) {
			cell.From = at
		}
	}
	touched, written = s.segments, s.rows
	s.segments, s.rows = map[uint32]primitives.Height{}, nil
	return cell, touched, written
}

// putSegments writes the greatest height of each touched log segment.
func (s *Store) putSegments(batch *Batch, touched map[uint32]primitives.Height) error {
	for _, n := range slices.Sorted(maps.Keys(touched)) {
		info, err := segments.Get(s.db, n)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		info.Highest = max(info.Highest, touched[n])
		segments.Put(batch, n, &info)
	}
	return nil
}

// publishFlatHead publishes the view with the new flat head, and removes from the tree the blocks
// that are in the index now and the blocks on abandoned branches.
func (s *Store) publishFlatHead(chain []*pendingBlock, before *view, written []*Batch,
	shards map[primitives.ShardID]shardCell) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	next := *s.view.Load()
	last := chain[len(chain)-1]
	next.flatHead, next.base, next.shards = last.ref, last, shards
	n, _ := slices.BinarySearchFunc(next.canon, last.ref.Height+1,
		func(p *pendingBlock, h primitives.Height) int { return cmp.Compare(p.ref.Height, h) })
	next.canon = slices.Clone(next.canon[n:]) // clone, because the old array keeps the removed blocks in memory
	// Do this before the view changes, because a reader of the new view ignores these blocks in the
	// tree.
	for _, p := range chain {
		if d := p.body.Load(); d != nil {
			s.recent.add(p.ref.Height, d)
		} else { // no client waits for a block whose body was evicted
			s.recent.clear()
		}
	}
	s.view.Store(&next)
	parent := before.base
	for _, p := range chain {
		for _, q := range parent.children {
			if q != p {
				s.dropBranch(q)
			}
		}
		s.tree.remove(p, p != last)
		parent.children, parent = nil, p
	}
	s.tree.dropBaseIDs(before.base)
	s.tree.sweep()
	for _, b := range written {
		s.tree.mu.Lock()
		s.tree.dropPuts(nil, b)
		s.tree.mu.Unlock()
	}
	last.parent.Store(nil)
	s.forgetBodies()
}

// dropBranch removes from the tree a block that was not finalized, and its descendants.
func (s *Store) dropBranch(p *pendingBlock) {
	for list := []*pendingBlock{p}; len(list) > 0; {
		p := list[len(list)-1]
		list = append(list[:len(list)-1], p.children...)
		s.tree.remove(p, true)
	}
}

// finalChain returns the blocks after the flat head up to and including upto.
func finalChain(v *view, upto BlockRef) ([]*pendingBlock, error) {
	if upto == v.flatHead {
		return nil, nil
	}
	last := v.canonicalAt(upto.Height)
	if last == nil || last.ref != upto || upto.Height > v.final.Height {
		return nil, fmt.Errorf("%w: cannot advance the flat head to %v, which is not between the flat head %v and the final block %v", ErrOrder,
			upto, v.flatHead, v.final)
	}
	return slices.Clone(v.canon[:1+slices.Index(v.canon, last)]), nil
}

// historyBatch is the number of bytes of history that one batch writes. A commit waits for at most
// one such batch.
const historyBatch = 256 << 10

// writeHistory writes the rows that are harmless even if the flat head never advances. These rows
// are the locations of replaced values, the places of IDs, and the rows of shards that a split
// makes. writeHistory writes the rows in pieces, and syncs the pieces before the advance itself is
// written.
//
// Whether a receipt needs a pointer depends on the block and its final child. The child of this
// advance's last block is not final yet, so the next advance writes the pointers to that block's
// receipts (view.base keeps the block until then). This advance writes the pointers to the receipts
// of the old flat head's block.
//
// writeHistory returns the last value of each key. writeHistory reads each evicted block once.
func (s *Store) writeHistory(v *view, chain []*pendingBlock,
	changes []FrontierChange) (last map[string][]byte, err error) {
	batch := &s.historyRows
	batch.begin()
	base := v.base
	flush := func(least int) {
		if err == nil && batch.Size() >= least && batch.Len() > 0 {
			err = s.db.write(batch, false)
			batch.Reset()
		}
	}
	put := func(c *Column[placeKey, Nothing], k pointer) {
		c.Put(batch, placeKey{s.buckets.of(k.height), k}, &Nothing{})
		flush(historyBatch)
	}
	before, err := s.bodyOf(base, false)
	if err != nil {
		return nil, err
	}
	last = map[string][]byte{}
	for _, p := range chain {
		d, derr := s.bodyOf(p, false)
		if derr != nil {
			return nil, derr
		}
		resident, bucket := p.body.Load() != nil, s.buckets.of(p.ref.Height)
		for j := range d.keys {
			k := &d.keys[j]
			if v.skips(k.shard, p.ref.Height) {
				continue
			}
			undo.Put(batch, undoKey{bucket, k.flat, p.ref.Height}, &undoValue{k.shard, k.item})
			flush(historyBatch)
			v := k.change.Last()
			if !resident {
				v = bytes.Clone(v) // clone, because a slice keeps the whole record in memory
			}
			last[k.flat] = v
		}
		d.eachPointer(p.ref.Height, put)
		before.eachReceipt(base.ref.Height, s.executed(base, p, before, d), put)
		base, before = p, d
	}
	flush(0)
	if err != nil {
		return nil, err
	}
	splits := chain[0].entry.head.Splits
	if err := copyRows(s.db, splits); err != nil {
		return nil, err
	}
	if err := copyFrontier(s.db, splits, changes); err != nil {
		return nil, err
	}
	return last, s.step(batch) // step also syncs the earlier pieces
}

// putBlockNames writes the names and record positions of blocks.
func putBlockNames(batch *Batch, chain []*pendingBlock) {
	for _, p := range chain {
		h := &p.entry.head
		entries.Put(batch, h.Ref, p.entry)
		hashHeights.Put(batch, shortRef{h.Ref.Hash, h.Ref.Height}, &Nothing{})
		blockHeight.Put(batch, h.Ref.Height, &h.Ref.Hash)
		ordinal := Uint64(h.Ref.Height)
		blockOrdinal.Put(batch, h.Ordinal, &ordinal)
		for i := range h.Shards {
			if sh := &h.Shards[i]; sh.HasChunk {
				chunkPlaces.Put(batch, pointer{sh.Chunk, h.Ref.Height, sh.ID, 0}, &Nothing{})
			}
		}
	}
}

// putFlatState writes the last value of each key to Flat.
func putFlatState(batch *Batch, last map[string][]byte) {
	for _, k := range slices.Sorted(maps.Keys(last)) {
		putFlat(batch, k, last[k])
	}
}

func putFlat(batch *Batch, key string, value []byte) {
	if value == nil {
		flat.Delete(batch, key)
		return
	}
	v := packed(value)
	flat.Put(batch, key, &v)
}

// eachPointer calls f for the pointers to outcomes, and for the pointers to transactions without an
// outcome.
func (d *body) eachPointer(height primitives.Height, f func(c *Column[placeKey, Nothing], k pointer)) {
	for i := range d.shards {
		s := &d.shards[i]
		for j, id := range s.outcomes {
			f(places, pointer{id, height, s.id, j})
		}
		for _, t := range s.txs {
			f(txPlaces, pointer{t.hash, height, s.id, t.index})
		}
	}
}

// eachReceipt calls f for the pointers to receipts and origins. Nearly all receipts are executed by
// the block that made them or by the next block. Such receipts need no pointer, since Finder.Receipt
// searches the block of the outcome and its parent. The index of a pointer is even for outgoing
// receipts. Odd indices count through local receipts, delayed receipts and origins (see
// receiptPlace).
func (d *body) eachReceipt(height primitives.Height, executed func(primitives.Hash) bool,
	f func(c *Column[placeKey, Nothing], k pointer)) {
	for i := range d.shards {
		s := &d.shards[i]
		for j, id := range s.receipts {
			k, at := s.receiptAt(j)
			if k != kindOrigins && executed(id) {
				continue
			}
			if at *= 2; k != kindOutgoing {
				at = 2*(j-s.upTo[0]) + 1
			}
			f(receiptPlaces, pointer{id, height, s.id, at})
		}
	}
}

// executed returns a function that reports whether base or its child executes an ID. Both blocks
// are in the tree.
func (s *Store) executed(base, child *pendingBlock, b, c *body) func(primitives.Hash) bool {
	if base.body.Load() == nil || child.body.Load() == nil {
		return executedBy(b, c)
	}
	return func(id primitives.Hash) bool { return s.tree.executes(base, b, id) || s.tree.executes(child, c, id) }
}

// executedBy returns a function that reports whether one of two blocks executes an ID. child may be
// nil.
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

// putEpochStarts records where epochs begin.
func putEpochStarts(batch *Batch, base *pendingBlock, chain []*pendingBlock) {
	epoch := base.entry.head.Epoch
	for _, p := range chain {
		if h := &p.entry.head; h.Epoch != epoch {
			epoch = h.Epoch
			epochFirst.Put(batch, h.Ref.Height, &epoch)
		}
	}
}

// putFrontierNode is frontier.Put without allocations, because an advance of the flat head writes
// about eight nodes for each transfer.
func putFrontierNode(batch *Batch, shard primitives.ShardID, s *FrontierNode) {
	batch.key = appendFrontierKey(append(batch.key[:0], frontier.id), frontierKey{shard, s.Level, string(s.Path)})
	batch.value = frontierValue{s.Hash, s.MemoryUsage}.AppendBorsh(batch.value[:0])
	batch.put(batch.key, batch.value)
}

// putFrontier writes changes of the frontier, except those of the child shards of splits.
func putFrontier(batch *Batch, changes []FrontierChange, splits []Split) {
	for i := range changes {
		c := &changes[i]
		if splitOf(splits, c.Shard) != nil {
			continue
		}
		if c.Removed {
			frontier.Delete(batch, frontierKey{c.Shard, c.Level, string(c.Path)})
		} else {
			putFrontierNode(batch, c.Shard, &c.FrontierNode)
		}
	}
}
