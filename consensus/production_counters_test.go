package consensus

import (
	"fmt"
	"maps"
	"testing"

	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

type anyChain = interface{ Chain }

// chainAt is a chain with a head and a final block.
type chainAt struct {
	anyChain
	head  *engine.BlockNode
	final primitives.Height
}

func (c chainAt) Head() *engine.BlockNode { return c.head }
func (c chainAt) Final() storage.BlockRef { return storage.BlockRef{Height: c.final} }

// TestEndorsementsAreCountedByResult: stored endorsements and irrelevant ones count for their
// shard, with nearcore's reason. Endorsements that are known, invalid, or for a shard that does not
// exist do not count.
func TestEndorsementsAreCountedByResult(t *testing.T) {
	t.Parallel()
	layout, err := primitives.MultiShardLayout(2)
	if err != nil {
		t.Fatal(err)
	}
	header := new(primitives.BlockHeader)
	header.Height = 20
	at := &engine.BlockNode{Block: &primitives.Block{Header: header}}
	n := &Node{counters: new(ProductionCounters), e: chainAt{head: at, final: 18}}
	irrelevant := fmt.Errorf("%w: x", partialwitness.ErrIrrelevant)
	count := func(shard primitives.ShardID, h primitives.Height, err error) {
		n.countEndorsement(&primitives.ChunkEndorsementMetadata{ShardID: shard, HeightCreated: h}, err)
	}
	count(0, 21, nil) // without a head nothing counts
	n.head = &head{layout: layout}
	count(0, 21, nil)
	count(0, 22, nil)
	count(1, 21, nil)
	count(0, 18, irrelevant)
	count(1, 20+partialwitness.MaxAhead+1, irrelevant)
	count(1, 21, irrelevant)
	count(1, 21, partialwitness.ErrSigner)
	count(7, 21, nil)
	count(1<<60, 18, irrelevant)
	want := map[EndorsementResult]uint64{{0, ""}: 2, {1, ""}: 1, {0, "TooLate"}: 1, {1, "TooEarly"}: 1, {1, "UnknownEpochId"}: 1}
	if got := n.counters.Endorsements(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
