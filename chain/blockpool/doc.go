// Package blockpool holds received blocks until they can be validated: blocks that wait for their
// parent, blocks that wait for chunk bodies, and blocks of epochs that this node does not know yet.
// It also remembers which blocks were invalid.
//
//	in      Add: a received block and the checks that it passed; AddBody: a chunk body
//	        without its block; the result of validating or importing a block
//	out     Next: the block to validate; Out: parents and chunk bodies to request; blocks to add
//	        again
//	state   Pool: blocks by hash and by parent, bodies by chunk hash, the blocks of each producer
//	        and height, hashes of invalid blocks. Counters: orphans, for metrics
//	units   heights in blocks, sizes in bytes, times in ns
//	bound   MaxBlocks and MaxBlockBytes, of these MaxEquivocating for one height and producer;
//	        MaxUnknownEpoch of unknown epochs, of these MaxEach from one sender; MaxBodies and
//	        MaxBodyBytes; MaxRefused
//	errors  ErrRefused: the block is invalid, and the sender may be penalised; ErrFar, ErrFull,
//	        ErrEquivocating, ErrStale, ErrUnwanted: the block or body is dropped, without blame
//	source  our own; nearcore keeps orphans in chain/chain/src/orphan.rs, missing chunks in
//	        chain/chain/src/missing_chunks.rs
//
// See Pool for the design.
package blockpool
