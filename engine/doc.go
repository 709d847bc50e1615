// Package engine is the chain of one node without actors. It combines the rules (chain), the
// execution (runtime) and the persistence (storage) into a synchronous core. Actors, replay,
// benchmarks and the simulator use the same code.
//
//	in      a genesis, blocks with their chunks, keys to produce new ones
//	out     imported blocks (BlockNode), new chunks and blocks, views for readers, state
//	        proofs of chunks (Transition)
//	state   the block tree above the flat head, one trie forest for each shard, the epoch
//	        manager
//	units   heights in blocks, times in ns since 1970
//	bound   the block tree: blocks above the flat head, on all branches; forests: what their
//	        roots share; blocks that are not on disk: MaxAhead, which the caller checks; proofs:
//	        Options.ProofBytes
//	errors  VerdictOf classifies them: chain.Invalid and ErrChunk mean that a block is invalid;
//	        ErrOrphan, ErrMissing, ErrKnown and ErrOld that it cannot be imported now or any
//	        more; every other error is fatal for the node
//	source  nearcore chain/chain/src/chain.rs, chain/client/src/client.rs
//
// One goroutine changes an Engine. BeginImport splits the work of a block into one Job for each
// shard, which may run on any goroutine. FinishImport takes the results and adds the block to the
// in-memory chain; the next block can be imported on it while another goroutine persists it
// (block_commit_pipeline.go). Commit is FinishImport that waits for the disk. Readers see only what
// is on disk, and hold what they read (BlockNode.Acquire).
//
// In comments, a shard is "held" if this node has its state. A block's states are "held" while
// BlockNode.Acquire keeps them in memory.
package engine
