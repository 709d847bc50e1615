// Package cache keeps compiled contracts: the most valuable ones loaded in memory, and all that fit
// on disk. Of code that breaks a rule it keeps the reason.
//
//	in      a key (hashes of the code and of the rules it was compiled by), and a function that builds
//	        a missing artifact
//	out     the loaded value, held until released
//	bound   memory and disk in bytes; one build per key at a time for any number of callers
//	errors  those of the build and of loading. A damaged or foreign file is built again. Failed disk
//	        writes are counted, and reported once until a write succeeds; the cache works without
//	units   bytes
//	source  nearcore runtime/near-vm-runner/src/cache.rs
//
// Nothing here affects a result: whether an artifact was cached only changes when an answer comes.
package cache
