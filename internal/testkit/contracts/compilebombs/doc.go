// Package compilebombs writes contracts that are hard to compile: known shapes, and those that a
// random search generates.
//
//	in      a Shape: how many functions, locals, operands, blocks, and which pieces of code their
//	        bodies repeat
//	out     wasm within the limits of config 86; package prep refuses a few shapes
//	state   none; equal shapes give equal bytes
//	bound   functions of 196,608 bytes; the module's size is not bounded
//	errors  none
//	source  how Cranelift's and Winch's time and memory grow: with operands and locals that are
//	        live across control flow joins, with floats
package compilebombs
