//go:build e2e

package e2e

import (
	"encoding/base64"
	"path/filepath"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

// signer signs transfers of the validator, on a block that stays valid for the test.
type signer struct {
	key   *primitives.KeyFile
	nonce primitives.Nonce
	base  primitives.Hash
}

// signer returns a signer for the validator that starts at its key's nonce.
func (p *process) signer() *signer {
	p.t.Helper()
	key, err := home.ReadKeyFile(filepath.Join(p.home, "validator_key.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	s := &signer{key: key}
	var view struct {
		Nonce primitives.Nonce `json:"nonce"`
	}
	p.get("query", map[string]any{"request_type": "view_access_key", "finality": "optimistic", "account_id": key.AccountID,
		"public_key": key.SecretKey.PublicKey().String()}, &view)
	s.nonce = view.Nonce
	if s.base, err = primitives.ParseHash(p.head("final").Header.Hash); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// next signs a transfer of one yoctoNEAR with the next nonce.
func (s *signer) next() (encoded string, hash primitives.Hash) {
	s.nonce++
	t := primitives.Transaction{
		SignerID: s.key.AccountID, PublicKey: s.key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: s.nonce},
		ReceiverID: "near", BlockHash: s.base, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}},
	}
	hash = t.Hash()
	signed := primitives.NewSignedTransaction(t, s.key.SecretKey.Sign(hash[:]))
	return base64.StdEncoding.EncodeToString(signed.AppendBorsh(nil)), hash
}

// status is the part of a transaction's status that the tests read.
type status struct {
	Level   string `json:"final_execution_status"`
	Outcome struct {
		Block string `json:"block_hash"`
	} `json:"transaction_outcome"`
	Receipts []struct {
		Block string `json:"block_hash"`
	} `json:"receipts_outcome"`
}

// send sends a transaction and waits for a level. It fails the test if the level is not reached.
func (p *process) send(encoded, until string) (s status) {
	p.t.Helper()
	p.get("send_tx", map[string]any{"signed_tx_base64": encoded, "wait_until": until}, &s)
	return s
}

// tx requests the status of a transaction that must exist.
func (p *process) tx(hash primitives.Hash, account primitives.AccountID, until string) (s status) {
	p.t.Helper()
	p.get("tx", map[string]any{"tx_hash": hash.String(), "sender_account_id": account, "wait_until": until}, &s)
	return s
}
