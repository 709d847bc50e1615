// Package prep makes a contract's module ready to run. It rewrites a module that package check has
// accepted, with gas and stack metering.
//
//	in      code as deployed, any bytes; parameters.Wasm (costs of instructions, limits)
//	out     Module: instrumented wasm, imports, methods, and check's verdicts
//	state   none; one Prepare uses one goroutine and shares nothing
//	units   gas; stack bytes as finite-wasm counts them
//	bound   time, memory and output are linear in the code. Winch's work is linear in the size of the
//	        output times the operands of a function; nearcore allows 8 KB of operands
//	errors  *check.Error
//	source  package check defines what is charged and where; the form of the output is our own
//
// The problem: gas and stack must be metered exactly as in nearcore, because contracts can observe
// gas at every trap and host call. At the same time no module may make the compiler slow, its
// artifact large, or a call slower than its gas pays for. Contracts choose the instructions, so
// every instruction must be cheap to compile and to run in the worst case.
//
// Invariants:
//   - The rewritten module has the observable behaviour of nearcore's: results, traps, gas at every
//     host call.
//   - Metering uses only plain instructions (global.get, i64.sub, load), no host calls and no
//     branches.
//   - Code with a slow or large translation is replaced by equivalent code: float results
//     (floats.go), references and bulk table instructions (function_references.go), trapping
//     truncations above a number per module (float_trunc.go), unused locals (locals.go), sparse
//     data (data.go), calls of env.gas (gas_import.go).
//
// Outline: check.Run validates the module and calls emitter.body with each body and its points.
// emitter.body copies the body and inserts the charges; assemble then writes the other sections.
// The contract's items keep their indices, because all added items come after them.
//
// Rejected: nearcore's own form, which calls the host when gas runs out and uses wide arithmetic.
// It is twice as large and slower to compile. Also rejected: metering inside the engine (wasmtime's
// fuel), which counts differently.
//
// # Metering
//
// When gas runs out, nearcore calls a host function. Here the gas global becomes negative and the
// module traps, by a load that is out of bounds if the sign bit is set (emitter.settle):
//
//	gas -= c; load memory[gas >> 63]
//
// At the entry of a function, the charges for its frame and for its first instructions are taken
// together. If the gas does not suffice for the first charge, only that one is taken, because
// nearcore takes one after the other.
//
// The engine sets GlobalGas before the call and reads it afterwards. A value of 0 or more is the
// gas left. A negative value means out of gas: limit - gas is what nearcore would have burnt with
// the charge that failed. A negative GlobalStack means that the metered stack is exhausted. Only
// these two cases make either global negative, and the module traps as soon as one is.
//
// Calls of env.gas are charges too (gas_import.go); old contracts use them to count their own
// instructions. NaNs are made canonical here, not by the engine (floats.go).
package prep
