// Package engine is the chain of one node without actors. It combines the rules (chain), the
// execution (runtime) and the persistence (storage) into a synchronous core. Actors, replay,
// benchmarks and the simulator all use this package.
//
//	in      a genesis, blocks with their chunks, keys to produce blocks and chunks
//	out     imported blocks (BlockNode), produced chunks and blocks, views for readers, state
//	        proofs of chunks (Transition)
//	state   the block tree above the flat head, one trie forest for each shard, the epoch
//	        manager
//	units   heights in blocks, times in ns since 1970
//	bound   block tree: the blocks above the flat head, on all branches; forests: the nodes that
//	        these blocks' roots reach; blocks that are not on disk: MaxAhead, checked by the
//	        caller; proofs: Options.ProofBytes
//	errors  VerdictOf classifies them. Invalid block: chain.Invalid, ErrChunk. Not importable
//	        now: ErrOrphan, ErrMissing. Never importable again: ErrKnown, ErrOld. Any other
//	        error is fatal for the node
//	source  nearcore chain/chain/src/chain.rs, chain/client/src/client.rs
//
// One goroutine changes an Engine. BeginImport splits the work of a block into one Job for each
// shard. A Job may run on any goroutine. FinishImport takes the results and adds the block to the
// in-memory chain. The caller can then import the next block while another goroutine persists this
// one (block_commit_pipeline.go). Commit does the same as FinishImport, and waits for the disk.
// Readers see only blocks that are on disk, and hold the blocks that they read (BlockNode.Acquire).
//
// # Parts
//
// These types own their data and rows. Each reads the engine only through an interface that is
// declared next to the type, and Engine holds each in one field.
//
//	HeaderChain     verified headers above the imported blocks (header_chain.go)
//	EpochProofs     epoch sync proofs (header_epoch_proof.go)
//	StateSnapshots  state snapshots and sync points (statesync_snapshot.go)
//	WitnessChecker  checks of witnesses (witness_check.go)
//	witnessCache    transitions that are kept for witnesses (witness_store.go)
//	precompiler     contract code that is compiled ahead (precompile.go)
//	Transactions    transactions, receipts and outcomes in the store (query_tx_status.go)
//
// The parts are no packages, because they use block nodes with their tries. The other methods of
// Engine work on the block tree and the epoch manager, under the locks of both.
//
// In comments, a shard is "held" if this node has the shard's state. A block's states are "held"
// while BlockNode.Acquire keeps them in memory.
package engine
