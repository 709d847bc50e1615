package engine

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// WouldExecute tells whether a transaction calls code that is there to run: of an account that has a contract at the head, or
// gets one by an earlier action of the same receipt. A node without a VM refuses it at its door, since in a block the call
// could only fail. Safe from any goroutine.
func (e *Engine) WouldExecute(tx *primitives.SignedTransaction) (bool, error) {
	if e.o.VM != nil {
		return false, nil
	}
	return e.wouldExecute(tx.ReceiverID, tx.Actions)
}

func (e *Engine) wouldExecute(receiver primitives.AccountID, actions []primitives.Action) (bool, error) {
	deployed := false
	for _, a := range actions {
		switch a := a.(type) {
		case *primitives.DeployContract, *primitives.UseGlobalContract, *primitives.DeterministicStateInit:
			deployed = true
		case *primitives.FunctionCall:
			if deployed {
				return true, nil
			}
			has, err := e.hasContract(receiver)
			if err != nil || has {
				return has, err
			}
		case *primitives.Delegate:
			if yes, err := e.wouldExecute(a.Action.ReceiverID, a.Action.Actions); err != nil || yes {
				return yes, err
			}
		case *primitives.DelegateV2:
			if yes, err := e.wouldExecute(a.Action.ReceiverID, a.Action.Actions); err != nil || yes {
				return yes, err
			}
		}
	}
	return false, nil
}

func (e *Engine) hasContract(id primitives.AccountID) (bool, error) {
	head := e.acquireHead()
	defer head.Release()
	i, err := head.Layout.Index(head.Layout.ShardOf(id))
	if err != nil {
		return false, err
	}
	var account primitives.Account
	found, err := state.NewUnrecorded(stateTrie{head.Shards[i].root}).Account(id, &account)
	return found && account.Contract.Kind != primitives.ContractNone, err
}
