package vm

import (
	"runtime/debug"
	"sync"
)

// tunedPercent is the GC percent while a compilation runs. Compiling a large contract takes about
// 200 MiB outside of the node's process. The requests that carry such contracts have a megabyte or
// more and leave garbage of that order. During a compilation, memory is therefore worth more than
// processor time.
const tunedPercent = 20

// gcTuning lowers the GC percent of this process while at least one task runs. All nodes in a
// process share gcTuning, because the GC percent belongs to the process.
var gcTuning gcTuner

type gcTuner struct {
	mu    sync.Mutex
	count int                 // number of running tasks
	was   int                 // GC percent before the first task
	set   func(int) (was int) // sets the GC percent; nil: debug.SetGCPercent
}

// begin starts a task. The caller must call end once.
func (t *gcTuner) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count++; t.count > 1 {
		return
	}
	// A percent below tunedPercent, or a disabled collector, stays as it is.
	if t.was = t.percent(tunedPercent); t.was <= tunedPercent {
		if now := t.percent(t.was); now != tunedPercent { // other code changed the percent during the task
			t.was = now
			t.percent(now)
		}
	}
}

// end ends a task. If other code changed the percent in the meantime, that value stays.
func (t *gcTuner) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count--; t.count > 0 || t.was <= tunedPercent {
		return
	}
	if now := t.percent(t.was); now != tunedPercent {
		t.percent(now)
	}
}

func (t *gcTuner) percent(p int) (was int) {
	if t.set == nil {
		return debug.SetGCPercent(p)
	}
	return t.set(p)
}
