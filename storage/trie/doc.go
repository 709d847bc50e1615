// Package trie keeps the state of one shard as nearcore's Merkle-Patricia trie, in memory,
// persistent (copy-on-write).
//
//	in      sorted pairs (Build), sorted changes (Update), frontier entries (Import), and a Source
//	        for what is not in memory; the strings of a proof (NewPartial)
//	out     Roots: immutable snapshots with lookups, scans, recorded reads, proofs, splits, parts,
//	        frontier differences
//	state   a Forest: nodes in pointer-free 1 MiB slabs, shared by all Roots of a shard
//	units   paths and depths in nibbles (high one first), lengths in bytes, memory usage in
//	        nearcore's TRIE_COSTS
//	bound   keys of MaxKeyLen bytes, values below 4 GiB, 64 GiB of nodes a forest; a Root frees its
//	        nodes when released, Evict derives one with fewer; proofs of MaxProof bytes, scans of
//	        them of MaxScan nodes
//	errors  ErrCorrupt: a loaded subtree or a proof contradicts its hash; ErrMissing: a proof lacks
//	        a node; ErrOrder, ErrKeyLen: the caller's input
//	source  nearcore core/store/src/trie (raw_node.rs, nibble_slice.rs, ops/, mem/,
//	        trie_recording.rs, split.rs)
//
// One writer at a time: Update, Build, Import, Inherit, RetainIntervals and Evict exclude each
// other by a mutex. Any number of readers run beside it and take no lock. Every node carries its
// hash, which is computed once, when the update that made the node ends. Reading hashes nothing.
//
// A Partial offers for the nodes of a proof what a Root offers for the whole trie, with the same
// records: see proof.go.
//
// Which nodes a read or an update reports to a Recording is part of consensus: the recorded bytes
// count against the limits of a chunk, and they are its state proof. The package records what
// nearcore records, even where its own algorithm does not need to read a node.
package trie
