// Package genesisstate makes the first state of a chain from the records of its genesis.
//
//	in      the records, one at a time in the file's order; the fees' storage constants; the
//	        layout; the first validators
//	out     for each shard its trie's keys and values in ascending order, and the congestion of
//	        its first chunk
//	state   Builder: the records' bytes, sorted when a shard is finished; no trie and no disk
//	units   bytes, yoctoNEAR, gas
//	bound   memory of all keys and values plus some 60 bytes each; a shard's share is released
//	        once it has been passed on
//	errors  *Error with the account that is wrong; nearcore panics at all of these
//	source  nearcore core/store/src/genesis/{state_applier,initialization}.rs,
//	        runtime/runtime/src/congestion_control.rs:743
//
// What the records say of storage usage and locked stake does not count: usage is recomputed from
// the records, and the validators' stakes are locked.
package genesisstate
