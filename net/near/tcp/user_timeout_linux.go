package tcp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Patience is the Control of sockets to peers: what is not acknowledged is sent again every
// resendMost at the latest, where TCP by itself waits twice as long after each time, so that a path
// that was away for long is found again as late as it was away. With the waits kept short TCP would
// give up after half a minute; it is to go on for writeLimit, behind which a peer that acknowledges
// nothing is gone, whether more is written or not. A kernel before 6.15 does not know the first,
// and waits as it does.
func Patience(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(writeLimit.Milliseconds()))
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, int(resendMost.Milliseconds()))
	})
}
