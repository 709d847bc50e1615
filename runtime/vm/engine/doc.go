// Package engine runs prepared modules on wasmtime. It has no notion of gas prices, accounts or
// protocol versions.
//
//	in      Compile: instrumented wasm; Load: an artifact made by Compile; Run: a method, and the
//	        initial value of the module's gas global
//	out     the final value of the gas global and how the run ended; host calls to Host, with the
//	        memory and the current gas
//	units   gas as the module counts it; memory in bytes
//	bound   at most Slots concurrent runs in the process; further runs wait. Each run has an instance
//	        of its own, which is new or, with Call.Again, may be one that was reset. Limits of a run:
//	        128 MiB of memory, MaxElements elements of tables, MaxStack of native stack. MaxStack is
//	        a multiple of what the metered stack allows
//	errors  failures of a contract are in the Outcome. An error is the node's, or, from Compile, the
//	        code generator's
//	source  nearcore runtime/near-vm-runner/src/wasmtime_runner/mod.rs
//
// Winch makes the machine code, as in nearcore on amd64. Its time and its stack frames are linear
// in the code: see generator.go.
//
// The package has two implementations of one interface. Nodes run shim.go and shim.c, which call
// the C library that wasmtime's Go package links. public.go (build tag noshim) is the oracle in
// tests. It uses only that Go package and has no pool; it has 2 MiB of stack, and its host calls
// are about ten times slower. make check runs the tests of runtime/vm on both.
package engine
