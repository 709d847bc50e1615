// Package state provides the state of a shard while a chunk is applied. Reads that no overlay answers
// go to a trie. Writes are collected in overlays and applied to the trie at the end.
//
//	in      a Trie (a snapshot at some root); typed reads and writes; Commit with a cause, or
//	        Rollback
//	out     the changes of every key with their causes in order; the new trie; the recording and
//	        its upper bound
//	state   TrieUpdate: one per chunk, committed and prospective overlays; no I/O of its own
//	units   sizes in bytes; keys are trie keys (primitives/trie_key.go)
//	bound   memory grows with the writes; reads add only to the recording
//	errors  ErrInconsistent: a required value is missing or does not decode; errors of the Trie
//	source  nearcore core/store/src/trie/update.rs, core/store/src/utils/mod.rs, trie_recording.rs
//
// What is recorded is consensus. A key that is found in an overlay records nothing. A key that is
// read from the trie records the nodes on its path. If the chunk also reads the key's value, the
// value is recorded too.
package state
