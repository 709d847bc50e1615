package txlog

import "github.com/troupe-chain/troupe/primitives"

// Approximate memory in bytes of a value without its texts and lists.
const (
	weightBlock   = 400
	weightTx      = 500
	weightReceipt = 300
	weightOutcome = 400
	weightAction  = 200
)

func (s *shard) weight() (n int) {
	for _, tx := range s.transactions {
		n += weightTx + tx.Size()
	}
	for i := range s.outcomes {
		n += outcomeWeight(&s.outcomes[i])
	}
	for _, r := range s.outgoing {
		n += weightReceipt
		if a, ok := r.Body.(*primitives.ActionReceipt); ok {
			n += actionsWeight(a.Actions)
		}
	}
	return n
}

func outcomeWeight(o *primitives.OutcomeWithID) int {
	n := weightOutcome + 32*len(o.ReceiptIDs) + len(o.Status.Value) + len(o.Status.Failure)
	for _, text := range o.Logs {
		n += 16 + len(text)
	}
	return n
}

func actionsWeight(list []primitives.Action) (n int) {
	for _, a := range list {
		n += weightAction
		switch a := a.(type) {
		case *primitives.FunctionCall:
			n += len(a.Method) + len(a.Args)
		case *primitives.DeployContract:
			n += len(a.Code)
		case *primitives.DeployGlobalContract:
			n += len(a.Code)
		case *primitives.Delegate:
			n += actionsWeight(a.Action.Actions)
		case *primitives.DelegateV2:
			n += actionsWeight(a.Action.Actions)
		case *primitives.DeterministicStateInit:
			for _, e := range a.Init.Data {
				n += len(e.Key) + len(e.Value)
			}
		case *primitives.UniversalStateInit:
			n += len(a.Init)
		case *primitives.AddKey, *primitives.CreateAccount, *primitives.DeleteAccount, *primitives.DeleteKey,
			*primitives.Stake, *primitives.Transfer, *primitives.TransferToGasKey, *primitives.UseGlobalContract,
			*primitives.WithdrawFromGasKey: // small
		}
	}
	return n
}

// maxKept is the maximum weight of actions that a tracker keeps. Of actions with a larger weight, a
// tracker keeps only the text.
const maxKept = 4 << 10

// named contains actions. String formats their names only when the log needs them.
type named struct {
	list []primitives.Action
	text string // set instead of list for large actions
}

func newNamed(list []primitives.Action) named {
	if actionsWeight(list) <= maxKept {
		return named{list: list}
	}
	return named{text: actions(list)}
}

// String returns the names of the actions. String returns an empty text for the zero value, which
// means that the receipt is unknown.
func (n *named) String() string {
	if n.text != "" || n.list == nil {
		return n.text
	}
	return actions(n.list)
}

func (n *named) weight() int { return len(n.text) + actionsWeight(n.list) }
