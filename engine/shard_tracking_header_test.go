package engine

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestBroughtNothing: of a chunk that brought nothing to a node that held nothing, no proofs are read back, which is other than the whole chunk's none: a witness
// would show that it had sent no receipts at all.
func TestBroughtNothing(t *testing.T) {
	kept := ShardState{Chunk: &primitives.Chunk{Proofs: []primitives.ReceiptProof{}}}
	list, err := readBroughtReceipts(encodeUntracked(&kept).Incoming)
	if err != nil || list == nil || len(list) != 0 {
		t.Errorf("%#v, %v", list, err)
	}
}
