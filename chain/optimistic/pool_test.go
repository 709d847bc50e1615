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
		func(p *Pool) { p.AddBlock(block(1, 11), 10, shards) },
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		p := New(5)
		for i, k := range order {
			if o, _ := p.Ready(primitives.Hash{1}, 12); o != nil {
				t.Errorf("%v: ready after %d steps", order, i)
			}
			steps[k](p)
			p.AddChunk(chunk(2, 11, 4, 9)) // on another parent
		}
		p.AddChunk(chunk(1, 11, 4, 8)) // a second one
		o, chunks := p.Ready(primitives.Hash{1}, 12)
		if o == nil || len(chunks) != 2 || chunks[0].Hash != (primitives.Hash{2}) || chunks[1].Hash != (primitives.Hash{1}) {
			t.Fatalf("%v: %v with %v", order, o, chunks)
		}
		if p.AddBlock(block(1, 11), 10, shards); p.Wants(block(1, 11)) {
			t.Error("the height is wanted again")
		}
		if o, _ := p.Ready(primitives.Hash{1}, 12); o != nil {
			t.Error("ready again")
		}
		// a height was skipped: the same chunks are for the next height
		p.AddBlock(block(1, 12), 10, shards)
		if o, chunks := p.Ready(primitives.Hash{1}, 12); o == nil || o.Height != 12 || len(chunks) != 2 {
			t.Errorf("%v, %d chunks", o, len(chunks))
		}
	}
}

// TestLaterBlockDoesNotReplaceEarlier: on one parent the pool keeps an optimistic block of each
// height, of one height the first. The lowest is ready first, and one above the maximum height is
// not ready. Optimistic blocks on another parent than the given one are kept.
func TestLaterBlockDoesNotReplaceEarlier(t *testing.T) {
	p := New(5)
	first := block(1, 11)
	first.Timestamp = 1
	p.AddBlock(block(1, 12), 10, shards)
	p.AddBlock(first, 10, shards)
	p.AddBlock(block(1, 11), 10, shards)
	p.AddBlock(block(2, 12), 11, shards)
	for _, id := range shards {
		p.AddChunk(chunk(1, 11, id, 1))
		p.AddChunk(chunk(2, 12, id, 1))
	}
	if o, _ := p.Ready(primitives.Hash{1}, 10); o != nil {
		t.Errorf("ready above the maximum height: %v", o)
	}
	if o, _ := p.Ready(primitives.Hash{1}, 11); o != first {
		t.Errorf("ready %v, want the first of height 11", o)
	}
	if o, _ := p.Ready(primitives.Hash{1}, 11); o != nil {
		t.Errorf("then ready %v", o)
	}
	if o, _ := p.Ready(primitives.Hash{1}, 12); o == nil || o.Height != 12 || o.PrevBlockHash != (primitives.Hash{1}) {
		t.Errorf("at the next height ready %v", o)
	}
	if o, _ := p.Ready(primitives.Hash{2}, 12); o != nil {
		t.Errorf("height 12 is ready again: %v", o)
	}
}

// TestChunkOfAnotherHeightDoesNotReplaceValidOne: a chunk with a height of creation that is not that
// of its parent plus one, which arrives first, leaves the valid one in place, also if the parent is
// not known yet.
func TestChunkOfAnotherHeightDoesNotReplaceValidOne(t *testing.T) {
	p := New(5)
	for _, id := range shards {
		p.AddChunk(chunk(1, 12, id, 9))
		p.AddChunk(chunk(1, 11, id, 1))
	}
	p.AddBlock(block(1, 11), 10, shards)
	o, chunks := p.Ready(primitives.Hash{1}, 11)
	if o == nil || len(chunks) != 2 || chunks[0].Hash != (primitives.Hash{1}) || chunks[1].Hash != (primitives.Hash{1}) {
		t.Errorf("%v with %v", o, chunks)
	}
}

// TestPoolIsBounded: a flood of optimistic blocks and chunks leaves the newest ones.
func TestPoolIsBounded(t *testing.T) {
	p := New(5)
	for i := range byte(200) {
		h := primitives.Height(i) + 10
		p.AddBlock(block(i, h), h-1, shards)
		p.AddOrphan(block(i, h))
		p.AddOrphan(block(i, h)) // replaces the first
		p.AddChunk(chunk(i, h, 4, 1))
		p.AddChunk(chunk(i, h, primitives.ShardID(i), 1))
	}
	blocks, orphans, parents := p.Len()
	if blocks != MaxBlocks || orphans != MaxOrphans || parents != MaxParents {
		t.Errorf("%d blocks, %d orphans, chunks on %d blocks", blocks, orphans, parents)
	}
	p.AddOrphan(block(199, 210)) // of the same parent as the newest; the first one is dropped
	if got := p.TakeOrphans(primitives.Hash{199}); len(got) != 2 {
		t.Errorf("%d orphans on a parent, want those of two heights", len(got))
	}
	p.AddOrphan(block(190, 200))
	p.AddOrphan(block(199, 209))
	for i := range byte(200) {
		want := i >= 200-MaxOrphans
		if got := p.TakeOrphans(primitives.Hash{i}); (len(got) == 1) != want {
			t.Errorf("orphan %d: %v", i, got)
		}
		if _, got := p.blocks[place{primitives.Hash{i}, primitives.Height(i) + 10}]; got != (i >= 200-MaxBlocks) {
			t.Errorf("block %d: %v", i, got)
		}
	}
}

// TestFinalBlockEvicts: nothing at or below the final block is kept or taken.
func TestFinalBlockEvicts(t *testing.T) {
	p := New(5)
	for h := primitives.Height(6); h < 12; h++ {
		p.AddBlock(block(byte(h), h), h-1, shards)
		p.AddOrphan(block(byte(h), h))
		p.AddChunk(chunk(byte(h), h, 4, 1))
	}
	p.Final(9)
	// chunks of height 10 are on a block of height 9
	if blocks, orphans, parents := p.Len(); blocks != 2 || orphans != 2 || parents != 2 {
		t.Errorf("%d blocks, %d orphans, chunks on %d blocks", blocks, orphans, parents)
	}
	p.AddBlock(block(1, 9), 8, shards)
	p.AddChunk(chunk(1, 9, 4, 1))
	p.AddChunk(chunk(1, 0, 4, 1))
	if blocks, _, parents := p.Len(); blocks != 2 || parents != 2 {
		t.Errorf("%d blocks, chunks on %d blocks", blocks, parents)
	}
}

// TestOldParentsDoNotFillPool: the producer of a later height can sign an optimistic block on each old
// block. They do not evict the optimistic block of the next height.
func TestOldParentsDoNotFillPool(t *testing.T) {
	p := New(5)
	for i := range byte(3) {
		p.AddBlock(block(100+i, 102), primitives.Height(97+i), shards) // not final yet
	}
	p.Final(99)
	next := block(1, 101)
	p.AddBlock(next, 100, shards)
	for i := range byte(2 * MaxBlocks) {
		p.AddBlock(block(200-i, 102), 98-primitives.Height(i), shards)
	}
	for _, id := range shards {
		p.AddChunk(chunk(1, 101, id, 1))
	}
	if blocks, _, _ := p.Len(); blocks != 2 {
		t.Errorf("%d blocks, want that on block 99 and the next one", blocks)
	}
	if o, _ := p.Ready(primitives.Hash{1}, 101); o != next {
		t.Errorf("ready %v, want that of height 101", o)
	}
}

// TestUnfinalParentsDoNotFillPool: while no block becomes final, the producer of a later height can sign an
// optimistic block on each of many blocks. They do not evict the optimistic block of the next height.
func TestUnfinalParentsDoNotFillPool(t *testing.T) {
	p := New(5)
	next := block(1, 101)
	p.AddBlock(next, 100, shards)
	for i := range byte(2 * MaxBlocks) {
		p.AddBlock(block(200-i, 102), 100-primitives.Height(i), shards)
	}
	for _, id := range shards {
		p.AddChunk(chunk(1, 101, id, 1))
	}
	if o, _ := p.Ready(primitives.Hash{1}, 101); o != next {
		t.Errorf("ready %v, want that of height 101", o)
	}
}

// TestInventedParentsDoNotEvictOrphan: the producer of a later height can sign optimistic blocks on
// parents that do not exist. They evict only one another.
func TestInventedParentsDoNotEvictOrphan(t *testing.T) {
	p := New(5)
	next := block(1, 101)
	p.AddOrphan(next)
	for i := range byte(5 * MaxOrphans) {
		p.AddOrphan(block(100+i, 102))
	}
	if got := p.TakeOrphans(primitives.Hash{1}); len(got) != 1 || got[0] != next {
		t.Errorf("orphans on the next parent: %v", got)
	}
	if got := p.TakeOrphans(primitives.Hash{100 + 5*MaxOrphans - 1}); len(got) != 1 {
		t.Errorf("the last orphan was not kept: %v", got)
	}
}
