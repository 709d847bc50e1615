// Package genesisstate builds the initial state of a chain from the records of its genesis.
//
//	in      the records, one at a time in the file's order; the fees' storage constants; the
//	        layout; the first validators
//	out     for each shard the keys and values of its trie in ascending order, and the congestion
//	        info of its first chunk
//	state   Builder: the records' bytes, sorted when a shard is finished; no trie and no disk
//	units   bytes, yoctoNEAR, gas
//	bound   memory of all keys and values plus about 60 bytes each; a shard's memory is released
//	        when the shard is finished
//	errors  *Error with the account that is wrong; nearcore panics in all of these cases
//	source  nearcore core/store/src/genesis/{state_applier,initialization}.rs,
//	        runtime/runtime/src/congestion_control.rs:743
//
// Storage usage and locked stake in the records are ignored: usage is recomputed, and the stakes of
// the validators are locked.
package genesisstate
