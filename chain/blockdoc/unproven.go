package blockdoc

import "strings"

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
