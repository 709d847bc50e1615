package apply

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// transactions turns the chunk's transactions into receipts, in order, each seeing the charges of
// those before it (nearcore lib.rs:1857). A second copy of a transaction leaves no trace but its
// reads.
func (c *chunk) transactions() error {
	made := len(c.in.Transactions) + len(c.in.Incoming)
	c.res.Outcomes = make([]primitives.OutcomeWithID, 0, made+made/16+16) // and some local ones
	var seen map[primitives.Hash]bool
	if c.cfg.Version.Has(parameters.UniqueChunkTransactions) {
		seen = make(map[primitives.Hash]bool, len(c.in.Transactions))
	}
	for i := range c.in.Transactions {
		t := &c.in.Transactions[i]
		hash := t.Hash()
		if seen[hash] {
			continue // the first copy has read what this one would
		}
		if seen != nil {
			seen[hash] = true
		}
		if err := c.transaction(t, hash); err != nil {
			return fmt.Errorf("apply: transaction %v: %w", hash, err)
		}
	}
	return nil
}

// signer is what the state holds of a transaction's signer.
type signer struct {
	account primitives.Account
	key     primitives.AccessKey
	nonce   primitives.Nonce
}

// readSigner reads account, key and, for a gas key's transaction, the nonce row. All are recorded,
// whatever becomes of the transaction.
func readSigner(u *state.TrieUpdate, tx *primitives.Transaction, h primitives.PublicKeyHandle, s *signer) (v verify.Signer, err error) {
	found, err := u.Account(tx.SignerID, &s.account)
	if err != nil {
		return v, err
	}
	if found {
		v.Account = &s.account
	}
	if found, err = u.AccessKey(tx.SignerID, h, &s.key); err != nil {
		return v, err
	}
	if found {
		v.Key = &s.key
	}
	if tx.Nonce.HasIndex {
		if s.nonce, found, err = u.GasKeyNonce(tx.SignerID, h, tx.Nonce.Index); err != nil {
			return v, err
		}
		if found {
			v.RowNonce = &s.nonce
		}
	}
	return v, nil
}

// store writes what the signer has after paying the charges.
func (s *signer) store(u *state.TrieUpdate, tx *primitives.Transaction, h primitives.PublicKeyHandle, charges *verify.Charges) {
	charges.Apply(&s.account, &s.key)
	u.SetAccount(tx.SignerID, &s.account)
	if charges.GasKey {
		u.SetGasKeyNonce(tx.SignerID, h, charges.NonceIndex, charges.Nonce)
	}
	u.SetAccessKey(tx.SignerID, h, &s.key)
}

func (c *chunk) transaction(t *Transaction, hash primitives.Hash) error {
	tx := &t.SignedTransaction.Transaction
	if !t.Valid {
		c.reject(tx, hash, &primitives.InvalidTxError{Tag: primitives.TxExpired})
		return nil
	}
	var s signer
	handle := tx.PublicKey.Handle()
	view, err := readSigner(c.u, tx, handle, &s)
	if err != nil {
		return err
	}
	if e := verify.Transaction(c.cfg, t.SignedTransaction, c.in.signature()); e != nil {
		c.reject(tx, hash, e)
		return nil
	}
	cost, e := verify.Cost(c.cfg, tx, c.in.Block.GasPrice)
	if e == nil {
		e = verify.MissingSigner(tx, view, verify.InChunk)
	}
	if e != nil {
		c.reject(tx, hash, e)
		return nil
	}
	verdict := verify.Charge(c.cfg, tx, &cost, view, c.in.Block.Height)
	if !verdict.Charged {
		c.reject(tx, hash, verdict.Err)
		return nil
	}
	charges := &verdict.Charges
	if err := addBalance(&c.burnt.burnt, charges.BurntAmount); err != nil {
		return err
	}
	o := c.newOutcome(tx, hash)
	o.GasBurnt, o.ComputeUsage, o.TokensBurnt = charges.GasBurnt, primitives.Gas(charges.ComputeBurnt), charges.BurntAmount
	if verdict.Err != nil { // a gas key pays for a transaction whose deposits the account cannot pay
		o.Status = invalidTxStatus(verdict.Err)
		// whatever the compute of the conversion is (core/primitives/src/transaction.rs:739)
		o.ComputeUsage = o.GasBurnt
	} else if err := c.convert(tx, hash, charges, o); err != nil {
		return err
	}
	if err := c.count(o.GasBurnt, parameters.Compute(o.ComputeUsage)); err != nil {
		return err
	}
	s.store(c.u, tx, handle, charges)
	c.u.Commit(primitives.CauseTransactionProcessing, hash)
	return nil
}

// txReceipt is the receipt of a transaction in one piece of memory.
type txReceipt struct {
	receipt primitives.Receipt
	body    primitives.ActionReceipt
	ids     [1]primitives.Hash
}

// convert makes the transaction's receipt. One to the signer itself runs in this chunk, any other
// leaves.
func (c *chunk) convert(tx *primitives.Transaction, hash primitives.Hash, charges *verify.Charges, o *primitives.OutcomeWithID) error {
	id := primitives.ReceiptIDFromTransaction(hash, c.in.Block.Height)
	p := &txReceipt{ids: [1]primitives.Hash{id}}
	p.body = primitives.ActionReceipt{
		SignerID: tx.SignerID, SignerPublicKey: tx.PublicKey, GasPrice: charges.ReceiptGasPrice, Actions: tx.Actions,
	}
	p.receipt = primitives.Receipt{PredecessorID: tx.SignerID, ReceiverID: tx.ReceiverID, ID: id, Body: &p.body}
	o.ReceiptIDs = p.ids[:]
	o.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID, ReceiptID: id}
	if tx.ReceiverID == tx.SignerID {
		c.local, c.localOf = append(c.local, &p.receipt), append(c.localOf, hash)
		return nil
	}
	return c.sendOf(hash, &p.receipt)
}

// newOutcome appends an outcome of the transaction and returns it; the pointer is good until the
// next one.
func (c *chunk) newOutcome(tx *primitives.Transaction, hash primitives.Hash) *primitives.OutcomeWithID {
	c.res.Outcomes = append(c.res.Outcomes, primitives.OutcomeWithID{ID: hash, Outcome: primitives.Outcome{
		ExecutorID: tx.SignerID, Metadata: primitives.ExecutionMetadata{Version: 1},
	}})
	return &c.res.Outcomes[len(c.res.Outcomes)-1]
}

func invalidTxStatus(e *primitives.InvalidTxError) primitives.ExecutionStatus {
	failure := primitives.TxExecutionError{InvalidTx: e}
	return primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: failure.AppendJSON(nil)}
}

// reject is the outcome of an invalid transaction: nothing is charged.
func (c *chunk) reject(tx *primitives.Transaction, hash primitives.Hash, e *primitives.InvalidTxError) {
	c.newOutcome(tx, hash).Status = invalidTxStatus(e)
}

// Pays tells whether one of the transactions would be charged if it were the first: it is signed,
// and its signer can pay. Nothing is recorded.
func (in *Input) Pays(i int) bool {
	t, cfg := &in.Transactions[i], in.Block.Config
	if !t.Valid || verify.Transaction(cfg, t.SignedTransaction, in.signature()) != nil {
		return false
	}
	tx := &t.SignedTransaction.Transaction
	cost, e := verify.Cost(cfg, tx, in.Block.GasPrice)
	if e != nil {
		return false
	}
	var s signer
	view, err := readSigner(state.NewUnrecorded(in.Trie), tx, tx.PublicKey.Handle(), &s)
	if err != nil || verify.MissingSigner(tx, view, verify.InChunk) != nil {
		return false
	}
	verdict := verify.Charge(cfg, tx, &cost, view, in.Block.Height)
	return verdict.Charged && verdict.Err == nil
}
