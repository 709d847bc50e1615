package rpc

import "golang.org/x/sys/unix"

const hangUps = unix.POLLRDHUP | unix.POLLHUP | unix.POLLERR | unix.POLLNVAL

// closed returns whether the peer has closed a socket, even if the socket still has unread data.
func closed(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p[:], 0)
	return err != nil && err != unix.EINTR || n > 0 && p[0].Revents&hangUps != 0
}

// broken returns whether the peer has reset a socket. Unlike closed, it returns false if the peer
// has only ended its sending.
func broken(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(p[:], 0)
	return err == nil && n > 0 && p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// pollsAtOnce is the number of sockets in one poll call. It must be below the limit of open files.
const pollsAtOnce = 512

// closedOf calls f with the index of each socket that seems closed.
func closedOf(fds []int, f func(i int)) {
	var p [pollsAtOnce]unix.PollFd
	for from := 0; from < len(fds); from += pollsAtOnce {
		part := fds[from:min(from+pollsAtOnce, len(fds))]
		for i, fd := range part {
			p[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLRDHUP}
		}
		n, err := unix.Poll(p[:len(part)], 0)
		for i := 0; err == nil && n > 0 && i < len(part); i++ {
			if p[i].Revents != 0 {
				n--
				f(from + i)
			}
		}
	}
}
