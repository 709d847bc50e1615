// Package engine is the chain of one node without actors: it combines the rules (chain), the
// execution (runtime) and the persistence (storage) into a synchronous core. Actors, replay,
// benchmarks and the simulator drive the same code.
//
//	in      a genesis, blocks with their chunks, keys to produce new ones
//	out     imported blocks (BlockNode), new chunks and blocks, views for readers,
//	        state proofs of chunks (Transition)
//	state   the block tree from the flat head up, one trie forest a shard, the epoch manager
//	units   heights in blocks, times in ns since 1970
//	bound   the block tree: blocks above the flat head, on all branches; forests: what their
//	        roots share; MaxAhead blocks that are not on disk, checked by the caller;
//	        Options.ProofBytes of proofs
//	errors  VerdictOf says which side is at fault: chain.Invalid and ErrChunk for invalid
//	        blocks; ErrOrphan, ErrMissing, ErrKnown and ErrOld for no one; every other error
//	        is fatal to the node
//	source  nearcore chain/chain/src/chain.rs, chain/client/src/client.rs
//
// One goroutine changes an Engine. BeginImport splits the work of a block into Jobs, one a shard,
// that may run anywhere. FinishImport joins them and adds the block to the in-memory chain; the
// next block may be begun on it while another goroutine persists it (block_commit_pipeline.go).
// Commit is FinishImport that waits for the disk. Readers see only what is on disk and retain what
// they read (BlockNode.Acquire).
package engine
