package fees

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Executed describes the execution of an action receipt.
type Executed struct {
	GasUsed        primitives.Gas // gas burnt plus gas attached to new receipts
	GasBurnt       primitives.Gas
	Failed         bool
	CreatedAccount bool // the receiver did not exist before, exists now, and the receipt did not fail
}

// Settlement is what an executed action receipt burns and refunds.
type Settlement struct {
	BurnPrice     primitives.Balance // the lower of the price paid and the current price
	GasRefund     primitives.Balance // yoctoNEAR to the signer; 0: no refund
	DepositRefund primitives.Balance // yoctoNEAR to refund_to or the predecessor; 0: no refund
	// CreationCharge is the part of the gas refund that is burnt instead, so that a new account
	// costs at least AccountCreationCharge. GasRefund does not include it.
	CreationCharge primitives.Balance
	// TokensBurnt is the tokens_burnt of the outcome, except for tokens that actions burn.
	// TokensBurnt is the sum of GasBurnt at BurnPrice, the refund penalty and CreationCharge.
	TokensBurnt primitives.Balance
	// OtherBurnt are the deposits of a failed refund. These deposits are lost.
	OtherBurnt primitives.Balance
}

// Settle computes what the receipt r burns and refunds. x describes its execution; price is the
// current gas price (nearcore refund_unspent_gas_and_deposits, lib.rs:1151). Refund receipts come
// from the system account. Refund receipts are free, and Settle refunds nothing for them. Settle
// returns ErrOverflow on overflow, and if the receipt used more gas than is attached to it.
func Settle(c *parameters.RuntimeConfig, r *primitives.Receipt, price primitives.Balance, x Executed) (Settlement, error) {
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		return Settlement{}, fmt.Errorf("fees: no settlement for a receipt of type %T", r.Body)
	}
	s := Settlement{BurnPrice: a.GasPrice}
	if price.Less(s.BurnPrice) {
		s.BurnPrice = price
	}
	deposits := primitives.Balance{}
	if x.Failed {
		var err error
		if deposits, err = TotalDeposit(a.Actions); err != nil {
			return Settlement{}, err
		}
	}
	if r.PredecessorID == primitives.SystemAccount {
		s.OtherBurnt = deposits
		return s, nil
	}
	s.DepositRefund = deposits

	came, err := attached(c, a.Actions, r.ReceiverID)
	if err != nil {
		return Settlement{}, err
	}
	gone := x.GasUsed
	if x.Failed {
		gone = x.GasBurnt
	}
	if gone > came {
		return Settlement{}, fmt.Errorf("%w: a receipt with %d gas used %d gas", ErrOverflow, came, gone)
	}
	gross := came - gone
	discount, _ := a.GasPrice.Sub(s.BurnPrice) // no underflow: BurnPrice is at most GasPrice
	surplus, ok1 := discount.MulGas(x.GasBurnt)
	unused, ok2 := a.GasPrice.MulGas(gross)
	penalty, ok3 := s.BurnPrice.MulGas(refundPenalty(&c.Fees, gross))
	burnt, ok4 := s.BurnPrice.MulGas(x.GasBurnt)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return Settlement{}, ErrOverflow
	}
	if x.CreatedAccount && !x.Failed {
		paid, ok := s.BurnPrice.MulGas(c.Fees.Fee(parameters.ActionCreateAccount).Exec.Gas)
		if !ok {
			return Settlement{}, ErrOverflow
		}
		s.CreationCharge = c.AccountCreationCharge.SaturatingSub(paid)
		if surplus.Less(s.CreationCharge) {
			s.CreationCharge = surplus // before version 85, gas could be bought below the minimum price
		}
		surplus, _ = surplus.Sub(s.CreationCharge)
	}
	s.GasRefund, ok1 = unused.SaturatingSub(penalty).Add(surplus)
	s.TokensBurnt, ok2 = burnt.Add(penalty)
	s.TokensBurnt, ok3 = s.TokensBurnt.Add(s.CreationCharge)
	if !ok1 || !ok2 || !ok3 {
		return Settlement{}, ErrOverflow
	}
	return s, nil
}

// refundPenalty returns the part of refunded gas that is burnt (NEP-536). In the versions from 85
// to 88 the penalty is 0.
func refundPenalty(f *parameters.Fees, gross primitives.Gas) primitives.Gas {
	relative, _ := primitives.Yocto(uint64(gross)).Mul64(uint64(f.GasRefundPenalty.Num)) // cannot overflow: below 2^96
	relative, _ = relative.DivMod64(uint64(f.GasRefundPenalty.Den))
	if relative.Hi != 0 {
		return gross
	}
	return min(max(primitives.Gas(relative.Lo), f.MinGasRefundPenalty), gross)
}

// Reward returns the receiver's reward: the receiver's share of the gas burnt in the VM, rounded
// down, at the burn price. The reward reduces the chunk's burnt balance, not the tokens burnt of
// the outcome.
func Reward(c *parameters.RuntimeConfig, burntInVM primitives.Gas, burnPrice primitives.Balance) (primitives.Balance, error) {
	ratio := c.Fees.BurntGasReward
	share, err := parameters.GasCost(burntInVM).Mul(uint64(ratio.Num))
	if err != nil {
		return primitives.Balance{}, err
	}
	reward, ok := burnPrice.MulGas(share.Gas / primitives.Gas(ratio.Den))
	if !ok {
		return primitives.Balance{}, ErrOverflow
	}
	return reward, nil
}

// GlobalDeployBurn returns the tokens, in yoctoNEAR, that deploying a global contract burns for its
// storage on all shards. The result saturates, as in nearcore (global_contracts.rs:33). A saturated
// amount appears only in the error text of a failed action.
func GlobalDeployBurn(c *parameters.RuntimeConfig, codeLen int) primitives.Balance {
	burn, ok := c.Fees.GlobalContractStorageAmountPerByte.Mul64(uint64(codeLen))
	if !ok {
		return primitives.MaxBalance
	}
	return burn
}

// DistributionCompute returns the compute of storing a global contract on a shard. Storing costs no
// gas (global_contracts.rs:223).
func DistributionCompute(c *parameters.RuntimeConfig, codeLen int) (parameters.Compute, error) {
	perByte, err := parameters.Cost{Compute: c.Fees.DeployGlobalContractExecutionPerByte}.Mul(uint64(codeLen))
	if err != nil {
		return 0, err
	}
	sum, err := perByte.Add(parameters.Cost{Compute: c.Fees.DeployGlobalContractExecutionBase})
	return sum.Compute, err
}
