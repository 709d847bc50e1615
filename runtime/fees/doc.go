// Package fees computes what transactions and receipts cost: gas, compute, and the tokens that pay
// for it.
//
//	in      a config.RuntimeConfig, actions, accounts, a gas price
//	out     Send, Exec and their totals; TxCost: what signing a transaction takes; Settle: what a
//	        finished receipt gives back; ReceiptGas: what a waiting receipt weighs for congestion
//	state   none
//	units   gas; compute (config.Compute); yoctoNEAR; prices in yoctoNEAR per gas; lengths in
//	        bytes
//	bound   linear in the number of actions, delegates' inner ones counted; no allocation
//	errors  ErrOverflow: a sum or product does not fit, which nearcore reports as CostOverflow for
//	        transactions
//	source  nearcore runtime/runtime/src/config.rs, core/parameters/src/cost.rs:722,
//	        runtime/runtime/src/lib.rs:1151
//
// Fees are fixed by the action's bytes alone, not by what it finds when it runs: a transfer to an
// implicit account pays for creating it even when it exists.
package fees
