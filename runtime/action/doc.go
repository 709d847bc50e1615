// Package action runs the actions of a receipt on one account.
//
//	in      a Block (what all receipts of a chunk share), a state.TrieUpdate, an action receipt with
//	        all of its inputs
//	out     Result: gas, compute, return value or error, logs, new receipts, proposals, burnt
//	        tokens; prospective writes
//	state   Execution: one receipt at a time. The caller writes the account if the receipt succeeds
//	units   gas; compute (parameters.Compute); yoctoNEAR; bytes
//	bound   100 actions a receipt; contracts by their attached gas
//	errors  state.ErrInconsistent, primitives.ErrOverflow: the chunk cannot be applied. Failures
//	        of actions are results
//	source  nearcore runtime/runtime/src: lib.rs, actions.rs, access_keys.rs, global_contracts.rs,
//	        deterministic_account_id.rs, function_call.rs, receipt_manager.rs, ext.rs
//
// Contracts run through the interface VM. Without a VM, a call that would run code fails with a
// compilation error that says so.
package action
