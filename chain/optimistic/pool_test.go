package optimistic

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func block(parent byte, height primitives.Height) *primitives.OptimisticBlock {
	return &primitives.OptimisticBlock{PrevBlockHash: primitives.Hash{parent}, Height: height}
}

func chunk(parent byte, height primitives.Height, shard primitives.ShardID, text byte) *primitives.Chunk {
	c := &primitives.Chunk{Hash: primitives.Hash{text}}
	c.Header.PrevBlockHash, c.Header.HeightCreated, c.Header.ShardID = primitives.Hash{parent}, height, shard
	return c
}

var shards = []primitives.ShardID{4, 7}

// TestBlockIsReadyWithAllChunks: an optimistic block is ready once, when the chunks of all shards
// on its parent are complete, in whatever order they come. Of each shard the first chunk counts.
func TestBlockIsReadyWithAllChunks(t *testing.T) {
	steps := []func(*Pool){
		func(p *Pool) { p.AddChunk(chunk(1, 11, 7, 1)) },
		func(p *Pool) { p.AddChunk(chunk(1, 11, 4, 2)) },
		func(p *Pool) { p.AddBlock(block(1, 11), shards) },
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		p := New(5)
		for i, k := range order {
			if o, _ := p.Ready(); o != nil {
				t.Errorf("%v: ready after %d steps", order, i)
			}
			steps[k](p)
			p.AddChunk(chunk(2, 11, 4, 9)) // on another parent
		}
		p.AddChunk(chunk(1, 11, 4, 8)) // a second one
		o, chunks := p.Ready()
		if o == nil || len(chunks) != 2 || chunks[0].Hash != (primitives.Hash{2}) || chunks[1].Hash != (primitives.Hash{1}) {
			t.Fatalf("%v: %v with %v", order, o, chunks)
		}
		if p.AddBlock(block(1, 11), shards); p.Wants(block(1, 11)) {
			t.Error("the height is wanted again")
		}
		if o, _ := p.Ready(); o != nil {
			t.Error("ready again")
		}
		// a height was skipped: the same chunks are for the next height
		p.AddBlock(block(1, 12), shards)
		if o, chunks := p.Ready(); o == nil || o.Height != 12 || len(chunks) != 2 {
			t.Errorf("%v, %d chunks", o, len(chunks))
		}
	}
}

// TestHighestBlockIsKept: of the optimistic blocks on one parent the highest is kept, of one height
// the first. Of several that are ready the highest is returned, and the lower ones are dropped.
func TestHighestBlockIsKept(t *testing.T) {
	p := New(5)
	first := block(1, 12)
	first.Timestamp = 1
	p.AddBlock(block(1, 11), shards)
	p.AddBlock(first, shards)
	p.AddBlock(block(1, 12), shards)
	p.AddBlock(block(1, 11), shards)
	p.AddBlock(block(2, 13), shards)
	for parent := range byte(2) {
		for _, id := range shards {
			p.AddChunk(chunk(parent+1, 11, id, 1))
		}
	}
	if p.blocks[primitives.Hash{1}].OptimisticBlock != first {
		t.Errorf("kept %+v", p.blocks[primitives.Hash{1}])
	}
	if o, _ := p.Ready(); o == nil || o.Height != 13 {
		t.Errorf("ready %v", o)
	}
	if o, _ := p.Ready(); o != nil {
		t.Errorf("then ready %v", o)
	}
}

// TestPoolIsBounded: a flood of optimistic blocks and chunks leaves the newest ones.
func TestPoolIsBounded(t *testing.T) {
	p := New(5)
	for i := range byte(200) {
		h := primitives.Height(i) + 10
		p.AddBlock(block(i, h), shards)
		p.AddOrphan(block(i, h))
		p.AddOrphan(block(i, h)) // replaces the first
		p.AddChunk(chunk(i, h, 4, 1))
		p.AddChunk(chunk(i, h, primitives.ShardID(i), 1))
	}
	blocks, orphans, parents := p.Len()
	if blocks != MaxBlocks || orphans != MaxOrphans || parents != MaxParents {
		t.Errorf("%d blocks, %d orphans, chunks on %d blocks", blocks, orphans, parents)
	}
	for i := range byte(200) {
		want := i >= 200-MaxOrphans
		if got := p.TakeOrphan(primitives.Hash{i}); (got != nil) != want {
			t.Errorf("orphan %d: %v", i, got)
		}
		if _, got := p.blocks[primitives.Hash{i}]; got != (i >= 200-MaxBlocks) {
			t.Errorf("block %d: %v", i, got)
		}
	}
}

// TestFinalBlockEvicts: nothing at or below the final block is kept or taken.
func TestFinalBlockEvicts(t *testing.T) {
	p := New(5)
	for h := primitives.Height(6); h < 12; h++ {
		p.AddBlock(block(byte(h), h), shards)
		p.AddOrphan(block(byte(h), h))
		p.AddChunk(chunk(byte(h), h, 4, 1))
	}
	p.Final(9)
	// chunks of height 10 are on a block of height 9
	if blocks, orphans, parents := p.Len(); blocks != 2 || orphans != 2 || parents != 2 {
		t.Errorf("%d blocks, %d orphans, chunks on %d blocks", blocks, orphans, parents)
	}
	p.AddBlock(block(1, 9), shards)
	p.AddChunk(chunk(1, 9, 4, 1))
	p.AddChunk(chunk(1, 0, 4, 1))
	if blocks, _, parents := p.Len(); blocks != 2 || parents != 2 {
		t.Errorf("%d blocks, chunks on %d blocks", blocks, parents)
	}
}
