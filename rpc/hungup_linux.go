package rpc

import "golang.org/x/sys/unix"

// closed tells it of a socket, whatever has been sent before and nobody has read.
func closed(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p[:], 0)
	return err != nil && err != unix.EINTR || n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}
