package storage

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// The chain of headers is ahead of the blocks: no record of the log has what it says. So its rows are the only ones of the engine's that are written
// beside folds, in synced batches of their own: each is whole or absent, and rests on nothing but the batches before it. What they say of
// blocks that are folded is in the blocks' records, and is removed again.

// PutHeaders writes rows of the header columns, synced. It waits for a fold that is under way.
func (s *Store) PutHeaders(b *Batch) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	if s.view.Load().empty {
		return fmt.Errorf("%w: no genesis yet", ErrOrder)
	}
	return s.fail(s.step(b))
}

// HeadersUpTo calls yield for the rows of HeaderHeight up to a height, ascending, until it returns false.
func (s *Store) HeadersUpTo(height primitives.Height, yield func(BlockRef, Raw) bool) error {
	var bad error
	err := HeaderHeight.Scan(s.db, nil, appendHeight(nil, height+1), func(key []byte, v Raw) bool {
		ref, ok := parseRef(key)
		if !ok {
			bad = damaged("%s: key %x", HeaderHeight.name, key)
			return false
		}
		return yield(ref, v)
	})
	if err == nil {
		err = bad
	}
	return err
}
