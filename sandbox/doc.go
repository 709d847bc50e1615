// Package sandbox runs a private chain in this process, for tests of contracts. It needs no socket
// and no other process. Each test can have its own world: a chain that continues from another one
// independently of it. A world is created in about a millisecond, has the complete state of its
// parent, and its changes are invisible to other worlds.
//
//	in      code and calls of contracts, transactions, time
//	out     outcomes, results of views, blocks
//	state   a folder with the first chain, by default a temporary one; worlds are in memory only
//	units   amounts in yoctoNEAR, gas in units of gas, times and durations as in package time
//	bound   1,024 worlds at a time
//	errors  *CallError: a transaction or a view that failed on the chain;
//	        *primitives.InvalidTxError: an invalid transaction
//	source  our own; the sandbox methods that it uses are described in docs/guide/sandbox.md
package sandbox
