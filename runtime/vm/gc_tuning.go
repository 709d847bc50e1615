package vm

import (
	"runtime/debug"
	"sync"
)

// tunedPercent is the GC percent while a compiler runs. Compiling a large contract takes about 200
// MiB outside of the node, and the requests of a megabyte and more that carry such contracts leave
// garbage of the same size. During that time memory is worth more than processor time.
const tunedPercent = 20

// gcTuning lowers the GC percent of this process while some task runs. The percent belongs to the
// process, so the nodes of a process share it.
var gcTuning gcTuner

type gcTuner struct {
	mu    sync.Mutex
	count int
	was   int                 // percent without it
	set   func(int) (was int) // nil: debug.SetGCPercent
}

// begin starts a task. Each begin needs an end.
func (t *gcTuner) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count++; t.count > 1 {
		return
	}
	// A process that already collects as soon, or not at all, keeps its setting.
	if t.was = t.percent(tunedPercent); t.was <= tunedPercent {
		if now := t.percent(t.was); now != tunedPercent { // another task has just ended
			t.was = now
			t.percent(now)
		}
	}
}

// end ends a task. A percent that was set by other code in the meantime stays.
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
