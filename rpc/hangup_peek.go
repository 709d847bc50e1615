//go:build unix && !linux

package rpc

import "syscall"

// closed tells it of a socket. What has been sent before and nobody has read hides it.
func closed(fd int) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch err {
	case nil:
		return n == 0
	case syscall.EAGAIN, syscall.EINTR:
		return false
	}
	return true
}

// closedOf calls f for those of many that seem closed.
func closedOf(fds []int, f func(i int)) {
	for i, fd := range fds {
		if closed(fd) {
			f(i)
		}
	}
}
