package signature

import "github.com/troupe-chain/troupe/primitives"

// allowlist are the accounts that need not sign.
type allowlist struct {
	accounts map[primitives.AccountID]bool
	all      bool
}

// AllowUnsigned accepts transactions of accounts, or of all accounts, with a zero signature. It
// replaces the previous setting; no accounts and false end it. A transaction accepted so stays
// accepted by Check, because a block may contain it, but not by CheckNew.
func (c *Checker) AllowUnsigned(accounts []primitives.AccountID, all bool) {
	if len(accounts) == 0 && !all {
		c.allowed.Store(nil)
		return
	}
	x := &allowlist{accounts: map[primitives.AccountID]bool{}, all: all}
	for _, a := range accounts {
		x.accounts[a] = true
	}
	c.allowed.Store(x)
}

// AllowOnce accepts one transaction with a zero signature, in addition to AllowUnsigned; nil: none.
func (c *Checker) AllowOnce(hash *primitives.Hash) { c.allowedOnce.Store(hash) }

// unsigned reports whether a transaction may be unsigned, and is.
func (c *Checker) unsigned(tx *primitives.SignedTransaction) bool {
	if one := c.allowedOnce.Load(); one != nil && tx.Signature == primitives.ZeroED25519Signature && tx.Hash() == *one {
		return true
	}
	x := c.allowed.Load()
	return x != nil && tx.Signature == primitives.ZeroED25519Signature && (x.all || x.accounts[tx.SignerID])
}

// CheckNew is Check for newly submitted transactions: it accepts a zero signature only while it is
// allowed.
func (c *Checker) CheckNew(tx *primitives.SignedTransaction) bool {
	if tx.Signature == primitives.ZeroED25519Signature && !c.unsigned(tx) {
		hash := tx.Hash()
		return c.verify(tx.Signature, hash[:], tx.PublicKey)
	}
	return c.Check(tx)
}
