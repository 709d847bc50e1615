// Package check is the part of contract preparation that all nodes must agree on: whether a module
// is valid and within nearcore's limits, where and how much gas is charged, and the size of
// nearcore's instrumented module. It does not depend on how a module is run, so the output of package
// prep can change without a change here.
//
//	in      code as deployed, any bytes; parameters.Wasm (costs of instructions, limits)
//	out     Module and Body: plain results; CompileFails and LoadFails: rejected by nearcore's engine;
//	        Size
//	state   none; one Run uses one goroutine and shares nothing
//	units   gas; stack bytes as finite-wasm counts them; offsets in bytes of the code
//	bound   time and memory linear in the code: a body is visited once
//	errors  *Error, which wraps its primitives.PrepareError; the first one in nearcore's order
//	source  nearcore runtime/near-vm-runner/src/prepare/{prepare_v3,instrument_v3}.rs,
//	        features.rs; crates finite-wasm 0.6.1 (gas, max_stack) and wasmparser 0.228 (validity)
//
// # Order
//
// Run makes one pass, in the order of the sections. nearcore validates the whole module before it
// instruments it, and the instrumentation has rules of its own (parameters, operand stack, blocks,
// an export's name). So Run remembers a broken rule of the instrumentation and returns it only
// after the whole module has proved valid. The size of the result is checked last.
//
// # Metering
//
// Positions and amounts of charges are exactly those of finite-wasm's analysis, because contracts
// can observe them at every trap and host call. At the entry of a function, its frame is charged
// (FrameGas), then its first instructions. A call takes Frame and Operands from the metered stack
// and returns them at its end.
//
// Size is the size of nearcore's instrumented module, which has a limit. It is computed without
// writing that module.
package check
