// Package blockpool keeps received blocks until they can be judged, and says which is next: what waits for its parent, what for the
// bodies of its chunks, what was refused before.
//
//	in      Block: received, with what could be judged of it at once; a chunk's body by itself; what became of a block
//	out     Next: the block to be judged; Out: parents and bodies to be asked for; blocks to be looked at again
//	state   Pool: blocks by hash and by parent, bodies by chunk hash, which blocks a producer has made of one height, refusals
//	units   heights in blocks, sizes in bytes, times in ns
//	bound   MaxBlocks and MaxBlockBytes, of these MaxTwins of one height and producer that may lead somewhere; MaxStrangers of unknown epochs, MaxEach of
//	        one sender; MaxBodies and MaxBodyBytes; MaxRefused
//	errors  ErrRefused: the block is bad, and so is who sends it; ErrFar, ErrTwin, ErrFull, ErrStale, ErrUnwanted: it is dropped
//	source  our own; nearcore keeps orphans in chain/chain/src/orphan.rs, missing chunks in chain/chain/src/missing_chunks.rs
//
// What is kept was signed by the producer of its height, as far as its epoch is known, so that who fills the pool has to be a
// validator, and gets MaxTwins places of each height that is his. When there is no room what is farthest from the tip goes. So
// the blocks that come next always find room, whatever others send. What is dropped is no harm: whoever builds on it has it asked
// for again.
package blockpool
