// Package txlog writes the transactions that a node executes to a terminal, as text.
//
//	in      accepted blocks of the node, on the chain's goroutine
//	out     for each transaction that has executed: a line, and below it the logs and failures of
//	        its receipts; a line for blocks that are no longer canonical, and for lost transactions
//	state   a queue of blocks; the transactions with receipts that have not run yet
//	units   heights in blocks, gas in Tgas
//	bound   Options.Queue bytes in the queue; maxOpen transactions that have not ended, which with
//	        their receipts hold maxHeld bytes; maxCanonical and maxSide recent blocks. When the
//	        queue is full, blocks are dropped and counted; when transactions hold too much, the
//	        oldest are dropped
//	errors  none: after a failed write nothing more is written
//	source  our own; the order of outcomes is that of nearcore runtime/runtime/src/lib.rs
package txlog
