// Package headerchain follows a chain by its headers alone. A Chain determines which headers are
// valid, which header is the head, and which epochs follow from the headers. A Chain needs neither
// block bodies nor states, so it can be far ahead of the executed blocks.
//
//	in      Add: headers, parents before their children; Jump, Take: an epoch sync proof
//	out     Added: what was stored: the header, its BlockInfo, the block Merkle tree before it,
//	        the epoch changes
//	state   Chain: head, final header, the epoch manager's caches; all rows are in the Store
//	units   heights in blocks; times in ns since 1970
//	bound   MaxEquivocating headers of one height (MaxNamed if the caller has a child); MaxUnfinal
//	        above the final one
//	errors  chain.Invalid: the header is invalid; ErrOrphan, ErrOld, ErrKnown, ErrEquivocating,
//	        ErrFull: it is not stored, which is not the sender's fault; others: those of the Store
//	source  nearcore chain/chain/src/chain.rs sync_block_headers, validate_header
//
// Some data cannot be checked without the body: chunk headers and all roots over them, the random
// value, gas price, supply, the shard to split, and chunk endorsements. But the next valid header
// contains approvals of the header by more than two thirds of the stake. Blocks are validated in
// full when their bodies arrive.
package headerchain
