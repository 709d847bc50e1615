// Package prep makes a contract's module ready to run: what package check has found good is written
// again with gas and stack metering inside.
//
//	in      code as deployed, any bytes; config.Wasm (costs of instructions, limits)
//	out     Module: instrumented wasm, imports, methods, and check's verdicts
//	state   none; one Prepare runs in one goroutine and shares nothing
//	units   gas; stack bytes as finite-wasm counts them
//	bound   time and memory linear in the code; what is written is so too, and what Winch does
//	        with it is linear in that times the operands that a function may have at a time, of
//	        which nearcore allows 8 KB
//	errors  *check.Error
//	source  package check for what is charged where; how it is written is ours
//
// # Metering
//
// nearcore calls a host function when gas runs out, we leave a negative gas global and trap, by a
// load that is out of bounds if the sign is set (emitter.settle):
//
//	gas -= c; load memory[gas >> 63]
//
// At the entry of a function the charge of its frame and that of its first instructions are taken
// together, but where the first fails it alone is taken, as nearcore charges them one after the
// other.
//
// The engine sets GlobalGas before the call and reads it after it. Not negative: what is left.
// Negative: out of gas, and limit - gas is what nearcore would have burnt with the charge that
// failed. A negative GlobalStack means that the metered stack was exhausted. Nothing else makes
// either negative, and each traps at once.
//
// Calls of env.gas, by which contracts of old count their instructions themselves, are charges too:
// see gas.go. Floats that are no numbers are made canonical here, not by the engine: see floats.go.
package prep
