package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Most shards are where the store is: their state is that of the folded block, and has been since genesis or the split that made them.
// A shardCell is the row of any other.
//
// A shard comes in as pairs at some block (Stage, StagePart), which may take hours and outlast restarts. InstallShard makes them its
// state at that block, and it stands there while the others go on. CommitShard then stores what the blocks behind it did in that
// shard, one by one, in records of their own; when it has come to the folded block it goes with the others from there on.
// LeaveShard removes all that is of it but the records.
type shardCell struct {
	At        BlockRef          // where its state is; of no meaning if it goes with the others
	Since     primitives.Height // the first block after which its state is known; of one that left: the last block that could have it
	InSync    bool              // it goes with the others
	Untracked bool              // it is not here
	Deleting  bool              // and not all that it had is removed
	Accounts  AccountRange      // of one that leaves
}

// AppendBorsh appends 51 bytes and the two names.
func (c *shardCell) AppendBorsh(b []byte) []byte {
	b = appendHeight(appendRef(b, c.At), c.Since)
	for _, f := range [...]bool{c.InSync, c.Untracked, c.Deleting} {
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
	c.InSync, c.Untracked, c.Deleting = r.Bool(), r.Bool(), r.Bool()
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

// Stage says that a shard comes in with its state after a block, and returns the parts of it that are here already. Another block than
// before, or another range, begins anew. The folder may be empty: ImportAt then takes the shards that were staged.
func (s *Store) Stage(shard primitives.ShardID, at BlockRef, accounts AccountRange) (parts []uint64, err error) {
	if err := s.FinishUntrack(); err != nil {
		return nil, err
	}
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return nil, err
	}
	v := s.view.Load()
	c, ok := v.shards[shard]
	if !v.empty && !(ok && c.Untracked) && v.base.entry.hasShard(shard) {
		return nil, fmt.Errorf("%w: shard %d is here", ErrOrder, shard)
	}
	for id, c := range v.shards { // of this or another shard: who removes that later would take what comes in for it
		if c.Deleting && (id == shard || c.Accounts.overlaps(accounts)) {
			if err := s.deleteShard(id, c); err != nil {
				return nil, s.fail(err)
			}
		}
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
	// What is there of it is of another time, and goes in pieces: so first it is said that no part is here, of no block, and last that it
	// comes in.
	var batch Batch
	if err := s.unstage(&batch, shard); err != nil {
		return nil, s.fail(err)
	}
	staged.Put(&batch, shard, &stagedCell{BlockRef{}, accounts})
	if err := s.step(&batch); err != nil {
		return nil, s.fail(err)
	}
	if err := s.untrackParents(shard); err != nil {
		return nil, s.fail(err)
	}
	if err := s.removeShard(shard, accounts); err != nil {
		return nil, s.fail(err)
	}
	batch.Reset()
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

// StagePart stores a part of a shard that is coming in with its state after a block: any pairs, which others may be given again by another
// part. When it returns nil the part is among those that Stage returns. Parts may come at once from several goroutines. ErrOrder: another
// block's state is awaited, maybe since the part began.
func (s *Store) StagePart(shard primitives.ShardID, at BlockRef, part uint64, pairs func(put func(key, value []byte) error) error) error {
	cell, err := s.stagedShard(shard, at)
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
		err := s.stagedWrite(shard, at, &batch)
		batch.Reset()
		return err
	})
	if err != nil {
		return err // what was written of it is written again, or goes with the shard
	}
	stagedParts.Put(&batch, partKey{shard, part}, &Nothing{})
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if _, err := s.stagedShard(shard, at); err != nil {
		return err
	}
	return s.fail(s.step(&batch))
}

// stagedWrite writes rows of a shard that is coming in, unless another state of it is awaited meanwhile.
func (s *Store) stagedWrite(shard primitives.ShardID, at BlockRef, batch *Batch) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if _, err := s.stagedShard(shard, at); err != nil {
		return err
	}
	return s.db.write(batch, false)
}

// hasShard tells whether a trie key can be of a shard of that range.
func (r *AccountRange) has(key []byte) bool {
	if shardBound(key[0]) {
		return true
	}
	name := string(key[1:])
	return name >= string(r.Lo) && (r.Hi == "" || name < string(r.Hi))
}

// InstallShard makes what was staged the state of the shard after its block, which is canonical and folded. frontier is the whole of its
// frontier, all levels.
func (s *Store) InstallShard(shard primitives.ShardID, frontierStubs []FrontierNode) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	cell, err := s.staging(shard)
	if err != nil {
		return err
	}
	v := s.view.Load()
	if ok, err := s.IsCanonical(cell.At); err != nil || !ok || cell.At.Height > v.flatHead.Height || cell.At.Height < v.tail {
		return errors.Join(err, fmt.Errorf("%w: shard %d comes in at block %v, which is not folded", ErrOrder, shard, cell.At))
	}
	if err := s.writeFrontier(insertFrontier(shard, frontierStubs)); err != nil {
		return s.fail(err)
	}
	var batch Batch
	if err := s.unstage(&batch, shard); err != nil {
		return s.fail(err)
	}
	at := shardCell{At: cell.At, Since: cell.At.Height, InSync: cell.At == v.flatHead, Accounts: cell.Accounts}
	shardCells.Put(&batch, shard, &at)
	if err := s.step(&batch); err != nil {
		return s.fail(err)
	}
	s.setShard(shard, &at)
	return nil
}

// insertFrontier are the changes of the frontier that bring a shard's entries.
func insertFrontier(shard primitives.ShardID, stubs []FrontierNode) iter.Seq[FrontierChange] {
	return func(yield func(FrontierChange) bool) {
		for i := range stubs {
			if !yield(FrontierChange{Shard: shard, FrontierNode: stubs[i]}) {
				return
			}
		}
	}
}

// writeFrontier writes rows in pieces, which nobody reads yet; nil: none. A path may be used again once the next one is asked for.
func (s *Store) writeFrontier(changes iter.Seq[FrontierChange]) error {
	if changes == nil {
		return nil
	}
	var batch Batch
	for c := range changes {
		putFrontierNode(&batch, c.Shard, &c.FrontierNode)
		if batch.Size() < historyBatch {
			continue
		}
		if err := s.db.write(&batch, false); err != nil {
			return err
		}
		batch.Reset()
	}
	return s.db.write(&batch, false)
}

// staging returns what says that a shard is coming in. ErrOrder: none does.
func (s *Store) staging(shard primitives.ShardID) (stagedCell, error) {
	cell, err := staged.Get(s.db, shard)
	if errors.Is(err, ErrNotFound) {
		return cell, fmt.Errorf("%w: shard %d is not staged", ErrOrder, shard)
	}
	return cell, err
}

// stagedShard is staging for a state after a block, with a store that takes writes. ErrOrder: it is not that which is awaited.
func (s *Store) stagedShard(shard primitives.ShardID, at BlockRef) (stagedCell, error) {
	if err := s.writable(); err != nil {
		return stagedCell{}, err
	}
	cell, err := s.staging(shard)
	if err == nil && cell.At != at {
		err = fmt.Errorf("%w: shard %d is staged for block %v, not %v", ErrOrder, shard, cell.At, at)
	}
	return cell, err
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
	err = catchupRecords.Scan(s.db, nil, nil, func([]byte, entry) bool { any = true; return false })
	s.hasCatchup.Store(any)
	return err
}

// ShardAt returns the block after which the store has the state of a shard, besides those before and after that Tip tells. here is
// false if it is known not to have it. A shard that is where the store is, is at the folded block.
func (s *Store) ShardAt(shard primitives.ShardID) (at BlockRef, here bool) {
	v := s.view.Load()
	c, ok := v.shards[shard]
	switch {
	case ok && c.Untracked:
		return BlockRef{}, false
	case ok && !c.InSync:
		return c.At, true
	}
	return v.flatHead, true
}

// readable says why the state of a shard after a block can't be read.
func (v *view) readable(at BlockRef, shard primitives.ShardID) error {
	c, ok := v.shards[shard]
	switch {
	case !ok:
		return nil
	case c.Untracked:
		return fmt.Errorf("shard %d at block %v: %w, it has left", shard, at, ErrGone)
	case at.Height < c.Since:
		return fmt.Errorf("shard %d at block %v: %w, it came in at height %d", shard, at, ErrGone, c.Since)
	case !c.InSync && at.Height > c.At.Height:
		return fmt.Errorf("shard %d at block %v: %w, it is at height %d", shard, at, ErrNotFound, c.At.Height)
	}
	return nil
}

// advanceShards says where shards are after a fold that do not all go with it, and writes the late records of its blocks.
func (s *Store) advanceShards(batch *Batch, v *view, chain []*pendingBlock) (map[primitives.ShardID]shardCell, error) {
	if len(v.shards) == 0 {
		return v.shards, nil
	}
	split, err := s.splitParents()
	if err != nil {
		return nil, err
	}
	next := maps.Clone(v.shards)
	for id, c := range next {
		if slices.ContainsFunc(split, func(p splitParent) bool { return p.id == id }) {
			continue // no block behind has it
		}
		at := v.flatHead
		for _, p := range chain {
			if !c.InSync {
				break
			}
			if s.hasShard(p.ref, id) {
				at = p.ref
				continue
			}
			if s.splitsAway(p, id) {
				break
			}
			c.InSync, c.At = false, at
		}
		if c != next[id] {
			next[id] = c
			shardCells.Put(batch, id, &c)
		}
	}
	for _, p := range chain {
		for _, e := range s.catchupEntries(p.ref) {
			sh := &e.head.Shards[0]
			catchupRecords.Put(batch, catchupKey{p.ref, sh.ID}, e)
			if sh.HasChunk {
				chunkPlaces.Put(batch, pointer{sh.Chunk, p.ref.Height, sh.ID, 0}, &Nothing{})
			}
		}
	}
	return next, nil
}

// splitsAway tells whether a shard ends with the block before.
func (s *Store) splitsAway(p *pendingBlock, id primitives.ShardID) bool {
	return slices.ContainsFunc(p.entry.head.Splits, func(x Split) bool { return x.Parent == id })
}

// skips tells whether a change is not to come to Flat: its shard has left since, or is not there yet.
func (v *view) skips(id primitives.ShardID, height primitives.Height) bool {
	c, ok := v.shards[id]
	return ok && (c.Untracked && height <= c.Since || !c.Untracked && !c.InSync)
}
