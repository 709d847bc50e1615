package blockdoc

import "strings"

// Uncovered lists the paths of a StreamerMessage that no hash covers. [] stands for any index; a
// path covers everything below it. Signatures and authors can be checked with the keys of the block
// and chunk producers, as the engine and Chain do. The rest can't be checked.
var Uncovered = []string{
	"block.author",
	"block.header.signature",
	"block.chunks[].signature", // and with it the signature of the same header in its shard
	"shards[].chunk.header.signature",
	"shards[].chunk.author",
	"shards[].chunk.header.height_included", // nearcore has 0 here, or the height
	"shards[].chunk.local_receipts",
	"shards[].chunk.instant_receipts",
	"shards[].chunk.transactions[].outcome.receipt",
	"shards[].chunk.transactions[].outcome.execution_outcome.outcome.metadata",
	"shards[].chunk.transactions[].outcome.execution_outcome.outcome.status.Failure",
	"shards[].receipt_execution_outcomes[].execution_outcome.outcome.metadata",
	"shards[].receipt_execution_outcomes[].execution_outcome.outcome.status.Failure",
	// except its id; the chunk that sent it proves the rest
	"shards[].receipt_execution_outcomes[].receipt",
	"shards[].receipt_execution_outcomes[].tx_hash", // added by neardata
	"shards[].state_changes",
}

// IsUnproven returns whether a path, with [] for indexes, is in Uncovered or below one that is.
func IsUnproven(path string) bool {
	for _, u := range Uncovered {
		if rest, ok := strings.CutPrefix(path, u); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}
