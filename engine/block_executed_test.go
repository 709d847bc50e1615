package engine

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestOutcomesWithoutNewChunkAreRefused: no outcome root covers outcomes of a shard without a new
// chunk.
func TestOutcomesWithoutNewChunkAreRefused(t *testing.T) {
	var buf encodings
	outcome := &primitives.Outcome{ExecutorID: "aa", Status: primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue}}
	s := &storage.Shard{Extra: (&chain.ChunkExtra{}).AppendBorsh(nil)}
	if err := new(executedShard).read(s); err != nil {
		t.Fatal(err)
	}
	s.Outcomes = []storage.Outcome{{Value: buf.of(outcome)}}
	if err := new(executedShard).read(s); err == nil || !strings.Contains(err.Error(), "without a new chunk") {
		t.Errorf("an outcome: %v", err)
	}
}
