package main

import (
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/troupe-chain/troupe/internal/daemon"
)

// startMemory is what a process may take before it collects garbage for the first time, while its
// node starts: three collections were a seventh of what a start takes of the processor, and 200
// starts side by side are nothing else.
const startMemory = 48 << 20

// quickStart has nothing collected until the function that it returns is called, or startMemory is
// taken: a genesis of millions of records, or a chain of gigabytes, is begun as everything else is
// run.
func quickStart() (done func()) {
	least := debug.SetMemoryLimit(-1)
	if least <= startMemory { // by GOMEMLIMIT
		debug.SetGCPercent(daemon.GCPercent)
		return func() {}
	}
	done = sync.OnceFunc(func() {
		debug.SetGCPercent(daemon.GCPercent)
		debug.SetMemoryLimit(least)
	})
	debug.SetMemoryLimit(startMemory)
	debug.SetGCPercent(-1)
	runtime.AddCleanup(new([64]byte), func(f func()) { f() }, done) // runs behind the first collection
	return done
}
