package apply

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// transactions turns the chunk's transactions into receipts, in order. Each transaction sees the
// charges of the transactions before it (nearcore lib.rs:1857). From feature
// UniqueChunkTransactions on, further copies of a transaction have no effect.
func (c *chunk) transactions() error {
	made := len(c.in.Transactions) + len(c.in.Incoming)
	c.res.Outcomes = make([]primitives.OutcomeWithID, 0, made+made/16+16) // with spare capacity for local receipts
	var seen map[primitives.Hash]bool
	if c.cfg.Version.Has(parameters.UniqueChunkTransactions) {
		seen = make(map[primitives.Hash]bool, len(c.in.Transactions))
	}
	for i := range c.in.Transactions {
		t := &c.in.Transactions[i]
		hash := t.Hash()
		if seen[hash] {
			continue // reading the state again would record nothing new
		}
		if seen != nil {
			seen[hash] = true
		}
		if err := c.transaction(t, hash); err != nil {
			return fmt.Errorf("apply: transaction %v: %w", hash, err)
		}
	}
	c.res.Stats.Transactions = len(c.res.Outcomes)
	for i := range c.res.Outcomes {
		if c.res.Outcomes[i].Outcome.Status.Kind == primitives.StatusFailure {
			c.res.Stats.Failed++
		}
	}
	return nil
}

// signer holds the state of a transaction's signer.
type signer struct {
	account primitives.Account
	key     primitives.AccessKey
	nonce   primitives.Nonce
}

// readSigner reads the signer's account and key and, for a gas key, the nonce at the transaction's
// index. All reads are recorded, whether or not the transaction turns out to be valid.
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

// store writes the signer's state after the charges. A self-signed state init has no key to write.
func (s *signer) store(u *state.TrieUpdate, tx *primitives.Transaction, h primitives.PublicKeyHandle, charges *verify.Charges) {
	charges.Apply(&s.account, &s.key)
	u.SetAccount(tx.SignerID, &s.account)
	if charges.Bootstrap {
		return
	}
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
		e = verify.MissingSigner(c.cfg, tx, view, verify.InChunk)
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
	// A gas key pays the gas of a transaction even if its account cannot pay the deposits.
	if verdict.Err != nil {
		o.Status = invalidTxStatus(verdict.Err)
		// nearcore ignores the compute of the conversion here
		// (core/primitives/src/transaction.rs:739)
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

// txReceipt holds all structs of a transaction's receipt, so that the receipt costs one allocation.
type txReceipt struct {
	receipt primitives.Receipt
	body    primitives.ActionReceipt
	ids     [1]primitives.Hash
}

// convert makes the transaction's receipt. A receipt to the signer itself runs in this chunk. Any
// other receipt goes to the sink.
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

// newOutcome appends an outcome of the transaction and returns it. The pointer is valid until the
// next call.
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

// reject adds the outcome of an invalid transaction. Nothing is charged.
func (c *chunk) reject(tx *primitives.Transaction, hash primitives.Hash, e *primitives.InvalidTxError) {
	c.newOutcome(tx, hash).Status = invalidTxStatus(e)
}

// Pays returns whether transaction i would be charged if it were the first transaction of the
// chunk: the signature is valid and the signer can pay. Pays records no reads.
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
	if err != nil || verify.MissingSigner(cfg, tx, view, verify.InChunk) != nil {
		return false
	}
	verdict := verify.Charge(cfg, tx, &cost, view, in.Block.Height)
	return verdict.Charged && verdict.Err == nil
}
