// Package action runs the actions of a receipt on one account.
//
//	in      a Block (what holds for a whole chunk), a state.TrieUpdate, an action receipt whose
//	        inputs have arrived
//	out     Result: gas, compute, return value or error, logs, new receipts, proposals, what is
//	        burnt; prospective writes
//	state   Execution: one receipt at a time; the account is written by the caller, if the receipt
//	        does not fail
//	units   gas; compute (config.Compute); yoctoNEAR; bytes
//	bound   100 actions a receipt; contracts by the gas they come with
//	errors  state.ErrInconsistent, primitives.ErrOverflow: the chunk cannot be applied; failures
//	        of actions are results
//	source  nearcore runtime/runtime/src: lib.rs, actions.rs, access_keys.rs, global_contracts.rs,
//	        deterministic_account_id.rs, function_call.rs, receipt_manager.rs, ext.rs
//
// Contracts run behind the interface VM. Without one, a call that would run code fails as a
// compilation error that says so.
package action
