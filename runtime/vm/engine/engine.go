package engine

import (
	"errors"
	"fmt"
)

// Version is the version of wasmtime. Artifacts of one version do not load in another.
const Version = "44.0.0"

// Limits of a run. MaxStack is the size of the native stack in bytes. MaxStack must suffice for
// every recursion that the metered stack allows (see Fits).
const (
	MaxMemory   = 128 << 20 // bytes of linear memory
	MaxElements = 65_536    // elements of all tables together; a contract's own table has at most 10,000
	MaxStack    = 4 << 20   // bytes of native stack
)

// Slots is the maximum number of open runs in the process; further runs wait. An engine has as many
// instances, plus mostKept instances that wait for reuse.
const (
	Slots    = 48
	mostKept = 16
)

// ValType is the type of a parameter or result of a host function, as its wasm_valkind_t number.
type ValType byte

// The types of host functions.
const (
	I32 ValType = 0
	I64 ValType = 1
)

// Function is a host function of the module "env".
type Function struct {
	Name            string
	Params, Results []ValType // types of the parameters and of the results; at most one result
}

// Exports are the names of the exports that the engine uses.
//
// Again is present only in modules whose instances can be reset. Again names an i64. The low 32
// bits are a lower bound of the first memory byte that is not initially zero; the high 32 bits are
// the end of such bytes. Again followed by a digit, from 0 on, names each global that can change,
// except the globals of gas and stack. The tables of such modules do not change.
type Exports struct{ Gas, Stack, Again string }

// Options configure an engine.
type Options struct {
	Functions []Function
	Exports   Exports
	Cranelift bool // only for tests: use Cranelift; artifacts of Cranelift do not load in engines with Winch
}

// The library's code generators.
const (
	Winch     = "Winch"     // one-pass compiler; nearcore uses it on amd64
	Cranelift = "Cranelift" // nearcore uses it on arm64; used here on platforms without Winch
)

// Host receives the host calls of one run.
type Host interface {
	// HostCall runs function fn of Options. args are raw values; the upper bits of an i32 are zero.
	// memory is the linear memory, valid until HostCall returns; nil if the module has no memory.
	// gas is the value of the gas global before the call, left the value of the gas global after
	// the call. If ok is false, the run ends with Stopped.
	HostCall(fn int, args []uint64, memory []byte, gas int64) (result uint64, left int64, ok bool)
}

// Call describes a run.
type Call struct {
	Method string // name of the exported function
	Start  bool   // run the export "start" first
	Gas    int64  // initial value of the gas global
	Host   Host
	// Trace is set for a module that exports a table "trace". A call of the module through that
	// table becomes a HostCall. fn is then the number of Options.Functions, and the argument is the
	// i32 argument of the call.
	Trace bool
	// Again means that the caller may soon call this module again. After the run, the instance is
	// reset and kept for the next call, if the module and the system allow that. Again does not
	// affect the result.
	Again bool
}

// traceFunction is the host function that traced modules call.
var traceFunction = Function{Name: "trace", Params: []ValType{I32}}

// End is how a run ended.
type End uint8

const (
	Done    End = iota
	Trapped     // a trap ended the run, see Outcome.Trap
	Stopped     // a host function ended the run
)

// Stage is the stage at which a run ended.
type Stage uint8

const (
	Instantiating Stage = iota
	Starting
	Running
)

// Outcome is the result of a run.
type Outcome struct {
	End   End
	Stage Stage
	Trap  Trap
	Gas   int64 // final value of the gas global; Call.Gas if the module has no gas global
	Stack int64 // final value of the stack global if the run trapped; 0 if the module has no stack global
}

// Trap is a trap code of wasmtime.
type Trap uint8

// The traps that a prepared module can reach. nearcore maps each to a WasmTrap.
const (
	StackOverflow Trap = iota
	MemoryOutOfBounds
	HeapMisaligned
	TableOutOfBounds
	IndirectCallToNull
	BadSignature
	IntegerOverflow
	IntegerDivisionByZero
	BadConversionToInteger
	Unreachable
)

// ErrClosed is the error of a closed module or engine.
var ErrClosed = errors.New("engine: the contract engine is closed")

// FaultError is an error of a run that no contract should be able to cause.
type FaultError struct{ Text string }

func (e *FaultError) Error() string { return "engine: " + e.Text }

func faultf(format string, a ...any) error { return &FaultError{fmt.Sprintf(format, a...)} }

// maxParams is the largest number of parameters of a host function.
const maxParams = 16

func (f *Function) check() error {
	if len(f.Params) > maxParams || len(f.Results) > 1 {
		return fmt.Errorf("engine: host function %s has %d parameters and %d results", f.Name, len(f.Params), len(f.Results))
	}
	return nil
}
