// Package prep makes a contract's module ready to run: it checks what nearcore checks, in its order, and writes the
// module again with gas and stack metering inside.
//
//	in      code as deployed, any bytes; config.Wasm (costs of instructions, limits)
//	out     Module: instrumented wasm, imports, methods, what the engine may not decide (CompileFails, LoadFails), Size
//	state   none; one Prepare runs in one goroutine and shares nothing
//	units   gas; stack bytes as finite-wasm counts them; offsets in bytes of the code
//	bound   time and memory linear in the code: a body is visited once, its instrumented form is dropped when the
//	        module grows over MaxInstrumentedCodeSize
//	errors  *Error, which wraps its primitives.PrepareError; the first in nearcore's order
//	source  nearcore runtime/near-vm-runner/src/prepare/{prepare_v3,instrument_v3}.rs, features.rs; crates finite-wasm 0.6.1
//	        (gas, max_stack) and wasmparser 0.228 (what is valid)
//
// # Order
//
// One pass in the order of the sections; every body is validated before any rule of the instrumentation (parameters,
// operand stack, blocks, an export's name) may fail, and the size of the result comes last. So a broken rule of the
// instrumentation is remembered and told only when the whole module has proved valid.
//
// # Metering
//
// Where gas is charged and how much is finite-wasm's analysis to the letter, for the charges are seen at every trap and
// host call. How the charge is written is ours: nearcore calls a host function when gas runs out, we leave a negative
// gas global and trap, by a load that is out of bounds if the sign is set (emitter.settle):
//
//	gas -= c; load memory[gas >> 63]
//
// At the entry of a function the charge of its frame and that of its first instructions are taken together, but where the
// first fails it alone is taken, as nearcore charges them one after the other.
//
// Calls of env.gas, by which contracts of old count their instructions themselves, are charges too: see gas.go.
//
// The engine sets GlobalGas before the call and reads it after it. Not negative: what is left. Negative: out of gas, and
// limit - gas is what nearcore would have burnt with the charge that failed. A negative GlobalStack means that the
// metered stack was exhausted. Nothing else makes either negative, and each traps at once.
//
// Size is that of nearcore's form, counted without writing it, because a limit stands on it.
package prep
