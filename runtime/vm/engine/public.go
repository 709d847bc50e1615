//go:build cgo && (linux || darwin) && (amd64 || arm64) && noshim

package engine

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/bytecodealliance/wasmtime-go/v44"
)

// publicStack is the largest stack, in bytes, that the public API allows. The library aborts the
// process if more is requested.
const publicStack = 2 << 20

// Form identifies the engine and the code generator. Artifacts depend on Form and on Version.
func Form() string { return "public" }

// Engine compiles modules and runs them. Safe for concurrent use.
type Engine struct {
	funcs  []Function
	names  Exports
	engine *wasmtime.Engine
	linker *wasmtime.Linker
	refs   refs // counts the modules that use the engine
}

// open limits the number of open runs of the process to Slots.
var open = make(chan struct{}, Slots)

// run is the data of a store. Host functions find their run through the store's data.
type run struct {
	host    Host
	memory  *wasmtime.Memory
	gas     *wasmtime.Global
	left    int64 // remaining gas of a module without a gas global
	stopped bool
	panic   any
	args    [maxParams]uint64
}

// New makes an engine.
func New(o Options) (*Engine, error) {
	c := wasmtime.NewConfig()
	c.SetMaxWasmStack(publicStack)
	c.SetCraneliftOptLevel(wasmtime.OptLevelNone)
	c.SetCraneliftNanCanonicalization(true)
	c.SetParallelCompilation(false)
	c.SetNativeUnwindInfo(false)
	c.SetWasmRelaxedSIMD(false)
	c.SetWasmSIMD(false)
	c.SetWasmMultiValue(false)
	c.SetWasmMultiMemory(true) // prepared modules may have a second memory
	c.SetWasmTailCall(false)
	c.SetWasmMemory64(false)
	c.SetWasmGC(false)
	c.SetWasmFunctionReferences(false)
	e := &Engine{funcs: append(slices.Clone(o.Functions), traceFunction), names: o.Exports, engine: wasmtime.NewEngineWithConfig(c)}
	e.refs.own()
	e.linker = wasmtime.NewLinker(e.engine)
	for i := range o.Functions {
		f := &o.Functions[i]
		err := f.check()
		if err == nil {
			err = e.linker.FuncNew("env", f.Name, wasmtime.NewFuncType(kinds(f.Params), kinds(f.Results)), e.hostFunc(i))
		}
		if err != nil {
			e.Close()
			return nil, fmt.Errorf("engine: host function %s: %w", f.Name, err)
		}
	}
	return e, nil
}

func kinds(types []ValType) []*wasmtime.ValType {
	out := make([]*wasmtime.ValType, len(types))
	for i, t := range types {
		if out[i] = wasmtime.NewValType(wasmtime.KindI64); t == I32 {
			out[i] = wasmtime.NewValType(wasmtime.KindI32)
		}
	}
	return out
}

// trapHost is the text of a trap that a host function requested. This text never gets into an
// outcome.
const trapHost = "host"

func (e *Engine) hostFunc(i int) func(*wasmtime.Caller, []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
	f := &e.funcs[i]
	return func(caller *wasmtime.Caller, in []wasmtime.Val) (out []wasmtime.Val, trap *wasmtime.Trap) {
		r := caller.Data().(*run)
		defer func() {
			if p := recover(); p != nil {
				r.panic = fmt.Sprintf("host function %s: %v\n%s", f.Name, p, debug.Stack())
				trap = wasmtime.NewTrap(trapHost)
			}
		}()
		args := r.args[:len(f.Params)]
		for k, t := range f.Params {
			if t == I32 {
				args[k] = uint64(uint32(in[k].I32()))
			} else {
				args[k] = uint64(in[k].I64())
			}
		}
		var memory []byte
		if r.memory != nil {
			memory = r.memory.UnsafeData(caller)
		}
		if r.gas != nil {
			r.left = r.gas.Get(caller).I64()
		}
		result, left, ok := r.host.HostCall(i, args, memory, r.left)
		r.left = left
		if r.gas != nil {
			if err := r.gas.Set(caller, wasmtime.ValI64(left)); err != nil {
				panic(err)
			}
		}
		if !ok {
			r.stopped = true
			return nil, wasmtime.NewTrap(trapHost)
		}
		if len(f.Results) == 0 {
			return nil, nil
		}
		if f.Results[0] == I32 {
			return []wasmtime.Val{wasmtime.ValI32(int32(result))}, nil
		}
		return []wasmtime.Val{wasmtime.ValI64(int64(result))}, nil
	}
}

// Close frees the engine when its last module is closed.
func (e *Engine) Close() { e.release() }

func (e *Engine) release() {
	if e.refs.drop() {
		e.linker.Close()
		e.engine.Close()
	}
}

func (e *Engine) compile(wasm []byte) ([]byte, error) {
	if !e.refs.hold() {
		return nil, ErrClosed
	}
	defer e.release()
	m, err := wasmtime.NewModule(e.engine, wasm)
	if err != nil {
		return nil, faultf("compile: %v", err)
	}
	defer m.Close()
	return m.Serialize()
}

// Generator returns the code generator.
func Generator() string { return Cranelift }

// Wanted returns the generator that this engine should use.
func Wanted() string { return Cranelift }

// ThreadPerRun returns whether every run gets its own thread.
func ThreadPerRun() bool { return false }

// Module is compiled code that is ready to run. Safe for concurrent use.
type Module struct {
	e    *Engine
	m    *wasmtime.Module
	refs refs // counts the runs that use the module
}

// Load makes a module from an artifact of Compile. The artifact is machine code, so the caller must
// trust it.
func (e *Engine) Load(artifact []byte) (*Module, error) {
	if len(artifact) == 0 {
		return nil, faultf("load: empty artifact")
	}
	return e.wrap(func() (*wasmtime.Module, error) { return wasmtime.NewModuleDeserialize(e.engine, artifact) })
}

// LoadFile is Load for an artifact in a file. The file is mapped and must not change until the
// module is freed.
func (e *Engine) LoadFile(path string) (*Module, error) {
	return e.wrap(func() (*wasmtime.Module, error) { return wasmtime.NewModuleDeserializeFile(e.engine, path) })
}

// wrap returns a module that has a reference to the engine.
func (e *Engine) wrap(load func() (*wasmtime.Module, error)) (*Module, error) {
	if !e.refs.hold() {
		return nil, ErrClosed
	}
	m, err := load()
	if err != nil {
		e.release()
		return nil, faultf("load: %v", err)
	}
	out := &Module{e: e, m: m}
	out.refs.own()
	return out, nil
}

// Close frees the module when its last run has ended.
func (m *Module) Close() { m.release() }

func (m *Module) release() {
	if m.refs.drop() {
		m.m.Close()
		m.e.release()
	}
}

// Run runs a method in a fresh instance.
func (m *Module) Run(c Call) (Outcome, error) {
	if !m.refs.hold() {
		return Outcome{}, ErrClosed
	}
	defer m.release()
	open <- struct{}{}
	defer func() { <-open }()
	r := &run{host: c.Host, left: c.Gas}
	store := wasmtime.NewStoreWithData(m.e.engine, r)
	defer store.Close()
	store.Limiter(MaxMemory, MaxElements, 1, 4, 2)
	out := Outcome{Gas: c.Gas}
	in, err := m.e.linker.Instantiate(store, m.m)
	if err != nil {
		return r.ended(out, err)
	}
	if x := in.GetExport(store, "memory"); x != nil {
		r.memory = x.Memory()
	}
	if x := in.GetExport(store, m.e.names.Gas); x != nil && x.Global() != nil {
		r.gas = x.Global()
		if err := r.gas.Set(store, wasmtime.ValI64(c.Gas)); err != nil {
			return out, faultf("gas: %v", err)
		}
	}
	if c.Trace {
		x := in.GetExport(store, "trace")
		if x == nil || x.Table() == nil {
			return out, faultf("not a traced module")
		}
		i := len(m.e.funcs) - 1
		f := wasmtime.NewFunc(store, wasmtime.NewFuncType(kinds(traceFunction.Params), nil), m.e.hostFunc(i))
		if err := x.Table().Set(store, 0, wasmtime.ValFuncref(f)); err != nil {
			return out, faultf("trace: %v", err)
		}
	}
	call := func(stage Stage, name string) error {
		out.Stage = stage
		f := in.GetFunc(store, name)
		if f == nil {
			return faultf("no function %q", name)
		}
		_, err := f.Call(store)
		return err
	}
	if c.Start {
		err = call(Starting, "start")
	}
	if err == nil {
		err = call(Running, c.Method)
	}
	out.Gas = r.left
	if r.gas != nil {
		out.Gas = r.gas.Get(store).I64()
	}
	if out, err = r.ended(out, err); err != nil || out.End != Trapped {
		return out, err
	}
	if x := in.GetExport(store, m.e.names.Stack); x != nil && x.Global() != nil {
		out.Stack = x.Global().Get(store).I64()
	}
	return out, nil
}

// ended sets in out how a run ended, from the error of wasmtime.
func (r *run) ended(out Outcome, err error) (Outcome, error) {
	var trap *wasmtime.Trap
	switch {
	case r.panic != nil:
		return Outcome{}, faultf("%v", r.panic)
	case err == nil:
		return out, nil
	case r.stopped:
		out.End = Stopped
		return out, nil
	case errors.As(err, &trap) && trap.Code() != nil:
		out.End, out.Trap = Trapped, Trap(*trap.Code())
		return out, nil
	}
	return out, faultf("stage %d: %v", out.Stage, err)
}
