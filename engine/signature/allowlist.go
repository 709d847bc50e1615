package signature

import "github.com/troupe-chain/troupe/primitives"

// allowlist are accounts whose transactions need no signature.
type allowlist struct {
	accounts map[primitives.AccountID]bool
	all      bool
}

// AllowUnsigned has transactions of accounts, or of all, found good whose signature is zero. It replaces what was said before. What has been found
// good meanwhile stays so for Check, as a block may have it, and not for CheckNew.
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

// AllowOnce has one transaction found good whose signature is zero, beside what Exempt says; nil: none.
func (c *Checker) AllowOnce(hash *primitives.Hash) { c.allowedOnce.Store(hash) }

// unsigned tells whether a transaction may be unsigned, and is.
func (c *Checker) unsigned(tx *primitives.SignedTransaction) bool {
	if one := c.allowedOnce.Load(); one != nil && tx.Signature == primitives.ZeroED25519Signature && tx.Hash() == *one {
		return true
	}
	x := c.allowed.Load()
	return x != nil && tx.Signature == primitives.ZeroED25519Signature && (x.all || x.accounts[tx.SignerID])
}

// CheckNew is Check for what comes to the door: a zero signature that was good because nobody had to sign is so no longer than that holds.
func (c *Checker) CheckNew(tx *primitives.SignedTransaction) bool {
	if tx.Signature == primitives.ZeroED25519Signature && !c.unsigned(tx) {
		hash := tx.Hash()
		return c.verify(tx.Signature, hash[:], tx.PublicKey)
	}
	return c.Check(tx)
}
