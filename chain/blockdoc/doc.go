// Package blockdoc decodes what feeds publish of blocks (nearcore's views, as in a StreamerMessage,
// neardata, a NEAR Lake bucket, or JSON-RPC responses), and verifies it against the hashes that it
// contains.
//
//	in      JSON of blocks and chunks; the code and the block hashes that the JSON lacks
//	out     a Document: block with chunk headers, transactions, receipts, outcomes; Check reports
//	        what of it is proven, and by which block
//	state   none in a Document; a Chain has the last two blocks and the producers of three epochs
//	units   those of package primitives
//	bound   MaxDocument bytes of JSON; maxUnsure receipts with several layouts to try; maxSearched
//	        and maxFlipped hashed bytes
//	errors  ErrForm: not such JSON; MismatchError: refuted by its own hashes, or those of the
//	        chain
//	source  nearcore core/primitives/src/views.rs, chain/indexer-primitives/src/lib.rs, the light
//	        client specification
//
// Every field is checked in one of two ways. What a hash covers is recomputed from the decoded
// values. What is redundant or constant is encoded again by package view and compared. No hash
// covers the rest (Uncovered): it must not be trusted, and a caller that needs it must get it in
// another way. docs/guide/follow.md lists it.
package blockdoc
