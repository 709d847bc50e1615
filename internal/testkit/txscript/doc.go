// Package txscript executes scripts of transactions on small chains and reports all results of each:
// receipts with their ids and outcomes, gas, burnt tokens, logs, refunds.
//
//	in      lines of a script: sender, receiver and actions; a VM
//	out     trees of receipts as text
//	state   a chain in memory, all outcomes and receipts since its genesis
//	units   gas, yoctoNEAR; T is 10^12 gas, N is 10^24 yoctoNEAR
//	bound   a script's transactions run until nothing new happens for four blocks, at most 1,000
//	        blocks
//	errors  those of the engine; ErrSupply if the tokens after a block do not add up
//	source  our own
//
// After every block the tokens in accounts, receipts and queues are added up and compared with the
// header's supply.
package txscript
