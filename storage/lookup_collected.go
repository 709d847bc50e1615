package storage

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// IsCollected returns whether a block was on the head's branch when it was collected.
func (s *Store) IsCollected(ref BlockRef) (bool, error) {
	if ref.Height >= s.view.Load().tail && !s.below(ref.Height) {
		return false, nil
	}
	hash, err := s.CollectedAt(ref.Height)
	if isAbsent(err) {
		return false, nil
	}
	return err == nil && hash == ref.Hash, err
}

// receiptBelow returns a place of a receipt in a block below the tail. receiptBelow searches only
// the lists whose kind is in `in`. If executed is set, receiptBelow returns any such place.
// Otherwise it returns only the place of a sent receipt whose receiving chunk is at or above the
// tail, because nearcore collects a receipt together with that chunk
// (chain/chain/src/garbage_collection.rs:534). The receipt may have waited in the queue, for data,
// or for a missing chunk. receiptBelow reads only records at most ReceiptsReach heights below the
// tail.
func (f Finder) receiptBelow(id primitives.Hash, executed bool, in []kind) (out []Place, err error) {
	tail := f.s.view.Load().tail
	err = f.inBuckets(receiptPlaces)(id, func(p pointer) (more bool, err error) {
		if p.height >= tail || p.height < receiptsTail(tail) {
			return true, nil
		}
		place := Place{Shard: p.shard, Canonical: true}
		found, err := f.isBelow(&place, id, p, executed, in)
		if found {
			out = append(out, place)
		}
		if isAbsent(err) {
			err = nil
		}
		return !found, err
	})
	return out, err
}

// isBelow fills in the place of a pointer and returns whether receiptBelow must return it.
func (f Finder) isBelow(place *Place, id primitives.Hash, p pointer, executed bool, in []kind) (bool, error) {
	var err error
	if place.Block, err = f.collectedBlock(p.height); err != nil {
		return false, err
	}
	if err := place.receiptPlace(p.index); err != nil || !slices.Contains(in, place.list) {
		return false, err
	}
	if r, err := place.Receipt(); err != nil || r.ID != id || executed {
		return err == nil && r.ID == id, err
	}
	if place.list != kindOutgoing {
		return false, nil
	}
	brought, err := f.hasNewChunk(p.shard, p.height+1, f.s.view.Load().tail)
	return err == nil && !brought, err
}

// collectedBlock returns the canonical block at a height below the tail, of which possibly only the
// record is left. If the block is below the state that the store began with (Begin), the block was
// not collected, so collectedBlock looks up the block's hash by height as usual.
func (f Finder) collectedBlock(height primitives.Height) (*Record, error) {
	hash, err := f.s.CollectedAt(height)
	if isAbsent(err) {
		hash, err = f.s.HashAt(height)
	}
	if err != nil {
		return nil, err
	}
	return f.s.Block(BlockRef{height, hash})
}

// hasNewChunk returns whether a collected block with a height in [from, below) has a new chunk of a
// shard.
func (f Finder) hasNewChunk(shard primitives.ShardID, from, below primitives.Height) (bool, error) {
	for h := from; h < below; h++ {
		rec, err := f.collectedBlock(h)
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		for i := range rec.e.head.Shards {
			if sh := &rec.e.head.Shards[i]; sh.ID == shard && sh.HasChunk {
				return true, nil
			}
		}
	}
	return false, nil
}
