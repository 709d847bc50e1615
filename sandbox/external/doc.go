// Package external runs a sandbox in a process of the program troupe, and controls it over
// JSON-RPC. Package external imports the standard library only, so it adds no module to a test's
// go.mod and builds in a second without a C compiler. Package sandbox runs the chain inside the
// test's own process; package sandbox needs no program, has more functions than external, and
// brings the dependencies of a whole node: 98 modules and 418 lines of go.sum.
//
//	in      the program (TROUPE_BIN, else troupe in PATH); code and calls of contracts, transactions
//	out     outcomes, results of views; URL and keys for other clients
//	state   in the started process, the child. The child ends, and removes its chain, on Close or
//	        when the process that uses this package ends
//	units   amounts in yoctoNEAR, gas in units of gas
//	bound   replies of 64 MiB; the last 50 lines that the child has printed
//	errors  ErrNoProgram, ErrEnded, ErrNoKey; *RPCError: the node refuses; *CallError: a transaction
//	        or a view failed on the chain
//	source  our own; nearcore core/primitives/src/transaction.rs for the encoding of transactions
package external
