package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/daemon"
)

// collecting is the percentage that is set now.
func collecting() int {
	is := debug.SetGCPercent(-1)
	debug.SetGCPercent(is)
	return is
}

// TestGCIsOffUntilNodeHasStarted: no garbage collection happens until the node has started, or has
// allocated so much that the first one is due.
func TestGCIsOffUntilNodeHasStarted(t *testing.T) {
	percent, before, limit := collecting(), debug.SetMemoryLimit(1<<40), int64(1<<40)
	t.Cleanup(func() {
		debug.SetMemoryLimit(before)
		debug.SetGCPercent(percent)
	})
	usual := func(when string) {
		t.Helper()
		if got, most := collecting(), debug.SetMemoryLimit(-1); got != daemon.GCPercent || most != limit {
			t.Errorf("%s: %d %%, %d bytes; want %d %%, %d", when, got, most, daemon.GCPercent, limit)
		}
	}
	done := delayGC()
	if got, most := collecting(), debug.SetMemoryLimit(-1); got != -1 || most != startMemory {
		t.Errorf("at the start: %d %%, %d bytes", got, most)
	}
	done()
	usual("started")
	done()
	done = delayGC()
	for end := time.Now().Add(20 * time.Second); collecting() == -1 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		runtime.GC()
	}
	usual("behind a collection")
	done()
	debug.SetMemoryLimit(startMemory)
	limit = startMemory
	done = delayGC()
	usual("with less memory by GOMEMLIMIT")
	done()
	usual("and started")
}
