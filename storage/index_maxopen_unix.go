//go:build unix

package storage

import "syscall"

// openTables returns the number of index tables that stay open: a quarter of the process's limit of
// file descriptors, within bounds. Opening a closed table takes several reads.
func openTables() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return minOpenTables
	}
	return int(min(max(uint64(limit.Cur)/4, minOpenTables), maxOpenTables))
}
