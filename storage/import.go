package storage

import (
	"encoding/binary"
	"errors"
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
	return s.importAt([]*Block{genesis}, frontierStubs, pairs)
}

// ImportAt begins a store in the middle of a chain. blocks are, ascending: genesis, any wanted
// ancestors of the last block, and the block of the staged state (Stage, StagePart). frontierStubs
// is the whole frontier of that state; if frontierStubs is nil, the store uses the frontier that
// was staged.
//
// The ancestors have no state: only their records can be read. Shards of the last block that were
// not staged are absent, which may be all. A shard that was staged for an ancestor stays staged:
// InstallShard and CommitShard then bring it to the last block.
func (s *Store) ImportAt(blocks []*Block, frontierStubs iter.Seq[FrontierChange]) error {
	return s.importAt(blocks, frontierStubs, nil)
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

func (s *Store) importAt(blocks []*Block, frontierStubs iter.Seq[FrontierChange],
	pairs func(put func(Pair) error) error) error {
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
	if err := checkFirst(blocks); err != nil {
		return err
	}
	var batch Batch
	last := blocks[len(blocks)-1]
	began := stagedImport{tail: last.Ref.Height}
	if pairs != nil {
		if err := s.clear(); err != nil {
			return s.fail(err)
		}
		if err := s.importPairs(frontierStubs, pairs); err != nil {
			return err // the folder stays empty after this error
		}
	} else {
		var err error
		if began, err = s.importStaged(&batch, blocks, frontierStubs); err != nil {
			return err
		}
	}
	all := make([]*pendingBlock, len(blocks))
	touched := map[uint32]primitives.Height{}
	for i, b := range blocks {
		e, err := s.append(b)
		if err != nil {
			return err
		}
		all[i] = newPending(e, b, nil)
		touched[e.at.Segment] = b.Ref.Height
	}
	if err := s.log.flush(); err != nil {
		return s.fail(err)
	}
	base := all[len(all)-1]
	putBlockNames(&batch, all)
	toEra0 := func(c *Column[placeKey, Nothing], k pointer) { c.Put(&batch, placeKey{0, k}, &Nothing{}) }
	base.body.Load().eachPointer(base.ref.Height, toEra0)
	for i, p := range all {
		// AdvanceFlatHead writes the pointers to the receipts of base, because these pointers
		// depend on the block after base: see writeHistory.
		if p != base {
			p.body.Load().eachReceipt(p.ref.Height, isNever, toEra0)
		}
		if p.puts != nil {
			batch.add(p.puts)
		}
		if i == 0 || blocks[i].Epoch != blocks[i-1].Epoch {
			epochFirst.Put(&batch, p.ref.Height, &blocks[i].Epoch)
		}
	}
	if err := s.putSegments(&batch, touched); err != nil {
		return s.fail(err)
	}
	cell := flatHeadCell{Block: last.Ref, From: s.log.end, To: s.log.end}
	historyBuckets.Put(&batch, 0, &Nothing{})
	putCell(&batch, cellFlatHead, &cell)
	putCell(&batch, cellTail, Uint64(began.tail))
	if len(all) > 1 {
		putCell(&batch, cellBegin, Uint64(last.Ref.Height))
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
	final := last.Final
	if len(all) > 1 { // Open computes the same value of final
		final = last.Ref
	}
	s.view.Store(&view{head: last.Ref, final: final, flatHead: last.Ref, tail: began.tail, base: base,
		shards: began.cells})
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
	s.dropSnapshot() // a snapshot would keep tables on disk that merging replaces
	s.dropStale()
	return s.db.compact()
}

// checkFirst returns an error if a store cannot begin with these blocks.
func checkFirst(blocks []*Block) error {
	if len(blocks) == 0 || !blocks[0].Prev.IsZero() || !blocks[len(blocks)-1].Head {
		return fmt.Errorf("%w: the first block must have no parent, and the last block must be the head", ErrOrder)
	}
	for i, b := range blocks {
		if err := b.check(); err != nil {
			return err
		}
		if i > 0 && (b.Ref.Height <= blocks[i-1].Ref.Height || b.Prev.IsZero()) {
			return fmt.Errorf("%w: block %v does not follow block %v", ErrOrder, b.Ref, blocks[i-1].Ref)
		}
		for j := range b.Shards {
			if len(b.Shards[j].Changes) > 0 {
				return fmt.Errorf("%w: the state of the first block must be given as pairs, not as changes", ErrOrder)
			}
		}
	}
	return nil
}

// stagedImport is the result of importStaged.
type stagedImport struct {
	tail  primitives.Height // of the store: the lowest block of a staged state
	cells map[primitives.ShardID]shardCell
}

// importStaged makes the staged states those after the last block. States that are staged for an
// earlier one of the blocks stay staged. If there are such states, they determine the tail, and
// cells say from which block on the states of the other shards are known.
func (s *Store) importStaged(batch *Batch, blocks []*Block, frontierStubs iter.Seq[FrontierChange]) (stagedImport, error) {
	at := blocks[len(blocks)-1].Ref
	out := stagedImport{tail: at.Height, cells: map[primitives.ShardID]shardCell{}}
	var wrong error
	err := staged.Scan(s.db, nil, nil, func(key []byte, c stagedCell) bool {
		switch id := primitives.ShardID(binary.BigEndian.Uint64(key)); {
		case c.At == at:
			out.cells[id] = shardCell{At: at, Since: at.Height, InSync: true, Accounts: c.Accounts}
		case slices.ContainsFunc(blocks, func(b *Block) bool { return b.Ref == c.At }):
			out.tail = min(out.tail, c.At.Height)
		default:
			wrong = fmt.Errorf("%w: shard %d was staged for block %v, not %v or an ancestor", ErrOrder, id, c.At, at)
		}
		return true
	})
	if err := errors.Join(err, wrong); err != nil {
		return out, err
	}
	if err := s.log.reset(); err != nil { // remove the segments of an interrupted import
		return out, s.fail(err)
	}
	for _, id := range slices.Sorted(maps.Keys(out.cells)) {
		if frontierStubs != nil {
			if err := s.dropFrontier(id); err != nil {
				return out, s.fail(err)
			}
		}
		if err := s.unstage(batch, id); err != nil {
			return out, s.fail(err)
		}
	}
	if out.tail == at.Height { // the tail says the same as the cells
		clear(out.cells)
	}
	for id, c := range out.cells {
		shardCells.Put(batch, id, &c)
	}
	return out, s.writeFrontier(frontierStubs)
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
	return s.writeFrontier(stubs)
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
