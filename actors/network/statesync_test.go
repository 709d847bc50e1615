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
