//go:build unix

package storage

import "syscall"

// openTables returns the number of tables of the index that stay open: a quarter of the process's
// descriptor limit, within bounds. Opening a table again costs some reads.
func openTables() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return minOpenTables
	}
	return int(min(max(uint64(limit.Cur)/4, minOpenTables), maxOpenTables))
}
