// Package state is what executing a chunk sees of a shard's state: reads through to a trie, writes
// kept aside until the end.
//
//	in      a Trie (a snapshot at some root); typed reads and writes; Commit with a cause, or
//	        Rollback
//	out     the changes of every key with their causes in order; the new trie; what was recorded,
//	        and its bound
//	state   TrieUpdate: one per chunk, committed and prospective overlays; no I/O of its own
//	units   sizes in bytes; keys are trie keys (primitives/trie_key.go)
//	bound   memory grows with what is written; reads keep nothing but the recording
//	errors  ErrInconsistent: a value that must be there is missing or does not decode; whatever
//	        the Trie returns
//	source  nearcore core/store/src/trie/update.rs, core/store/src/utils/mod.rs, trie_recording.rs
//
// What is recorded is consensus (reference runtime.md 4.4): a key found in an overlay records
// nothing, a key read from the trie records the nodes on its path and, if the value itself is read,
// the value.
package state
