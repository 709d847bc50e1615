// Package fees computes what transactions and receipts cost: gas, compute, and the tokens that pay
// for it.
//
//	in      a parameters.RuntimeConfig, actions, accounts, a gas price
//	out     Send, Exec and their totals; TxCost: the cost of a signed transaction; Settle: refunds
//	        and burnt tokens of an executed receipt; ReceiptGas: the gas with which congestion
//	        control counts a queued receipt
//	state   none
//	units   gas; compute (parameters.Compute); yoctoNEAR; prices in yoctoNEAR per gas; lengths in
//	        bytes
//	bound   linear in the number of actions, including inner actions of delegates; no allocation
//	errors  ErrOverflow: a sum or product does not fit. nearcore reports it as CostOverflow for
//	        transactions
//	source  nearcore runtime/runtime/src/config.rs, core/parameters/src/cost.rs:722,
//	        runtime/runtime/src/lib.rs:1151
//
// Fees depend only on the bytes of an action, not on the state in which the action runs. For
// example, a transfer to an implicit account pays for creating the account even if the account
// exists.
package fees
