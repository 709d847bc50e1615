package storage

import (
	"encoding/binary"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// History (Undo, and the pointers from ids) is kept by eras: runs of heights, whose first height stands before the keys. So all that
// garbage collection has to know of an era to remove it is where its rows begin and end, and no merge of the index moves rows of one era
// for the sake of another. Who looks for a key looks once in each era that may have it: an era is a third of what is kept, or
// DefaultBucketHeights, so that there are some four of them, and in a folder of which nothing is collected their number grows with the
// logarithm of its length.

// DefaultBucketHeights is how many heights an era has at least.
const DefaultBucketHeights = 1024

// bucketShare is the part of the kept heights that an era is.
const bucketShare = 3

// bucketColumns are the columns whose keys begin with an era.
func bucketColumns() [4]byte { return [...]byte{undo.id, places.id, receiptPlaces.id, txPlaces.id} }

// placeKey is a pointer in its era.
type placeKey struct {
	bucket primitives.Height
	pointer
}

func appendPlaceKey(b []byte, k placeKey) []byte {
	return appendPointer(appendHeight(b, k.bucket), k.pointer)
}

// bucketOf returns the era of a height.
func (s *Store) bucketOf(height primitives.Height) primitives.Height {
	all := s.bucketsFrom(height)
	if len(all) == 0 {
		return 0
	}
	return all[0]
}

// bucketsFrom returns the eras of a height and above it, ascending. A reader asks behind his snapshot and before he looks at the tail: an era is told
// before it has rows, and forgotten when the tail has passed it.
func (s *Store) bucketsFrom(height primitives.Height) []primitives.Height {
	all := *s.buckets.Load()
	n, found := slices.BinarySearch(all, height)
	if !found && n > 0 {
		n--
	}
	return all[n:]
}

// readBuckets reads them when a store opens.
func (s *Store) readBuckets() error {
	var all []primitives.Height
	err := historyBuckets.Scan(s.db, nil, nil, func(key []byte, _ Nothing) bool {
		all = append(all, heightOf(key))
		return true
	})
	s.buckets.Store(&all)
	return err
}

// beginBucket begins a new era with the next block to be folded, if the last one is long enough. Its row is synced before any row stands
// in it: what a crash leaves behind is in an era that is known.
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

// bucketPieces is how many pieces of old eras one call of Collect removes.
const bucketPieces = 16

// dropBuckets removes the rows of eras that end at or below a height, in pieces that are bounded for one call. more: there are others.
func (s *Store) dropBuckets(below primitives.Height) (more bool, err error) {
	all := *s.buckets.Load()
	pieces := bucketPieces
	for len(all) > 1 && all[1] <= below {
		for _, id := range bucketColumns() {
			lo := appendHeight([]byte{id}, all[0])
			n, err := s.dropPieces(lo, PrefixEnd(lo), pieces)
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

// cutBucket takes the era off a key.
func cutBucket(key []byte) (era primitives.Height, rest []byte, ok bool) {
	if len(key) < 8 {
		return 0, nil, false
	}
	return primitives.Height(binary.BigEndian.Uint64(key)), key[8:], true
}
