// Package stream says what there is to tell of a block to those who follow the chain: the message
// of nearcore's indexer framework, and the single things of which subscribers are told.
//
//	in      Block: a block with what its chunks did
//	out     AppendMessage: StreamerMessage as JSON in the order of nearcore's structs; Digest:
//	        outcomes, events and transactions of a block, each encoded once for all who are told
//	        of it
//	state   none
//	units   as package primitives has them
//	bound   a message as large as the block's transactions, receipts and changes; a Digest as
//	        large as its outcomes
//	errors  ErrReceipt: a receipt that was executed is not at hand
//	source  nearcore chain/indexer/src/streamer/mod.rs, chain/indexer-primitives/src/lib.rs,
//	        core/primitives/src/views.rs; NEP-297
package stream
