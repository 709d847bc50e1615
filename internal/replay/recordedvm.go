package replay

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/config"
)

// CallID names a call by its receipt and the place of its action.
type CallID struct {
	Receipt primitives.Hash
	Action  int
}

func (c CallID) String() string { return fmt.Sprintf("%v %d", c.Receipt, c.Action) }

// RecordedVM answers, for calls whose outcome a recording holds, what a VM would say: gas burnt in it, error or return
// value, logs and profile. Nothing else is taken from the recording.
type RecordedVM struct {
	mu       sync.Mutex
	calls    map[primitives.Hash]*recordedCall
	answered map[CallID]bool
}

// recordedCall is the recorded end of a receipt with one call.
type recordedCall struct {
	receiver primitives.AccountID
	failed   *primitives.FunctionCallError
	value    []byte
	logs     []string
	profile  []primitives.CostEntry
}

// NewRecordedVM gathers the outcomes of a recording's receipts.
func NewRecordedVM(rec *Recording) *RecordedVM {
	vm := &RecordedVM{calls: map[primitives.Hash]*recordedCall{}, answered: map[CallID]bool{}}
	for i := range rec.Txs {
		var status struct {
			Receipts []struct {
				ID      primitives.Hash `json:"id"`
				Outcome struct {
					Executor primitives.AccountID `json:"executor_id"`
					Logs     []string             `json:"logs"`
					Status   json.RawMessage      `json:"status"`
					Metadata struct {
						Profile []struct {
							Category string `json:"cost_category"`
							Cost     string `json:"cost"`
							Gas      string `json:"gas_used"`
						} `json:"gas_profile"`
					} `json:"metadata"`
				} `json:"outcome"`
			} `json:"receipts_outcome"`
		}
		if json.Unmarshal(rec.Txs[i].Status, &status) != nil {
			continue
		}
		for _, r := range status.Receipts {
			o := &r.Outcome
			c := &recordedCall{receiver: o.Executor, logs: o.Logs}
			if !c.readStatus(o.Status) {
				continue
			}
			for _, p := range o.Metadata.Profile {
				gas, err := strconv.ParseUint(p.Gas, 10, 64)
				if err == nil {
					c.profile = append(c.profile, primitives.CostEntry{Category: p.Category, Cost: p.Cost, Gas: primitives.Gas(gas)})
				}
			}
			vm.calls[r.ID] = c
		}
	}
	return vm
}

// readStatus tells whether the status is one that a call can have.
func (c *recordedCall) readStatus(raw json.RawMessage) bool {
	var s struct {
		SuccessValue *string
		Failure      *struct {
			ActionError *struct {
				Kind json.RawMessage `json:"kind"`
			}
		}
	}
	if json.Unmarshal(raw, &s) != nil {
		return false
	}
	if s.SuccessValue != nil {
		var err error
		c.value, err = base64.StdEncoding.DecodeString(*s.SuccessValue)
		return err == nil
	}
	if s.Failure == nil || s.Failure.ActionError == nil {
		return false
	}
	var kind struct{ FunctionCallError *primitives.FunctionCallError }
	if json.Unmarshal(s.Failure.ActionError.Kind, &kind) != nil || kind.FunctionCallError == nil {
		return false
	}
	c.failed = kind.FunctionCallError
	return true
}

// Call answers from the recording; a call that it lacks is an error, which ends the replay as a difference.
func (vm *RecordedVM) Call(c *action.Call, _ *action.External) (action.CallOutcome, error) {
	r, ok := vm.calls[c.ReceiptID]
	if !ok || r.receiver != c.CurrentAccount {
		return action.CallOutcome{}, fmt.Errorf("the recording has no outcome for call %v %d of %s.%s", c.ReceiptID, c.ActionIndex, c.CurrentAccount, c.Method)
	}
	burnt := r.vmGas()
	vm.mu.Lock()
	vm.answered[CallID{c.ReceiptID, c.ActionIndex}] = true
	vm.mu.Unlock()
	out := c.Unchanged()
	out.Err, out.Logs, out.Profile = r.failed, r.logs, r.profile
	out.GasBurnt, out.GasUsed, out.Compute = burnt, burnt, config.Compute(burnt)
	if len(r.value) > 0 {
		out.Return = action.Return{Kind: action.ReturnValue, Value: r.value}
	}
	return out, nil
}

// vmGas is what the VM burnt: the sum of its profile. The receipt's recorded gas is that plus the fees, which are computed
// here as for any receipt, so a wrong fee shows.
func (r *recordedCall) vmGas() primitives.Gas {
	var sum primitives.Gas
	for _, p := range r.profile {
		sum += p.Gas
	}
	return sum
}

// Answered returns how many calls were answered.
func (vm *RecordedVM) Answered() int {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	return len(vm.answered)
}

// Calls lists the calls that were answered, by id.
func (vm *RecordedVM) Calls() []string {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	out := make([]string, 0, len(vm.answered))
	for id := range vm.answered {
		out = append(out, id.String())
	}
	sort.Strings(out)
	return out
}
