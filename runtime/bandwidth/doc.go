// Package bandwidth divides the bandwidth between shards: bytes of receipts per height and link.
//
//	in      Params; State of the previous height; a Status for each shard; the requests in the
//	        block's chunk headers; a seed
//	out     the next State, and Grants: bytes from each shard to each
//	state   State, an allowance per link, in column 15 of every shard's trie. All shards have the
//	        same State, as all run the same schedule
//	units   bytes of borsh receipts
//	bound   time O(n² log n) per height for n shards, which have n² links. The request for a link
//	        selects from 40 sizes (NumValues)
//	errors  ErrParams: parameters that contradict each other; borsh.ErrInvalid from decoding a
//	        State
//	source  nearcore runtime/runtime/src/bandwidth_scheduler,
//	        core/primitives/src/bandwidth_scheduler.rs
//
// Every link gets a base grant without a request. A shard that needs more requests it in its chunk
// header. Links that recently got less than their share are served first; ties are shuffled. The
// rest is spread over the open links.
package bandwidth
