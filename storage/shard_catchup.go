package storage

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// catchupKey names the results of a block in a shard that was caught up after its commit.
type catchupKey struct {
	ref   BlockRef
	shard primitives.ShardID
}

func appendCatchupKey(b []byte, k catchupKey) []byte {
	return appendShard(appendRef(b, k.ref), k.shard)
}

// CommitShard stores the results of an already stored block in a shard that was imported as of a
// block below it (InstallShard). Call CommitShard for the blocks in order, parents first, on every
// branch. changes are the block's changes of the shard's frontier. CommitShard uses the changes
// only if the block is at or below the flat head. For a block above the flat head, the caller
// passes the changes to AdvanceFlatHead. CommitShard returns ErrOrder if the results are stored
// already, if the shard is untracked, or if the results of the block's parent in the shard are not
// stored yet. Any other error is an error of writing.
func (s *Store) CommitShard(ref BlockRef, sh *Shard, changes []FrontierChange) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	cell, ok := v.shards[sh.ID]
	if !ok || cell.Untracked {
		return fmt.Errorf("%w: shard %d is in sync or untracked, so it has no catchup", ErrOrder, sh.ID)
	}
	rec, err := s.Block(ref)
	if err != nil {
		return err
	}
	if err := checkChanges(sh.Changes); err != nil {
		return fmt.Errorf("%w: shard %d: %w", ErrOrder, sh.ID, err)
	}
	p := s.tree.get(ref.Hash)
	if p == nil {
		if cell.InSync || rec.Prev() != cell.At {
			return fmt.Errorf("%w: block %v is not the next block for the catchup of shard %d, which has reached block %v",
				ErrOrder, ref, sh.ID, cell.At)
		}
		return s.commitBelowFlatHead(rec, sh, cell, changes)
	}
	if rec.Prev() == v.flatHead {
		ok = cell.InSync
	} else if ok, err = s.hasShard(rec.Prev(), sh.ID); err != nil {
		return err
	}
	has, err := s.hasShard(ref, sh.ID)
	if err != nil {
		return err
	}
	if !ok || has {
		return fmt.Errorf("%w: block %v is not the next block for the catchup of shard %d, which has reached block %v",
			ErrOrder, ref, sh.ID, cell.At)
	}
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	e, err := s.appendCatchup(rec, sh)
	if err != nil {
		return err
	}
	return s.mergeCatchup(p, e)
}

// hasShard returns whether a block's results in a shard are stored. hasShard returns false if the
// block is absent or was collected. Errors are errors of reading.
func (s *Store) hasShard(ref BlockRef, shard primitives.ShardID) (bool, error) {
	rec, err := s.Block(ref)
	if isAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, sec, err := rec.section(kindExtra, shard)
	return sec != nil, err
}

// appendCatchup appends the catchup record of a block to the log and syncs the log.
func (s *Store) appendCatchup(rec *Record, sh *Shard) (*entry, error) {
	h := &rec.e.head
	w := &recordWriter{head: head{Ref: h.Ref, Prev: h.Prev, Timestamp: h.Timestamp, Ordinal: h.Ordinal,
		Epoch: h.Epoch, Final: h.Final}}
	sh.encode(w)
	payload, headLen := w.bytes()
	payload[0] = recordCatchup
	at, err := s.appendRecord(payload)
	if err != nil {
		return nil, err
	}
	if err := s.flushLog(); err != nil {
		return nil, err
	}
	e := &entry{at: at, headLen: headLen, head: w.head}
	s.noteSegment(e)
	return e, nil
}

// mergeCatchup makes the record of a catchup part of a pending block. The caller holds commitMu.
func (s *Store) mergeCatchup(p *pendingBlock, e *entry) error {
	old, err := s.bodyOf(p, false)
	if err != nil {
		return err
	}
	d := &body{shards: slices.Clone(old.shards)}
	if err := s.addCatchup(d, e); err != nil {
		return err
	}
	s.tree.replaceBody(p, d, e)
	s.tree.keys.replace(p, d)
	s.hasCatchup.Store(true)
	s.bodyCache.forget(p)
	return nil
}

// addCatchup adds the content of a catchup record to a body without sorting the keys.
func (s *Store) addCatchup(d *body, e *entry) error {
	r, err := s.whole(e)
	if err != nil {
		return err
	}
	add, err := r.body()
	if err != nil {
		return err
	}
	d.shards = slices.DeleteFunc(d.shards, func(x pendingShard) bool { return x.id == e.head.Shards[0].ID })
	d.shards = append(d.shards, add.shards...)
	return nil
}

// replaceBody replaces the body of a block.
func (t *tree) replaceBody(p *pendingBlock, d *body, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	evicted := p.body.Load() == nil
	t.dropIDs(p)
	if !evicted {
		t.bytes -= p.bytes
	}
	p.bytes = d.sortKeys()
	t.catchup[p.ref.Hash] = append(t.catchup[p.ref.Hash], e)
	if evicted {
		t.evicted.add(p, d)
		return
	}
	t.bytes += p.bytes
	t.addIDs(p, d)
	p.body.Store(d)
}

// catchupEntries returns the entries of the catchup records of a block. Errors are those of
// reading.
func (s *Store) catchupEntries(ref BlockRef) (list []*entry, err error) {
	if !s.hasCatchup.Load() {
		return nil, nil
	}
	s.tree.mu.RLock()
	list = s.tree.catchup[ref.Hash]
	s.tree.mu.RUnlock()
	if len(list) > 0 {
		return list, nil
	}
	lo := appendRef(nil, ref)
	err = catchupRecords.Scan(s.db, lo, PrefixEnd(lo), func(_ []byte, e entry) bool {
		list = append(list, &e)
		return true
	})
	return list, err
}

// commitBelowFlatHead stores the results of a block at or below the flat head, in a shard that is
// catching up.
func (s *Store) commitBelowFlatHead(rec *Record, sh *Shard, cell shardCell, changes []FrontierChange) error {
	s.commitMu.Lock()
	e, err := s.appendCatchup(rec, sh)
	touched := s.segments
	if err == nil {
		s.segments = map[uint32]primitives.Height{}
	}
	s.commitMu.Unlock()
	if err != nil {
		return err
	}
	r, err := s.whole(e)
	if err != nil {
		return s.fail(err)
	}
	d, err := r.body()
	if err != nil {
		return s.fail(err)
	}
	d.sortKeys()
	var batch Batch
	for i := range d.keys {
		k := &d.keys[i]
		undo.Put(&batch, undoKey{s.buckets.of(rec.Ref().Height), k.flat, rec.Ref().Height}, &undoValue{k.shard, k.item})
		putFlat(&batch, k.flat, k.change.Last())
	}
	put := func(c *Column[placeKey, Nothing], k pointer) {
		c.Put(&batch, placeKey{s.buckets.of(k.height), k}, &Nothing{})
	}
	d.eachPointer(rec.Ref().Height, put)
	d.eachReceipt(rec.Ref().Height, isNever, put)
	if c := sh.Chunk; c != nil {
		chunkPlaces.Put(&batch, pointer{c.Hash, rec.Ref().Height, sh.ID, 0}, &Nothing{})
	}
	catchupRecords.Put(&batch, catchupKey{rec.Ref(), sh.ID}, e)
	putFrontier(&batch, changes, nil)
	if err := s.putSegments(&batch, touched); err != nil {
		return s.fail(err)
	}
	cell.At, cell.InSync = rec.Ref(), rec.Ref() == s.view.Load().flatHead
	shardCells.Put(&batch, sh.ID, &cell)
	if err := s.step(&batch); err != nil {
		return s.fail(err)
	}
	s.hasCatchup.Store(true)
	s.setShard(sh.ID, &cell)
	s.recent.clear() // s.recent lacks the outcomes of this catchup record
	return nil
}
