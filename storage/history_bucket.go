package storage

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// History buckets.
//
// Problem: history (Undo, and the pointers from IDs) is looked up by key or ID, but garbage
// collection removes it by height.
//
// Invariants: a bucket's row is durable before any row in the bucket, so a crash leaves no unknown
// bucket. A bucket leaves the list only after the tail has passed the bucket and the bucket's rows
// are deleted.
//
// Outline: a bucket is a run of heights. The first of these heights is the prefix of all keys in
// the bucket. Removing a bucket deletes one key range in each column and reads no record. Since
// keys begin with the bucket, rows of two buckets are not interleaved in the tables of the index. A
// lookup visits each bucket that may have the key, in ascending or descending order of heights. A
// bucket has at least Options.BucketHeights heights, and at least a third of all kept heights, so
// there are about four buckets. Without garbage collection the number of buckets grows with the
// logarithm of the number of heights.
//
// Rejected: buckets of one epoch (epochs of a sandbox may last milliseconds); the height itself as
// prefix (a lookup would visit every height); a list of the keys that each height changed
// (everything is written twice, deletions are scattered); about nine buckets (a tenth less disk
// space, but twice the lookups).

// DefaultBucketHeights is the default of Options.BucketHeights.
const DefaultBucketHeights = 1024

// bucketShare is the divisor of the kept heights: a bucket has at least 1/bucketShare of the kept
// heights.
const bucketShare = 3

// bucketColumns are the columns with keys that begin with a history bucket.
func bucketColumns() [4]byte { return [...]byte{undo.id, places.id, receiptPlaces.id, txPlaces.id} }

// placeKey is a pointer in its history bucket.
type placeKey struct {
	bucket primitives.Height
	pointer
}

func appendPlaceKey(b []byte, k placeKey) []byte {
	return appendPointer(appendHeight(b, k.bucket), k.pointer)
}

// bucketList is the list of history buckets: their first heights, ascending. Only the holder of
// indexMu changes the list.
type bucketList struct {
	atomic.Pointer[[]primitives.Height]
}

// of returns the history bucket of a height.
func (b *bucketList) of(height primitives.Height) primitives.Height {
	all := b.from(height)
	if len(all) == 0 {
		return 0
	}
	return all[0]
}

// from returns the bucket that contains a height and all buckets after that one, ascending. A
// reader must call from after taking its snapshot and before checking the tail. This order is safe
// because a bucket is published before it has rows, and is removed from the list only after the
// tail has passed the bucket.
func (b *bucketList) from(height primitives.Height) []primitives.Height {
	all := *b.Load()
	n, found := slices.BinarySearch(all, height)
	if !found && n > 0 {
		n--
	}
	return all[n:]
}

// read reads the list of buckets when the store opens.
func (b *bucketList) read(db index) error {
	var all []primitives.Height
	err := historyBuckets.Scan(db, nil, nil, func(key []byte, _ Nothing) bool {
		all = append(all, heightOf(key))
		return true
	})
	b.Store(&all)
	return err
}

// beginBucket begins a new bucket if the last bucket is long enough. first is the height of the
// next block that the flat head passes. The row that names the bucket is synced before any row in
// the bucket is written.
func (s *Store) beginBucket(first primitives.Height) error {
	all := *s.buckets.Load()
	last, tail := all[len(all)-1], s.view.Load().tail
	least := max(s.o.BucketHeights, (first-min(first, tail))/bucketShare)
	if first-last < least {
		return nil
	}
	var batch Batch
	historyBuckets.Put(&batch, first, &Nothing{})
	if err := s.step(&batch); err != nil {
		return err
	}
	all = append(slices.Clone(all), first)
	s.buckets.Store(&all)
	return nil
}

// bucketPieces is the number of pieces of old buckets that one call of CollectGarbage deletes.
const bucketPieces = 16

// dropBuckets deletes the rows of buckets that end at or below a height, in a bounded number of
// pieces. more is true if some are left.
func (s *Store) dropBuckets(below primitives.Height) (more bool, err error) {
	all := *s.buckets.Load()
	pieces := bucketPieces
	for len(all) > 1 && all[1] <= below {
		for _, id := range bucketColumns() {
			lo := appendHeight([]byte{id}, all[0])
			n, err := dropPieces(s.db, lo, PrefixEnd(lo), pieces)
			if err != nil {
				return false, s.fail(err)
			}
			if pieces -= n; pieces <= 0 {
				return true, nil
			}
		}
		var batch Batch
		historyBuckets.Delete(&batch, all[0])
		if err := s.step(&batch); err != nil {
			return false, s.fail(err)
		}
		all = slices.Clone(all[1:])
		s.buckets.Store(&all)
	}
	return false, nil
}

// cutBucket splits a key into its bucket and the rest.
func cutBucket(key []byte) (bucket primitives.Height, rest []byte, ok bool) {
	if len(key) < 8 {
		return 0, nil, false
	}
	return primitives.Height(binary.BigEndian.Uint64(key)), key[8:], true
}
