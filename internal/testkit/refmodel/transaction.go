package refmodel

import "github.com/troupe-chain/troupe/primitives"

type refusal = primitives.InvalidTxError

// Transaction charges a transaction to its signer (lib.rs process_transactions, verifier.rs). The
// account pays the deposits; gas is free. It returns the receipt or the refusal. A refused
// transaction changes nothing, with one exception: if the account of a gas key lacks the deposits,
// the nonce still changes.
func (c *Chunk) Transaction(tx *primitives.SignedTransaction) (*primitives.Receipt, *refusal) {
	t := &tx.Transaction
	if why := c.Rules.Invalid(t.Actions, t.ReceiverID); why != nil {
		return nil, &refusal{Tag: primitives.TxActionsValidation, Actions: why}
	}
	hash := tx.Hash()
	if !tx.Signature.Verify(hash[:], t.PublicKey) {
		return nil, &refusal{Tag: primitives.TxInvalidSignature}
	}
	a := c.Accounts[t.SignerID]
	if a == nil {
		return nil, &refusal{Tag: primitives.TxInvalidSignerID, SignerID: t.SignerID}
	}
	k := a.key(t.PublicKey)
	if k == nil && c.bare(t, a) {
		if e := c.byItself(t, a); e != nil {
			return nil, e
		}
		return c.receiptOf(t, hash), nil
	}
	if k == nil {
		return nil, keyRefusal(primitives.InvalidAccessKeyError{Tag: primitives.KeyNotFound, AccountID: t.SignerID, PublicKey: t.PublicKey})
	}
	charge := c.byKey
	if t.Nonce.HasIndex {
		charge = c.byGasKey
	}
	if e := charge(t, a, k); e != nil {
		return nil, e
	}
	return c.receiptOf(t, hash), nil
}

func (c *Chunk) receiptOf(t *primitives.Transaction, hash primitives.Hash) *primitives.Receipt {
	return &primitives.Receipt{
		PredecessorID: t.SignerID, ReceiverID: t.ReceiverID, ID: primitives.ReceiptIDFromTransaction(hash, c.Height),
		Body: &primitives.ActionReceipt{SignerID: t.SignerID, SignerPublicKey: t.PublicKey, Actions: t.Actions},
	}
}

// bare returns whether t may be the first transaction of an account without state: one of t's state
// inits creates the account and contains the signing key (transaction.rs state_init_bootstrap,
// verifier.rs is_bootstrap).
func (c *Chunk) bare(t *primitives.Transaction, a *Account) bool {
	if c.Rules < 88 || !a.Bare || t.Nonce.HasIndex || t.SignerID != t.ReceiverID {
		return false
	}
	for _, x := range t.Actions {
		u, ok := x.(*primitives.UniversalStateInit)
		if !ok || universalID(u.Init) != t.SignerID {
			continue
		}
		s := readInit(u.Init)
		if s == nil {
			continue
		}
		for _, h := range s.keys {
			if h == t.PublicKey.Handle() {
				return true
			}
		}
	}
	return false
}

// byItself implements verifier.rs verify_and_charge_bootstrap_tx_ephemeral.
func (c *Chunk) byItself(t *primitives.Transaction, a *Account) *refusal {
	next := *t
	next.NonceMode = primitives.NonceStrict
	if e := c.nonce(&next, a.Nonce); e != nil {
		return e
	}
	cost := deposits(t.Actions)
	if a.Amount.Less(cost) {
		return &refusal{Tag: primitives.TxNotEnoughBalance, SignerID: t.SignerID, Balance: a.Amount, Cost: cost}
	}
	a.Amount, a.Nonce = less(a.Amount, cost), t.Nonce.Nonce
	return nil
}

func keyRefusal(e primitives.InvalidAccessKeyError) *refusal {
	return &refusal{Tag: primitives.TxInvalidAccessKey, AccessKey: &e}
}

// byKey implements verifier.rs verify_and_charge_tx_ephemeral.
func (c *Chunk) byKey(t *primitives.Transaction, a *Account, k *Key) *refusal {
	if k.GasKey != nil {
		return &refusal{Tag: primitives.TxInvalidNonceIndex, NumNonces: k.GasKey.NumNonces}
	}
	if e := c.nonce(t, k.Nonce); e != nil {
		return e
	}
	cost := deposits(t.Actions)
	if a.Amount.Less(cost) {
		return &refusal{Tag: primitives.TxNotEnoughBalance, SignerID: t.SignerID, Balance: a.Amount, Cost: cost}
	}
	limited := k.FunctionCall != nil && k.FunctionCall.Allowance != nil
	if limited && k.FunctionCall.Allowance.Less(cost) {
		return keyRefusal(primitives.InvalidAccessKeyError{
			Tag: primitives.KeyNotEnoughAllowance, AccountID: t.SignerID, PublicKey: t.PublicKey, Allowance: *k.FunctionCall.Allowance, Cost: cost,
		})
	}
	if lack := a.lacksWith(less(a.Amount, cost)); !lack.IsZero() {
		return &refusal{Tag: primitives.TxLackBalanceForState, SignerID: t.SignerID, Amount: lack}
	}
	if e := k.permits(t); e != nil {
		return e
	}
	a.Amount, k.Nonce = less(a.Amount, cost), t.Nonce.Nonce
	if limited {
		p, rest := *k.FunctionCall, less(*k.FunctionCall.Allowance, cost)
		p.Allowance, k.FunctionCall = &rest, &p
	}
	return nil
}

// byGasKey implements verifier.rs verify_and_charge_gas_key_tx_ephemeral, and the lookup of the
// nonce before it.
func (c *Chunk) byGasKey(t *primitives.Transaction, a *Account, k *Key) *refusal {
	index := t.Nonce.Index
	if int(index) >= len(k.Rows) {
		return &refusal{Tag: primitives.TxInvalidNonceIndex, NonceIndex: &index, NumNonces: uint16(len(k.Rows))}
	}
	if e := c.nonce(t, k.Rows[index]); e != nil {
		return e
	}
	if e := k.permits(t); e != nil {
		return e
	}
	k.Rows[index] = t.Nonce.Nonce
	cost := deposits(t.Actions)
	e := &refusal{Tag: primitives.TxNotEnoughBalanceForDeposit, SignerID: t.SignerID}
	if a.Amount.Less(cost) {
		e.Balance, e.Cost, e.Reason = a.Amount, cost, primitives.DepositNotEnoughBalance
		return e
	}
	rest := less(a.Amount, cost)
	if lack := a.lacksWith(rest); !lack.IsZero() {
		e.Balance, e.Cost, e.Reason = rest, lack, primitives.DepositLackBalanceForState
		return e
	}
	a.Amount = rest
	return nil
}

// nonce implements verifier.rs verify_nonce.
func (c *Chunk) nonce(t *primitives.Transaction, last primitives.Nonce) *refusal {
	n := t.Nonce.Nonce
	if n <= last || t.NonceMode == primitives.NonceStrict && n != last+1 {
		return &refusal{Tag: primitives.TxInvalidNonce, TxNonce: n, KeyNonce: last}
	}
	if most := primitives.Nonce(c.Height) * noncesOfABlock; n >= most {
		return &refusal{Tag: primitives.TxNonceTooLarge, TxNonce: n, UpperBound: most}
	}
	return nil
}

func (k *Key) permits(t *primitives.Transaction) *refusal {
	if k.FunctionCall == nil {
		return nil
	}
	if e := permits(k.FunctionCall, &delegated{receiver: t.ReceiverID, actions: t.Actions}); e != nil {
		return keyRefusal(*e)
	}
	return nil
}

// lacksWith returns what the account would lack for its storage if its balance were amount.
func (a *Account) lacksWith(amount primitives.Balance) primitives.Balance {
	b := *a
	b.Amount = amount
	return b.lacks()
}
