package vm

import "testing"

// TestGCPercentIsLoweredDuringTask checks that the percent is lowered while a task runs and
// restored afterwards. A lower percent, a disabled collector, and a percent set in the meantime are
// kept.
func TestGCPercentIsLoweredDuringTask(t *testing.T) {
	for _, c := range []struct{ before, during, meanwhile, after int }{
		{50, tunedPercent, tunedPercent, 50},
		{10, 10, 10, 10},
		{-1, -1, -1, -1},
		{-1, -1, 50, 50},
		{50, tunedPercent, 70, 70},
	} {
		percent := c.before
		x := gcTuner{set: func(p int) int { was := percent; percent = p; return was }}
		x.begin()
		x.begin()
		if percent != c.during {
			t.Errorf("%+v: %d", c, percent)
		}
		x.end()
		if percent != c.during {
			t.Errorf("%+v: %d after one of two", c, percent)
		}
		percent = c.meanwhile
		if x.end(); percent != c.after {
			t.Errorf("%+v: %d at the end", c, percent)
		}
	}
	// Other code sets the percent to 50 between the two steps in which begin reads it.
	percent, sets := -1, 0
	x := gcTuner{set: func(p int) int {
		if sets++; sets == 2 {
			percent = 50
		}
		was := percent
		percent = p
		return was
	}}
	x.begin()
	if x.end(); percent != 50 {
		t.Errorf("percent %d after a task that ended meanwhile, want 50", percent)
	}
}
