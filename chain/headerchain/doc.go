// Package headerchain follows a chain by its headers alone: which are valid, which is the head, what the epochs come to. It needs neither
// bodies nor states, and so may be far ahead of what was executed.
//
//	in      Add: a header whose parent is known, as it comes
//	out     Added: what the store was given: the header, its BlockInfo, the Merkle tree before it, what it adds to the epochs
//	state   Chain: the head, the final header, the epoch manager's caches; all rows are the Store's
//	units   heights in blocks
//	bound   MaxTwins headers of one height (MaxNamed, if a header that builds on it is at hand); MaxUnfinal above the final one
//	errors  chain.Invalid: the header is bad; ErrOrphan, ErrOld, ErrKnown, ErrTwin, ErrFull: nobody's fault; all others: the store's
//	source  nearcore chain/chain/src/chain.rs sync_block_headers, validate_header
//
// What is not checked here, because it stands in the body: the chunk headers and all roots over them, the random value, gas price and
// supply, the shard to split, who endorsed which chunk. More than two thirds of the stake approve of a header before the next one is
// valid, and epochs that rest on headers are judged again with their bodies.
package headerchain
