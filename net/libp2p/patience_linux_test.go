package libp2p

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-chain/troupe/net/wire"
)

// TestTCPRetransmitsForTwoMinutes: both ends of a TCP connection retransmit at least every two
// seconds, for two minutes, like neard's sockets.
func TestTCPRetransmitsForTwoMinutes(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.over()}})
	a.connected(t, 1)
	b.connected(t, 1)
	port, ends := int(a.way.Addr().Port()), 0
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		here, err := unix.Getsockname(fd)
		if err != nil {
			continue
		}
		there, err := unix.Getpeername(fd)
		if err != nil || portOf(here) != port && portOf(there) != port {
			continue
		}
		ends++
		if v, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); err != nil || v != int(2*time.Minute/time.Millisecond) {
			t.Errorf("from %d to %d: gives up after %d ms, %v", portOf(here), portOf(there), v, err)
		}
		if v, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS); !errors.Is(err, unix.ENOPROTOOPT) && (err != nil || v != int(2*time.Second/time.Millisecond)) {
			t.Errorf("from %d to %d: sends again every %d ms, %v", portOf(here), portOf(there), v, err)
		}
	}
	if ends < 2 {
		t.Errorf("%d ends of connections were found", ends)
	}
}

func portOf(a unix.Sockaddr) int {
	if a, ok := a.(*unix.SockaddrInet4); ok {
		return a.Port
	}
	return 0
}
