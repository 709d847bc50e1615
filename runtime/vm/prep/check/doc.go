// Package check is the part of preparing a contract that all nodes must agree on: whether its
// module is valid and keeps nearcore's limits, what each instruction is charged and where, and the
// size of what nearcore compiles. Nothing here knows how a module is run; what package prep writes
// for that may change without a look at this one.
//
//	in      code as deployed, any bytes; config.Wasm (costs of instructions, limits)
//	out     Module and Body: plain results; CompileFails and LoadFails, what nearcore's engine
//	        refuses; Size
//	state   none; one Run runs in one goroutine and shares nothing
//	units   gas; stack bytes as finite-wasm counts them; offsets in bytes of the code
//	bound   time and memory linear in the code: a body is visited once
//	errors  *Error, which wraps its primitives.PrepareError; the first in nearcore's order
//	source  nearcore runtime/near-vm-runner/src/prepare/{prepare_v3,instrument_v3}.rs,
//	        features.rs; crates finite-wasm 0.6.1 (gas, max_stack) and wasmparser 0.228 (what is
//	        valid)
//
// # Order
//
// One pass in the order of the sections; every body is validated before any rule of the
// instrumentation (parameters, operand stack, blocks, an export's name) may fail, and the size of
// the result comes last. So a broken rule of the instrumentation is remembered and told only when
// the whole module has proved valid.
//
// # Metering
//
// Where gas is charged and how much is finite-wasm's analysis to the letter, for the charges are
// seen at every trap and host call. At the entry of a function its frame is charged (FrameGas) and
// then its first instructions; a call takes Frame and Operands off the metered stack, and gives
// them back when it returns.
//
// Size is that of nearcore's form, counted without writing it, because a limit stands on it.
package check
