package daemon

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// draft is a transaction of the key's account to another, or itself, on the head.
func draft(h *Daemon, key *primitives.KeyFile, nonce primitives.Nonce, to primitives.AccountID, actions ...primitives.Action) primitives.Transaction {
	return primitives.Transaction{
		SignerID: key.AccountID, PublicKey: key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce},
		ReceiverID: to, BlockHash: h.Engine.Head().Hash, Actions: actions,
	}
}

// encode returns a transaction in the form of RPC parameters, signed with the key, and its hash.
// Without a key its signature is zero.
func encode(tx primitives.Transaction, key *primitives.KeyFile) (string, primitives.Hash) {
	hash, sig := tx.Hash(), primitives.ZeroED25519Signature
	if key != nil {
		sig = key.SecretKey.Sign(hash[:])
	}
	return base64.StdEncoding.EncodeToString(primitives.NewSignedTransaction(tx, sig).AppendBorsh(nil)), hash
}

// act sends actions of the validator to itself.
func act(t testing.TB, h *Daemon, key *primitives.KeyFile, nonce primitives.Nonce, actions ...primitives.Action) {
	t.Helper()
	signed, _ := encode(draft(h, key, nonce, key.AccountID, actions...), key)
	var status txStatus
	if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &status); cause != "" {
		t.Fatalf("send_tx: %s", cause)
	}
	if !strings.HasPrefix(string(status.Status), `{"SuccessValue"`) {
		t.Fatalf("the transaction failed: %s", status.Status)
	}
}
