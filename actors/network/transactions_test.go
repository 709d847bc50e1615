package network

import (
	"testing"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// TestOutBytes: transactions on their way take a bounded number of bytes, which are given back when they are in a block, or have been sent often enough.
func TestOutBytes(t *testing.T) {
	of := func(nonce primitives.Nonce, size int) *primitives.SignedTransaction {
		return primitives.NewSignedTransaction(primitives.Transaction{SignerID: "alice", ReceiverID: "alice", Nonce: primitives.TransactionNonce{Nonce: nonce},
			Actions: []primitives.Action{&primitives.DeployContract{Code: make([]byte, size)}}}, primitives.ZeroED25519Signature)
	}
	q := newTransactions()
	n := 0
	for ; n < 100; n++ {
		tx := of(primitives.Nonce(n), 1<<20)
		if !q.room(tx) {
			break
		}
		q.put(&outgoing{tx: tx, sends: 1 + n%2*(maxSends-1)})
	}
	if n != 63 || q.bytes > maxOutBytes {
		t.Errorf("%d transactions of a MiB, %d bytes", n, q.bytes)
	}
	sent := 0
	q.again(resendAfter, func(*primitives.SignedTransaction) bool { sent++; return true })
	if sent != 32 || len(q.out) != 32 || q.bytes < 32<<20 || q.bytes > 33<<20 {
		t.Errorf("%d sent again, %d on their way, %d bytes", sent, len(q.out), q.bytes)
	}
	c := new(primitives.Chunk)
	for _, x := range q.out {
		c.Transactions = append(c.Transactions, x.tx, x.tx)
	}
	q.included(&messages.BlockAccepted{Shards: []messages.ShardAccepted{{Chunk: c}}})
	if len(q.out) != 0 || q.bytes != 0 {
		t.Errorf("in a block: %d, %d bytes", len(q.out), q.bytes)
	}
}
