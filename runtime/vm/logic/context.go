package logic

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Host functions about the call and the chain. These functions write names into register a[0] and
// amounts into memory at a[0].

// text writes a string of the call into a register.
func (l *Logic) text(register uint64, text string) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	return 0, l.setRegister(register, []byte(text))
}

func currentAccountID(l *Logic, a []uint64) (uint64, error) {
	return l.text(a[0], string(l.call.CurrentAccount))
}

func chainID(l *Logic, a []uint64) (uint64, error) { return l.text(a[0], l.call.Block.ChainID) }

func signerAccountID(l *Logic, a []uint64) (uint64, error) {
	return l.text(a[0], string(l.call.SignerAccount))
}

// signerAccountPK writes the key in borsh form.
func signerAccountPK(l *Logic, a []uint64) (uint64, error) {
	return l.text(a[0], string(l.call.SignerKey))
}

func predecessorAccountID(l *Logic, a []uint64) (uint64, error) {
	return l.text(a[0], string(l.call.Predecessor))
}

func refundToAccountID(l *Logic, a []uint64) (uint64, error) {
	return l.text(a[0], string(l.call.RefundTo))
}

// input writes the arguments of the call. The sender of the call has paid for the bytes of the
// arguments, so input does not charge for these bytes.
func input(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	return 0, l.shareRegister(a[0], l.call.Args)
}

func randomSeed(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	return 0, l.setRegister(a[0], l.call.RandomSeed[:])
}

// currentContractCode returns the kind of the account's contract and writes the contract's
// identifier. currentContractCode writes nothing if the account has no contract.
func currentContractCode(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	c := &l.call.Contract
	switch c.Kind {
	case primitives.ContractLocal, primitives.ContractGlobalHash:
		return uint64(c.Kind), l.setRegister(a[0], c.Hash[:])
	case primitives.ContractGlobalAccount:
		return uint64(c.Kind), l.setRegister(a[0], []byte(c.Account))
	}
	return 0, nil
}

// number returns a host function that costs the base price and returns f's result.
func number(f func(l *Logic) uint64) hostFunc {
	return func(l *Logic, _ []uint64) (uint64, error) {
		if err := l.begin(); err != nil {
			return 0, err
		}
		return f(l), nil
	}
}

var (
	blockIndex     = number(func(l *Logic) uint64 { return uint64(l.call.Block.Height) })
	blockTimestamp = number(func(l *Logic) uint64 { return l.call.Block.Timestamp })
	epochHeight    = number(func(l *Logic) uint64 { return l.call.Block.EpochHeight })
	storageUsage   = number(func(l *Logic) uint64 { return l.usage })
	prepaidGas     = number(func(l *Logic) uint64 { return uint64(l.call.PrepaidGas) })
	usedGas        = number(func(l *Logic) uint64 { return uint64(l.gas.used()) })
	resultsCount   = number(func(l *Logic) uint64 { return uint64(len(l.call.Results)) })
)

// amount returns a host function that costs the base price and writes f's result into memory.
func amount(f func(l *Logic) primitives.Balance) hostFunc {
	return func(l *Logic, a []uint64) (uint64, error) {
		if err := l.begin(); err != nil {
			return 0, err
		}
		return 0, l.writeBalance(a[0], f(l))
	}
}

var (
	accountBalance       = amount(func(l *Logic) primitives.Balance { return l.balance })
	accountLockedBalance = amount(func(l *Logic) primitives.Balance { return l.call.Locked })
	attachedDeposit      = amount(func(l *Logic) primitives.Balance { return l.call.Deposit })
)

// validatorStake (account_id_len, account_id_ptr, stake_ptr) writes the stake of an account; 0 if
// the account is no validator.
func validatorStake(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	id, err := l.accountID(a[0], a[1])
	if err != nil {
		return 0, err
	}
	if err := l.gas.pay(parameters.ExtValidatorStakeBase); err != nil {
		return 0, err
	}
	return 0, l.writeBalance(a[2], l.x.Stake(id))
}

func validatorTotalStake(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	if err := l.gas.pay(parameters.ExtValidatorTotalStakeBase); err != nil {
		return 0, err
	}
	return 0, l.writeBalance(a[0], l.x.TotalStake())
}
