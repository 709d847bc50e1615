//go:build unix

package rpc

import (
	"errors"
	"syscall"
)

// openFiles returns the maximum number of open files of this process. The Go runtime has raised the
// soft limit to the hard limit.
func openFiles() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 1024
	}
	return uint64(l.Cur)
}

// isClosed returns whether err means that the listener is closed. An error for which isClosed
// returns false concerns a single connection or a temporary shortage.
func isClosed(err error) bool {
	return errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSOCK)
}
