package daemon

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestPasserRefusesTransactionIfQueueIsFull: a transaction for which the queue to the writer has no
// room is refused with the reason, and one that is already in the queue is not.
func TestPasserRefusesTransactionIfQueueIsFull(t *testing.T) {
	refused := map[primitives.Hash]error{}
	p := newPasser(nil, logrus.New())
	p.refuse = func(tx *primitives.SignedTransaction, why error) { refused[tx.Hash()] = why }
	tx := func(n primitives.Nonce) *primitives.SignedTransaction {
		return primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near", PublicKey: primitives.ZeroED25519Key,
			Nonce: primitives.TransactionNonce{Nonce: n}}, primitives.ZeroED25519Signature)
	}
	for n := range primitives.Nonce(maxPassing) {
		p.pass(messages.TransactionPooled{Tx: tx(n)})
	}
	p.pass(messages.TransactionPooled{Tx: tx(0)})
	if len(refused) != 0 {
		t.Fatalf("%d transactions are refused below the limit", len(refused))
	}
	last := tx(maxPassing)
	p.pass(messages.TransactionPooled{Tx: last})
	if len(refused) != 1 || !errors.Is(refused[last.Hash()], view.ErrNoRoom) || p.lost.Load() != 1 {
		t.Errorf("refused %v, counted %d", refused, p.lost.Load())
	}
	for range maxPassing { // the workers have them, and none is in a block
		<-p.queue
	}
	p.pass(messages.TransactionPooled{Tx: tx(maxPassing + 1)})
	if len(refused) != 2 {
		t.Errorf("%d transactions refused, want 2: those of the workers count", len(refused))
	}
}

// TestReplicaReportsRefusalOfWriter: a client that waits at a replica for a transaction that its
// writer refuses gets the reason at once.
func TestReplicaReportsRefusalOfWriter(t *testing.T) {
	dir := made(t)
	writer := startRestartingReplica(t, dir, func(hm *home.Home) {
		hm.Config.JetStream.Enabled, hm.Config.JetStream.Listen, hm.Config.TransactionPoolSize = true, "127.0.0.1:0", 10
	})
	url := writer.host().publishing.Load().server.URL()
	key := writer.host().home.NodeKey.PublicKey().String()
	replica := startRestartingReplica(t, followerHome(t, dir), func(hm *home.Home) {
		hm.Config.Replica.Of, hm.Config.Replica.Key, hm.Config.RPC.PollingTimeout = url, key, time.Minute
	})
	head := writer.host().Engine.Head()
	replica.reaches(t, head.Height(), head.Hash)
	_, reply, err := send(replica, writer.host().home.ValidatorKey, 1, "FINAL")
	if err != nil || !bytes.Contains(reply, []byte("it did not reach the writer: there is no room for the transaction: transaction_pool_size_limit")) {
		t.Errorf("reply %s, error %v", reply, err)
	}
	if n := replica.host().Node.Waiting(); n != 0 {
		t.Errorf("%d wait in the replica's pool still", n)
	}
}
