// Package cache keeps what was compiled: in memory those used last, on disk all that fit, and of
// code that does not compile the reason.
//
//	in      a key (code hash and the rules it was compiled by), and a function that builds what is
//	        not there
//	out     the loaded value, held until released
//	bound   memory and disk in bytes; one build a key at a time for any number that wait; Builders
//	        builds at a time
//	errors  those of the builder and of loading; a damaged or foreign file is built again, a disk
//	        that cannot be written is counted, reported once until a write succeeds, and done without
//	units   bytes
//	source  nearcore runtime/near-vm-runner/src/cache.rs; reference/vm.md F 3
//
// Nothing here reaches a hash: whether something was cached changes only when an answer comes.
package cache
