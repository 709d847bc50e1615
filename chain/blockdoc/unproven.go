package blockdoc

import "strings"

// Uncovered lists the paths of a StreamerMessage that no hash covers. [] stands for any index. A
// path includes everything below it. Signatures and authors can be verified with the keys of the
// block and chunk producers, as the engine and Chain do. The others cannot be verified.
var Uncovered = []string{
	"block.author",
	"block.header.signature",
	"block.chunks[].signature", // as the signature of the same header in its shard
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
	// Except the receipt's id. The document of the chunk that sent the receipt proves the rest.
	"shards[].receipt_execution_outcomes[].receipt",
	"shards[].receipt_execution_outcomes[].tx_hash", // an addition of neardata
	"shards[].state_changes",
}

// IsUnproven returns whether a path, with [] for each index, is in Uncovered or below such a path.
func IsUnproven(path string) bool {
	for _, u := range Uncovered {
		if rest, ok := strings.CutPrefix(path, u); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}
