package storage

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// importBatch is how many bytes of an import are written at once.
const importBatch = 4 << 20

// Pair is a trie key with its value, in a shard.
type Pair struct {
	Shard      primitives.ShardID
	Key, Value []byte
}

// Import stores the genesis block and its state in an empty folder. pairs calls its argument for every key of the state, in
// any order, and returns the argument's error. frontier is the whole frontier of that state.
//
// A state is larger than what one batch may hold, so it is cut; a marker, removed by the last batch, makes an interrupted
// import begin again: until then the folder is empty (Tip.Empty) and the next Import clears it.
func (s *Store) Import(genesis *Block, frontierStubs []FrontierChange, pairs func(put func(Pair) error) error) error {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	if !v.empty {
		return fmt.Errorf("%w: there is a genesis already", ErrOrder)
	}
	if err := genesis.check(); err != nil {
		return err
	}
	if !genesis.Prev.IsZero() || !genesis.Head {
		return fmt.Errorf("%w: a genesis block has no parent and is the head", ErrOrder)
	}
	for i := range genesis.Shards {
		if len(genesis.Shards[i].Changes) > 0 {
			return fmt.Errorf("%w: the state of genesis comes as pairs, not as changes", ErrOrder)
		}
	}
	if err := s.clear(); err != nil {
		return s.fail(err)
	}
	if err := s.importPairs(frontierStubs, pairs); err != nil {
		return err // the folder stays empty
	}
	e, err := s.append(genesis)
	if err != nil {
		return err
	}
	if err := s.log.flush(); err != nil {
		return s.fail(err)
	}
	base := newPending(e, genesis, nil)
	var batch Batch
	foldNames(&batch, []*pendingBlock{base})
	base.body.Load().eachPointer(base.ref.Height, func(c *Column[pointer, Nothing], k pointer) { c.Put(&batch, k, &Nothing{}) })
	if base.puts != nil {
		batch.add(base.puts)
	}
	if err := s.putSegments(&batch, map[uint32]primitives.Height{e.at.Segment: genesis.Ref.Height}); err != nil {
		return s.fail(err)
	}
	epochFirst.Put(&batch, genesis.Ref.Height, &genesis.Epoch)
	cell := foldCell{Folded: genesis.Ref, From: s.log.end, To: s.log.end}
	putCell(&batch, cellFold, &cell)
	putCell(&batch, cellTail, Uint64(genesis.Ref.Height))
	meta.Delete(&batch, cellImport)
	if err := s.step(&batch); err != nil {
		return s.fail(err)
	}
	s.fold = cell
	s.tree.addIDs(base, base.body.Load())
	s.view.Store(&view{head: genesis.Ref, final: genesis.Final, folded: genesis.Ref, tail: genesis.Ref.Height, base: base})
	return nil
}

func (s *Store) importPairs(stubs []FrontierChange, pairs func(put func(Pair) error) error) error {
	var batch Batch
	flush := func() error { // the last batch of the import syncs them all
		err := s.db.write(&batch, false)
		batch.Reset()
		return err
	}
	err := pairs(func(p Pair) error {
		if len(p.Key) == 0 || p.Value == nil {
			return fmt.Errorf("%w: pair without a key or value", ErrOrder)
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
	for i := range stubs {
		c := &stubs[i]
		frontier.Put(&batch, frontierKey{c.Shard, string(c.Path)}, &stub{c.Hash, c.MemoryUsage})
	}
	return flush()
}

// clear sets the marker and removes what an earlier import left.
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
