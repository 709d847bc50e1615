package engine

import (
	"errors"
	"fmt"
)

// Version is wasmtime's; artifacts of one version do not load in another.
const Version = "44.0.0"

// What a run may have. MaxStack is the native stack, which code is to fit into whatever the metered
// one allows: see Fits.
const (
	MaxMemory   = 128 << 20
	MaxElements = 65_536 // a contract's own table says itself that it has at most 10,000
	MaxStack    = 4 << 20
)

// Slots is how many runs the process can have open; further ones wait. An engine has as many
// instances and those that it keeps.
const (
	Slots    = 48
	mostKept = 16
)

// ValType is a type of a host function's parameter or result, by its number in wasm_valkind_t.
type ValType byte

// The types that host functions have.
const (
	I32 ValType = 0
	I64 ValType = 1
)

// Function is a host function of module "env".
type Function struct {
	Name            string
	Params, Results []ValType // at most one result
}

// Exports are the names under which a prepared module gives what the engine needs.
//
// Again is of modules alone whose instances can be set back, for calls that say so: an i64, the
// first byte of memory that is not zero at first, at the least, and, shifted by 32, the end of such
// bytes. It and a digit, from 0 on, name the globals that can change besides those of gas and
// stack; tables do not.
type Exports struct{ Gas, Stack, Again string }

// Options are what an engine is made of.
type Options struct {
	Functions []Function
	Exports   Exports
	Cranelift bool // compile by the other code generator, for tests; its artifacts do not load in engines without this
}

// The code generators of the library.
const (
	Winch     = "Winch"     // in one pass, as nearcore's on amd64
	Cranelift = "Cranelift" // on arm64, as nearcore's there, and where Winch can't be had
)

// Host answers the host calls of one run.
type Host interface {
	// HostCall runs function number fn of Options. args are the raw values, i32s with zeros above;
	// memory is the linear memory, valid until HostCall returns, nil if the module has none; gas is
	// what the gas global holds, and left what it shall hold. Not ok ends the run with Stopped.
	HostCall(fn int, args []uint64, memory []byte, gas int64) (result uint64, left int64, ok bool)
}

// Call is a run.
type Call struct {
	Method string // name of the export
	Start  bool   // the export "start" runs first
	Gas    int64  // that the gas global starts with
	Host   Host
	// Trace runs a module that exports a table "trace": what it calls there comes to the Host as
	// one function more than Options has, with its i32.
	Trace bool
	// Again: calls of the same module may come soon. The instance is set back to what it was at
	// first, where the module and the system allow that, and kept for the next of them. What the
	// call does and finds is the same.
	Again bool
}

// traceFunction is the host function that traced modules call.
var traceFunction = Function{Name: "trace", Params: []ValType{I32}}

// End is how a run ended.
type End uint8

// The ends.
const (
	Done    End = iota
	Trapped     // Outcome.Trap
	Stopped     // by a host function
)

// Stage is how far a run came.
type Stage uint8

// The stages.
const (
	Instantiating Stage = iota
	Starting
	Running
)

// Outcome is what a run leaves.
type Outcome struct {
	End   End
	Stage Stage
	Trap  Trap
	Gas   int64 // of the gas global; Call.Gas if the module has none
	Stack int64 // of the stack global when the run trapped; 0 if there is none
}

// Trap is a trap code of wasmtime.
type Trap uint8

// The traps that a prepared module can reach; nearcore gives each a WasmTrap.
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

// ErrClosed is the error of a module or engine that was closed.
var ErrClosed = errors.New("engine: closed")

// FaultError is an end of a run that no contract should be able to cause.
type FaultError struct{ Text string }

func (e *FaultError) Error() string { return "engine: " + e.Text }

func faultf(format string, a ...any) error { return &FaultError{fmt.Sprintf(format, a...)} }

// maxParams is the most that a host function takes.
const maxParams = 16

func (f *Function) check() error {
	if len(f.Params) > maxParams || len(f.Results) > 1 {
		return fmt.Errorf("engine: host function %s has %d parameters and %d results", f.Name, len(f.Params), len(f.Results))
	}
	return nil
}
