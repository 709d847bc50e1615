// Package bandwidth divides what shards may send each other, in bytes of receipts per height.
//
//	in      Params; State of the height before; a Status for each shard; the requests in the
//	        block's chunk headers; a seed
//	out     the next State, and Grants: bytes from each shard to each
//	state   State, an allowance per link, in column 15 of every shard's trie: equal on all, as all
//	        run the same
//	units   bytes of borsh receipts
//	bound   O(n² log n) links and requests, n shards; requests have 40 steps
//	errors  ErrParams: parameters that contradict each other; borsh.ErrInvalid from decoding a
//	        State
//	source  nearcore runtime/runtime/src/bandwidth_scheduler,
//	        core/primitives/src/bandwidth_scheduler.rs
//
// Each shard gets a base on every link unasked. Who wants more asks for it in its chunk header;
// links that lately got less than their share come first, ties are shuffled. What is then left is
// spread over the links that are open.
package bandwidth
