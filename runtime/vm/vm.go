package vm

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/vm/cache"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/logic"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// Options are what a VM is made of.
type Options struct {
	Dir      string // where compiled code is kept; empty: in memory only
	Memory   int64  // bytes of compiled code to keep loaded; 0: DefaultMemory
	Disk     int64  // bytes to keep in Dir; 0: DefaultDisk
	Builders int    // compilations at a time, half as many in the background; 0: as many as cores, at least two
	// Compiler starts a child of this binary that calls ServeCompiler; the zero value: all is
	// compiled in this process, and what the compiler does to it is done to this process.
	Compiler     compiler.Command
	CompilerIdle time.Duration // after which a child ends that has nothing to do; 0: compiler.DefaultIdle
	CompilerHang time.Duration // that a child may stand still; 0: compiler.DefaultHang
	Build        string        // names this binary, so that what its compiler failed on is tried again by another
	// Cranelift has contracts compiled by the generator that is not this platform's own. For tests,
	// without Dir and Compiler.
	Cranelift bool
	// Alarm receives errors that no contract should be able to cause, and that compiled contracts
	// cannot be kept on disk. It may be called by many goroutines. nil: they are only counted.
	Alarm func(error)
}

// Defaults of Options.
const (
	DefaultMemory = 256 << 20
	DefaultDisk   = 4 << 30
)

// VM runs contracts. Safe for use by many goroutines.
type VM struct {
	engine    *engine.Engine
	compiler  *compiler.Pool
	cache     *cache.Cache[*module]
	alarm     func(error)
	seen      atomic.Pointer[rulesOf] // of the config seen last
	warmer    warmer
	large     atomic.Bool // a large artifact was made, which is garbage now
	collector collector
	alarms    atomic.Uint64
	whole     atomic.Uint64 // see Stats
}

var (
	_ action.VM          = (*VM)(nil)
	_ action.Warmer      = (*VM)(nil)
	_ action.Preparer    = (*VM)(nil)
	_ action.Precompiler = (*VM)(nil)
)

// New makes a VM.
func New(o Options) (*VM, error) {
	e, err := newEngine(o.Cranelift)
	if err != nil {
		return nil, err
	}
	v := &VM{engine: e, alarm: o.Alarm}
	if err := otherGenerator(engine.Generator(), engine.Wanted()); err != nil {
		v.fault("%w", err)
	}
	co := cache.Options{
		Memory: cmp.Or(o.Memory, DefaultMemory), Dir: o.Dir, Disk: cmp.Or(o.Disk, DefaultDisk), Version: version(), Versions: versions,
		DiskFailed: v.diskFailed,
	}
	if v.cache, err = cache.New(loader{e}, co); err != nil && o.Dir != "" { // nothing is lost without it but time
		v.fault("contracts are not kept on disk, and compiled again after each start: %w", err)
		o.Dir, co.Dir = "", ""
		v.cache, err = cache.New(loader{e}, co)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	v.compiler = newCompiler(&o, e, func(err error) { v.fault("%w", err) })
	v.warmer.start(v, v.compiler.Background())
	return v, nil
}

// diskFailed reports that a compiled contract could not be kept. It is no alarm to count: no
// contract does it.
func (v *VM) diskFailed(err error) {
	if v.alarm != nil {
		v.alarm(fmt.Errorf("keep a compiled contract: %w: "+
			"contracts are compiled again after a restart, make room or set contract_cache_path", err))
	}
}

// newEngine makes an engine with logic's functions. Those of a process and of its children are the
// same, so are their artifacts.
func newEngine(cranelift bool) (*engine.Engine, error) {
	return engine.New(engine.Options{
		Functions: hostFunctions(), Exports: engine.Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack, Again: prep.GlobalAgain}, Cranelift: cranelift,
	})
}

// otherGenerator is what is to be said of a code generator that is not the platform's.
func otherGenerator(is, wanted string) error {
	if is == wanted {
		return nil
	}
	return fmt.Errorf("contracts are compiled by %s, since %s is not where it was in the library: what is made to be hard to compile may keep it busy for long",
		is, wanted)
}

// versions is the pattern of all that version has given and will give.
const versions = "info-[0-9]*-wasmtime-*"

// version names everything but the code and the rules that an artifact depends on.
func version() string {
	var table []byte
	for i := range logic.Functions {
		f := &logic.Functions[i]
		table = fmt.Appendf(table, "%s%x%x,", f.Name, f.Params, f.Results)
	}
	host := primitives.HashBytes(table)
	return fmt.Sprintf("info-%d-wasmtime-%s-%s-prep-%s-host-%x-%s", infoVersion, engine.Version, engine.Form(), prep.Version, host[:4],
		runtime.GOARCH)
}

// Close ends the compilations in the background and frees what is not in use.
func (v *VM) Close() {
	v.compiler.Close() // first, so that nobody waits for a child
	v.warmer.stop()
	v.collector.close()
	v.cache.Close()
	v.engine.Close()
}

// Stats are those of the compiled code and of its making, and how many alarms there were.
type Stats struct {
	cache.Stats
	Compiler compiler.Stats
	Alarms   uint64
	Whole    uint64 // artifacts that are twice as large as they could be: engine.Whole
}

// Stats returns counts since the start.
func (v *VM) Stats() Stats {
	return Stats{v.cache.Stats(), v.compiler.Stats(), v.alarms.Load(), v.whole.Load()}
}

// Compilers are the processes that compile for this VM now.
func (v *VM) Compilers() []int { return v.compiler.Children() }

func (v *VM) fault(format string, a ...any) {
	v.alarms.Add(1)
	if v.alarm != nil {
		v.alarm(fmt.Errorf(format, a...))
	}
}

// hostFunctions is logic's table as the engine wants it, in the same order.
func hostFunctions() []engine.Function {
	out := make([]engine.Function, len(logic.Functions))
	for i := range logic.Functions {
		f := &logic.Functions[i]
		out[i] = engine.Function{Name: f.Name, Params: engineTypes(f.Params), Results: engineTypes(f.Results)}
	}
	return out
}

func engineTypes(types []logic.ValType) []engine.ValType {
	out := make([]engine.ValType, len(types))
	for i, t := range types {
		if out[i] = engine.I64; t == logic.I32 {
			out[i] = engine.I32
		}
	}
	return out
}

// Call runs a method. The order in which calls end is nearcore's (reference A4): code that cannot
// be prepared or compiled burns nothing, then the loading fee, then code that does not load or
// link, then a method that is not there, which gives the fee back, and then what instantiation, the
// start function and the method do.
func (v *VM) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	return v.run(c, x)
}

func (v *VM) run(c *action.Call, x logic.External) (action.CallOutcome, error) {
	// before it, a module that does not load comes first
	if c.Method == "" && c.Block.Config.Wasm.FixContractLoadingError {
		return emptyName(), nil
	}
	entry, err := v.get(c.CodeHash, c.Code, &c.Block.Config.Wasm, c.Block.Beside)
	if err != nil {
		return action.CallOutcome{}, err
	}
	defer entry.Release()
	return v.runModule(c, x, entry.Value, nil)
}

// runModule is run once the module is there; w is told of what it does, nil: nobody.
func (v *VM) runModule(c *action.Call, x logic.External, m *module, w *watched) (action.CallOutcome, error) {
	cfg := c.Block.Config
	if m.loadFails && !cfg.Wasm.FixContractLoadingError {
		return failed(logic.LoadingError(loadText)), nil
	}
	if c.Method == "" {
		return emptyName(), nil
	}
	if m.compilation != nil {
		return failed(&primitives.FunctionCallError{Tag: primitives.CallCompilation, Compilation: m.compilation}), nil
	}
	l := logic.New(c, x, cfg)
	if c.Brief { // a short call of many: a third of what it allocates
		defer l.Release()
	}
	if l.PayLoading(len(c.Code)) != nil {
		return l.Outcome()
	}
	if m.loadFails {
		l.Fail(logic.LoadingError(loadText))
		return l.Outcome()
	}
	if text := m.unlinked(&cfg.Wasm); text != "" {
		l.Fail(logic.LinkError(text))
		return l.Outcome()
	}
	if plain, ok := m.methods[c.Method]; !ok || !plain {
		e := &primitives.FunctionCallError{Tag: primitives.CallMethodResolve, Method: primitives.MethodNotFound}
		if ok {
			e.Method = primitives.MethodInvalidSignature
		}
		return failed(e), nil
	}
	run := engine.Call{Method: prep.MethodPrefix + c.Method, Start: m.hasStart, Gas: l.Leave(), Host: host{l}, Again: c.Brief}
	if w != nil {
		run.Host, run.Trace = &watchedHost{host{l}, w}, true
	}
	out, err := m.code.Run(run)
	if err != nil {
		return v.broken(l, err)
	}
	return v.end(l, out)
}

func emptyName() action.CallOutcome {
	return failed(&primitives.FunctionCallError{Tag: primitives.CallMethodResolve, Method: primitives.MethodEmptyName})
}

// failed is a call that ended before it began: nothing is burnt.
func failed(e *primitives.FunctionCallError) action.CallOutcome { return action.CallOutcome{Err: e} }

// loadText is what neard's pool says, about; the text is outside of what is hashed.
const loadText = "instance allocation for this module requires more bytes than the configured maximum"

// host gives logic's functions to the engine.
type host struct{ l *logic.Logic }

func (h host) HostCall(fn int, args []uint64, memory []byte, gas int64) (uint64, int64, bool) {
	l := h.l
	l.Memory = memory
	l.Enter(gas)
	result, err := l.Invoke(fn, args)
	l.Memory = nil // it may move
	return result, l.Leave(), err == nil
}

// broken is a run that the engine could not make. A host function's own error comes first: it says
// why.
func (v *VM) broken(l *logic.Logic, err error) (action.CallOutcome, error) {
	if l.Err() != nil {
		if _, e := l.Outcome(); e != nil {
			return action.CallOutcome{}, e
		}
	}
	v.fault("vm: %w", err)
	return action.CallOutcome{}, err
}

// end settles a run that came to an end.
func (v *VM) end(l *logic.Logic, out engine.Outcome) (action.CallOutcome, error) {
	switch out.End {
	case engine.Done:
		l.Enter(out.Gas)
	case engine.Stopped: // logic knows why, and counted what was burnt
	case engine.Trapped:
		if err := v.trapped(l, out); err != nil {
			return action.CallOutcome{}, err
		}
	}
	return l.Outcome()
}

func (v *VM) trapped(l *logic.Logic, out engine.Outcome) error {
	switch {
	case out.Gas < 0:
		l.OutOfGas(out.Gas)
		return nil
	case out.Stack < 0:
		l.Enter(out.Gas)
		l.OutOfStack()
		return nil
	case out.Trap == engine.StackOverflow: // metering is there to come first; what follows would depend on the machine
		v.fault("%w", ErrStackOverflow)
		return ErrStackOverflow
	}
	t, ok := traps[out.Trap]
	if !ok {
		err := fmt.Errorf("vm: trap %d, which no contract can cause", out.Trap)
		v.fault("%w", err)
		return err
	}
	l.Enter(out.Gas)
	l.Fail(logic.TrapError(t))
	return nil
}

// ErrStackOverflow is a run that reached the end of the native stack before that of the metered
// one. nearcore's native stack is another, so no outcome of it could be the chain's.
var ErrStackOverflow = errors.New("vm: native stack overflow")

// traps is nearcore's map (wasmtime_runner/mod.rs into_vm_error), but for StackOverflow.
var traps = map[engine.Trap]primitives.WasmTrap{
	engine.MemoryOutOfBounds:      primitives.TrapMemoryOutOfBounds,
	engine.TableOutOfBounds:       primitives.TrapMemoryOutOfBounds,
	engine.IndirectCallToNull:     primitives.TrapIndirectCallToNull,
	engine.BadSignature:           primitives.TrapIncorrectCallIndirectSignature,
	engine.IntegerOverflow:        primitives.TrapIllegalArithmetic,
	engine.IntegerDivisionByZero:  primitives.TrapIllegalArithmetic,
	engine.BadConversionToInteger: primitives.TrapIllegalArithmetic,
	engine.Unreachable:            primitives.TrapUnreachable,
}
