//go:build unix

package rpc

import (
	"errors"
	"syscall"
)

// openFiles is how many files this process may have open; Go's start has raised it as far as the
// system lets it.
func openFiles() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 1024
	}
	return uint64(l.Cur)
}

// isClosed tells whether a listener is no more; all other errors are of one connection, or of a
// shortage that passes.
func isClosed(err error) bool {
	return errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSOCK)
}
