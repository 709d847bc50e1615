// Package sandbox runs a chain of one's own in this process, for tests of contracts: no socket, no
// other process, and as many worlds as there are tests. A world is a chain that goes on from
// another one, in its own way: made in about a millisecond, with everything the other had, and
// invisible to others.
//
//	in      code and calls of contracts, transactions, time
//	out     outcomes, results of views, blocks
//	state   a folder with the first chain, by default a temporary one; worlds are in memory alone
//	units   amounts in yoctoNEAR, gas in units of gas, times as Go has them
//	bound   1,024 worlds at a time
//	errors  *CallError: a transaction or a view that failed on the chain;
//	        *primitives.InvalidTxError: one that the chain refuses
//	source  our own; what it does to the chain are the methods of docs/guide/sandbox.md
package sandbox
