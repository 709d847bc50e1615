// Package prep makes a contract's module ready to run. It rewrites a module that package check has
// accepted, with gas and stack metering.
//
//	in      code as deployed, any bytes; parameters.Wasm (costs of instructions, limits)
//	out     Module: instrumented wasm, imports, methods, and check's verdicts
//	state   none; one Prepare uses one goroutine and shares nothing
//	units   gas; stack bytes as finite-wasm counts them
//	bound   time, memory and output are linear in the code. Winch's work is linear in the output
//	        times the operands that a function may have at a time, of which nearcore allows 8 KB
//	errors  *check.Error
//	source  package check defines what is charged and where; the form of the output is our own
//
// The problem: gas and stack must be metered exactly as in nearcore, since gas can be observed at
// every trap and host call. At the same time no module may make the compiler slow, its artifact
// large, or a call slower than its gas is meant to pay for. Contracts choose the instructions, so every
// instruction must be cheap to compile and to run in the worst case.
//
// Invariants:
//   - The rewritten module has the observable behaviour of nearcore's: results, traps, gas at every
//     host call.
//   - Metering uses only plain instructions (global.get, i64.sub, load), no host calls and no
//     branches.
//   - An instruction with a slow or large translation is replaced by an equivalent one: float
//     results (floats.go), references and bulk table instructions (function_references.go),
//     trapping truncations beyond a number (float_trunc.go), unused locals (locals.go), sparse data
//     (data.go), calls of env.gas (gas.go).
//
// Outline: check.Run validates the module and calls emitter.body with each body and its points of
// charge. The body is copied with charges inserted; assemble then writes the other sections around
// the bodies. Indexes of the module stay the same, since additions come after its own items.
//
// Rejected: nearcore's own form, which calls the host when gas runs out and uses wide arithmetic;
// it is twice as large and slower to compile. Metering inside the engine (wasmtime's fuel) counts
// differently.
//
// # Metering
//
// When gas runs out, nearcore calls a host function. Here the gas global becomes negative and the
// module traps, by a load that is out of bounds if the sign bit is set (emitter.settle):
//
//	gas -= c; load memory[gas >> 63]
//
// At the entry of a function the charges of its frame and of its first instructions are taken
// together. If the first of them fails, only that one is taken, because nearcore charges them one
// after the other.
//
// The engine sets GlobalGas before the call and reads it afterwards. A value of 0 or more is the
// gas left. A negative value means out of gas, and limit - gas is what nearcore would have burnt
// with the charge that failed. A negative GlobalStack means that the metered stack is exhausted.
// Nothing else makes either negative, and the module traps as soon as one is.
//
// Calls of env.gas, with which old contracts count their own instructions, are charges too: see
// gas.go. NaNs are made canonical here, not by the engine: see floats.go.
package prep
