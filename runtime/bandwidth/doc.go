// Package bandwidth divides the bandwidth between shards: bytes of receipts per height and link. A
// link is an ordered pair of a sending and a receiving shard.
//
//	in      Params; State of the previous height; a Status for each shard; the requests in the
//	        block's chunk headers; a seed
//	out     the next State, and Grants: the bytes that each link may carry
//	state   State, an allowance per link, in column 15 of every shard's trie. All shards run the
//	        same schedule, so they have the same State
//	units   bytes of borsh receipts
//	bound   time O(n² log n) per height for n shards, which have n² links. The request for a link
//	        selects from 40 sizes (NumValues)
//	errors  ErrParams: parameters that contradict each other; borsh.ErrInvalid from decoding a
//	        State
//	source  nearcore runtime/runtime/src/bandwidth_scheduler,
//	        core/primitives/src/bandwidth_scheduler.rs
//
// Every link gets a base grant without a request. A shard that needs more requests it in its chunk
// header. The scheduler serves requests of links with the largest allowance first and shuffles
// requests with equal allowances. The scheduler spreads the remaining bandwidth over the open
// links.
package bandwidth
