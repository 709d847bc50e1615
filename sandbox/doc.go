// Package sandbox runs a private chain in this process, for tests of contracts. It needs no socket
// and no other process. Each test can have its own world: a chain that continues from a block of a
// parent chain, independently of the parent. A world is created in about a millisecond and has the
// complete state of its parent. Changes in a world are invisible to all other worlds. New and
// ForTest end with a test.
//
// The package contains a whole node. So it adds 98 modules and 418 lines of go.sum to a module that
// imports it, and the first build needs a C compiler and some four minutes of processor time.
// Package sandbox/external starts the program troupe instead and adds no module.
//
//	in      code and calls of contracts, transactions, time
//	out     outcomes with events and gas, results of views, traces, blocks; JSON-RPC by Serve
//	state   the first chain, in memory or in the folder Options.Dir; worlds are in memory only
//	units   amounts in yoctoNEAR, gas in units of gas, times and durations as in package time
//	bound   1,024 worlds at a time
//	errors  *CallError: a transaction or a view that failed on the chain;
//	        *primitives.InvalidTxError: an invalid transaction; ErrEnded, ErrNoAccount, ErrNoKey,
//	        ErrFork; *view.LookupError, *view.SandboxError
//	source  our own; the sandbox methods that it uses are described in docs/guide/sandbox.md
package sandbox
