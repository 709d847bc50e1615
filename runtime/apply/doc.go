// Package apply executes a chunk: its transactions and receipts on the state of a shard.
//
//	in      Input: a state.Trie, the block's context, the chunk's transactions, the incoming
//	        receipts in order
//	out     Result: the new trie, outcomes, outgoing receipts, congestion info, bandwidth requests,
//	        proposals, changes with causes
//	state   none; equal inputs give equal results on every machine, whether or not receipts ran in
//	        parallel
//	units   gas, compute, yoctoNEAR, bytes; block heights
//	bound   the chunk's gas limit (as compute), 4 MB of recorded state; receipts beyond are delayed
//	errors  ErrInput, state.ErrInconsistent, primitives.ErrOverflow,
//	        *primitives.ReceiptValidationError of an incoming receipt: the chunk cannot be
//	        applied. Failures of transactions and receipts are in their outcomes
//	source  nearcore runtime/runtime/src/lib.rs, congestion_control.rs,
//	        chain/chain/src/runtime/mod.rs
//
// The order of the steps in Apply is part of consensus.
package apply
