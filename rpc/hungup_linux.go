package rpc

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp tells whether the other side has closed a connection or broken it off, without reading from it, and whatever it has sent
// before that nobody has read. A connection that is none of the system's never is.
func hungUp(c net.Conn) bool {
	if ours, ok := c.(*conn); ok {
		c = ours.Conn
	}
	system, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p[:], 0)
		gone = err != nil && err != unix.EINTR || n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
	})
	return err != nil || gone
}
