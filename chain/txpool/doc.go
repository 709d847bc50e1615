// Package txpool contains the pending transactions of one shard.
//
//	in      Add: a checked transaction with the height of the block it refers to; Remove:
//	        included by a block; Advance: height of the head
//	out     Round: the transactions in the order in which a chunk takes them
//	state   Pool: by hash, by key in nonce order, by age; Queue: submissions that wait for
//	        their check
//	units   sizes in bytes of the encoding with its signature, ages in blocks
//	bound   Limits, in number and bytes, for all and for one key; every step is O(log n); one
//	        Round at a time
//	errors  ErrFull, ErrBytes, ErrKeyFull, ErrExpired, *NonceTaken: the transaction was not
//	        added and nothing changed
//	source  nearcore chain/pool/src/lib.rs, chain/chain/src/runtime/mod.rs:880
//
// # Admission
//
// A submission waits in a Queue for its check, which reads state and verifies a signature. The
// queue is fair between clients: a client that floods it delays and loses only its own
// submissions. After the check, Pool.Add accepts the transaction or returns the limit that
// rejected it. A full pool rejects new transactions and evicts none, so that no fee or sender can
// displace a stored transaction. Advance removes expired transactions first.
//
// # Rounds
//
// Problem: a chunk takes transactions until one of its limits is reached. Only the code that
// produces the chunk knows when that is. Order and fairness must not depend on account names, and a
// small chunk must not require a walk over a large pool.
//
// Invariants:
//   - Transactions of one signer, key and nonce index form a group. A group is walked by ascending
//     nonce.
//   - Groups are walked round robin in the order of a seeded hash, starting after the group used
//     last. Each visit takes one accepted transaction. So no choice of account names gives an
//     advantage.
//   - A transaction that a round keeps stays in the pool until a block includes it. If no block
//     includes the chunk, the next round offers the transaction again.
//   - The pool may change during a round. A removed transaction is no longer offered.
//
// Outline:
//
//	r := pool.Round()
//	for r.Next() {                 // a group with transactions left
//		tx := r.Peek()             // the lowest nonce of the group
//		r.Keep(tx)                 // or r.Drop(tx) and Peek again, or go on without it
//	}
//	r.End()
//
// A group that is left without Keep or Drop has a nonce gap and is not visited again in the
// round. The order across groups is no part of consensus.
//
// Rejected: ordering by price. Transactions contain no price. Rejected: storing several
// transactions with one nonce, as nearcore does. Only one of them can run; this pool keeps the
// first.
package txpool
