package storage

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Headers that are ahead of the blocks have no record in the log. Their rows are therefore the only
// rows of the engine that are written outside an advance of the flat head. The header rows are
// written in synced batches of their own. Each batch is applied whole or not at all, and depends
// only on batches written before. Once the flat head has passed a block, the rows of the block's
// header are removed, since the block's record contains the data of these rows.

// PutHeaders writes rows of the header columns and syncs them. PutHeaders waits while the flat head
// is being advanced. It returns ErrOrder if the store has no genesis yet, or the error of the
// write.
func (s *Store) PutHeaders(b *Batch) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	if s.view.Load().empty {
		return fmt.Errorf("%w: the store has no genesis yet", ErrOrder)
	}
	return s.fail(s.step(b))
}

// HeadersUpTo calls yield for the rows of HeaderHeight up to a height, ascending, until yield
// returns false.
func (s *Store) HeadersUpTo(height primitives.Height, yield func(BlockRef, Raw) bool) error {
	var bad error
	err := HeaderHeight.Scan(s.db, nil, appendHeight(nil, height+1), func(key []byte, v Raw) bool {
		ref, ok := parseRef(key)
		if !ok {
			bad = damaged("%s: malformed key %x", HeaderHeight.name, key)
			return false
		}
		return yield(ref, v)
	})
	if err == nil {
		err = bad
	}
	return err
}
