package trace

import (
	"bytes"

	"github.com/troupe-chain/troupe/internal/flame"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// collector is a vm.Watcher. It records the calls of the receipts for which wanted returns true,
// and ignores all other calls.
type collector struct {
	wanted   func(receipt primitives.Hash) bool
	profiled bool

	calls    map[primitives.Hash][]*Call // recorded calls by receipt id
	profiles []*flame.Profile
	kept     int // number of recorded host calls

	now     *Call // nil: the current call is not recorded
	profile *flame.Profile
}

func newCollector(profiled bool, wanted func(primitives.Hash) bool) *collector {
	return &collector{wanted: wanted, profiled: profiled, calls: map[primitives.Hash][]*Call{}}
}

// CallBegins implements vm.Watcher.
func (t *collector) CallBegins(c *action.Call) {
	t.now, t.profile = nil, nil
	if !t.wanted(c.ReceiptID) {
		return
	}
	t.now = &Call{Action: c.ActionIndex, Account: string(c.CurrentAccount), CodeHash: c.CodeHash.String(), Method: c.Method,
		Prepaid: uint64(c.PrepaidGas), Deposit: c.Deposit.String(), Host: []HostCall{}}
	t.calls[c.ReceiptID] = append(t.calls[c.ReceiptID], t.now)
	if t.profiled {
		t.profile = flame.New(string(c.CurrentAccount) + "." + c.Method)
		for _, p := range t.profiles { // flame.Max is the bound for all profiles together
			t.profile.Max -= p.Calls()
		}
		t.profile.Begin("loading", 0)
		t.profiles = append(t.profiles, t.profile)
	}
}

// Enter implements vm.Watcher.
func (t *collector) Enter(function string, burnt primitives.Gas) {
	if t.profile == nil {
		return
	}
	if t.profile.Depth() == 1 && t.profile.Gas() == 0 {
		t.profile.End(uint64(burnt)) // ends the frame of loading the contract
	}
	t.profile.Begin(function, uint64(burnt))
}

// Leave implements vm.Watcher.
func (t *collector) Leave(burnt primitives.Gas) {
	if t.profile != nil {
		t.profile.End(uint64(burnt))
	}
}

// HostCall implements vm.Watcher.
func (t *collector) HostCall(h *vm.HostCall) {
	if t.now == nil {
		return
	}
	if t.profile != nil {
		t.profile.Begin(h.Name, uint64(h.Before))
		t.profile.End(uint64(h.After))
	}
	if t.kept >= MaxHostCalls {
		t.now.Omitted++
		return
	}
	t.kept++
	out := HostCall{Name: h.Name, At: uint64(h.Before), Gas: uint64(h.After - h.Before), Failed: h.Failed}
	if e := h.Entry; e != nil {
		out.Entry = &Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value[:min(len(e.Value), MaxShown)]), Len: len(e.Value),
			Found: e.Found, Nodes: e.Nodes.Touched + e.Nodes.Cached}
	}
	t.now.Host = append(t.now.Host, out)
}

// CallEnds implements vm.Watcher.
func (t *collector) CallEnds(out *action.CallOutcome) {
	c := t.now
	if c == nil {
		return
	}
	c.Gas, c.Used = uint64(out.GasBurnt), uint64(out.GasUsed)
	for _, e := range out.Profile {
		if e.Cost == "WASM_INSTRUCTION" {
			c.Wasm = uint64(e.Gas)
		}
	}
	if out.Err != nil {
		c.Error = out.Err.AppendJSON(nil)
	}
	if link, ok := out.Cause.(*action.LinkError); ok {
		c.Missing = link.Missing
	}
	if t.profile != nil {
		t.profile.Close(c.Gas)
	}
}
