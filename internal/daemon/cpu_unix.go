//go:build unix

package daemon

import (
	"sync"
	"syscall"
	"time"
)

// cpu tells how much of the processor the process takes.
type cpu struct {
	mu   sync.Mutex
	at   time.Time
	used time.Duration
	last float64
}

// percent is the share since the look before, 100 for a whole core; a look within a tenth of a
// second of another gets the same.
func (c *cpu) percent(now time.Time) float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	used := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	c.mu.Lock()
	defer c.mu.Unlock()
	if span := now.Sub(c.at); span >= 100*time.Millisecond {
		c.last = 100 * float64(used-c.used) / float64(span)
		c.at, c.used = now, used
	}
	return c.last
}
