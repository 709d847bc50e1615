// Package compilebombs writes contracts that are made to be hard to compile: the shapes that were
// found so far, and any others that a search makes up.
//
//	in      a Shape: how many functions, locals, operands, blocks, and which pieces of code their
//	        bodies repeat
//	out     wasm that keeps the limits of config 86, or nearly: a few shapes are refused by
//	        package prep
//	state   none; equal shapes give equal bytes
//	bound   functions of 196,608 bytes, modules as large as they come out
//	errors  none
//	source  reviews of how Cranelift's and Winch's time and memory grow: with operands and locals
//	        that live over joints, with floats
package compilebombs
