// Package sim runs a cluster of validators in one process: the real cores, with their engines and
// stores, on virtual time, over a network that delays, drops, doubles, reorders and cuts, with
// nodes that crash and lose what was not on disk; all of it from a seed.
//
//	in      Options: a seed, a scenario, how many nodes, shards and blocks; bugs to be planted
//	out     Result: what was reached, a hash of all that happened, violations, the last lines of a
//	        trace that a person can read
//	state   World: a heap of events, the nodes with their disks, the network, what the checks know
//	units   virtual time in ns; heights in blocks
//	bound   Options.Limit of virtual time; the trace's last lines
//	errors  Result.Violation: what must never be; an error: the world could not be made
//	source  our own; nearcore's is test-loop-tests
//
// One goroutine does everything in the order of virtual time, so equal seeds give equal runs. A
// block is on disk when the world says so: until then its write stands still, and a crash loses it.
package sim
