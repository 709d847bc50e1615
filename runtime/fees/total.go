package fees

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// TotalSend sums Send over actions, without the cost of the receipt that carries the actions
// (nearcore total_send_fees).
func TotalSend(c *parameters.RuntimeConfig, senderIsReceiver bool, actions []primitives.Action,
	receiver primitives.AccountID) (parameters.Cost, error) {
	var sum parameters.Cost
	for _, a := range actions {
		cost, err := Send(c, senderIsReceiver, a, receiver)
		if err == nil {
			sum, err = sum.Add(cost)
		}
		if err != nil {
			return parameters.Cost{}, err
		}
	}
	return sum, nil
}

// PrepaidSend sums what delegate actions pay in advance for sending their inner actions from the
// inner sender to the inner receiver (nearcore total_prepaid_send_fees). All other actions count 0:
// their send cost is burnt when they are sent.
func PrepaidSend(c *parameters.RuntimeConfig, actions []primitives.Action) (parameters.Cost, error) {
	var sum parameters.Cost
	for _, a := range actions {
		in, ok := delegated(a)
		if !ok {
			continue
		}
		cost, err := TotalSend(c, in.sender == in.receiver, in.actions, in.receiver)
		if err == nil {
			sum, err = sum.Add(cost)
		}
		if err != nil {
			return parameters.Cost{}, err
		}
	}
	return sum, nil
}

// PrepaidExec sums Exec over actions. For a delegate action, PrepaidExec adds the execution cost of
// the inner actions and of the receipt that will carry the inner actions (nearcore
// total_prepaid_exec_fees). PrepaidExec does not include the receipt that carries the outer
// actions.
func PrepaidExec(c *parameters.RuntimeConfig, actions []primitives.Action, receiver primitives.AccountID) (parameters.Cost, error) {
	var sum parameters.Cost
	for _, a := range actions {
		cost, err := Exec(c, a, receiver)
		if err == nil {
			sum, err = sum.Add(cost)
		}
		if in, ok := delegated(a); ok && err == nil {
			if cost, err = PrepaidExec(c, in.actions, in.receiver); err == nil {
				sum, err = sum.Add(cost)
			}
			if err == nil {
				sum, err = sum.Add(NewReceiptExec(c))
			}
		}
		if err != nil {
			return parameters.Cost{}, err
		}
	}
	return sum, nil
}

// NewReceiptSend returns the cost of sending an action receipt without its actions.
func NewReceiptSend(c *parameters.RuntimeConfig, senderIsReceiver bool) parameters.Cost {
	return c.Fees.Fee(parameters.ActionNewActionReceipt).Send(senderIsReceiver)
}

// NewReceiptExec returns the cost of executing an action receipt without its actions.
func NewReceiptExec(c *parameters.RuntimeConfig) parameters.Cost {
	return c.Fees.Fee(parameters.ActionNewActionReceipt).Exec
}

// PrepaidGas returns the gas attached to function calls, including calls in delegate actions
// (nearcore total_prepaid_gas). TotalPrepaidGasExceeded limits it.
func PrepaidGas(actions []primitives.Action) (primitives.Gas, error) {
	var sum primitives.Gas
	for _, a := range actions {
		var gas primitives.Gas
		if call, ok := a.(*primitives.FunctionCall); ok {
			gas = call.Gas
		} else if in, ok := delegated(a); ok {
			var err error
			if gas, err = PrepaidGas(in.actions); err != nil {
				return 0, err
			}
		}
		if sum += gas; sum < gas {
			return 0, ErrOverflow
		}
	}
	return sum, nil
}

// Deposit returns the deposit of action a. Function calls, transfers, state inits and transfers to
// gas keys have a deposit. The result is 0 for all other actions.
func Deposit(a primitives.Action) primitives.Balance {
	switch a := a.(type) {
	case *primitives.Transfer:
		return a.Deposit
	case *primitives.FunctionCall:
		return a.Deposit
	case *primitives.DeterministicStateInit:
		return a.Deposit
	case *primitives.UniversalStateInit:
		return a.Deposit
	case *primitives.TransferToGasKey:
		return a.Deposit
	case *primitives.CreateAccount, *primitives.DeployContract, *primitives.Stake, *primitives.AddKey, *primitives.DeleteKey,
		*primitives.DeleteAccount, *primitives.Delegate, *primitives.DelegateV2, *primitives.DeployGlobalContract,
		*primitives.UseGlobalContract, *primitives.WithdrawFromGasKey:
		return primitives.Balance{}
	}
	panic(fmt.Sprintf("fees: no case for %T", a)) // a deposit that no sender pays would create tokens
}

// TotalDeposit sums Deposit over actions, including the inner actions of delegates, whose deposits
// the relayer pays (nearcore total_deposit).
func TotalDeposit(actions []primitives.Action) (primitives.Balance, error) {
	var sum primitives.Balance
	for _, a := range actions {
		d := Deposit(a)
		if in, ok := delegated(a); ok {
			var err error
			if d, err = TotalDeposit(in.actions); err != nil {
				return primitives.Balance{}, err
			}
		}
		var ok bool
		if sum, ok = sum.Add(d); !ok {
			return primitives.Balance{}, ErrOverflow
		}
	}
	return sum, nil
}

// attached returns the gas attached to a receipt with these actions: the gas of function calls,
// prepaid send gas, and the gas for executing the receipt and its actions.
func attached(c *parameters.RuntimeConfig, actions []primitives.Action, receiver primitives.AccountID) (primitives.Gas, error) {
	gas, err := PrepaidGas(actions)
	if err != nil {
		return 0, err
	}
	send, err := PrepaidSend(c, actions)
	if err != nil {
		return 0, err
	}
	exec, err := PrepaidExec(c, actions, receiver)
	if err != nil {
		return 0, err
	}
	for _, more := range [...]primitives.Gas{send.Gas, NewReceiptExec(c).Gas, exec.Gas} {
		if gas += more; gas < more {
			return 0, ErrOverflow
		}
	}
	return gas, nil
}

// ReceiptGas returns the gas with which congestion control counts a receipt. The result is the
// attached gas of an action receipt, and 0 for a data receipt, yield, resume or distribution. The
// metadata of queued receipts stores this value.
func ReceiptGas(c *parameters.RuntimeConfig, r *primitives.Receipt) (primitives.Gas, error) {
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok || a.Yield {
		return 0, nil
	}
	return attached(c, a.Actions, r.ReceiverID)
}
