package bench

import (
	"runtime"
	"time"
)

// use is what of the machine's processor time was used until a moment.
type use struct {
	at       time.Time
	all, own time.Duration // by all processes and the kernel, and by this one; all 0: not known
}

// busy is what has been used so far.
func busy() use { return use{at: time.Now(), all: machineTime(), own: cpuTime()} }

// others is the part of the machine's time that others had between two moments; 0 where it is not
// known.
func (u use) others(to use) float64 {
	took := to.at.Sub(u.at) * time.Duration(runtime.NumCPU())
	if u.all == 0 || to.all < u.all || took <= 0 {
		return 0
	}
	return max(float64(to.all-u.all-(to.own-u.own))/float64(took), 0)
}
