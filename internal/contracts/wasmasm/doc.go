// Package wasm writes WebAssembly modules: well-formed ones by names and labels, and any others
// byte by byte.
//
//	in      what a module has: imports, functions with their code, memory, tables, globals,
//	        segments
//	out     the binary form, as the reference text-to-binary translator writes it (same order,
//	        shortest integers)
//	state   a Module and the Code of its functions, until Encode
//	units   sizes of memories in pages of 64 KiB, offsets in bytes
//	bound   none: it is for tests, and some modules are to be too large
//	errors  a branch to a label that is not open, or a body that does not close its blocks, panics
//	source  the binary format of WebAssembly 2.0, its appendix on names
//
// Nothing is validated: what is wrong on purpose is written as it was asked for.
package wasmasm
