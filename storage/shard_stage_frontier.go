package storage

import "github.com/troupe-chain/troupe/primitives"

// StageFrontier stores entries of the frontier, of any level, of a shard that is coming in with its state after a block. They last as soon as
// the part that they came with does: so it is called before StagePart. The same entry may come with several parts.
func (s *Store) StageFrontier(shard primitives.ShardID, at BlockRef, stubs []FrontierNode) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if _, err := s.stagedShard(shard, at); err != nil {
		return err
	}
	return s.writeFrontier(insertFrontier(shard, stubs))
}
