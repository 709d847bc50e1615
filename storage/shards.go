package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Most shards are where the store is: their state is that of the folded block, and has been since genesis or the split that made them.
// A shardCell is the row of any other.
//
// A shard comes in as pairs at some block (Stage, StagePart), which may take hours and outlast restarts. EnterShard makes them its
// state at that block, and it stands there while the others go on. CommitShard then stores what the blocks behind it did in that
// shard, one by one, in records of their own; when it has come to the folded block it goes with the others from there on.
// LeaveShard removes all that is of it but the records.
type shardCell struct {
	At       BlockRef          // where its state is; of no meaning if it goes with the others
	Since    primitives.Height // the first block after which its state is known; of one that left: the last block that could have it
	With     bool              // it goes with the others
	Left     bool              // it is not here
	Leaving  bool              // and not all that it had is removed
	Accounts AccountRange      // of one that leaves
}

// AppendBorsh appends 51 bytes and the two names.
func (c *shardCell) AppendBorsh(b []byte) []byte {
	b = appendHeight(appendRef(b, c.At), c.Since)
	for _, f := range [...]bool{c.With, c.Left, c.Leaving} {
		b = borsh.AppendBool(b, f)
	}
	return appendVarBytes(appendVarBytes(b, []byte(c.Accounts.Lo)), []byte(c.Accounts.Hi))
}

// DecodeBorsh reads a cell.
func (c *shardCell) DecodeBorsh(r *borsh.Reader) {
	*c = shardCell{At: readRef(r)}
	if h := r.Take(8); len(h) == 8 {
		c.Since = primitives.Height(binary.BigEndian.Uint64(h))
	}
	c.With, c.Left, c.Leaving = r.Bool(), r.Bool(), r.Bool()
	c.Accounts.Lo = primitives.AccountID(readVarBytes(r))
	c.Accounts.Hi = primitives.AccountID(readVarBytes(r))
}

// stagedCell is a shard that is coming in.
type stagedCell struct {
	At       BlockRef
	Accounts AccountRange
}

// AppendBorsh appends the block and two names.
func (c *stagedCell) AppendBorsh(b []byte) []byte {
	return appendVarBytes(appendVarBytes(appendRef(b, c.At), []byte(c.Accounts.Lo)), []byte(c.Accounts.Hi))
}

// DecodeBorsh reads it.
func (c *stagedCell) DecodeBorsh(r *borsh.Reader) {
	*c = stagedCell{At: readRef(r)}
	c.Accounts.Lo = primitives.AccountID(readVarBytes(r))
	c.Accounts.Hi = primitives.AccountID(readVarBytes(r))
}

// partKey names a part of a shard that is coming in.
type partKey struct {
	shard primitives.ShardID
	part  uint64
}

func appendPartKey(b []byte, k partKey) []byte {
	return binary.BigEndian.AppendUint64(appendShard(b, k.shard), k.part)
}

func appendShard(b []byte, id primitives.ShardID) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(id))
}

// lateKey names what a block did in a shard that came in after it.
type lateKey struct {
	ref   BlockRef
	shard primitives.ShardID
}

func appendLateKey(b []byte, k lateKey) []byte { return appendShard(appendRef(b, k.ref), k.shard) }

// Stage says that a shard comes in with its state after a block, and returns the parts of it that are here already. Another block than
// before, or another range, begins anew. The folder may be empty: ImportAt then takes the shards that were staged.
func (s *Store) Stage(shard primitives.ShardID, at BlockRef, accounts AccountRange) (parts []uint64, err error) {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	if err := s.writable(); err != nil {
		return nil, err
	}
	v := s.view.Load()
	if c, ok := v.shards[shard]; !v.empty && !(ok && c.Left) && v.base.entry.has(shard) {
		return nil, fmt.Errorf("%w: shard %d is here", ErrOrder, shard)
	}
	want := stagedCell{at, accounts}
	switch got, err := staged.Get(s.db, shard); {
	case err == nil && got == want:
		return s.stagedParts(shard)
	case err == nil:
		accounts = got.Accounts
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	// What is there of it is of another time. That it comes in is said last.
	if err := s.removeShard(shard, accounts); err != nil {
		return nil, s.fail(err)
	}
	var batch Batch
	staged.Put(&batch, shard, &want)
	return nil, s.fail(s.step(&batch))
}

func (s *Store) stagedParts(shard primitives.ShardID) (parts []uint64, err error) {
	lo := appendShard(nil, shard)
	err = stagedParts.Scan(s.db, lo, PrefixEnd(lo), func(key []byte, _ Nothing) bool {
		if len(key) == 16 {
			parts = append(parts, binary.BigEndian.Uint64(key[8:]))
		}
		return true
	})
	return parts, err
}

// StagePart stores a part of a shard that is coming in: any pairs, which others may be given again by another part. When it returns nil the part is
// among those that Stage returns. Parts may come at once from several goroutines.
func (s *Store) StagePart(shard primitives.ShardID, part uint64, pairs func(put func(key, value []byte) error) error) error {
	if err := s.writable(); err != nil {
		return err
	}
	cell, err := staged.Get(s.db, shard)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: shard %d is not staged", ErrOrder, shard)
	}
	if err != nil {
		return err
	}
	var batch Batch
	err = pairs(func(key, value []byte) error {
		if len(key) == 0 || value == nil || !cell.Accounts.has(key) {
			return fmt.Errorf("%w: key %x is not of shard %d", ErrOrder, key, shard)
		}
		putFlat(&batch, flatKey(shard, key), value)
		if batch.Size() < historyBatch {
			return nil
		}
		err := s.db.write(&batch, false)
		batch.Reset()
		return err
	})
	if err != nil {
		return err // what was written of it is written again, or goes with the shard
	}
	stagedParts.Put(&batch, partKey{shard, part}, &Nothing{})
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	return s.fail(s.step(&batch))
}

// has tells whether a trie key can be of a shard of that range.
func (r *AccountRange) has(key []byte) bool {
	if shardBound(key[0]) {
		return true
	}
	name := string(key[1:])
	return name >= string(r.Lo) && (r.Hi == "" || name < string(r.Hi))
}

// EnterShard makes what was staged the state of the shard after its block, which is canonical and folded. frontier is the whole of its
// frontier.
func (s *Store) EnterShard(shard primitives.ShardID, frontierStubs []Stub) error {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	cell, err := staged.Get(s.db, shard)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: shard %d is not staged", ErrOrder, shard)
	}
	if err != nil {
		return err
	}
	v := s.view.Load()
	if ok, err := s.IsCanonical(cell.At); err != nil || !ok || cell.At.Height > v.folded.Height || cell.At.Height < v.tail {
		return errors.Join(err, fmt.Errorf("%w: shard %d comes in at block %v, which is not folded", ErrOrder, shard, cell.At))
	}
	changes := make([]FrontierChange, len(frontierStubs))
	for i := range changes {
		changes[i] = FrontierChange{Shard: shard, Stub: frontierStubs[i]}
	}
	if err := s.writeFrontier(changes); err != nil {
		return s.fail(err)
	}
	var batch Batch
	if err := s.unstage(&batch, shard); err != nil {
		return s.fail(err)
	}
	at := shardCell{At: cell.At, Since: cell.At.Height, With: cell.At == v.folded, Accounts: cell.Accounts}
	shardCells.Put(&batch, shard, &at)
	if err := s.step(&batch); err != nil {
		return s.fail(err)
	}
	s.setShard(shard, &at)
	return nil
}

// writeFrontier writes rows in pieces, which nobody reads yet.
func (s *Store) writeFrontier(changes []FrontierChange) error {
	var batch Batch
	for i := range changes {
		c := &changes[i]
		frontier.Put(&batch, frontierKey{c.Shard, string(c.Path)}, &stub{c.Hash, c.MemoryUsage})
		if batch.Size() >= historyBatch || i == len(changes)-1 {
			if err := s.db.write(&batch, false); err != nil {
				return err
			}
			batch.Reset()
		}
	}
	return nil
}

// unstage removes what says that a shard is coming in.
func (s *Store) unstage(batch *Batch, shard primitives.ShardID) error {
	staged.Delete(batch, shard)
	lo := append([]byte{stagedParts.id}, appendShard(nil, shard)...)
	return deleteRange(s.db, batch, lo, PrefixEnd(lo))
}

// setShard shows readers where a shard is; nil: where the store is.
func (s *Store) setShard(shard primitives.ShardID, c *shardCell) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	next := *s.view.Load()
	if next.shards = maps.Clone(next.shards); next.shards == nil {
		next.shards = map[primitives.ShardID]shardCell{}
	}
	if delete(next.shards, shard); c != nil {
		next.shards[shard] = *c
	}
	s.view.Store(&next)
}

// readShards reads the rows of shards that are not where the store is.
func (s *Store) readShards(v *view) error {
	v.shards = map[primitives.ShardID]shardCell{}
	err := shardCells.Scan(s.db, nil, nil, func(key []byte, c shardCell) bool {
		if len(key) == 8 {
			v.shards[primitives.ShardID(binary.BigEndian.Uint64(key))] = c
		}
		return true
	})
	if err != nil {
		return err
	}
	any := false
	err = lates.Scan(s.db, nil, nil, func([]byte, entry) bool { any = true; return false })
	s.hasLates.Store(any)
	return err
}

// ShardAt returns the block after which the store has the state of a shard, besides those before and after that Tip tells. here is
// false if it is known not to have it. A shard that is where the store is, is at the folded block.
func (s *Store) ShardAt(shard primitives.ShardID) (at BlockRef, here bool) {
	v := s.view.Load()
	c, ok := v.shards[shard]
	switch {
	case ok && c.Left:
		return BlockRef{}, false
	case ok && !c.With:
		return c.At, true
	}
	return v.folded, true
}

// readable says why the state of a shard after a block can't be read.
func (v *view) readable(at BlockRef, shard primitives.ShardID) error {
	c, ok := v.shards[shard]
	switch {
	case !ok:
		return nil
	case c.Left:
		return fmt.Errorf("shard %d at block %v: %w, it has left", shard, at, ErrGone)
	case at.Height < c.Since:
		return fmt.Errorf("shard %d at block %v: %w, it came in at height %d", shard, at, ErrGone, c.Since)
	case !c.With && at.Height > c.At.Height && at.Height <= v.folded.Height:
		return fmt.Errorf("shard %d at block %v: %w, it is at height %d", shard, at, ErrNotFound, c.At.Height)
	}
	return nil
}

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
	if err := s.log.flush(); err != nil {
		return nil, s.fail(err)
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
		undo.Put(&batch, undoKey{k.flat, rec.Ref().Height}, &undoValue{k.shard, k.item})
		putFlat(&batch, k.flat, k.change.Last())
	}
	put := func(c *Column[pointer, Nothing], k pointer) { c.Put(&batch, k, &Nothing{}) }
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
	return nil
}

// foldShards says where shards are after a fold that do not all go with it, and writes the late records of its blocks.
func (s *Store) foldShards(batch *Batch, v *view, chain []*pendingBlock) map[primitives.ShardID]shardCell {
	if len(v.shards) == 0 {
		return v.shards
	}
	next := maps.Clone(v.shards)
	for id, c := range next {
		at := v.folded
		for _, p := range chain {
			if !c.With {
				break
			}
			if s.hasShard(p.ref, id) {
				at = p.ref
				continue
			}
			if s.splitsAway(p, id) {
				break
			}
			c.With, c.At = false, at
		}
		if c != next[id] {
			next[id] = c
			shardCells.Put(batch, id, &c)
		}
	}
	for _, p := range chain {
		for _, e := range s.lateEntries(p.ref) {
			lates.Put(batch, lateKey{p.ref, e.head.Shards[0].ID}, e)
		}
	}
	return next
}

// splitsAway tells whether a shard ends with the block before.
func (s *Store) splitsAway(p *pendingBlock, id primitives.ShardID) bool {
	return slices.ContainsFunc(p.entry.head.Splits, func(x Split) bool { return x.Parent == id })
}

// skips tells whether a change is not to come to Flat: its shard has left since, or is not there yet.
func (v *view) skips(id primitives.ShardID, height primitives.Height) bool {
	c, ok := v.shards[id]
	return ok && (c.Left && height <= c.Since || !c.Left && !c.With)
}

// LeaveShard removes a shard: its state, its history and its frontier. Records stay until garbage collection takes them. It goes in
// pieces; what a crash leaves of it is removed by the next call of this or of Collect. The caller sees to it that blocks behind the head
// do nothing in the shard.
func (s *Store) LeaveShard(shard primitives.ShardID, accounts AccountRange) error {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	if v.empty {
		return fmt.Errorf("%w: no genesis yet", ErrOrder)
	}
	cell := shardCell{Since: v.head.Height, Left: true, Leaving: true, Accounts: accounts}
	for _, p := range s.tree.sorted() {
		cell.Since = max(cell.Since, p.ref.Height)
	}
	var batch Batch
	shardCells.Put(&batch, shard, &cell)
	s.setShard(shard, &cell) // readers learn first
	if err := s.step(&batch); err != nil {
		return s.fail(err)
	}
	return s.fail(s.endLeaving(shard, cell))
}

func (s *Store) endLeaving(shard primitives.ShardID, cell shardCell) error {
	if err := s.removeShard(shard, cell.Accounts); err != nil {
		return err
	}
	cell.Leaving = false
	var batch Batch
	shardCells.Put(&batch, shard, &cell)
	if err := s.step(&batch); err != nil {
		return err
	}
	s.setShard(shard, &cell)
	return nil
}

// endAllLeaving removes what a crash has left of shards that leave.
func (s *Store) endAllLeaving() error {
	v := s.view.Load()
	for _, id := range slices.Sorted(maps.Keys(v.shards)) {
		if c := v.shards[id]; c.Leaving {
			if err := s.endLeaving(id, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeShard removes the rows of a shard, in pieces.
func (s *Store) removeShard(shard primitives.ShardID, accounts AccountRange) error {
	for _, r := range flatRanges(shard, accounts, nil, nil) {
		hi, uhi := []byte{flat.id + 1}, []byte{undo.id + 1}
		if r.hi != "" {
			hi, uhi = append([]byte{flat.id}, r.hi...), escape([]byte{undo.id}, r.hi)
		}
		if err := s.dropRange(append([]byte{flat.id}, r.lo...), hi); err != nil {
			return err
		}
		if err := s.dropRange(escape([]byte{undo.id}, r.lo), uhi); err != nil {
			return err
		}
	}
	if err := s.dropFrontier(shard); err != nil {
		return err
	}
	lo := append([]byte{stagedParts.id}, appendShard(nil, shard)...)
	return s.dropRange(lo, PrefixEnd(lo))
}

// dropRange deletes a range of keys, in pieces.
func (s *Store) dropRange(lo, hi []byte) error {
	var batch Batch
	for {
		cur := s.db.iterate(lo, hi)
		for batch.Size() < historyBatch && cur.next() {
			batch.delete(cur.key())
			lo = append(bytes.Clone(cur.key()), 0)
		}
		if err := cur.done(); err != nil || batch.Len() == 0 {
			return err
		}
		if err := s.db.write(&batch, false); err != nil {
			return err
		}
		batch.Reset()
	}
}
