package engine

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestEmptyProofsAreNotNil: a chunk without receipts for a node that held nothing is read back with
// an empty proof list. nil would mean the whole chunk, and a witness would show that it sent no
// receipts at all.
func TestEmptyProofsAreNotNil(t *testing.T) {
	kept := ShardState{Chunk: &primitives.Chunk{Proofs: []primitives.ReceiptProof{}}}
	list, err := readBroughtReceipts(encodeUntracked(&kept).Incoming)
	if err != nil || list == nil || len(list) != 0 {
		t.Errorf("%#v, %v", list, err)
	}
}
