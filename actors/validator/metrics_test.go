package validator

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/consensus"
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

// TestProductionIsPublished: the counters of what a validator has produced and received have
// nearcore's names, labels and types.
func TestProductionIsPublished(t *testing.T) {
	var l Life
	c := &l.Counters.Produced
	c.Blocks.Add(3)
	c.Chunks.Add(4)
	c.LargestTarget.Store(15)
	c.LargestApproval.Store(14)
	c.LargestThreshold.Store(13)
	c.LargestFinal.Store(12)
	for shard, reason := range []string{"", "TooLate", "TooEarly", ""} {
		c.CountEndorsement(consensus.EndorsementResult{Shard: primitives.ShardID(shard), Reason: reason})
		c.CountEndorsement(consensus.EndorsementResult{Shard: 3, Reason: reason})
	}
	got := string(l.Metrics(nil))
	for _, want := range []string{
		"# TYPE near_block_produced_total counter\nnear_block_produced_total 3\n", "# TYPE near_chunk_produced_total counter\nnear_chunk_produced_total 4\n",
		"# TYPE near_largest_target_height gauge\nnear_largest_target_height 15\n", "\nnear_largest_approval_height 14\n",
		"\nnear_largest_threshold_height 13\n", "\nnear_largest_final_height 12\n",
		"# TYPE near_chunk_endorsements_accepted counter\n" + `near_chunk_endorsements_accepted{shard_id="0"} 1` + "\n" +
			`near_chunk_endorsements_accepted{shard_id="3"} 3` + "\n",
		"# TYPE near_chunk_endorsements_rejected counter\n" + `near_chunk_endorsements_rejected{shard_id="1",reason="TooLate"} 1` + "\n" +
			`near_chunk_endorsements_rejected{shard_id="2",reason="TooEarly"} 1` + "\n" +
			`near_chunk_endorsements_rejected{shard_id="3",reason="TooEarly"} 1` + "\n" +
			`near_chunk_endorsements_rejected{shard_id="3",reason="TooLate"} 1` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

// TestCountersOfOptimisticBlocksArePublished: each counter is published under nearcore's name.
func TestCountersOfOptimisticBlocksArePublished(t *testing.T) {
	var l Life
	o := &l.Counters.Optimistic
	for i, c := range []*atomic.Uint64{&o.Produced, &o.Invalid, &o.Late, &o.Failed, &o.Applies} {
		c.Store(uint64(i + 1))
	}
	o.Orphans.Store(6)
	got := string(l.Metrics(nil))
	for _, want := range []string{
		"near_optimistic_block_produced_total 1\n", "near_num_invalid_optimistic_blocks 2\n",
		"near_num_dropped_optimistic_blocks_because_of_processed_height 3\n", "near_num_failed_optimistic_blocks 4\n",
		"near_num_failed_optimistic_block_applies 5\n", "# TYPE near_num_optimistic_orphans gauge\nnear_num_optimistic_orphans 6\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
