package network

import (
	"testing"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// TestKeptTransactionBytesAreBounded: the bytes of kept transactions are bounded. They are freed
// when a block includes the transactions, or after maxSends.
func TestKeptTransactionBytesAreBounded(t *testing.T) {
	of := func(nonce primitives.Nonce, size int) *primitives.SignedTransaction {
		return primitives.NewSignedTransaction(primitives.Transaction{SignerID: "alice", ReceiverID: "alice",
			Nonce:   primitives.TransactionNonce{Nonce: nonce},
			Actions: []primitives.Action{&primitives.DeployContract{Code: make([]byte, size)}}}, primitives.ZeroED25519Signature)
	}
	q := newTxForwarder()
	n := 0
	for ; n < 100; n++ {
		tx := of(primitives.Nonce(n), 1<<20)
		if !q.hasRoom(tx) {
			break
		}
		q.add(&outgoing{tx: tx, sends: 1 + n%2*(maxSends-1)})
	}
	if n != 63 || q.bytes > maxOutBytes {
		t.Errorf("%d transactions of a MiB, %d bytes", n, q.bytes)
	}
	sent := 0
	q.resend(resendAfter, func(*primitives.SignedTransaction) bool { sent++; return true })
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

// TestTransactionIsSentWithoutRoom: a client's transaction is sent to chunk producers even if there
// is no room to keep it.
func TestTransactionIsSentWithoutRoom(t *testing.T) {
	q := newTxForwarder()
	tx := func(n primitives.Nonce) *primitives.SignedTransaction {
		return primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near",
			PublicKey: primitives.ZeroED25519Key,
			Nonce:     primitives.TransactionNonce{Nonce: n}}, primitives.ZeroED25519Signature)
	}
	q.bytes = maxOutBytes
	if x, keep := q.toForward(tx(1), false, false, 0); x == nil || keep {
		t.Errorf("without room: sent %v, kept %v; want it sent, not kept", x != nil, keep)
	}
	q.bytes = 0
	if x, keep := q.toForward(tx(1), false, false, 0); x == nil || !keep || x.sends != 1 {
		t.Errorf("with room: %+v, kept %v", x, keep)
	}
	if x, _ := q.toForward(tx(1), true, true, 0); x == nil || x.sends != maxSends {
		t.Errorf("routed: %+v, want it sent once", x)
	}
	if x, _ := q.toForward(tx(1), false, true, 0); x != nil {
		t.Error("it is sent although routing is off")
	}
	q.foreign[tx(2).Hash()] = true
	if x, _ := q.toForward(tx(2), false, false, 0); x != nil {
		t.Error("what another node has sent goes on")
	}
}
