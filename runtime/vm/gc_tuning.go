package vm

import (
	"runtime/debug"
	"sync"
)

// thriftPercent is what debug.SetGCPercent is given while a compiler runs. A compiler of a large
// contract takes some 200 MiB beside the node, and what brings such contracts, requests of a
// megabyte and more, leaves garbage of the same size: for that long the processor's time is worth
// less than the memory.
const thriftPercent = 20

// thrift has this process collect garbage sooner while something goes on in it. It is the
// process's, as the percent is; its nodes share it.
var thrift thrifty

type thrifty struct {
	mu    sync.Mutex
	count int
	was   int                 // percent without it
	set   func(int) (was int) // nil: debug.SetGCPercent
}

// begin begins something. Each needs its end.
func (t *thrifty) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count++; t.count > 1 {
		return
	}
	// Who collects sooner or not at all, as a process that starts, goes on with that.
	if t.was = t.percent(thriftPercent); t.was <= thriftPercent {
		if now := t.percent(t.was); now != thriftPercent { // it has ended with that just now
			t.was = now
			t.percent(now)
		}
	}
}

// end ends it. A percent that somebody else has set meanwhile stays.
func (t *thrifty) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count--; t.count > 0 || t.was <= thriftPercent {
		return
	}
	if now := t.percent(t.was); now != thriftPercent {
		t.percent(now)
	}
}

func (t *thrifty) percent(p int) (was int) {
	if t.set == nil {
		return debug.SetGCPercent(p)
	}
	return t.set(p)
}
