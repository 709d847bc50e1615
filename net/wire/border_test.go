package wire

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestMessagesOfOneByteItemsDecode: messages of valid length decode even if they consist of
// one-byte items, as in nearcore: the longest valid transaction (max_transaction_size), plain and
// routed, and the receipts of a chunk to a shard.
func TestMessagesOfOneByteItemsDecode(t *testing.T) {
	t.Parallel()
	const maxTransaction, maxToShard = 1_572_864, 4_718_592
	creates := func(n int) []primitives.Action {
		list := make([]primitives.Action, n)
		for i := range list {
			list[i] = &primitives.CreateAccount{}
		}
		return list
	}
	x := primitives.Transaction{SignerID: "aa", ReceiverID: "bb", PublicKey: keyA.PublicKey()}
	x.Actions = creates(maxTransaction - len(borsh.Marshal(primitives.NewSignedTransaction(x, primitives.ZeroED25519Signature))))
	tx := primitives.NewSignedTransaction(x, primitives.ZeroED25519Signature)
	if tx.Size() != maxTransaction {
		t.Fatalf("a transaction of %d bytes", tx.Size())
	}
	receipt := &primitives.Receipt{PredecessorID: "aa", ReceiverID: "bb", Body: &primitives.ActionReceipt{SignerID: "aa", SignerPublicKey: keyA.PublicKey(), Actions: creates(maxToShard)}}
	chunk := &ChunkResponse{primitives.ChunkResponse{Receipts: []primitives.ReceiptProof{{Receipts: []*primitives.Receipt{receipt}}}}}
	for name, m := range map[string]Message{
		"transaction":         &Transaction{tx},
		"routed transaction":  NewRouted(keyA, ToPeer(PeerID(keyA.PublicKey())), &ForwardTx{*tx}, 1),
		"receipts of a chunk": NewRouted(keyA, ToPeer(PeerID(keyA.PublicKey())), chunk, 1),
	} {
		t.Run(name, func(t *testing.T) {
			frame := Append(nil, m)
			got, err := Decode(frame)
			if err != nil {
				t.Errorf("%d bytes do not decode: %v", len(frame), err)
				return
			}
			if n := len(Append(nil, got)); n != len(frame) {
				t.Errorf("encoded again: %d bytes, want %d", n, len(frame))
			}
		})
	}
}
