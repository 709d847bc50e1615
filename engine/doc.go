// Package engine is one node's chain without mailboxes: it binds the rules (chain), the execution (runtime) and what lasts
// (storage) into a synchronous core. Actors, replay, benchmarks and simulation drive the same code.
//
//	in      a genesis, blocks with their chunks, keys to make new ones with
//	out     accepted blocks (Entry), new chunks and blocks, snapshots for readers, what proves a chunk (Transition)
//	state   the entries of blocks from the folded one up, a trie forest a shard, the epoch manager
//	units   heights in blocks, times in ns since 1970
//	bound   entries: blocks above the last folded one, on all branches; forests: what their roots share; MaxAhead blocks that
//	        are not on disk, which the caller sees to; Options.Proofs bytes of proofs
//	errors  VerdictOf says whose fault one is: chain.Invalid, ErrChunk for bad blocks; ErrOrphan, ErrMissing, ErrKnown, ErrOld for
//	        those that are nobody's fault; everything else is fatal to the node
//	source  nearcore chain/chain/src/chain.rs, chain/client/src/client.rs
//
// One goroutine changes an Engine. Begin splits the work of a block into Jobs, one a shard, that may run anywhere. Commit joins
// them and waits for the disk; Adopt joins them, and the next block may be begun on this one while another goroutine brings
// it to the disk (block_commit_pipeline.go). Readers, who hold what they read (Entry.Acquire), see what is on disk.
package engine
