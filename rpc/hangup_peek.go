//go:build unix && !linux

package rpc

import "syscall"

// closed returns whether the peer has closed a socket. It returns false while the socket has unread
// data.
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

// broken returns whether the peer has reset a socket. It returns false while the socket has unread
// data.
func broken(fd int) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err != nil && err != syscall.EAGAIN && err != syscall.EINTR
}

// closedOf calls f with the index of each socket that seems closed.
func closedOf(fds []int, f func(i int)) {
	for i, fd := range fds {
		if closed(fd) {
			f(i)
		}
	}
}
