package tcp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Patience is the Control function of sockets to peers. Unacknowledged data is sent again at least
// every resendMost. TCP by default doubles the interval each time, so that a path that was down for
// long is detected only after as long again. With short intervals TCP would give up after half a
// minute, so TCP_USER_TIMEOUT is set: a peer that acknowledges nothing for writeLimit is gone,
// whether or not more is written. Kernels before 6.15 ignore the first option.
func Patience(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(writeLimit.Milliseconds()))
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, int(resendMost.Milliseconds()))
	})
}
