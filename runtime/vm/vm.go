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

// Options configure a VM.
type Options struct {
	Dir    string // folder for compiled code; empty: memory only
	Memory int64  // maximum bytes of loaded compiled code; 0: DefaultMemory
	Disk   int64  // maximum bytes in Dir; 0: DefaultDisk
	// Builders is the maximum number of compilations at a time. At most half of these are
	// background compilations. 0: one per core, at least 2.
	Builders int
	// Compiler starts a child of this binary that calls ServeCompiler. If Compiler is the zero
	// value, this process compiles, and a crash of the compiler ends the process.
	Compiler     compiler.Command
	CompilerIdle time.Duration // time after which an idle child is ended; 0: compiler.DefaultIdle
	CompilerHang time.Duration // a child that uses no processor time for this long is ended; 0: compiler.DefaultHang
	// identifies this binary; other binaries retry code on which this binary's compiler failed
	Build string
	// Cranelift selects the code generator that this platform does not use by default. For tests,
	// without Dir and Compiler.
	Cranelift bool
	// Alarm receives errors that no contract should be able to cause, and failures to store
	// compiled contracts. Alarm must be safe for concurrent use. nil: errors are only counted.
	Alarm func(error)
	// Unlinked is called when Warm has compiled code with an import that the code's rules do not
	// have, so that every call of the code fails. submitter is the argument of Warm. The VM does
	// not report code that Warm dropped, and may report a code repeatedly. Unlinked must be safe
	// for concurrent use. nil: not reported.
	Unlinked func(submitter primitives.AccountID, code primitives.Hash, e *action.LinkError)
}

// Defaults of Options.
const (
	DefaultMemory = 256 << 20
	DefaultDisk   = 4 << 30
)

// VM runs contracts. Safe for concurrent use.
type VM struct {
	engine      *engine.Engine
	compiler    *compiler.Pool
	cache       *cache.Cache[*module]
	alarm       func(error)
	unlinked    func(primitives.AccountID, primitives.Hash, *action.LinkError)
	seen        atomic.Pointer[rulesOf] // the last config's hashes of its rules
	precompiles precompileQueue
	large       atomic.Bool // since the last collection, a large artifact was made and became garbage
	collector   collector
	alarms      atomic.Uint64
	whole       atomic.Uint64 // value of Stats.Whole
	usage       usage
}

var (
	_ action.VM          = (*VM)(nil)
	_ action.Warmer      = (*VM)(nil)
	_ action.Preparer    = (*VM)(nil)
	_ action.Precompiler = (*VM)(nil)
)

// New returns a VM.
func New(o Options) (*VM, error) {
	e, err := newEngine(o.Cranelift)
	if err != nil {
		return nil, err
	}
	v := &VM{engine: e, alarm: o.Alarm, unlinked: o.Unlinked}
	if err := otherGenerator(engine.Generator(), engine.Wanted()); err != nil {
		v.fault("%w", err)
	}
	co := cache.Options{
		Memory: cmp.Or(o.Memory, DefaultMemory), Dir: o.Dir, Disk: cmp.Or(o.Disk, DefaultDisk), Version: version(), Versions: versions,
		DiskFailed: v.diskFailed,
	}
	// If the folder cannot be used, the VM works without the folder, but more slowly.
	if v.cache, err = cache.New(loader{e}, co); err != nil && o.Dir != "" {
		v.fault("contracts are not kept on disk, and compiled again after each start: %w", err)
		o.Dir, co.Dir = "", ""
		v.cache, err = cache.New(loader{e}, co)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	v.compiler = newCompiler(&o, e, func(err error) { v.fault("%w", err) })
	v.precompiles.start(v, v.compiler.Background())
	return v, nil
}

// diskFailed reports that a compiled contract could not be stored. This failure does not count as
// an alarm, because no contract causes it.
func (v *VM) diskFailed(err error) {
	if v.alarm != nil {
		v.alarm(fmt.Errorf("store a compiled contract: %w; "+
			"contracts that are not stored are compiled again after a restart: free disk space or set contract_cache_path", err))
	}
}

// newEngine returns an engine with the host functions of package logic. A node process and its
// compiler children make the same engine, so their artifacts are interchangeable.
func newEngine(cranelift bool) (*engine.Engine, error) {
	return engine.New(engine.Options{
		Functions: hostFunctions(), Exports: engine.Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack,
			Again: prep.GlobalAgain}, Cranelift: cranelift,
	})
}

// otherGenerator returns the error to report if the code generator is not the wanted generator; nil
// if it is.
func otherGenerator(is, wanted string) error {
	if is == wanted {
		return nil
	}
	return fmt.Errorf("contracts are compiled by the code generator %s, because %s was not found in the wasmtime library: "+
		"contracts that are made to be hard to compile may take long", is, wanted)
}

// versions is a pattern that matches every result of version, of past and future builds too.
const versions = "info-[0-9]*-wasmtime-*"

// version identifies everything that an artifact depends on besides the code and the rules.
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

// Close ends background compilations and frees everything that is not in use.
func (v *VM) Close() {
	v.compiler.Close() // closed first, so that no worker waits for a child
	v.precompiles.stop()
	v.collector.close()
	v.cache.Close()
	v.engine.Close()
}

// Stats are the counts of the cache and the compiler, and the number of alarms.
type Stats struct {
	cache.Stats
	Compiler compiler.Stats
	Alarms   uint64
	Whole    uint64 // artifacts that are twice as large as necessary, see engine.Whole
}

// Stats returns counts since the start.
func (v *VM) Stats() Stats {
	return Stats{v.cache.Stats(), v.compiler.Stats(), v.alarms.Load(), v.whole.Load()}
}

// Compilers returns the process ids of the compiler children.
func (v *VM) Compilers() []int { return v.compiler.Children() }

func (v *VM) fault(format string, a ...any) {
	v.alarms.Add(1)
	if v.alarm != nil {
		v.alarm(fmt.Errorf(format, a...))
	}
}

// hostFunctions returns the host functions of package logic in the engine's form, in the order of
// package logic.
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

// Call runs a method. Call checks for failures in nearcore's order. First, code that cannot be
// prepared or compiled burns nothing. Second, Call burns the loading fee. Third, code that does not
// load or link fails. Fourth, a call of a missing method fails, and Call refunds the loading fee.
// Then Call instantiates the module and runs the start function and the method.
func (v *VM) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	return v.run(c, x)
}

func (v *VM) run(c *action.Call, x logic.External) (action.CallOutcome, error) {
	// Before FixContractLoadingError, a module that does not load fails first (see runModule).
	if c.Method == "" && c.Block.Config.Wasm.FixContractLoadingError {
		return emptyName(), nil
	}
	t := task{
		from: action.CodeFrom{Shard: c.Block.ShardID, InShard: true}, hash: c.CodeHash, code: c.Code, rules: &c.Block.Config.Wasm,
		background: c.Block.Beside,
	}
	entry, err := v.make(&t)
	v.usage.looked(c.Block, !t.built)
	if err != nil {
		return action.CallOutcome{}, err
	}
	defer entry.Release()
	return v.runModule(c, x, entry.Value, nil)
}

// runModule runs a call of module m. w, if not nil, observes the call.
func (v *VM) runModule(c *action.Call, x logic.External, m *module, w *watched) (action.CallOutcome, error) {
	out, err := v.callModule(c, x, m, w)
	if out.Err != nil && out.Err.Tag == primitives.CallExecution {
		out.Failure = logic.ExecutionFailure(out.Err, out.Cause)
	}
	return out, err
}

func (v *VM) callModule(c *action.Call, x logic.External, m *module, w *watched) (action.CallOutcome, error) {
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
	if c.Brief { // brief calls are frequent; reusing l saves a third of their allocations
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
		out, err := l.Outcome()
		if e := m.linkError(&cfg.Wasm); e != nil {
			out.Cause = e
		}
		return out, err
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
	began := time.Now()
	out, err := m.code.Run(run)
	v.usage.executed(c.Block.ShardID, time.Since(began))
	if err != nil {
		return v.broken(l, err)
	}
	return v.end(l, out)
}

func emptyName() action.CallOutcome {
	return failed(&primitives.FunctionCallError{Tag: primitives.CallMethodResolve, Method: primitives.MethodEmptyName})
}

// failed returns the outcome of a call that failed before it began. Such a call burns nothing.
func failed(e *primitives.FunctionCallError) action.CallOutcome { return action.CallOutcome{Err: e} }

// loadText approximates the error of neard's instance pool. The text is not hashed.
const loadText = "instance allocation for this module requires more bytes than the configured maximum"

// host runs host calls of the engine in package logic.
type host struct{ l *logic.Logic }

func (h host) HostCall(fn int, args []uint64, memory []byte, gas int64) (uint64, int64, bool) {
	l := h.l
	l.Memory = memory
	l.Enter(gas)
	result, err := l.Invoke(fn, args)
	l.Memory = nil // the memory may move before the next host call
	return result, l.Leave(), err == nil
}

// broken returns the result of a run that failed with an engine error. An error of a host function
// takes precedence, because the host function's error caused the engine error.
func (v *VM) broken(l *logic.Logic, err error) (action.CallOutcome, error) {
	if l.Err() != nil {
		if _, e := l.Outcome(); e != nil {
			return action.CallOutcome{}, e
		}
	}
	v.fault("vm: %w", err)
	return action.CallOutcome{}, err
}

// end returns the result of a run that ended.
func (v *VM) end(l *logic.Logic, out engine.Outcome) (action.CallOutcome, error) {
	switch out.End {
	case engine.Done:
		l.Enter(out.Gas)
	case engine.Stopped: // the host function has recorded the reason and the burnt gas in l
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
	case out.Trap == engine.StackOverflow:
		// Metering should have trapped before; the outcome would depend on the machine.
		v.fault("%w", ErrStackOverflow)
		return ErrStackOverflow
	}
	t, ok := traps[out.Trap]
	if !ok {
		err := fmt.Errorf("vm: trap code %d, which no contract should be able to cause", out.Trap)
		v.fault("%w", err)
		return err
	}
	l.Enter(out.Gas)
	l.Fail(logic.TrapError(t))
	return nil
}

// ErrStackOverflow is the error of a run that exhausted the native stack before the metered stack.
// nearcore's native stack has a different size, so this node cannot know the outcome that the chain
// has.
var ErrStackOverflow = errors.New("vm: native stack overflow")

// traps maps the engine's traps to nearcore's (wasmtime_runner/mod.rs into_vm_error), without
// StackOverflow.
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
