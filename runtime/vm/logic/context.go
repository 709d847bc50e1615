package logic

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// What a call is told about itself and the chain. Names go into the register a[0]; amounts into the
// memory at a[0].

// text writes one of the call's strings into a register.
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

// signerAccountPK writes the borsh form of the key.
func signerAccountPK(l *Logic, a []uint64) (uint64, error) {
	return l.text(a[0], string(l.call.SignerKey))
}

func predecessorAccountID(l *Logic, a []uint64) (uint64, error) {
	return l.text(a[0], string(l.call.Predecessor))
}

func refundToAccountID(l *Logic, a []uint64) (uint64, error) {
	return l.text(a[0], string(l.call.RefundTo))
}

// input writes the arguments, whose length was paid for when they were sent.
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

// currentContractCode writes what the account's code is, and returns its kind; nothing is written
// if it has none.
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

// number is a function that costs the base and returns what f says.
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

// amount is a function that costs the base and writes what f says.
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

// validatorStake (account_id_len, account_id_ptr, stake_ptr) writes 0 for who does not validate.
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
