package engine

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestGivenWithoutChunk: of a shard that has no new chunk nothing was executed, so that outcomes of it, which no root covers, are refused.
func TestGivenWithoutChunk(t *testing.T) {
	var buf encodings
	outcome := &primitives.Outcome{ExecutorID: "aa", Status: primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue}}
	s := &storage.Shard{Extra: (&chain.ChunkExtra{}).AppendBorsh(nil)}
	if err := new(executedShard).read(s); err != nil {
		t.Fatal(err)
	}
	s.Outcomes = []storage.Outcome{{Value: buf.of(outcome)}}
	if err := new(executedShard).read(s); err == nil || !strings.Contains(err.Error(), "without a chunk") {
		t.Errorf("an outcome: %v", err)
	}
}
