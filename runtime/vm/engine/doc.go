// Package engine runs prepared modules on wasmtime, and knows nothing of gas, accounts or
// protocols.
//
//	in      Compile: instrumented wasm; Load: an artifact that Compile made; Run: a method, gas
//	        for the module's gas global
//	out     the gas global at the end and how the run ended; host calls to Host, with the memory
//	        and the gas of the moment
//	units   gas as the module counts it; memory in bytes
//	bound   Slots runs at a time in the process; a run has a fresh instance, or with Call.Again
//	        one that was set back: 128 MiB, tables, MaxStack of native stack, a multiple of what
//	        the metered one allows
//	errors  what a contract does is in the Outcome; an error is the node's fault (or, from
//	        Compile, of the code generator)
//	source  nearcore runtime/near-vm-runner/src/wasmtime_runner/mod.rs; reference/vm.md C, D
//
// Machine code is made by the generator that nearcore has on amd64, Winch, whose work and frames
// are linear in the code: see generator.go. The engine is shim.go and shim.c, which speak to the C
// library that wasmtime's Go package links. Behind the same interface there is its oracle,
// public.go, with the build tag noshim: it uses that package alone and no pool, has 2 MiB of stack,
// and is some ten times slower a host call. Nodes run the first only; make check runs the tests of
// runtime/vm on both.
package engine
