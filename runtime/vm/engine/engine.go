package engine

import (
	"errors"
	"fmt"
)

// Version is the version of wasmtime. Artifacts of one version do not load in another.
const Version = "44.0.0"

// Limits of a run. MaxStack is the size of the native stack. It must be large enough for every recursion
// that the metered stack allows: see Fits.
const (
	MaxMemory   = 128 << 20
	MaxElements = 65_536 // a contract's own table declares a maximum of 10,000
	MaxStack    = 4 << 20
)

// Slots is the number of runs that the process can have open; further ones wait. An engine has as
// many instances, plus those that it keeps for reuse (mostKept).
const (
	Slots    = 48
	mostKept = 16
)

// ValType is a type of a host function's parameter or result, by its number in wasm_valkind_t.
type ValType byte

// The types of host functions.
const (
	I32 ValType = 0
	I64 ValType = 1
)

// Function is a host function of the module "env".
type Function struct {
	Name            string
	Params, Results []ValType // at most one result
}

// Exports are the names of the exports that the engine uses.
//
// Again is present only in modules whose instances can be reset. It is an i64: a lower bound of the
// first memory byte that is not initially zero, and, shifted left by 32, the end of such bytes.
// Again followed by a digit, from 0 on, names the globals that can change, other than those of gas
// and stack. Tables do not change in such modules.
type Exports struct{ Gas, Stack, Again string }

// Options configure an engine.
type Options struct {
	Functions []Function
	Exports   Exports
	Cranelift bool // use the other code generator, for tests; its artifacts do not load in engines without this
}

// The library's code generators.
const (
	Winch     = "Winch"     // one pass; nearcore's on amd64
	Cranelift = "Cranelift" // nearcore's on arm64; used where Winch is not available
)

// Host receives the host calls of one run.
type Host interface {
	// HostCall runs function fn of Options. args are raw values, an i32 with zeros above. memory is
	// the linear memory, valid until HostCall returns; nil if the module has none. gas is the value
	// of the gas global, left its new value. If ok is false, the run ends with Stopped.
	HostCall(fn int, args []uint64, memory []byte, gas int64) (result uint64, left int64, ok bool)
}

// Call describes a run.
type Call struct {
	Method string // name of the export
	Start  bool   // run the export "start" first
	Gas    int64  // initial value of the gas global
	Host   Host
	// Trace is set for a module that exports a table "trace". When the module calls through that
	// table, the Host receives a call of the function after the last one of Options, with the
	// call's i32 as argument.
	Trace bool
	// Again means that the same module may soon be called again. The instance is then reset and kept
	// for the next call, if the module and the system allow it. Again does not affect the result.
	Again bool
}

// traceFunction is the host function that traced modules call.
var traceFunction = Function{Name: "trace", Params: []ValType{I32}}

// End is how a run ended.
type End uint8

const (
	Done    End = iota
	Trapped     // see Outcome.Trap
	Stopped     // by a host function
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
	Gas   int64 // final value of the gas global; Call.Gas if the module has none
	Stack int64 // value of the stack global if the run trapped; 0 if there is none
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
