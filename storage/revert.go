package storage

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// cellRevert holds the target of a revert below the folded block that has not ended.
const cellRevert = "revert"

// Revert makes the canonical block to the head again and removes every block above its height. Heights come again.
// Values of the engine's own columns stay.
//
// When to is below the folded block, Flat is walked back by what each block changed. changes is then the difference of the
// frontier from the folded block to to; without it (nil) the frontier is lost, and ResetFrontier must bring a new one.
// A revert that a crash interrupts goes on at the next Open, and has lost the frontier. Nothing may read or write meanwhile.
func (s *Store) Revert(to BlockRef, changes []FrontierChange) error {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	if ok, err := s.IsCanonical(to); err != nil {
		return err
	} else if !ok {
		return fmt.Errorf("%w: revert to %v, which is not canonical", ErrOrder, to)
	}
	if to.Height < v.tail {
		return fmt.Errorf("revert to %v: %w, the earliest is %d", to, ErrGone, v.tail)
	}
	s.cache.clear()
	s.named = false
	return s.fail(s.revert(v, to, changes))
}

func (s *Store) revert(v *view, to BlockRef, changes []FrontierChange) error {
	below := to.Height < v.folded.Height
	var batch Batch
	next := *v
	next.pending = map[primitives.Hash]*pendingBlock{}
	next.head = v.folded
	if !below {
		next.head = to
	}
	canonical := map[primitives.Hash]bool{}
	for p := v.pending[v.head.Hash]; p != nil; p = v.pending[p.prev.Hash] {
		canonical[p.ref.Hash] = true
	}
	for hash, p := range v.pending {
		if p.ref.Height <= next.head.Height {
			next.pending[hash] = p
			continue
		}
		if canonical[hash] { // a fold that a crash interrupted may have written its history
			if err := s.uncount(&batch, p.entry, nil); err != nil {
				return err
			}
		}
		forget(&batch, &p.entry.head, nil)
	}
	err := s.canonicalRange(next.head.Height+1, 1<<48, func(ref BlockRef) error { return s.uncanonical(&batch, ref) })
	if err != nil {
		return err
	}
	s.fold.Log = s.log.end // the records above are history of another chain
	if below {
		target := Raw(appendRef(nil, to))
		meta.Put(&batch, cellRevert, &target)
		s.fold.FrontierLost = true
	}
	if err := s.writeTip(&batch, &next); err != nil {
		return err
	}
	if below {
		return s.unfold(to, changes)
	}
	return nil
}

// writeTip ends a step of a revert: it writes and publishes a view.
func (s *Store) writeTip(batch *Batch, next *view) error {
	e, err := s.entry(next.head)
	if err != nil {
		return err
	}
	next.final = e.head.Final // as it was when that block was the head; may be below the folded block
	s.fold.Folded = next.folded
	if next.base == nil || next.base.ref != next.folded {
		folded, err := s.entry(next.folded)
		if err == nil {
			next.base, err = s.loadPending(folded)
		}
		if err != nil {
			return err
		}
	}
	putCell(batch, cellCommit, &commitCell{Head: next.head, Final: next.final, Log: s.log.end})
	putCell(batch, cellFold, &s.fold)
	if err := s.db.write(batch, !s.o.NoSync); err != nil {
		return err
	}
	s.view.Store(next)
	return nil
}

// unfold walks Flat back to a canonical block, in batches that each end at a block.
func (s *Store) unfold(to BlockRef, changes []FrontierChange) error {
	for {
		var batch Batch
		next := *s.view.Load()
		for next.folded != to && batch.Size() < importBatch {
			e, err := s.entry(next.folded)
			if err != nil {
				return err
			}
			if len(e.head.Splits) > 0 && batch.Len() > 0 {
				break // what the children have on disk is to be all that they have
			}
			if next.folded.Height <= to.Height || e.head.Prev.IsZero() {
				return damaged("revert passed %v without meeting it", to)
			}
			if err := s.unfoldBlock(&batch, e); err != nil {
				return err
			}
			next.folded = e.head.Prev
		}
		next.head = next.folded
		last := next.folded == to
		if last {
			meta.Delete(&batch, cellRevert)
			if changes != nil {
				putFrontier(&batch, changes)
				s.fold.FrontierLost = false
			}
		}
		if err := s.writeTip(&batch, &next); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

// unfoldBlock undoes what folding one block did to the index, and removes the block.
func (s *Store) unfoldBlock(batch *Batch, e *entry) error {
	if err := s.uncount(batch, e, nil); err != nil {
		return err
	}
	for i := range e.head.Shards {
		shard := e.head.Shards[i].ID
		changes, err := (&Record{s: s, e: e}).Changes(shard)
		if err != nil {
			return err
		}
		made := splitOf(e.head.Splits, shard) != nil
		for j := range changes {
			if key := changes[j].Key; !made || !shardBound(key[0]) { // else there was no such row
				putFlat(batch, flatKey(shard, key), changes[j].Old)
			}
		}
	}
	for _, x := range e.head.Splits { // the parent's rows are as they were
		splitParents.Delete(batch, splitKey{e.head.Ref.Height, x.Parent})
		for _, child := range [...]primitives.ShardID{x.Left, x.Right} {
			if err := s.dropRows(batch, child); err != nil {
				return err
			}
		}
	}
	forget(batch, &e.head, nil)
	return nil
}

func putFrontier(batch *Batch, changes []FrontierChange) {
	for i := range changes {
		c := &changes[i]
		k := frontierKey{c.Shard, string(c.Path)}
		if c.Gone {
			frontier.Delete(batch, k)
		} else {
			frontier.Put(batch, k, &stub{c.Hash, c.MemoryUsage})
		}
	}
}

// resumeRevert ends a revert that a crash interrupted.
func (s *Store) resumeRevert() error {
	raw, err := meta.Get(s.db, cellRevert)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	to, ok := parseRef(raw)
	if !ok {
		return damaged("Meta %s of %d bytes", cellRevert, len(raw))
	}
	return s.unfold(to, nil)
}
