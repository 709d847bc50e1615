package network

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestBootstrapWithoutHeadersIsAbandoned: if there are no headers before the sync block, the
// bootstrap is abandoned and starts again later.
func TestBootstrapWithoutHeadersIsAbandoned(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	before, point := primitives.Hash{1}, primitives.Hash{2}
	x := &bootstrap{
		at: &engine.SyncBlock{Before: storage.BlockRef{Hash: before}, Point: storage.BlockRef{Hash: point}},
		blocks: map[primitives.Hash]*primitives.Block{
			before: blank(), point: blank(),
		},
	}
	a := &Actor{o: Options{Log: log}, bootstrap: x}
	a.wantBlocks(x, 0)
	if a.bootstrap != nil {
		t.Error("the bootstrap goes on")
	}
}

// TestBlocksBelowMissedChunkAreRequested: if the sync point lacks a chunk of a shard, state sync
// requests the parent of the shard's last chunk, and then needs all blocks after the chunk before
// that one.
func TestBlocksBelowMissedChunkAreRequested(t *testing.T) {
	block := func(included ...primitives.Height) *primitives.Block {
		b := new(primitives.Block)
		for _, h := range included {
			b.Body.Chunks = append(b.Body.Chunks, &primitives.ChunkHeader{HeightIncluded: h})
		}
		return b
	}
	b7, before, point := block(7, 5), block(9, 8), block(10, 8) // the second shard has no chunk in blocks 9 and 10
	seven, nine, ten := primitives.Hash{7}, primitives.Hash{9}, primitives.Hash{10}
	point.Body.Chunks[0].PrevBlockHash, point.Body.Chunks[1].PrevBlockHash = nine, seven
	x := &bootstrap{blocks: map[primitives.Hash]*primitives.Block{}, wanted: map[primitives.Hash]int64{}, at: &engine.SyncBlock{
		Point: storage.BlockRef{Height: 10, Hash: ten}, Before: storage.BlockRef{Height: 9, Hash: nine},
	}}
	if _, known := x.oldestNeeded(); known || len(x.wanted) > 0 {
		t.Errorf("known %v before the sync point has arrived, requested %v", known, x.wanted)
	}
	x.blocks[ten], x.blocks[nine] = point, before
	if _, known := x.oldestNeeded(); known || len(x.wanted) != 1 || !x.asksFor(seven) {
		t.Errorf("known %v, requested %v, want only block 7", known, x.wanted)
	}
	x.wanted[seven] = 1234
	x.oldestNeeded()
	if x.wanted[seven] != 1234 {
		t.Error("a request in flight is forgotten")
	}
	delete(x.wanted, seven)
	x.blocks[seven] = b7
	if least, known := x.oldestNeeded(); !known || least != 5 || len(x.wanted) > 0 {
		t.Errorf("blocks from %d on, known %v, requested %v, want from 5 on", least, known, x.wanted)
	}
}
