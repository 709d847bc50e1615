package storage

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// importBatch is the number of bytes in one batch of an import.
const importBatch = 4 << 20

// Pair is a trie key with its value, in a shard.
type Pair struct {
	Shard      primitives.ShardID
	Key, Value []byte
}

// Import stores the genesis block and its state in an empty folder.
//
// pairs must call put for every key of the state, in any order, and return put's error.
// frontierStubs is called after pairs has returned, and yields the whole frontier of that state in
// any order. If frontierStubs is nil, Import stores no frontier.
//
// A state does not fit into one batch, so Import writes the state in several batches. A marker,
// removed with the last batch, shows that an import was interrupted. Until then the folder counts
// as empty (Tip.Empty), and the next Import clears the folder. Nothing else may use the store
// meanwhile.
func (s *Store) Import(genesis *Block, frontierStubs iter.Seq[FrontierChange],
	pairs func(put func(Pair) error) error) error {
	return s.importAt(genesis.Ref, func(put func(*Block) error) error { return put(genesis) }, frontierStubs, pairs)
}

// ImportAt begins a store in the middle of a chain. blocks must call put for these blocks,
// ascending, and return put's error: genesis, any wanted ancestors of the last block, and the block
// `at` of the staged state (Stage, StagePart). ImportAt keeps none of the blocks in memory, only
// their rows of the index. frontierStubs is the whole frontier of that state; if frontierStubs is
// nil, the store uses the frontier that was staged.
//
// The ancestors have no state: only their records can be read. Shards of the last block that were
// not staged are absent, which may be all. A shard that was staged for an ancestor stays staged:
// InstallShard and CommitShard then bring it to the last block. After an error the folder stays
// empty, with the staged states.
func (s *Store) ImportAt(at BlockRef, blocks func(put func(*Block) error) error, frontierStubs iter.Seq[FrontierChange]) error {
	return s.importAt(at, blocks, frontierStubs, nil)
}

// Begin returns the height of the block with whose state the store began (ImportAt), or 0 if it
// began with the genesis. The store has no state of blocks below that height, and neither changes
// nor outcomes of the blocks up to and including it. Safe for concurrent use.
func (s *Store) Begin() (primitives.Height, error) {
	if s.parent != nil {
		return s.parent.Begin()
	}
	var begin Uint64
	_, err := getCell(s.db, cellBegin, &begin)
	return primitives.Height(begin), err
}

func (s *Store) importAt(at BlockRef, blocks func(put func(*Block) error) error,
	frontierStubs iter.Seq[FrontierChange], pairs func(put func(Pair) error) error) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	if !v.empty {
		return fmt.Errorf("%w: the store already has a genesis", ErrOrder)
	}
	var batch Batch
	began := stagedImport{tail: at.Height}
	if pairs != nil {
		if err := s.clear(); err != nil {
			return s.fail(err)
		}
		if err := s.importPairs(frontierStubs, pairs); err != nil {
			return err // the folder stays empty after this error
		}
	} else {
		var err error
		if began, err = s.importStaged(&batch, at, frontierStubs); err != nil {
			return err
		}
	}
	in := &importedBlocks{s: s, batch: &batch, earlier: began.earlier, touched: map[uint32]primitives.Height{}}
	if err := blocks(in.put); err != nil {
		return err
	}
	if err := in.checkEnd(at); err != nil {
		return err
	}
	if err := s.log.flush(); err != nil {
		return s.fail(err)
	}
	base := in.base
	base.body.Load().eachPointer(base.ref.Height, in.toEra0)
	if err := s.putSegments(&batch, in.touched); err != nil {
		return s.fail(err)
	}
	cell := flatHeadCell{Block: at, From: s.log.end, To: s.log.end}
	historyBuckets.Put(&batch, 0, &Nothing{})
	putCell(&batch, cellFlatHead, &cell)
	putCell(&batch, cellTail, Uint64(began.tail))
	if in.n > 1 {
		putCell(&batch, cellBegin, Uint64(at.Height))
	}
	meta.Delete(&batch, cellImport)
	if err := s.step(&batch); err != nil {
		return s.fail(err)
	}
	if err := s.compact(); err != nil {
		return s.fail(err)
	}
	s.space.allowWaits()
	s.flatHead = cell
	s.buckets.Store(&[]primitives.Height{0})
	s.tree.addIDs(base, base.body.Load())
	final := in.last.Final
	if in.n > 1 { // Open computes the same value of final
		final = at
	}
	s.view.Store(&view{head: at, final: final, flatHead: at, tail: began.tail, base: base, shards: began.cells})
	return nil
}

// importedBlocks appends the blocks of an import to the log, and their rows to the batch.
type importedBlocks struct {
	s       *Store
	batch   *Batch
	earlier map[primitives.ShardID]BlockRef // blocks of staged states that have not been put yet
	touched map[uint32]primitives.Height
	n       int
	last    *Block        // the last block; nil: none yet
	base    *pendingBlock // of last
}

// toEra0 adds a pointer to the first history bucket.
func (in *importedBlocks) toEra0(c *Column[placeKey, Nothing], k pointer) {
	c.Put(in.batch, placeKey{0, k}, &Nothing{})
}

func (in *importedBlocks) put(b *Block) error {
	if err := in.check(b); err != nil {
		return err
	}
	e, err := in.s.append(b)
	if err != nil {
		return err
	}
	// AdvanceFlatHead writes the pointers to the receipts of the last block, because these pointers
	// depend on the block after it: see writeHistory.
	if old := in.base; old != nil {
		old.body.Load().eachReceipt(old.ref.Height, isNever, in.toEra0)
	}
	p := newPending(e, b, nil)
	in.touched[e.at.Segment] = b.Ref.Height
	putBlockNames(in.batch, []*pendingBlock{p})
	if p.puts != nil {
		in.batch.add(p.puts)
	}
	if in.last == nil || b.Epoch != in.last.Epoch {
		epochFirst.Put(in.batch, b.Ref.Height, &b.Epoch)
	}
	maps.DeleteFunc(in.earlier, func(_ primitives.ShardID, at BlockRef) bool { return at == b.Ref })
	in.n, in.last, in.base = in.n+1, b, p
	return nil
}

// check returns an error if a store cannot have a block after the last one.
func (in *importedBlocks) check(b *Block) error {
	if err := b.check(); err != nil {
		return err
	}
	if b.Prev.IsZero() != (in.last == nil) {
		return fmt.Errorf("%w: the first block, and no other, must have no parent", ErrOrder)
	}
	if in.last != nil && b.Ref.Height <= in.last.Ref.Height {
		return fmt.Errorf("%w: block %v does not follow block %v", ErrOrder, b.Ref, in.last.Ref)
	}
	for j := range b.Shards {
		if len(b.Shards[j].Changes) > 0 {
			return fmt.Errorf("%w: the state of the first block must be given as pairs, not as changes", ErrOrder)
		}
	}
	return nil
}

// checkEnd returns an error unless the last block is the head, with the state of the block `at`, and
// all other staged states are those of earlier blocks.
func (in *importedBlocks) checkEnd(at BlockRef) error {
	if ids := slices.Sorted(maps.Keys(in.earlier)); len(ids) > 0 {
		return fmt.Errorf("%w: shard %d was staged for block %v, not %v or an ancestor", ErrOrder, ids[0], in.earlier[ids[0]], at)
	}
	if in.last == nil || in.last.Ref != at || !in.last.Head {
		return fmt.Errorf("%w: the last block must be %v, and the head", ErrOrder, at)
	}
	return nil
}

func isNever(primitives.Hash) bool { return false }

// compact compacts the index after an import, so that the running node need not. compact does
// nothing if the import was so small that no table was made.
func (s *Store) compact() error {
	var now Stats
	if s.db.stats(&now); len(now.LevelTables) == 0 {
		return nil
	}
	s.snapshots.drop() // a snapshot would keep tables on disk that merging replaces
	s.stale.drop()
	return s.db.compact()
}

// stagedImport is the result of importStaged.
type stagedImport struct {
	tail  primitives.Height // of the store: the lowest block of a staged state
	cells map[primitives.ShardID]shardCell
	// earlier are the blocks of the states that stay staged. They must be among the imported blocks.
	earlier map[primitives.ShardID]BlockRef
}

// importStaged makes the states that are staged for the last block, `at`, the states of the store.
// States that are staged for other blocks stay staged. If there are such states, they determine the tail, and
// cells say from which block on the states of the other shards are known.
func (s *Store) importStaged(batch *Batch, at BlockRef, frontierStubs iter.Seq[FrontierChange]) (stagedImport, error) {
	out := stagedImport{tail: at.Height, cells: map[primitives.ShardID]shardCell{}, earlier: map[primitives.ShardID]BlockRef{}}
	err := staged.Scan(s.db, nil, nil, func(key []byte, c stagedCell) bool {
		if id := primitives.ShardID(binary.BigEndian.Uint64(key)); c.At == at {
			out.cells[id] = shardCell{At: at, Since: at.Height, InSync: true, Accounts: c.Accounts}
		} else {
			out.tail, out.earlier[id] = min(out.tail, c.At.Height), c.At
		}
		return true
	})
	if err != nil {
		return out, err
	}
	if err := s.log.reset(); err != nil { // remove the segments of an interrupted import
		return out, s.fail(err)
	}
	for _, id := range slices.Sorted(maps.Keys(out.cells)) {
		if frontierStubs != nil {
			if err := dropFrontier(s.db, id); err != nil {
				return out, s.fail(err)
			}
		}
		if err := unstage(s.db, batch, id); err != nil {
			return out, s.fail(err)
		}
	}
	if out.tail == at.Height { // the tail says the same as the cells
		clear(out.cells)
	}
	for id, c := range out.cells {
		shardCells.Put(batch, id, &c)
	}
	return out, writeFrontier(s.db, frontierStubs)
}

func (s *Store) importPairs(stubs iter.Seq[FrontierChange], pairs func(put func(Pair) error) error) error {
	var batch Batch
	flush := func() error { // unsynced: the last batch of the import syncs all batches before it
		err := s.db.write(&batch, false)
		batch.Reset()
		return err
	}
	err := pairs(func(p Pair) error {
		if len(p.Key) == 0 || p.Value == nil {
			return fmt.Errorf("%w: a pair has no key or no value", ErrOrder)
		}
		putFlat(&batch, flatKey(p.Shard, p.Key), p.Value)
		if batch.Size() >= importBatch {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	return writeFrontier(s.db, stubs)
}

// clear sets the import marker and removes what an interrupted import left.
func (s *Store) clear() error {
	var batch Batch
	marker := Raw{1}
	meta.Put(&batch, cellImport, &marker)
	if err := s.step(&batch); err != nil {
		return err
	}
	for _, r := range [...][2][]byte{{{meta.id + 1}, {steps.id}}, {{steps.id + 1}, nil}} {
		for more := true; more; {
			batch.Reset()
			cur := s.db.iterate(r[0], r[1])
			for batch.Size() < importBatch && cur.next() {
				batch.delete(cur.key())
			}
			if err := cur.done(); err != nil {
				return err
			}
			if more = batch.Len() > 0; more {
				if err := s.db.write(&batch, false); err != nil {
					return err
				}
			}
		}
	}
	s.segments, s.rows = map[uint32]primitives.Height{}, nil
	return s.log.reset()
}
