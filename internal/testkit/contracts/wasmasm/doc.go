// Package wasmasm writes WebAssembly modules: well-formed ones with names and labels, and invalid
// ones byte by byte.
//
//	in      the items of a module: imports, functions with their code, memory, tables, globals,
//	        segments
//	out     the binary form, equal to that of the reference text-to-binary translator (same order,
//	        shortest integers)
//	state   a Module and the Code of its functions, until Encode
//	units   sizes of memories in pages of 64 KiB, offsets in bytes
//	bound   none, since tests need modules that are too large
//	errors  a branch to a label that is not open, or a body that does not close its blocks, panics
//	source  the binary format of WebAssembly 2.0, its appendix on names
//
// Nothing is validated, so that tests can write invalid modules.
package wasmasm
