package verify

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// ZeroBalanceStorageLimit is the storage usage in bytes up to which an account needs no balance
// (NEP-448).
const ZeroBalanceStorageLimit = 770

// StorageStake returns the balance that an account lacks for its storage (nearcore verifier.rs:47).
// The missing balance is the storage usage times the price per byte, minus amount and the locked
// balance, and at least 0. Accounts of at most ZeroBalanceStorageLimit bytes never lack anything.
// An error means that the state is inconsistent.
func StorageStake(c *parameters.RuntimeConfig, a *primitives.Account, amount primitives.Balance) (missing primitives.Balance, err error) {
	required, ok := c.Fees.StorageAmountPerByte.Mul64(a.StorageUsage)
	if !ok {
		return missing, fmt.Errorf("%w: storage usage of %d bytes", primitives.ErrOverflow, a.StorageUsage)
	}
	available, ok := amount.Add(a.Locked)
	if !ok {
		return missing, fmt.Errorf("%w: amount %v and locked %v", primitives.ErrOverflow, amount, a.Locked)
	}
	if a.StorageUsage <= ZeroBalanceStorageLimit {
		return missing, nil
	}
	return required.SaturatingSub(available), nil
}

// inconsistent returns the error of a transaction whose signer's account is inconsistent.
func inconsistent(err error) *primitives.InvalidTxError {
	return &primitives.InvalidTxError{
		Tag: primitives.TxStorageError, Storage: &primitives.StorageError{Tag: primitives.StorageInconsistentState, Text: err.Error()},
	}
}
