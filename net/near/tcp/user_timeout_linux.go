package tcp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Patience is the Control function of sockets to peers. Patience sets two TCP options.
//
// TCP_RTO_MAX_MS makes TCP send unacknowledged data again at least every resendMost. By default TCP
// doubles the interval each time. So after a path was down for long, TCP needs as long again to
// notice that the path is restored. Kernels before 6.15 ignore the option.
//
// With short intervals TCP would give up after half a minute. So TCP_USER_TIMEOUT is set too: a
// connection ends when its peer has acknowledged nothing for writeLimit, whether or not more is
// written.
func Patience(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(writeLimit.Milliseconds()))
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, int(resendMost.Milliseconds()))
	})
}
