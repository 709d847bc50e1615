//go:build unix

package storage

import "syscall"

// openTables is how many tables of the index stay open: opening one again costs some reads. A quarter of the descriptors that the process may
// have, within bounds.
func openTables() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return minOpenTables
	}
	return int(min(max(uint64(limit.Cur)/4, minOpenTables), maxOpenTables))
}
