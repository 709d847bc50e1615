package chain

import (
	"errors"
	"fmt"
	"testing"
)

// TestErrorLabelsAreThoseOfNearcore: the labels are nearcore's, also for names that are not simply
// split at capital letters (chain/chain-primitives/src/error.rs at f0c7706f1).
func TestErrorLabelsAreThoseOfNearcore(t *testing.T) {
	for err, want := range map[error]string{
		InvalidStateRoot:                               "invalid_state_root",
		InvalidNextBPHash:                              "invalid_next_bp_hash",
		InvalidShardID:                                 "invalid_shard_id",
		InvalidRandomness:                              "invalid_randomness_beacon_output",
		InvalidNumberOfChunkHeaders:                    "incorrect_number_of_chunk_headers",
		InvalidEncodedMerkleRoot:                       "invalid_chunk_encoded_merkle_root",
		InvalidShardSplit:                              "invalid_chunk_header_shard_split",
		InvalidHeaderVersion:                           "bad_header_for_protocol_version",
		NotEnoughApprovals:                             "not_enough_approvals",
		fmt.Errorf("block 7: %w", InvalidChunk):        "invalid_chunk",
		errors.New("the engine has no such thing"):     "other",
		errors.Join(errors.New("x"), InvalidSignature): "invalid_signature",
	} {
		if got := ErrorLabel(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
