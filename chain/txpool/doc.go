// Package txpool keeps one shard's transactions that wait for a chunk.
//
//	in      Add, Return: a transaction already checked, with the height of the block it refers to; Remove: what a block
//	        included; Advance: the head's height
//	out     Round: the transactions in the order in which a chunk takes them
//	state   Pool: by hash, by key in nonce order, by age
//	units   sizes in bytes of the encoding with its signature, ages in blocks
//	bound   Limits, in number and bytes, of all and of one key; every step O(log n); one Round at a time
//	errors  ErrFull, ErrBytes, ErrKeyFull, ErrExpired, *NonceTaken: the transaction was not taken and nothing changed
//	source  nearcore chain/pool/src/lib.rs, chain/chain/src/runtime/mod.rs:880
//
// Transactions of one signer, key and nonce index are a group, walked by ascending nonce. Groups are walked round robin in
// the order of a seeded hash, beginning after the last one used, one accepted transaction a visit, so that nobody's place
// can be bought by choosing names. The order across groups is no part of consensus.
//
// Unlike nearcore's, a group holds one transaction for each nonce: the first stays, since of two only one can run.
package txpool
