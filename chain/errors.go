package chain

import (
	"errors"
	"fmt"
)

// Invalid is an error that names the rule that a block or chunk breaks. The names are the names of
// nearcore's chain errors.
type Invalid string

func (e Invalid) Error() string { return "chain: " + string(e) }

// Label returns the name as a label of metrics (nearcore chain/chain-primitives/src/error.rs,
// prometheus_label_value).
func (e Invalid) Label() string {
	switch e {
	case InvalidEncodedMerkleRoot:
		return "invalid_chunk_encoded_merkle_root"
	case InvalidShardSplit:
		return "invalid_chunk_header_shard_split"
	case InvalidHeaderVersion:
		return "bad_header_for_protocol_version"
	case InvalidNextBPHash:
		return "invalid_next_bp_hash"
	}
	var b []byte
	for i, c := range []byte(e) {
		if 'A' <= c && c <= 'Z' {
			if c += 'a' - 'A'; i > 0 {
				b = append(b, '_')
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// ErrorLabel returns the label of the rule that an error names, or "other".
func ErrorLabel(err error) string {
	var rule Invalid
	if errors.As(err, &rule) {
		return rule.Label()
	}
	return "other"
}

// The rules.
const (
	InvalidBlockFutureTime      Invalid = "InvalidBlockFutureTime"
	InvalidBlockPastTime        Invalid = "InvalidBlockPastTime"
	InvalidSignature            Invalid = "InvalidSignature"
	InvalidEpochHash            Invalid = "InvalidEpochHash"
	InvalidProtocolVersion      Invalid = "InvalidProtocolVersion"
	InvalidNextBPHash           Invalid = "InvalidNextBPHash"
	InvalidChunkMask            Invalid = "InvalidChunkMask"
	InvalidPrevHeight           Invalid = "InvalidPrevHeight"
	InvalidBlockHeight          Invalid = "InvalidBlockHeight"
	InvalidApprovals            Invalid = "InvalidApprovals"
	NotEnoughApprovals          Invalid = "NotEnoughApprovals"
	InvalidFinalityInfo         Invalid = "InvalidFinalityInfo"
	InvalidBlockMerkleRoot      Invalid = "InvalidBlockMerkleRoot"
	InvalidBlockOrdinal         Invalid = "InvalidBlockOrdinal"
	InvalidEpochSyncDataHash    Invalid = "InvalidEpochSyncDataHash"
	InvalidRandomness           Invalid = "InvalidRandomnessBeaconOutput"
	InvalidBodyHash             Invalid = "InvalidBlockBodyHash"
	InvalidStateRoot            Invalid = "InvalidStateRoot"
	InvalidOutcomesProof        Invalid = "InvalidOutcomesProof"
	InvalidReceiptsProof        Invalid = "InvalidReceiptsProof"
	InvalidTxRoot               Invalid = "InvalidTxRoot"
	InvalidChunkHeadersRoot     Invalid = "InvalidChunkHeadersRoot"
	InvalidGasPrice             Invalid = "InvalidGasPrice"
	InvalidTotalSupply          Invalid = "InvalidTotalSupply"
	InvalidGasLimit             Invalid = "InvalidGasLimit"
	InvalidGasUsed              Invalid = "InvalidGasUsed"
	InvalidBalanceBurnt         Invalid = "InvalidBalanceBurnt"
	InvalidValidatorProposals   Invalid = "InvalidValidatorProposals"
	InvalidCongestionInfo       Invalid = "InvalidCongestionInfo"
	InvalidBandwidthRequests    Invalid = "InvalidBandwidthRequests"
	InvalidShardSplit           Invalid = "InvalidShardSplit"
	InvalidChunk                Invalid = "InvalidChunk"
	InvalidShardID              Invalid = "InvalidShardId"
	InvalidChunkEndorsement     Invalid = "InvalidChunkEndorsement"
	InvalidEndorsementBitmap    Invalid = "InvalidChunkEndorsementBitmap"
	InvalidEncodedMerkleRoot    Invalid = "InvalidEncodedMerkleRoot"
	InvalidHeaderVersion        Invalid = "InvalidHeaderVersion"
	InvalidPrevBlock            Invalid = "InvalidPrevBlockHash"
	ArithmeticOverflow          Invalid = "ArithmeticOverflow"
	InvalidNumberOfChunkHeaders Invalid = "IncorrectNumberOfChunkHeaders"
)

// ErrHeightAhead is joined to InvalidBlockHeight if the height is too far above the head. The block
// may become valid when the head is higher. So, like nearcore, a node neither records such a block
// as invalid nor bans its sender (chain/chain/src/chain.rs:741, 2425 at f0c7706f1).
var ErrHeightAhead = errors.New("the height is too far above the head")

// ErrRepeatedChunk is joined to InvalidChunk if a chunk header that is not new differs from the
// parent's header of that shard. nearcore finds this only after it has relayed the block
// (chain/chain/src/chain.rs validate_chunk_headers).
var ErrRepeatedChunk = errors.New("the repeated chunk is not the parent's")

// OfOutcome returns whether an error of ValidateChunk means that the chunk header's results of the
// shard's previous chunk differ from the results that this node computed. The inputs determine the
// results. So either this node or the chunk producer computed wrong results.
func OfOutcome(err error) bool {
	for _, e := range [...]Invalid{InvalidStateRoot, InvalidOutcomesProof, InvalidValidatorProposals,
		InvalidGasLimit, InvalidGasUsed, InvalidBalanceBurnt,
		InvalidReceiptsProof, InvalidCongestionInfo, InvalidBandwidthRequests, InvalidShardSplit} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func invalidf(e Invalid, format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{e}, args...)...)
}
