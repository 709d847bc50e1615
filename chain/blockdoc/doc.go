// Package blockdoc decodes blocks as feeds publish them (nearcore's views, as in a StreamerMessage,
// neardata, a NEAR Lake bucket, or JSON-RPC responses), and verifies them by the hashes that they
// contain.
//
//	in      JSON of blocks and chunks; code and block hashes that the JSON lacks
//	out     Document: block with chunk headers, transactions, receipts, outcomes; Check reports
//	        which data is proven, and by which block
//	state   none in a Document; a Chain has the last two blocks and the producers of three epochs
//	units   those of package primitives
//	bound   MaxDocument bytes of JSON; maxUnsure receipts whose layouts are tried; maxSearched and
//	        maxFlipped bytes that are hashed in such searches
//	errors  ErrForm: not such JSON; MismatchError: the hashes in the JSON or of the chain contradict the data;
//	        ErrLacks: data is missing
//	source  nearcore core/primitives/src/views.rs, chain/indexer-primitives/src/lib.rs, the light
//	        client specification
//
// Fields are checked in one of two ways. Data that a hash covers is decoded and hashed again. Data
// that is redundant or constant is encoded again by package view and compared with the document's
// JSON. The remaining fields (Uncovered) cannot be checked, so callers must not trust them.
// docs/guide/follow.md lists them.
package blockdoc
