//go:build unix

package indexer_test

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used of all cores so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
