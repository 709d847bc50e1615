// Package optimistic validates optimistic blocks and collects them with the chunks that they are to
// include. An optimistic block has those fields of the next block that determine, together with the
// chunks, how the chunks are applied. Its producer sends it as soon as the parent is known, so that
// nodes can apply the chunks before the block arrives.
//
//	in      AddBlock, AddOrphan: an optimistic block; AddChunk: a complete chunk; Final: the height
//	        of the last final block
//	out     Ready: an optimistic block with all chunks on the same parent; TakeOrphan
//	state   Pool: optimistic blocks and chunks by parent; the height that was taken last
//	units   heights in blocks, times in ns since 1970
//	bound   MaxBlocks and MaxOrphans optimistic blocks, chunks on MaxParents parents
//	errors  Validate returns the errors of package chain
//	source  nearcore core/primitives/src/optimistic_block.rs, chain/chain/src/missing_chunks.rs
//	        (OptimisticBlockChunksPool), chain/chain/src/orphan.rs (optimistic_orphans)
//
// A wrong or missing optimistic block costs only time: the results are used only for a block that
// determines the same input.
package optimistic
