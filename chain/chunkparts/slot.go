package chunkparts

import "github.com/troupe-chain/troupe/primitives"

// place is what a chunk takes, of which there is one. One that says another height than the one behind its block has only a place on that: its maker need not be who
// makes the chunk of that height, and would keep it out (nearcore shards_manager_actor.rs:1628 lets him).
type place struct {
	height primitives.Height
	shard  primitives.ShardID
	on     primitives.Hash // and then no height; none: of the height
}

// placeOf tells it, and whether that is on a block which is not around the head.
func (p *Pool) placeOf(h *primitives.ChunkHeader) (at place, outside bool) {
	if on, known := p.chain.Height(h.PrevBlockHash); known && h.HeightCreated != on+1 {
		return place{shard: h.ShardID, on: h.PrevBlockHash}, p.outside(on + 1)
	}
	return place{height: h.HeightCreated, shard: h.ShardID}, false
}
