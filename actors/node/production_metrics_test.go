package node

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/prom"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// TestValidatorsMeasureWhatTheyProduce: the validators' counters of produced blocks and chunks add
// up to at least the chain's, and doomslug's heights are around the head. A chunk validator's
// endorsements arrive. Parts of chunks, witnesses and endorsements are measured.
func TestValidatorsMeasureWhatTheyProduce(t *testing.T) {
	c := validators(t, 3, 2, 40, nil)
	c.reach(12, 2*time.Minute)
	made := float64(c.members[0].e.Head().Header().BlockOrdinal - 1) // heights may have been skipped
	var blocks, chunks, accepted, highest float64
	measured := map[string]float64{}
	for _, m := range c.members {
		before := m.e.Head().Height()
		x, err := prom.Read(strings.NewReader(string(m.Metrics(nil))))
		if err != nil {
			t.Fatal(err)
		}
		value := func(name string) float64 {
			v, ok := x.Sum(name)
			if !ok && name != "near_chunk_endorsements_rejected" {
				t.Errorf("no metric %s", name)
			}
			return v
		}
		blocks += value("near_block_produced_total")
		chunks += value("near_chunk_produced_total")
		accepted += value("near_chunk_endorsements_accepted")
		after := float64(m.e.Head().Height())
		final, target, approval, threshold := value("near_largest_final_height"), value("near_largest_target_height"),
			value("near_largest_approval_height"), value("near_largest_threshold_height")
		if final < 10 || final > after || target < float64(before) || approval < threshold {
			t.Errorf("head %d to %v: final %v, target %v, approval %v, threshold %v", before, after, final, target, approval, threshold)
		}
		for _, name := range []string{"near_block_producer_endorsed_stake_ratio", "near_block_producer_missing_endorsement_count",
			"near_partial_chunk_time_to_last_part_seconds",
			"near_partial_chunk_time_to_reconstruct_seconds", "near_chunk_state_witness_total_size",
			"near_chunk_state_witness_raw_size", "near_chunk_state_witness_main_state_transition_size",
			"near_chunk_state_witness_source_receipt_proofs_size", "near_chunk_state_witness_encode_time", "near_partial_witness_encode_time",
			"near_produce_chunk_time", "near_produce_and_distribute_chunk_time",
			"near_block_approval_delay", "near_block_missing_chunks_delay", "near_block_pending_execution_delay"} {
			measured[name] += value(name + "_count")
		}
		highest = max(highest, threshold) // a validator gets the approvals of heights that it produces
	}
	for name, n := range measured {
		if n < made/2 { // one for each block, shard or chunk, less what was late
			t.Errorf("%s: %v values", name, n)
		}
	}
	if blocks < made || chunks < made || accepted < made || highest < 12 {
		t.Errorf("%v blocks of %v and %v chunks produced, %v endorsements accepted, approved up to %v", blocks, made, chunks, accepted, highest)
	}
}

// TestSkippedChunksAreCounted: missing chunks of blocks that become the head count for their shard.
func TestSkippedChunksAreCounted(t *testing.T) {
	t.Parallel()
	var s stats
	block := func(head bool, chunks ...bool) {
		m := &messages.BlockAccepted{IsHead: head}
		for id, has := range chunks {
			x := messages.ShardAccepted{ID: primitives.ShardID(id)}
			if has {
				x.Chunk = new(primitives.Chunk)
			}
			m.Shards = append(m.Shards, x)
		}
		s.count(m)
	}
	block(true, true, true)
	if s.skipped.Load() != nil {
		t.Error("counted without a missing chunk")
	}
	block(true, false, true)
	block(true, false, false)
	block(false, false, false) // on another branch
	want := map[primitives.ShardID]uint64{0: 2, 1: 1}
	if got := *s.skipped.Load(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if text, want := string(s.appendSkipped(nil)), "near_chunk_skipped_total{shard_id=\"0\"} 2\nnear_chunk_skipped_total{shard_id=\"1\"} 1\n"; !strings.HasSuffix(text, want) {
		t.Errorf("metrics %q", text)
	}
}

// TestAgeOfHeadsIsMeasured: the age of each new head counts in nearcore's histogram, that of a block of
// another branch does not.
func TestAgeOfHeadsIsMeasured(t *testing.T) {
	t.Parallel()
	var s stats
	now := time.Unix(1_800_000_000, 0)
	for _, age := range []time.Duration{200 * time.Millisecond, 3 * time.Second, -time.Second} {
		h := &primitives.BlockHeader{}
		h.Timestamp = uint64(now.Add(-age).UnixNano())
		s.measureLag(&messages.BlockAccepted{Block: &primitives.Block{Header: h}, IsHead: true}, now)
		s.measureLag(&messages.BlockAccepted{Block: &primitives.Block{Header: h}}, now)
	}
	text := string(s.lags.AppendText(nil, headLag))
	for _, want := range []string{`_bucket{le="0.1"} 1`, `_bucket{le="0.25"} 2`, `_bucket{le="2"} 2`, `_bucket{le="5"} 3`, "_sum 2.2", "_count 3"} {
		if !strings.Contains(text, "near_head_lag_seconds_hist"+want+"\n") {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestOnlyConvertedTransactionsAreSuccessful: a transaction with a failed outcome counts as failed, a
// further copy without an outcome does not count.
func TestOnlyConvertedTransactionsAreSuccessful(t *testing.T) {
	tx := func(nonce primitives.Nonce) *primitives.SignedTransaction {
		return primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a", ReceiverID: "b",
			Nonce: primitives.TransactionNonce{Nonce: nonce}}, primitives.ZeroED25519Signature)
	}
	outcome := func(tx *primitives.SignedTransaction, kind primitives.StatusKind) primitives.OutcomeWithID {
		return primitives.OutcomeWithID{ID: tx.Hash(), Outcome: primitives.Outcome{Status: primitives.ExecutionStatus{Kind: kind}}}
	}
	good, bad, last := tx(1), tx(2), tx(3)
	x := &messages.ShardAccepted{Chunk: new(primitives.Chunk)}
	x.Chunk.Transactions = []*primitives.SignedTransaction{good, bad, good, last}
	x.Outcomes = []primitives.OutcomeWithID{outcome(good, primitives.StatusSuccessReceiptID), outcome(bad, primitives.StatusFailure),
		outcome(last, primitives.StatusSuccessReceiptID), outcome(tx(4), primitives.StatusFailure)}
	if done, failed := converted(x); done != 2 || failed != 1 {
		t.Errorf("%d converted and %d failed, want 2 and 1", done, failed)
	}
}
