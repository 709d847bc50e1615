package blockdoc

import (
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// Uncovered lists the paths of a StreamerMessage that no hash covers. [] stands for any index. A
// path includes everything below it. Signatures and authors can still be verified with the
// producers' keys, as the engine and Chain do. The other paths cannot be verified.
var Uncovered = []string{
	"block.author",
	"block.header.signature",
	"block.chunks[].signature", // equal to the signature in the same header in shards[]
	"shards[].chunk.header.signature",
	"shards[].chunk.author",
	"shards[].chunk.header.height_included", // nearcore writes 0 or the height
	"shards[].chunk.local_receipts",
	"shards[].chunk.instant_receipts",
	"shards[].chunk.transactions[].outcome.receipt",
	"shards[].chunk.transactions[].outcome.execution_outcome.outcome.metadata",
	"shards[].chunk.transactions[].outcome.execution_outcome.outcome.status.Failure",
	"shards[].receipt_execution_outcomes[].execution_outcome.outcome.metadata",
	"shards[].receipt_execution_outcomes[].execution_outcome.outcome.status.Failure",
	// Except for the receipt's id, and the receiver of an action receipt. The document with the chunk
	// that sent the receipt proves the rest.
	"shards[].receipt_execution_outcomes[].receipt",
	"shards[].receipt_execution_outcomes[].tx_hash", // neardata adds this field
	"shards[].state_changes",
}

// IsUnproven returns whether a path is in Uncovered or below a path in it. The path has [] for each
// index.
func IsUnproven(path string) bool {
	for _, u := range Uncovered {
		if rest, ok := strings.CutPrefix(path, u); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// Allowances for content that no hash covers, in bytes.
const (
	freeChunk   = 4 << 10 // for each new chunk, besides twice its encoded length
	freeOutcome = 512     // for each outcome: what a receipt has more than the action that created it
	freeProfile = 6 << 10 // for the metadata and the failure of an outcome
	// failureGas is the gas that pays for a byte of the JSON of a failure. A panic message costs 295
	// million gas a byte (utf8_decoding_byte, read_memory_byte), and a byte becomes at most six in JSON.
	failureGas = 48_000_000
	// maxEncoded exceeds the encoded length of every chunk.
	maxEncoded = 1 << 32
)

// weigh returns the size of the content of d that no hash covers, and the size that what a hash covers
// allows. Both are in bytes.
//
// Problem: a feed can write anything into transactions, receipts, metadata and failures, as long as it
// decodes. What is stored of a history must not grow far beyond that of the true chain.
//
// A chunk header declares the length of the chunk's transactions and receipts, which views contain
// without code. Each executed receipt was in such a chunk, but of an earlier block, or a transaction of
// the same block created it. So in the sum over blocks all of them are within twice the declared
// lengths, except for the receipts that wait in the shards' queues. The caller adds up (see
// blockfeed.HistoryCheck). JSON has at most 16 bytes for each byte that is counted here.
//
// Rejected: a bound for each block, because a block may execute receipts of many earlier blocks; a bound
// by gas, because the gas of a call pays for megabytes of arguments.
func (d *Document) weigh() (unproven, allowed int64) {
	for _, c := range d.Block.Body.Chunks {
		if c.HeightIncluded == d.Block.Header.Height {
			allowed += freeChunk + 2*int64(min(c.EncodedLength, maxEncoded))
		}
	}
	var text []byte
	for i := range d.Shards {
		s := &d.Shards[i]
		for _, t := range s.Transactions {
			text = t.SignedTransaction.AppendBorsh(text[:0])
			unproven += int64(len(text))
		}
		for _, list := range [][]*Receipt{s.Receipts, s.Executed} {
			for _, x := range list {
				text = x.AppendBorsh(text[:0])
				unproven += int64(len(text))
			}
		}
		for k := range s.Outcomes {
			allowed += freeOutcome
			unproven += looseOutcome(&s.Outcomes[k].Outcome)
		}
	}
	return unproven, allowed
}

// looseOutcome returns by how many bytes the metadata and the failure of an outcome exceed what they
// may have.
func looseOutcome(o *primitives.Outcome) int64 {
	const entry = 80 // JSON of an entry, without its texts
	size := int64(len(o.Status.Failure))
	for i := range o.Metadata.Profile {
		c := &o.Metadata.Profile[i]
		size += entry + int64(len(c.Category)+len(c.Cost))
	}
	size += int64(len(o.Metadata.Contracts)) * entry
	free := int64(freeProfile)
	if o.Status.Kind == primitives.StatusFailure {
		free += int64(o.GasBurnt / failureGas)
	}
	return max(0, size-free)
}
