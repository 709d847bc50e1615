package storage

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// lateKey names what a block did in a shard that came in after it.
type lateKey struct {
	ref   BlockRef
	shard primitives.ShardID
}

func appendLateKey(b []byte, k lateKey) []byte { return appendShard(appendRef(b, k.ref), k.shard) }

// CommitShard stores what a block, which is stored, did in a shard that came in after it. The shard's blocks come in their order, on every
// branch. changes is what changed in the frontier with it, if the block is folded; else a fold brings it.
func (s *Store) CommitShard(ref BlockRef, sh *Shard, changes []FrontierChange) error {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	cell, ok := v.shards[sh.ID]
	if !ok || cell.Left {
		return fmt.Errorf("%w: shard %d did not come in later", ErrOrder, sh.ID)
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
		if cell.With || rec.Prev() != cell.At {
			return fmt.Errorf("%w: block %v in shard %d, which is at %v", ErrOrder, ref, sh.ID, cell.At)
		}
		return s.commitFolded(rec, sh, cell, changes)
	}
	if rec.Prev() == v.folded {
		ok = cell.With
	} else {
		ok = s.hasShard(rec.Prev(), sh.ID)
	}
	if !ok || s.hasShard(ref, sh.ID) {
		return fmt.Errorf("%w: block %v in shard %d, which is at %v", ErrOrder, ref, sh.ID, cell.At)
	}
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	e, err := s.appendLate(rec, sh)
	if err != nil {
		return err
	}
	return s.join(p, e)
}

// hasShard tells whether a block's results in a shard are stored.
func (s *Store) hasShard(ref BlockRef, shard primitives.ShardID) bool {
	rec, err := s.Block(ref)
	if err != nil {
		return false
	}
	_, sec := rec.section(kindExtra, shard)
	return sec != nil
}

// appendLate writes the record, synced.
func (s *Store) appendLate(rec *Record, sh *Shard) (*entry, error) {
	h := &rec.e.head
	w := &recordWriter{head: head{Ref: h.Ref, Prev: h.Prev, Timestamp: h.Timestamp, Ordinal: h.Ordinal, Epoch: h.Epoch, Final: h.Final}}
	sh.encode(w)
	payload, headLen := w.bytes()
	payload[0] = recordLate
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

// join makes a late record part of a pending block. Under commitMu.
func (s *Store) join(p *pendingBlock, e *entry) error {
	old, err := s.bodyOf(p, false)
	if err != nil {
		return err
	}
	d := &body{shards: slices.Clone(old.shards)}
	if err := s.addLate(d, e); err != nil {
		return err
	}
	s.tree.join(p, d, e)
	s.tree.keys.again(p, d)
	s.hasLates.Store(true)
	s.bodies.forget(p)
	return nil
}

// addLate adds what a late record has to a body, but for the order of the keys.
func (s *Store) addLate(d *body, e *entry) error {
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

// join replaces the body of a block.
func (t *tree) join(p *pendingBlock, d *body, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cold := p.body.Load() == nil
	t.dropIDs(p)
	if !cold {
		t.bytes -= p.bytes
	}
	p.bytes = d.sortKeys()
	t.lates[p.ref.Hash] = append(t.lates[p.ref.Hash], e)
	if cold {
		t.cold.add(p, d)
		return
	}
	t.bytes += p.bytes
	t.addIDs(p, d)
	p.body.Store(d)
}

// lateEntries returns the records of a block that came after its own.
func (s *Store) lateEntries(ref BlockRef) (list []*entry) {
	if !s.hasLates.Load() {
		return nil
	}
	s.tree.mu.RLock()
	list = s.tree.lates[ref.Hash]
	s.tree.mu.RUnlock()
	if len(list) > 0 {
		return list
	}
	lo := appendRef(nil, ref)
	_ = lates.Scan(s.db, lo, PrefixEnd(lo), func(_ []byte, e entry) bool {
		list = append(list, &e)
		return true
	})
	return list
}

// commitFolded stores what a folded block did in a shard that is behind the others.
func (s *Store) commitFolded(rec *Record, sh *Shard, cell shardCell, changes []FrontierChange) error {
	s.commitMu.Lock()
	e, err := s.appendLate(rec, sh)
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
		undo.Put(&batch, undoKey{s.eraOf(rec.Ref().Height), k.flat, rec.Ref().Height}, &undoValue{k.shard, k.item})
		putFlat(&batch, k.flat, k.change.Last())
	}
	put := func(c *Column[placeKey, Nothing], k pointer) {
		c.Put(&batch, placeKey{s.eraOf(k.height), k}, &Nothing{})
	}
	d.eachPointer(rec.Ref().Height, put)
	d.eachReceipt(rec.Ref().Height, func(primitives.Hash) bool { return false }, put)
	if c := sh.Chunk; c != nil {
		chunkPlaces.Put(&batch, pointer{c.Hash, rec.Ref().Height, sh.ID, 0}, &Nothing{})
	}
	lates.Put(&batch, lateKey{rec.Ref(), sh.ID}, e)
	putFrontier(&batch, changes, nil)
	if err := s.putSegments(&batch, touched); err != nil {
		return s.fail(err)
	}
	cell.At, cell.With = rec.Ref(), rec.Ref() == s.view.Load().folded
	shardCells.Put(&batch, sh.ID, &cell)
	if err := s.step(&batch); err != nil {
		return s.fail(err)
	}
	s.hasLates.Store(true)
	s.setShard(sh.ID, &cell)
	s.lately.clear() // it lacks what the folded block has now
	return nil
}
