//go:build unix

package apply

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time that all threads of the process have used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
