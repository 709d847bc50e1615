//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

package engine

/*
#include <stdlib.h>
#include <string.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	_ "github.com/bytecodealliance/wasmtime-go/v44" // links wasmtime's C library
)

// This line does not compile unless the two constants are equal.
const _ = uint(MaxStack-C.TROUPE_MAX_STACK) + uint(C.TROUPE_MAX_STACK-MaxStack)

// A raw value is read as two words, so its size must be 16 bytes. TestShimMatchesLibraryHeaders
// checks the other declarations of library.h.
var _ [2]uint64 = [C.sizeof_wasmtime_val_raw_t / 8]uint64{}

// slot is the Go side of a run. C refers to a slot by the slot's index, because C must not keep Go
// pointers.
type slot struct {
	call   *C.troupe_call_t
	method *C.char // the method's name in C memory
	room   int     // size of method's allocation in bytes
	host   Host
	funcs  []Function // the engine's host functions
	args   [maxParams]uint64
	panic  any // panic of a host function, with its stack trace; nil: none
	_      [64]byte
}

// slots are the slots of the process. free contains the indices of the unused slots.
var (
	slots [Slots]slot
	free  = make(chan uint32, Slots)
	once  sync.Once
)

func initSlots() {
	calls := unsafe.Slice(C.troupe_calls_new(Slots), Slots)
	for i := range calls {
		slots[i].call, calls[i].slot = &calls[i], C.uint32_t(i)
		free <- uint32(i)
	}
}

// Engine compiles modules and runs them. Safe for concurrent use.
type Engine struct {
	funcs  []Function
	engine *C.wasm_engine_t
	linker *C.wasmtime_linker_t
	gas    *C.char
	stack  *C.char
	again  *C.char
	names  Exports
	refs   refs // counts the modules that use the engine
	kept   kept
}

// reservation is the address space of a linear memory, in bytes. If the reservation covers every
// address that a 32-bit index can reach, loads and stores need no bounds check.
const (
	reservation = 4 << 30
	guard       = 32 << 20 // inaccessible bytes before and after a memory; the library's default
)

// chosen returns the reservation that all engines of the process use; 0 if there is not enough
// address space. chosen first tests whether the address space is available, because the library
// aborts the process if the library cannot reserve its pool.
var chosen = sync.OnceValue(func() uint64 {
	return choose(func(bytes uint64) bool { return bool(C.troupe_can_reserve(C.uint64_t(bytes))) })
})

func choose(canReserve func(bytes uint64) bool) uint64 {
	for _, space := range []uint64{reservation, MaxMemory} {
		if canReserve((space + 2*guard) * 2 * (Slots + mostKept)) {
			return space
		}
	}
	return 0
}

// Form identifies the engine, the code generator, and how machine code addresses memory. Artifacts
// depend on Form and on Version.
func Form() string { return form(Generator(), chosen()) }

func form(generator string, space uint64) string {
	return fmt.Sprintf("shim-%s-%d", strings.ToLower(generator), space>>20)
}

// New makes an engine.
func New(o Options) (*Engine, error) {
	once.Do(initSlots)
	winch := C.bool(!o.Cranelift && Generator() == Winch)
	space := chosen()
	if space == 0 {
		return nil, faultf("no address space for %d memories of %d MiB", Slots+mostKept, MaxMemory>>20)
	}
	e := &Engine{funcs: append(slices.Clone(o.Functions), traceFunction), names: o.Exports}
	e.refs.own()
	e.engine = C.troupe_engine_new(Slots+mostKept, C.uint64_t(space), MaxMemory, MaxElements, MaxStack, MaxStack+(1<<20),
		winch, C.bool(Mapless()))
	e.linker = C.troupe_linker_new(e.engine)
	e.gas, e.stack, e.again = C.CString(o.Exports.Gas), C.CString(o.Exports.Stack), C.CString(o.Exports.Again)
	for i := range o.Functions {
		f := &o.Functions[i]
		if err := f.check(); err != nil {
			e.Close()
			return nil, err
		}
		if err := C.troupe_link(e.linker, C.uint32_t(i), stringData(f.Name), C.size_t(len(f.Name)),
			typeData(f.Params), C.size_t(len(f.Params)), typeData(f.Results), C.size_t(len(f.Results))); err != nil {
			e.Close()
			return nil, faultf("host function %s: %s", f.Name, text(err))
		}
	}
	return e, nil
}

func stringData(s string) *C.char { return (*C.char)(unsafe.Pointer(unsafe.StringData(s))) }

func typeData(t []ValType) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(t))) }

func byteData(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }

// text frees an error of the library and returns the error's text.
func text(err *C.wasmtime_error_t) string {
	var buf [1024]byte
	n := C.troupe_error_text(err, (*C.char)(unsafe.Pointer(&buf[0])), C.size_t(len(buf)))
	return string(buf[:n])
}

// Close frees the engine when its last module is closed.
func (e *Engine) Close() { e.release() }

func (e *Engine) release() {
	if e.refs.drop() {
		C.wasmtime_linker_delete(e.linker)
		C.wasm_engine_delete(e.engine)
		C.free(unsafe.Pointer(e.gas))
		C.free(unsafe.Pointer(e.stack))
		C.free(unsafe.Pointer(e.again))
	}
}

func (e *Engine) compile(wasm []byte) ([]byte, error) {
	if !e.refs.hold() {
		return nil, ErrClosed
	}
	defer e.release()
	var m *C.wasmtime_module_t
	if err := C.wasmtime_module_new(e.engine, byteData(wasm), C.size_t(len(wasm)), &m); err != nil {
		return nil, faultf("compile: %s", text(err))
	}
	var out C.wasm_byte_vec_t
	err := C.wasmtime_module_serialize(m, &out)
	// Free the module before the artifact, which may have 80 MB, is copied once more.
	C.wasmtime_module_delete(m)
	if err != nil {
		return nil, faultf("serialize: %s", text(err))
	}
	defer C.wasm_byte_vec_delete(&out)
	return C.GoBytes(unsafe.Pointer(out.data), C.int(out.size)), nil
}

// init locks the process's first thread to the main goroutine, which runs no contracts. The stack
// size of the first thread depends on the shell's limit.
func init() { runtime.LockOSThread() }

// ThreadPerRun returns whether every run gets its own thread. It does if the threads of this
// process have too little stack.
func ThreadPerRun() bool {
	return uint64(C.troupe_thread_stack()) < MaxStack+uint64(C.troupe_stack_spare())
}

// Module is compiled code that is ready to run. Safe for concurrent use.
type Module struct {
	e    *Engine
	pre  *C.wasmtime_instance_pre_t
	refs refs // counts the runs that use the module
	// pass is the number of next calls that keep no instance. pass is set when a kept instance was
	// not reused.
	pass atomic.Int32
}

// Load makes a module from an artifact of Compile. The artifact is machine code, so the caller must
// trust it.
func (e *Engine) Load(artifact []byte) (*Module, error) {
	if len(artifact) == 0 {
		return nil, faultf("load: empty artifact")
	}
	return e.link(func(m **C.wasmtime_module_t) *C.wasmtime_error_t {
		return C.wasmtime_module_deserialize(e.engine, byteData(artifact), C.size_t(len(artifact)), m)
	})
}

// LoadFile is Load for an artifact in a file. The file is mapped and must not change until the
// module is freed.
func (e *Engine) LoadFile(path string) (*Module, error) {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	return e.link(func(m **C.wasmtime_module_t) *C.wasmtime_error_t {
		return C.wasmtime_module_deserialize_file(e.engine, p, m)
	})
}

// link returns a module that has a reference to the engine.
func (e *Engine) link(load func(**C.wasmtime_module_t) *C.wasmtime_error_t) (_ *Module, err error) {
	if !e.refs.hold() {
		return nil, ErrClosed
	}
	defer func() {
		if err != nil {
			e.release()
		}
	}()
	var m *C.wasmtime_module_t
	if err := load(&m); err != nil {
		return nil, faultf("load: %s", text(err))
	}
	defer C.wasmtime_module_delete(m)
	out := &Module{e: e}
	if err := C.wasmtime_linker_instantiate_pre(e.linker, m, &out.pre); err != nil {
		return nil, faultf("link: %s", text(err))
	}
	out.refs.own()
	return out, nil
}

// Close frees the module when its last run has ended.
func (m *Module) Close() { m.release() }

func (m *Module) release() {
	if m.refs.drop() {
		m.e.kept.remove(m)
		C.wasmtime_instance_pre_delete(m.pre)
		m.e.release()
	}
}

// Run runs a method, in a fresh instance or in an instance that was reset.
func (m *Module) Run(c Call) (Outcome, error) {
	if !m.refs.hold() {
		return Outcome{}, ErrClosed
	}
	defer m.release()
	i := <-free
	s := &slots[i]
	defer func() {
		s.host, s.funcs, s.panic = nil, nil, nil
		free <- i
	}()
	s.setMethod(c.Method)
	s.host, s.funcs = c.Host, m.e.funcs
	k := s.call
	k.engine, k.pre = m.e.engine, m.pre
	k.gas_name, k.gas_name_len = m.e.gas, C.size_t(len(m.e.names.Gas))
	k.stack_name, k.stack_name_len = m.e.stack, C.size_t(len(m.e.names.Stack))
	k.max_stack, k.max_memory, k.max_elements = MaxStack, MaxMemory, MaxElements
	k.start, k.gas = C.bool(c.Start), C.int64_t(c.Gas)
	k.trace, k.trace_index = C.bool(c.Trace), C.uint32_t(len(m.e.funcs)-1)
	k.again_name, k.again_name_len = m.e.again, C.size_t(len(m.e.names.Again))
	again := c.Again && !c.Trace && m.e.names.Again != "" && knowsPages()
	if k.keep, k.kept = false, nil; again {
		if k.kept = m.e.kept.take(m); k.kept == nil {
			k.keep = C.bool(m.pass.Load() <= 0 || m.pass.Add(-1) < 0)
		}
	}
	k.own_thread = false
	used := k.kept != nil
	if C.troupe_run(k); k.status == C.TROUPE_SHORT_STACK {
		runOnOtherThread(k)
	}
	if k.kept != nil {
		m.e.kept.put(m, k.kept, used)
		k.kept = nil
	}
	if s.panic != nil {
		return Outcome{}, faultf("%v", s.panic)
	}
	out := Outcome{Stage: Stage(k.stage), Gas: int64(k.gas), Stack: int64(k.stack)}
	switch k.status {
	case C.TROUPE_DONE:
		out.End = Done
	case C.TROUPE_HOST:
		out.End = Stopped
	case C.TROUPE_TRAP:
		out.End, out.Trap = Trapped, Trap(k.code)
	case C.TROUPE_NO_EXPORT:
		return out, faultf("no function %q", c.Method)
	default:
		why := text(k.error)
		k.error = nil
		return out, faultf("stage %d: %s", out.Stage, why)
	}
	return out, nil
}

// runOnOtherThread runs a call on another Go thread, because the current thread's stack is too
// small. The current thread is usually the first thread of the process, whose stack size depends on
// the shell's limit. The calling goroutine stays locked to its thread, so Go runs the new goroutine
// on another thread. If the stack of that thread is too small too (ThreadPerRun), the C code
// creates a thread for the run. The C code does not create a thread for every such run: creating
// one takes ten times as long, and Go's signal handlers do not expect such threads.
func runOnOtherThread(k *C.troupe_call_t) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.own_thread = true
		C.troupe_run(k)
	}()
	<-done
}

func (s *slot) setMethod(name string) {
	if s.method == nil || s.room < len(name) {
		C.free(unsafe.Pointer(s.method))
		s.room = max(len(name), 512)
		s.method = (*C.char)(C.malloc(C.size_t(s.room)))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(s.method)), s.room), name)
	s.call.method, s.call.method_len = s.method, C.size_t(len(name))
}

// troupeHostCall is called by the shim on the run's own thread. A panic must not unwind through C,
// so troupeHostCall turns a panic into a trap, and Run returns the panic as a fault.
//
//export troupeHostCall
func troupeHostCall(index, fn C.uint32_t, raw unsafe.Pointer, memory *C.uint8_t, memoryLen C.size_t, gas *C.int64_t) (ok C.bool) {
	s := &slots[index]
	defer func() {
		if p := recover(); p != nil {
			s.panic = fmt.Sprintf("host function %s: %v\n%s", s.funcs[fn].Name, p, debug.Stack())
			ok = false
		}
	}()
	f := &s.funcs[fn]
	values := unsafe.Slice((*[2]uint64)(raw), max(len(f.Params), len(f.Results)))
	args := s.args[:len(f.Params)]
	for i, t := range f.Params {
		if args[i] = values[i][0]; t == I32 {
			args[i] &= 1<<32 - 1
		}
	}
	result, left, good := s.host.HostCall(int(fn), args, unsafe.Slice((*byte)(unsafe.Pointer(memory)), memoryLen), int64(*gas))
	*gas = C.int64_t(left)
	if len(f.Results) == 1 {
		if f.Results[0] == I32 {
			result &= 1<<32 - 1
		}
		values[0][0] = result
	}
	runtime.KeepAlive(s)
	return C.bool(good)
}
