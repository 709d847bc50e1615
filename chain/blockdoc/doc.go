// Package blockdoc reads what feeds tell of blocks (nearcore's views, as a StreamerMessage, neardata, a NEAR Lake bucket or replies of
// JSON-RPC have them) back into values, and holds it to the hashes that it names.
//
//	in      JSON of blocks and chunks; the code and the block hashes that the JSON lacks
//	out     a Document: block with chunk headers, transactions, receipts, outcomes; Check says what of it is proven, and by what
//	state   none in a Document; a Chain has the last two blocks, and who makes blocks in three epochs
//	units   as package primitives has them
//	bound   MaxDocument bytes of JSON; maxUnsure receipts whose layout is tried
//	errors  ErrForm: it is no such JSON; a Lie: it says something that its own hashes, or the chain's, refute
//	source  nearcore core/primitives/src/views.rs, chain/indexer-primitives/src/lib.rs, the light client's specification
//
// A document can be wrong in three ways. What a hash covers is recomputed from the values. What stands there twice, or is a constant, is
// written again by package view and compared. The rest no hash covers (Uncovered): it is not believed, and who needs it must come to it in
// another way. docs/guide/follow.md has the list.
package blockdoc
