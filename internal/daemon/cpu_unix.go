//go:build unix

package daemon

import (
	"sync"
	"syscall"
	"time"
)

// cpu measures the CPU use of the process.
type cpu struct {
	mu   sync.Mutex
	at   time.Time
	used time.Duration
	last float64
}

// percent returns the CPU use since the previous call, 100 for a whole core. A call within 100 ms
// of the previous one returns the same value.
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
