package blockdoc

import (
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Transaction is a decoded transaction view. The view lacks contract code and the hash of the block
// to which the transaction refers. Until Complete has succeeded, the transaction is one of
// primitives.NewViewedTransaction.
type Transaction struct {
	*primitives.SignedTransaction
	Named primitives.Hash // hash of the transaction in the view; the signer signed it
	Slots []Slot
	whole bool // Complete succeeded: the transaction has the hash Named
}

type transactionJSON struct {
	Actions    []json.RawMessage    `json:"actions"`
	Hash       primitives.Hash      `json:"hash"`
	Nonce      primitives.Nonce     `json:"nonce"`
	NonceIndex *uint16              `json:"nonce_index"`
	NonceMode  string               `json:"nonce_mode"`
	PublicKey  primitives.PublicKey `json:"public_key"`
	ReceiverID primitives.AccountID `json:"receiver_id"`
	Signature  primitives.Signature `json:"signature"`
	SignerID   primitives.AccountID `json:"signer_id"`
}

// transaction decodes a transaction view.
func transaction(text json.RawMessage) (*Transaction, error) {
	var j transactionJSON
	if err := parse(text, &j); err != nil {
		return nil, err
	}
	out, t := &Transaction{Named: j.Hash}, primitives.Transaction{}
	t.SignerID, t.PublicKey, t.ReceiverID, t.Nonce.Nonce = j.SignerID, j.PublicKey, j.ReceiverID, j.Nonce
	switch j.NonceMode {
	case "", "monotonic":
	case "strict":
		t.Version, t.NonceMode = primitives.TransactionV1, primitives.NonceStrict
	default:
		return nil, formf("nonce_mode %q", j.NonceMode)
	}
	if j.NonceIndex != nil {
		t.Version, t.Nonce.Index, t.Nonce.HasIndex = primitives.TransactionV1, *j.NonceIndex, true
	}
	var err error
	if t.Actions, out.Slots, err = actions(j.Actions); err != nil {
		return nil, err
	}
	out.SignedTransaction = primitives.NewViewedTransaction(t, j.Signature, j.Hash)
	return out, nil
}

// Ancestors yields the hashes of blocks to which a transaction may refer, likely ones first, until
// yield returns false.
type Ancestors func(yield func(primitives.Hash) bool)

// maxTransaction exceeds the size in bytes of every transaction on a public network: the protocol's
// limit was at first 4 MiB, and has been 1.5 MiB since.
const maxTransaction = 4<<20 + 64<<10

// Bounds of the bytes that two searches hash. The first search finds the block to which a
// transaction refers; the second finds the layouts of receipts. A chain within the protocol's
// limits needs fewer bytes, so no true block stops a follower. A search that reaches its bound
// takes some minutes.
const (
	maxSearched = 256 << 30 // 1.5 MiB for each of 86,400 blocks, in both transaction versions
	maxFlipped  = 64 << 30  // 16 MiB of receipts for each combination of layouts
)

// Complete adds the data that the view lacks: contract code by its hash, and the block hash to
// which the transaction refers. Complete finds the block hash by trying ancestors until the
// transaction's hash is Named. After a success, further calls do nothing. Complete returns ErrLacks
// if the code or the block hash is not found. A view that differs from the signed transaction also
// leads to ErrLacks, because the two cases cannot be distinguished.
func (t *Transaction) Complete(code Code, ancestors Ancestors) error {
	if t.whole {
		return nil
	}
	if missing := fill(t.Slots, code); len(missing) > 0 {
		return &CodeError{Of: t.Named, Hashes: missing}
	}
	own := &t.SignedTransaction.Transaction
	left := int64(maxSearched)
	versions := []primitives.TransactionVersion{own.Version}
	if own.Version == primitives.TransactionV0 {
		versions = append(versions, primitives.TransactionV1)
	}
	for _, v := range versions {
		own.Version, own.BlockHash = v, primitives.Hash{}
		text := own.AppendBorsh(nil)
		if len(text) > maxTransaction {
			break
		}
		at := blockHashAt(own)
		if at < 0 {
			break
		}
		ancestors(func(h primitives.Hash) bool {
			if left -= int64(len(text)); left < 0 {
				return false
			}
			copy(text[at:], h[:])
			if t.whole = primitives.HashBytes(text) == t.Named; t.whole {
				own.BlockHash = h
			}
			return !t.whole
		})
		if t.whole {
			*t.SignedTransaction = *primitives.NewSignedTransaction(*own, t.Signature)
			return nil
		}
	}
	own.Version, own.BlockHash = versions[0], primitives.Hash{}
	return fmt.Errorf("%w: transaction %v refers to an unknown block, or is not the transaction that was signed", ErrLacks, t.Named)
}

// blockHashAt returns the offset of the block hash in the encoding of a transaction.
func blockHashAt(t *primitives.Transaction) int {
	head := *t
	head.Actions, head.NonceMode = nil, 0
	// The empty list of actions (4 bytes) follows the block hash.
	n := len(head.AppendBorsh(nil)) - 4 - len(primitives.Hash{})
	if t.Version == primitives.TransactionV1 {
		n--
	}
	return n
}

// CodeError wraps ErrLacks. It means that code in a transaction or receipt is unknown.
type CodeError struct {
	Of     primitives.Hash
	Hashes []primitives.Hash
}

func (e *CodeError) Error() string {
	return fmt.Sprintf("%v: the code that %v deploys: %v", ErrLacks, e.Of, e.Hashes)
}

// Unwrap returns ErrLacks.
func (e *CodeError) Unwrap() error { return ErrLacks }
