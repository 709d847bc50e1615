// Package cache stores compiled contracts: the most valuable contracts loaded in memory, and all
// contracts that fit on disk. For code that breaks a rule the cache stores the reason.
//
//	in      a key (hashes of the code and of the rules it was compiled by), and a function that builds
//	        a missing artifact
//	out     the loaded value, which stays valid until the caller releases it
//	bound   memory and disk in bytes; two builds per key at a time, urgent and background, for any
//	        number of callers
//	errors  those of the build and of loading. A damaged artifact is built again. Failed disk writes are
//	        counted, and reported if the previous write succeeded; the cache then works without disk
//	units   bytes
//	source  nearcore runtime/near-vm-runner/src/cache.rs
//
// The cache does not affect the result of a call, only the time until the result is available.
package cache
