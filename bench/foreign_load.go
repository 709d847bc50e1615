package bench

import (
	"runtime"
	"time"
)

// use is the processor time that was used up to a moment.
type use struct {
	at       time.Time
	all, own time.Duration // processor time of all processes and the kernel, and of this process; 0: unknown
}

// busy returns the processor time used so far.
func busy() use { return use{at: time.Now(), all: machineTime(), own: cpuTime()} }

// others returns the share of the machine's processor time that other processes used between two
// moments. others returns 0 if the share is unknown.
func (u use) others(to use) float64 {
	took := to.at.Sub(u.at) * time.Duration(runtime.NumCPU())
	if u.all == 0 || to.all < u.all || took <= 0 {
		return 0
	}
	return max(float64(to.all-u.all-(to.own-u.own))/float64(took), 0)
}
