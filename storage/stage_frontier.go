package storage

import "github.com/troupe-chain/troupe/primitives"

// StageFrontier stores entries of the frontier, of any level, of a shard that is coming in. They last as soon as the part that they came with does:
// so it is called before StagePart. The same entry may come with several parts.
func (s *Store) StageFrontier(shard primitives.ShardID, stubs []Stub) error {
	if err := s.writable(); err != nil {
		return err
	}
	if _, err := s.stagedShard(shard); err != nil {
		return err
	}
	return s.writeFrontier(entering(shard, stubs))
}
