// Package primitives defines the values of the protocol and their encodings: hashes, account ids,
// keys, transactions, receipts, outcomes, headers, blocks, chunks and approvals.
//
//	in      bytes (DecodeBorsh), text (Parse...), or Go values
//	out     bytes (AppendBorsh), text (String), hashes and ids
//	units   Balance in yoctoNEAR (u128), Gas, Height in blocks, times in nanoseconds since 1970
//	bound   decoders allocate no more than the input's length justifies
//	errors  borsh.ErrInvalid for bytes; Parse... functions have nearcore's texts
//	source  nearcore f0c7706f1 core/primitives, core/primitives-core, core/crypto
//
// Values are immutable once they have been passed on.
package primitives
