// Package trie keeps the state of one shard as nearcore's Merkle-Patricia trie, in memory, persistent (copy-on-write).
//
//	in      sorted key/value pairs (Build), sorted changes (Update), frontier entries (Import), and a Source for what is not in memory;
//	        the strings of a proof (NewPartial)
//	out     Roots: immutable snapshots with lookups, scans, recorded reads, proofs, splits, parts, frontier differences
//	state   a Forest: nodes in pointer-free 1 MiB slabs, shared by all Roots of a shard
//	units   paths and depths in nibbles (high one first), lengths in bytes, memory usage in nearcore's TRIE_COSTS
//	bound   keys of MaxKeyLen bytes, values below 4 GiB, 64 GiB of nodes a forest; a Root frees its nodes when released, Evict
//	        derives one with fewer; proofs of MaxProof bytes, scans of them of MaxScan nodes
//	errors  ErrCorrupt: a loaded subtree or a proof contradicts its hash; ErrMissing: a proof does not go there; ErrOrder,
//	        ErrKeyLen: the caller's input
//	source  nearcore core/store/src/trie (raw_node.rs, nibble_slice.rs, ops/, mem/, trie_recording.rs, split.rs)
//
// One writer at a time (Update, Build, Import, Inherit, Restrict and Evict exclude each other by a mutex), any number of readers, which
// take no lock. Every node carries its hash, computed once, when the update that made it ends; reading hashes nothing.
//
// A Partial does for what a proof shows all that a Root does for the whole trie, with the same records; see proof.go.
//
// Which nodes a read or an update is told to a Recording is consensus: what is recorded counts to the limits of a chunk
// and is its state proof. The package records what nearcore records, also where its own algorithm has no need to look.
package trie
