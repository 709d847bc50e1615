// Package stream encodes the data that followers of a chain receive for each block: the message of
// nearcore's indexer framework, and the notices of subscriptions.
//
//	in      Block: a block with the results of its chunks
//	out     AppendMessage: StreamerMessage as JSON in the order of nearcore's structs; Digest:
//	        outcomes, events and transactions of a block, each encoded once for all subscribers
//	state   none
//	units   as in package primitives
//	bound   a message as large as the block's transactions, receipts and changes; a Digest as
//	        large as its outcomes
//	errors  ErrReceipt: an executed receipt is missing
//	source  nearcore chain/indexer/src/streamer/mod.rs, chain/indexer-primitives/src/lib.rs,
//	        core/primitives/src/views.rs; NEP-297
package stream
