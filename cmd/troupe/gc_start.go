package main

import (
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/troupe-chain/troupe/internal/daemon"
)

// startMemory is the memory in bytes that a process may allocate during a node's start before its
// first garbage collection. Without this allowance, three collections took a seventh of the CPU
// time of a start.
const startMemory = 48 << 20

// delayGC turns garbage collection off until done is called or startMemory is allocated. The memory
// bound is for starts that need much memory: a genesis of millions of records, or a store of
// gigabytes. If GOMEMLIMIT is at most startMemory, delayGC does nothing.
func delayGC() (done func()) {
	least := debug.SetMemoryLimit(-1)
	if least <= startMemory { // GOMEMLIMIT has set a limit below startMemory
		debug.SetGCPercent(daemon.GCPercent)
		return func() {}
	}
	done = sync.OnceFunc(func() {
		debug.SetGCPercent(daemon.GCPercent)
		debug.SetMemoryLimit(least)
	})
	debug.SetMemoryLimit(startMemory)
	debug.SetGCPercent(-1)
	runtime.AddCleanup(new([64]byte), func(f func()) { f() }, done) // calls done after the first garbage collection
	return done
}
