package verify

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// anyPostQuantum returns whether an action, or an inner action of a delegate action, contains a key
// or signature of a post-quantum scheme (nearcore Action::post_quantum_signatures_required).
func anyPostQuantum(actions []primitives.Action) bool {
	for _, a := range actions {
		if postQuantum(a) {
			return true
		}
	}
	return false
}

func postQuantum(a primitives.Action) bool {
	switch a := a.(type) {
	case *primitives.Stake:
		return a.PublicKey.Type().IsPostQuantum()
	case *primitives.AddKey:
		return a.PublicKey.Type().IsPostQuantum()
	case *primitives.DeleteKey:
		return a.PublicKey.Type().IsPostQuantum()
	case *primitives.UniversalStateInit:
		return a.Init.HasPostQuantumKey()
	case *primitives.TransferToGasKey:
		return a.PublicKey.Type().IsPostQuantum()
	case *primitives.WithdrawFromGasKey:
		return a.PublicKey.Type().IsPostQuantum()
	case *primitives.Delegate:
		return a.Action.PublicKey.Type().IsPostQuantum() || a.Signature.Type().IsPostQuantum() || anyPostQuantum(a.Action.Actions)
	case *primitives.DelegateV2:
		return a.Action.PublicKey.Type().IsPostQuantum() || a.Signature.Type().IsPostQuantum() || anyPostQuantum(a.Action.Actions)
	case *primitives.CreateAccount, *primitives.DeployContract, *primitives.FunctionCall, *primitives.Transfer,
		*primitives.DeleteAccount, *primitives.DeployGlobalContract, *primitives.UseGlobalContract, *primitives.DeterministicStateInit:
		return false // these actions contain no key
	}
	panic(fmt.Sprintf("verify: no case for %T", a))
}
