package vm

import (
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/vm/logic"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// Watcher observes calls while they run. burnt is the gas that the call has burnt so far.
type Watcher interface {
	CallBegins(c *action.Call)
	// Enter and Leave report calls of the contract's own functions. Leave is not called for
	// functions that a trap ends.
	Enter(function string, burnt primitives.Gas)
	Leave(burnt primitives.Gas)
	// HostCall is called after each host function. h is valid until HostCall returns.
	HostCall(h *HostCall)
	CallEnds(out *action.CallOutcome)
}

// HostCall describes a call of a host function.
type HostCall struct {
	Name          string
	Before, After primitives.Gas // gas burnt by the call before and after the host function
	Failed        bool           // the host function failed, which ended the call
	Entry         *Entry         // storage entry that the host function accessed; nil: none
}

// Entry is an accessed storage entry. Key and Value are valid until Watcher.HostCall returns.
type Entry struct {
	Key   []byte
	Value []byte // value that was read or written
	Found bool   // the entry existed before the access
	Nodes action.NodeCount
}

// Watch returns a VM that runs contracts with the same results as v, and reports to w. The VM
// compiles its own modules, which also report calls of their functions, and keeps these modules
// until Close. Not safe for concurrent use.
func (v *VM) Watch(w Watcher) *Watched {
	return &Watched{v: v, w: w, modules: map[tracedKey]*tracedModule{}}
}

// Watched is an action.VM with a Watcher.
type Watched struct {
	v       *VM
	w       Watcher
	modules map[tracedKey]*tracedModule
}

var _ action.VM = (*Watched)(nil)

// tracedKey identifies code and the rules by which the code was prepared.
type tracedKey struct{ code, rules primitives.Hash }

type tracedModule struct {
	*module
	names map[uint32]string
}

// Close frees the modules.
func (t *Watched) Close() {
	for _, m := range t.modules {
		m.Close()
	}
	clear(t.modules)
}

// Call runs a method.
func (t *Watched) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	t.w.CallBegins(c)
	out, err := t.run(c, x)
	if err == nil {
		t.w.CallEnds(&out)
	}
	return out, err
}

func (t *Watched) run(c *action.Call, x logic.External) (action.CallOutcome, error) {
	if c.Method == "" && c.Block.Config.Wasm.FixContractLoadingError {
		return emptyName(), nil
	}
	rules := &c.Block.Config.Wasm
	_, own := t.v.rules(rules)
	key := tracedKey{c.CodeHash, own}
	m, ok := t.modules[key]
	if !ok {
		a, err := t.v.build(&task{hash: c.CodeHash, code: c.Code, rules: rules, traced: true, background: true})
		if err != nil {
			return action.CallOutcome{}, err
		}
		m = &tracedModule{names: check.Names(c.Code)}
		if m.module, err = (loader{t.v.engine}).Load(a); err != nil {
			return action.CallOutcome{}, t.v.notLoaded(c.CodeHash, err)
		}
		t.modules[key] = m
	}
	w := &watched{watcher: t.w, names: m.names, External: x}
	return t.v.runModule(c, w, m.module, w)
}

// watched observes one call. A watched wraps the External of the call.
type watched struct {
	logic.External
	watcher Watcher
	names   map[uint32]string
	entry   *Entry // entry that the running host function accessed
}

func (w *watched) Read(key []byte, pay func(uint32) error) ([]byte, bool, action.NodeCount, error) {
	value, found, n, err := w.External.Read(key, pay)
	w.entry = &Entry{Key: key, Value: value, Found: found, Nodes: n}
	return value, found, n, err
}

func (w *watched) Has(key []byte) (bool, error) {
	found, err := w.External.Has(key)
	w.entry = &Entry{Key: key, Found: found}
	return found, err
}

func (w *watched) Write(key, value []byte, pay func(uint32) error) ([]byte, action.NodeCount, error) {
	old, n, err := w.External.Write(key, value, pay)
	w.entry = &Entry{Key: key, Value: value, Found: old != nil, Nodes: n}
	return old, n, err
}

func (w *watched) Remove(key []byte, pay func(uint32) error) ([]byte, action.NodeCount, error) {
	old, n, err := w.External.Remove(key, pay)
	w.entry = &Entry{Key: key, Value: old, Found: old != nil, Nodes: n}
	return old, n, err
}

// watchedHost reports host calls to the Watcher. Calls of the contract's own functions arrive as
// calls of an extra host function (engine.Call.Trace).
type watchedHost struct {
	host
	w *watched
}

func (h *watchedHost) HostCall(fn int, args []uint64, memory []byte, gas int64) (uint64, int64, bool) {
	if fn == len(logic.Functions) {
		h.l.Enter(gas)
		if index := int32(uint32(args[0])); index < 0 {
			h.w.watcher.Leave(h.l.Burnt())
		} else {
			h.w.watcher.Enter(h.w.name(uint32(index)), h.l.Burnt())
		}
		return 0, gas, h.l.Interrupted() == nil
	}
	h.l.Enter(gas)
	before := h.l.Burnt()
	h.w.entry = nil
	result, left, ok := h.host.HostCall(fn, args, memory, h.l.Leave())
	h.w.watcher.HostCall(&HostCall{Name: logic.Functions[fn].Name, Before: before, After: h.l.Burnt(), Failed: !ok, Entry: h.w.entry})
	return result, left, ok
}

// name returns the name of function index in the contract.
func (w *watched) name(index uint32) string {
	if name, ok := w.names[index]; ok {
		return name
	}
	return "function " + strconv.FormatUint(uint64(index), 10)
}
