package blockdoc

import "strings"

// Uncovered are the members of a StreamerMessage that no hash covers, by path; [] stands for any place in a list, and what is below is meant
// too. Signatures and authors are for who knows the keys of those who had to make the block and its chunks: the engine checks them, and
// whoever has the epoch's producers. The rest is told, and no more.
var Uncovered = []string{
	"block.author",
	"block.header.signature",
	"block.chunks[].signature", // with it, that of the same header in its shard
	"shards[].chunk.header.signature",
	"shards[].chunk.author",
	"shards[].chunk.header.height_included", // nearcore shows 0 here or the height
	"shards[].chunk.local_receipts",
	"shards[].chunk.instant_receipts",
	"shards[].chunk.transactions[].outcome.receipt",
	"shards[].chunk.transactions[].outcome.execution_outcome.outcome.metadata",
	"shards[].chunk.transactions[].outcome.execution_outcome.outcome.status.Failure",
	"shards[].receipt_execution_outcomes[].execution_outcome.outcome.metadata",
	"shards[].receipt_execution_outcomes[].execution_outcome.outcome.status.Failure",
	"shards[].receipt_execution_outcomes[].receipt", // but for its id; the chunk that sent it out proves it
	"shards[].receipt_execution_outcomes[].tx_hash", // of neardata
	"shards[].state_changes",
}

// IsUnproven tells whether a path, with [] for places, is one of those or below one.
func IsUnproven(path string) bool {
	for _, u := range Uncovered {
		if rest, ok := strings.CutPrefix(path, u); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}
