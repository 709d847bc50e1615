// Package sim simulates a cluster of validators in one process from a seed. It runs the real
// consensus cores, engines and stores on virtual time. The network delays, drops, duplicates and
// reorders messages, and can be partitioned. Nodes crash and lose what was not on disk.
//
//	in      Options: a seed, a scenario, the numbers of nodes, shards and blocks; a bug to plant
//	out     Result: the heights reached, a hash of all events, the first violation of an
//	        invariant, the last lines of the trace
//	state   World: a heap of events, the nodes with their disks, the network, the checks
//	units   virtual time in ns; heights in blocks
//	bound   Scenario.Limit of virtual time; the last lines of the trace
//	errors  Result.Violation: an invariant was violated. An error: the world could not be created
//	source  our own; nearcore has test-loop-tests for this purpose
//
// One goroutine handles all events in the order of virtual time, so equal seeds give equal runs.
// The world decides when a block is on disk. Until then the write is blocked, and a crash loses the
// block.
package sim
