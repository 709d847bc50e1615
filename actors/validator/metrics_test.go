package validator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// TestCountersOfAnchoredMessagesArePublished: each counter is published for both kinds of messages,
// with help and type.
func TestCountersOfAnchoredMessagesArePublished(t *testing.T) {
	var l Life
	for shard, err := range []error{nil, epoch.ErrMissingBlock, fmt.Errorf("%w: %w", anchor.ErrEarly, epoch.ErrMissingBlock), anchor.ErrWrong,
		anchor.ErrEarly, epoch.ErrChunkProducerNotInDB, epoch.ErrEpochOutOfBounds} {
		l.Counters.Chunks.CountLookup(primitives.ShardID(shard/2), anchor.MessageChunk, err)
		l.Counters.Witnesses.CountLookup(11, anchor.MessageAccesses, err)
	}
	l.Counters.Witnesses.Queued.Add(4)
	l.Counters.Witnesses.WaitingBytes.Store(500)
	got := string(l.Metrics(nil))
	for _, want := range []string{
		"# TYPE near_anchored_chunk_producer_lookup_total counter\n",
		`near_anchored_chunk_producer_lookup_total{shard_id="0",message_type="chunk",result="hit"} 1` + "\n",
		`near_anchored_chunk_producer_lookup_total{shard_id="0",message_type="chunk",result="miss_anchor_block"} 1` + "\n",
		`near_anchored_chunk_producer_lookup_total{shard_id="11",message_type="contract accesses",result="error"} 1` + "\n",
		`near_anchored_chunk_producer_lookup_total{shard_id="11",message_type="contract accesses",result="hit"} 3` + "\n",
		`near_anchored_chunk_producer_lookup_total{shard_id="11",message_type="contract accesses",result="miss_anchor_block"} 2` + "\n",
		`near_anchored_chunk_producer_lookup_total{shard_id="11",message_type="contract accesses",result="miss_db_entry"} 1` + "\n",
		`troupe_anchored_messages_total{message_type="witness",result="queued"} 4` + "\n",
		`troupe_anchored_messages_waiting_bytes{message_type="witness"} 500` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	got, _, _ = strings.Cut(got, "# HELP near_block_produced_total")
	if n := strings.Count(got, "\n"); n != 5*2+1+7+4+2*(8+1+1) {
		t.Errorf("%d lines", n)
	}
}
