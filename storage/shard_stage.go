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

// shardCell records which states of a shard the store has. A shard has a cell if the shard is not
// at the flat head, or was imported after the store began. A shard without a cell has been at the
// flat head since genesis, or since the split that created it.
//
// Importing a shard: Stage and StagePart store the shard's pairs as of some block, which may take
// hours and outlast restarts. InstallShard makes these pairs the shard's state. The shard stays at
// that block while the other shards advance. CommitShard then stores the results of the following
// blocks in that shard, one by one, in records of their own. Once the shard has reached the flat
// head, the shard is in sync and advances with the other shards. UntrackShard deletes all data of a
// shard except what is in records.
//
// Rejected: a flat head for each shard. All these flat heads would nearly always be equal, and each
// reader would have to look up the flat head of its shard.
type shardCell struct {
	At BlockRef // block after which the store has the shard's state; unused if InSync is true
	// Since is the height of the first block after which the shard's state is known. If the shard
	// is untracked, Since is the height of the last block for which the state could have been
	// known.
	Since     primitives.Height
	InSync    bool         // true: the shard's state is that after the flat head
	Untracked bool         // true: the store does not have the shard's state
	Deleting  bool         // true: the shard is untracked, but some rows are not deleted yet
	Accounts  AccountRange // accounts of an untracked shard
}

// AppendBorsh appends 51 bytes and two account IDs.
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

// stagedCell is a shard that is being imported.
type stagedCell struct {
	At       BlockRef
	Accounts AccountRange
}

// AppendBorsh appends the block and two account IDs.
func (c *stagedCell) AppendBorsh(b []byte) []byte {
	return appendVarBytes(appendVarBytes(appendRef(b, c.At), []byte(c.Accounts.Lo)), []byte(c.Accounts.Hi))
}

// DecodeBorsh reads a stagedCell.
func (c *stagedCell) DecodeBorsh(r *borsh.Reader) {
	*c = stagedCell{At: readRef(r)}
	c.Accounts.Lo = primitives.AccountID(readVarBytes(r))
	c.Accounts.Hi = primitives.AccountID(readVarBytes(r))
}

// partKey names a part of a shard that is being imported.
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

// Stage begins or resumes importing the state of a shard as of the block `at`, and returns the
// numbers of the parts that are already stored. If the block or the accounts differ from the block
// or accounts of a previous Stage of the shard, Stage first deletes the data staged so far. If the
// store is empty, ImportAt takes over the staged shards. Stage returns ErrOrder if the store has
// the shard already.
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
		return nil, fmt.Errorf("%w: shard %d is tracked already", ErrOrder, shard)
	}
	for id, c := range v.shards { // finish deletions now that would otherwise delete rows of this shard
		if c.Deleting && (id == shard || c.Accounts.overlaps(accounts)) {
			if err := s.deleteShard(id, c); err != nil {
				return nil, s.fail(err)
			}
		}
	}
	want := stagedCell{at, accounts}
	switch got, err := staged.Get(s.db, shard); {
	case err == nil && got == want:
		return readStagedParts(s.db, shard)
	case err == nil:
		accounts = got.Accounts
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	// The rows that a previous import has left are of another block, and deleting these rows takes
	// several writes. So the first write records that no part is stored, for the zero block, and
	// the last write records the new block.
	var batch Batch
	if err := unstage(s.db, &batch, shard); err != nil {
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

func readStagedParts(db index, shard primitives.ShardID) (parts []uint64, err error) {
	lo := appendShard(nil, shard)
	err = stagedParts.Scan(db, lo, PrefixEnd(lo), func(key []byte, _ Nothing) bool {
		if len(key) == 16 {
			parts = append(parts, binary.BigEndian.Uint64(key[8:]))
		}
		return true
	})
	return parts, err
}

// StagePart stores a part of a shard that is being imported. pairs calls put for each pair of the
// part. Parts may overlap. Once StagePart has returned nil, Stage returns the number of this part.
// Several parts may be stored concurrently. StagePart returns ErrOrder if the state of another
// block is being imported, even if that import began only while the part was stored.
func (s *Store) StagePart(shard primitives.ShardID, at BlockRef, part uint64,
	pairs func(put func(key, value []byte) error) error) error {
	cell, err := s.stagedShard(shard, at)
	if err != nil {
		return err
	}
	var batch Batch
	err = pairs(func(key, value []byte) error {
		if len(key) == 0 || value == nil || !cell.Accounts.has(key) {
			return fmt.Errorf("%w: key %x does not belong to shard %d", ErrOrder, key, shard)
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
		return err // the next attempt overwrites the rows written so far, or they are deleted with the shard
	}
	stagedParts.Put(&batch, partKey{shard, part}, &Nothing{})
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if _, err := s.stagedShard(shard, at); err != nil {
		return err
	}
	return s.fail(s.step(&batch))
}

// StageFrontier stores frontier nodes, of any level, of a shard that is being imported. Call it
// before the StagePart call for the part that the nodes came with: when that part is durable, so
// are the nodes. A node may come with several parts. The errors are the errors of StagePart.
func (s *Store) StageFrontier(shard primitives.ShardID, at BlockRef, stubs []FrontierNode) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if _, err := s.stagedShard(shard, at); err != nil {
		return err
	}
	return writeFrontier(s.db, insertFrontier(shard, stubs))
}

// stagedWrite writes rows of a shard that is being imported, unless the state of another block is
// being imported by now.
func (s *Store) stagedWrite(shard primitives.ShardID, at BlockRef, batch *Batch) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if _, err := s.stagedShard(shard, at); err != nil {
		return err
	}
	return s.db.write(batch, false)
}

// has returns whether a trie key can belong to a shard with this account range.
func (r *AccountRange) has(key []byte) bool {
	if shardBound(key[0]) {
		return true
	}
	name := string(key[1:])
	return name >= string(r.Lo) && (r.Hi == "" || name < string(r.Hi))
}

// InstallShard makes the staged data the state of the shard after its block, which must be
// canonical and not above the flat head. frontierStubs is the shard's whole frontier, on all
// levels; nil means the frontier that was staged. Errors: ErrOrder, and errors of reading or
// writing.
func (s *Store) InstallShard(shard primitives.ShardID, frontierStubs []FrontierNode) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	cell, err := stagingOf(s.db, shard)
	if err != nil {
		return err
	}
	v := s.view.Load()
	ok, err := s.IsCanonical(cell.At)
	if err != nil {
		return err
	}
	if !ok || cell.At.Height > v.flatHead.Height || cell.At.Height < v.tail {
		return fmt.Errorf("%w: cannot install shard %d at block %v, which is no canonical block between the tail and the flat head",
			ErrOrder, shard, cell.At)
	}
	if err := writeFrontier(s.db, insertFrontier(shard, frontierStubs)); err != nil {
		return s.fail(err)
	}
	var batch Batch
	if err := unstage(s.db, &batch, shard); err != nil {
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

// insertFrontier yields the changes that insert a shard's frontier.
func insertFrontier(shard primitives.ShardID, stubs []FrontierNode) iter.Seq[FrontierChange] {
	return func(yield func(FrontierChange) bool) {
		for i := range stubs {
			if !yield(FrontierChange{Shard: shard, FrontierNode: stubs[i]}) {
				return
			}
		}
	}
}

// writeFrontier writes frontier rows in pieces. Nothing reads the rows before all are written. A
// nil changes means no rows. The path of a change may be overwritten when the next change is
// requested.
func writeFrontier(db index, changes iter.Seq[FrontierChange]) error {
	if changes == nil {
		return nil
	}
	var batch Batch
	for c := range changes {
		putFrontierNode(&batch, c.Shard, &c.FrontierNode)
		if batch.Size() < historyBatch {
			continue
		}
		if err := db.write(&batch, false); err != nil {
			return err
		}
		batch.Reset()
	}
	return db.write(&batch, false)
}

// stagingOf returns the cell of a shard that is being imported, or ErrOrder if the shard is not being
// imported.
func stagingOf(db index, shard primitives.ShardID) (stagedCell, error) {
	cell, err := staged.Get(db, shard)
	if errors.Is(err, ErrNotFound) {
		return cell, fmt.Errorf("%w: shard %d is not staged", ErrOrder, shard)
	}
	return cell, err
}

// stagedShard does the same as staging, and also checks that the store is writable. stagedShard
// returns ErrOrder if the state that is being imported is not the state after the block `at`.
func (s *Store) stagedShard(shard primitives.ShardID, at BlockRef) (stagedCell, error) {
	if err := s.writable(); err != nil {
		return stagedCell{}, err
	}
	cell, err := stagingOf(s.db, shard)
	if err == nil && cell.At != at {
		err = fmt.Errorf("%w: shard %d is staged for block %v, not %v", ErrOrder, shard, cell.At, at)
	}
	return cell, err
}

// unstage deletes the rows that record the import of a shard.
func unstage(db index, batch *Batch, shard primitives.ShardID) error {
	staged.Delete(batch, shard)
	lo := append([]byte{stagedParts.id}, appendShard(nil, shard)...)
	return deleteRange(db, batch, lo, PrefixEnd(lo))
}

// setShard publishes the cell of a shard to readers. A nil cell means that the shard is at the flat
// head.
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

// readShards reads the cells of shards that are not, or were not always, at the flat head.
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

// ShardAt returns the block whose state of the shard the store has: the flat head if the shard is
// in sync. Tip bounds the other blocks whose state is readable. here is false if the store does not
// have the shard.
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

// readable returns an error if the state of a shard after a block cannot be read.
func (v *view) readable(at BlockRef, shard primitives.ShardID) error {
	c, ok := v.shards[shard]
	switch {
	case !ok:
		return nil
	case c.Untracked:
		return fmt.Errorf("state of shard %d at block %v: %w, the shard was untracked", shard, at, ErrGone)
	case at.Height < c.Since:
		return fmt.Errorf("state of shard %d at block %v: %w, the shard was imported at height %d", shard, at, ErrGone, c.Since)
	case !c.InSync && at.Height > c.At.Height:
		return fmt.Errorf("state of shard %d at block %v: %w, the catchup has reached height %d", shard, at, ErrNotFound, c.At.Height)
	}
	return nil
}

// advanceShards returns the cells of the shards after an advance of the flat head, and writes rows
// for the catchup records of the blocks that the flat head passes.
func (s *Store) advanceShards(batch *Batch, v *view, chain []*pendingBlock) (map[primitives.ShardID]shardCell, error) {
	if len(v.shards) == 0 {
		return v.shards, nil
	}
	split, err := readSplitParents(s.db)
	if err != nil {
		return nil, err
	}
	next := maps.Clone(v.shards)
	for id, c := range next {
		if slices.ContainsFunc(split, func(p splitParent) bool { return p.id == id }) {
			continue // the shard was split, so the blocks from the split on do not have the shard
		}
		at := v.flatHead
		for _, p := range chain {
			if !c.InSync {
				break
			}
			has, err := s.hasShard(p.ref, id)
			if err != nil {
				return nil, err
			}
			if has {
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
		catchup, err := s.catchupEntries(p.ref)
		if err != nil {
			return nil, err
		}
		for _, e := range catchup {
			sh := &e.head.Shards[0]
			catchupRecords.Put(batch, catchupKey{p.ref, sh.ID}, e)
			if sh.HasChunk {
				chunkPlaces.Put(batch, pointer{sh.Chunk, p.ref.Height, sh.ID, 0}, &Nothing{})
			}
		}
	}
	return next, nil
}

// splitsAway returns whether a block splits a shard.
func (s *Store) splitsAway(p *pendingBlock, id primitives.ShardID) bool {
	return slices.ContainsFunc(p.entry.head.Splits, func(x Split) bool { return x.Parent == id })
}

// skips returns whether a shard's change must not be written to Flat, because the shard was
// untracked after the change or is not in sync.
func (v *view) skips(id primitives.ShardID, height primitives.Height) bool {
	c, ok := v.shards[id]
	return ok && (c.Untracked && height <= c.Since || !c.Untracked && !c.InSync)
}
