package storage

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// FrontierChange is a new, changed or removed subtree of a shard's frontier.
type FrontierChange struct {
	Shard primitives.ShardID
	Stub
	Gone bool
}

// FoldDue tells whether enough final blocks wait to be folded, and up to which block Fold should go. Folding more at once
// writes a key that changes often less often; folding less leaves less for a restart.
func (s *Store) FoldDue() (BlockRef, bool) {
	v := s.view.Load()
	blocks, bytes := 0, 0
	for p := v.pending[v.final.Hash]; p != nil; p = v.pending[p.prev.Hash] {
		blocks++
		bytes += p.bytes
	}
	return v.final, blocks > 0 && (bytes >= s.o.FoldBytes || blocks >= s.o.FoldBlocks)
}

// Fold moves Flat and Frontier to the final block upto: it must be an ancestor of the last final block, or that block.
// changes is the difference of the frontier between the folded block and upto. Blocks that do not descend from upto, and
// are none of its ancestors, are forgotten. Atomic, synced; Commit and reads go on meanwhile. A block that splits shards may
// only be the first of a fold.
func (s *Store) Fold(upto BlockRef, changes []FrontierChange) error {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	chain, err := finalChain(v, upto)
	if err != nil || len(chain) == 0 {
		return err
	}
	for _, p := range chain[1:] {
		if len(p.entry.head.Splits) > 0 {
			return fmt.Errorf("%w: block %v splits shards in the middle of a fold", ErrOrder, p.ref)
		}
	}
	if err := s.foldHistory(v.base, chain); err != nil {
		return s.fail(err)
	}
	if err := s.copyRows(chain[0].entry.head.Splits); err != nil {
		return s.fail(err)
	}
	var batch Batch
	for _, x := range chain[0].entry.head.Splits {
		splitParents.Put(&batch, splitKey{chain[0].ref.Height, x.Parent}, &Nothing{})
	}
	foldState(&batch, chain)
	if err := s.foldEpochs(&batch, chain); err != nil {
		return err
	}
	putFrontier(&batch, changes)
	forgetForks(&batch, v.pending, upto)
	s.commitMu.Lock()
	cell := foldCell{Folded: upto, Log: s.log.end, FrontierLost: s.fold.FrontierLost}
	s.commitMu.Unlock()
	putCell(&batch, cellFold, &cell)
	if err := s.db.write(&batch, !s.o.NoSync); err != nil {
		return s.fail(err)
	}
	s.fold = cell
	return s.publishFold(chain[len(chain)-1], v)
}

// publishFold replaces the readers' view. Blocks that were committed meanwhile on a lost branch are forgotten too.
func (s *Store) publishFold(last *pendingBlock, before *view) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	next := *s.view.Load()
	late := map[primitives.Hash]*pendingBlock{}
	for hash, p := range next.pending {
		if before.pending[hash] == nil {
			late[hash] = p
		}
	}
	all := next.pending
	next.folded, next.base = last.ref, last
	next.pending = make(map[primitives.Hash]*pendingBlock, len(all))
	var batch Batch
	for hash, p := range all {
		if descends(all, p, last.ref) {
			next.pending[hash] = p
		} else if late[hash] != nil {
			forget(&batch, &p.entry.head, func(k pointer) bool { return included(all, p, k) })
		}
	}
	s.view.Store(&next)
	if batch.Len() == 0 {
		return nil
	}
	return s.fail(s.db.write(&batch, false))
}

// finalChain returns the blocks from the folded one, which is not among them, to upto.
func finalChain(v *view, upto BlockRef) ([]*pendingBlock, error) {
	if upto == v.folded {
		return nil, nil
	}
	var chain []*pendingBlock
	reached := false
	for p := v.pending[v.final.Hash]; p != nil; p = v.pending[p.prev.Hash] {
		if reached = reached || p.ref == upto; reached {
			chain = append(chain, p)
		}
	}
	if !reached {
		return nil, fmt.Errorf("%w: fold up to %v, which is not between the folded block %v and the final one %v", ErrOrder,
			upto, v.folded, v.final)
	}
	slices.Reverse(chain)
	return chain, nil
}

// historyBatch is how many bytes of history are written at once: Commit waits for no more.
const historyBatch = 256 << 10

// foldHistory writes what can't be wrong even if the fold itself never comes: where the values before the blocks are, and
// where their ids stand. It goes first and in pieces; the fold's sync is theirs too.
//
// Receipts of a block are pointed to when its child is final and known, so those of the last block wait for the next fold
// (view.base holds it until then), and those of the base come now.
func (s *Store) foldHistory(base *pendingBlock, chain []*pendingBlock) (err error) {
	var batch Batch
	flush := func(least int) {
		if err == nil && batch.Size() >= least && batch.Len() > 0 {
			err = s.db.write(&batch, false)
			batch.Reset()
		}
	}
	put := func(c *Column[pointer, Nothing], k pointer) {
		c.Put(&batch, k, &Nothing{})
		flush(historyBatch)
	}
	for _, p := range chain {
		for j := range p.keys {
			k := &p.keys[j]
			undo.Put(&batch, undoKey{k.flat, p.ref.Height}, &undoValue{k.shard, k.item})
			flush(historyBatch)
		}
		p.eachPointer(put)
		base.eachReceipt(p, put)
		base = p
	}
	flush(0)
	return err
}

// foldState writes the last value of each key to Flat.
func foldState(batch *Batch, chain []*pendingBlock) {
	done := map[string]bool{}
	for _, p := range slices.Backward(chain) {
		for i := range p.keys {
			if k := &p.keys[i]; !done[k.flat] {
				done[k.flat] = true
				putFlat(batch, k.flat, k.change.Last())
			}
		}
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

// eachPointer calls f for the pointers to outcomes and to transactions without one.
func (p *pendingBlock) eachPointer(f func(c *Column[pointer, Nothing], k pointer)) {
	for i := range p.shards {
		s := &p.shards[i]
		for j, id := range s.outcomes {
			f(places, pointer{id, p.ref.Height, s.id, j})
		}
		for _, t := range s.txs {
			f(txPlaces, pointer{t.hash, p.ref.Height, s.id, t.index})
		}
	}
}

// eachReceipt calls f for the pointers to receipts. Nearly all are executed by the next block, or by their own: those have
// none, since FindReceipt looks around the outcome. A nil child executes nothing.
func (p *pendingBlock) eachReceipt(child *pendingBlock, f func(c *Column[pointer, Nothing], k pointer)) {
	executed := func(id primitives.Hash) bool {
		return slices.ContainsFunc(p.find(id), isOutcome) || child != nil && slices.ContainsFunc(child.find(id), isOutcome)
	}
	for i := range p.shards {
		s := &p.shards[i]
		for j, id := range s.receipts {
			if executed(id) {
				continue
			}
			at := 2 * j // even: outgoing; odd: local
			if j >= s.outgoing {
				at = 2*(j-s.outgoing) + 1
			}
			f(receiptPlaces, pointer{id, p.ref.Height, s.id, at})
		}
	}
}

func isOutcome(f found) bool { return f.kind == kindOutcomes }

// foldEpochs notes where epochs begin.
func (s *Store) foldEpochs(batch *Batch, chain []*pendingBlock) error {
	before, err := s.entry(chain[0].prev)
	if err != nil {
		return err
	}
	epoch := before.head.Epoch
	for _, p := range chain {
		if h := &p.entry.head; h.Epoch != epoch {
			epoch = h.Epoch
			epochFirst.Put(batch, h.Ref.Height, &epoch)
		}
	}
	return nil
}

// forgetForks removes the blocks that are neither ancestors nor descendants of upto.
func forgetForks(batch *Batch, pending map[primitives.Hash]*pendingBlock, upto BlockRef) {
	ancestors := map[primitives.Hash]bool{}
	for p := pending[upto.Hash]; p != nil; p = pending[p.prev.Hash] {
		ancestors[p.ref.Hash] = true
	}
	for hash, p := range pending {
		if !ancestors[hash] && !descends(pending, p, upto) {
			forget(batch, &p.entry.head, func(k pointer) bool { return included(pending, p, k) })
		}
	}
}

// included tells whether another block of the same height includes the same chunk: their pointers are the same key. If that
// block is forgotten too, one pointer to nothing stays, which look-ups pass over.
func included(pending map[primitives.Hash]*pendingBlock, but *pendingBlock, k pointer) bool {
	for _, p := range pending {
		if p == but || p.ref.Height != k.height {
			continue
		}
		for i := range p.shards {
			if s := &p.shards[i]; s.id == k.shard && s.chunk != nil && *s.chunk == k.id {
				return true
			}
		}
	}
	return false
}

// descends tells whether p is a descendant of ref.
func descends(pending map[primitives.Hash]*pendingBlock, p *pendingBlock, ref BlockRef) bool {
	for p != nil && p.ref.Height > ref.Height {
		if p.prev == ref {
			return true
		}
		p = pending[p.prev.Hash]
	}
	return false
}
