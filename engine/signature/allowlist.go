package signature

import "github.com/troupe-chain/troupe/primitives"

// allowlist selects accounts whose transactions need no signature.
type allowlist struct {
	accounts map[primitives.AccountID]bool
	all      bool
}

// AllowUnsigned makes Check and CheckNew accept a zero signature in transactions of these accounts,
// or of all accounts. AllowUnsigned replaces the previous setting. Without accounts, and if `all`
// is false, no account may omit its signature. Check still accepts a transaction that Check or
// CheckNew accepted under a previous setting, because a block may contain the transaction. CheckNew
// does not.
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

// AllowOnce makes Check and CheckNew accept a zero signature in the transaction with this hash, in
// addition to AllowUnsigned. AllowOnce replaces the hash of the previous call; nil removes that
// hash.
func (c *Checker) AllowOnce(hash *primitives.Hash) { c.allowedOnce.Store(hash) }

// unsigned reports whether a transaction has a zero signature and the settings allow it.
func (c *Checker) unsigned(tx *primitives.SignedTransaction) bool {
	if one := c.allowedOnce.Load(); one != nil && tx.Signature == primitives.ZeroED25519Signature && tx.Hash() == *one {
		return true
	}
	x := c.allowed.Load()
	return x != nil && tx.Signature == primitives.ZeroED25519Signature && (x.all || x.accounts[tx.SignerID])
}

// CheckNew does the same as Check for a newly submitted transaction. CheckNew accepts a zero
// signature only if the current settings allow it, not if only previous settings did.
func (c *Checker) CheckNew(tx *primitives.SignedTransaction) bool {
	if tx.Signature == primitives.ZeroED25519Signature && !c.unsigned(tx) {
		hash := tx.Hash()
		return c.verify(tx.Signature, hash[:], tx.PublicKey)
	}
	return c.Check(tx)
}
