package storage

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// StageFrontier stores entries of the frontier of a shard that is coming in. They last as soon as the part that they came with does:
// so it is called before StagePart. The same entry may come with several parts.
func (s *Store) StageFrontier(shard primitives.ShardID, stubs []Stub) error {
	if err := s.writable(); err != nil {
		return err
	}
	if _, err := staged.Get(s.db, shard); errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: shard %d is not staged", ErrOrder, shard)
	} else if err != nil {
		return err
	}
	var batch Batch
	for i := range stubs {
		c := &stubs[i]
		frontier.Put(&batch, frontierKey{shard, string(c.Path)}, &stub{c.Hash, c.MemoryUsage})
		if batch.Size() >= historyBatch || i == len(stubs)-1 {
			if err := s.db.write(&batch, false); err != nil {
				return err
			}
			batch.Reset()
		}
	}
	return nil
}
