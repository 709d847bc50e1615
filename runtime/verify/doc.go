// Package verify decides whether transactions, actions and receipts are valid, and what a
// transaction charges its signer.
//
//	in      a parameters.RuntimeConfig, the value to check, and the signer's account, access key and
//	        gas key nonce
//	out     nil, or nearcore's error for it; Charge: a Verdict with the signer's new balances and
//	        nonces
//	state   none; arguments are not changed, except by Charges.Apply
//	units   gas, yoctoNEAR, bytes, heights in blocks
//	bound   linear in the size of the transaction or receipt; the signature check dominates
//	errors  *primitives.InvalidTxError, *primitives.ActionsValidationError,
//	        *primitives.ReceiptValidationError: typed pointers, to be compared with nil before
//	        they become an error
//	source  nearcore runtime/runtime/src/{verifier,action_validation}.rs,
//	        core/primitives/src/transaction.rs:302
//
// The order of the checks decides which error an outcome carries, so it is nearcore's. A chunk's
// transaction passes Validity, Transaction, Cost, MissingSigner, Charge. A submitted transaction
// passes Validity, the congestion check of the receiver's shard (package runtime/congestion),
// Transaction, and then CanCharge with the state of the head.
package verify
