package tcp

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSocketsRetransmitForTwoMinutes: dialled and accepted sockets retransmit at least every two
// seconds, for two minutes.
func TestSocketsRetransmitForTwoMinutes(t *testing.T) {
	l, err := Bind("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := dialer()
	out, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for name, c := range map[string]net.Conn{"dialled": out, "let in": in} {
		t.Run(name, func(t *testing.T) {
			option := func(name int) (v int, err error) {
				t.Helper()
				raw, e := c.(*net.TCPConn).SyscallConn()
				if e == nil {
					e = raw.Control(func(fd uintptr) { v, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name) })
				}
				if e != nil {
					t.Fatal(e)
				}
				return v, err
			}
			if v, err := option(unix.TCP_USER_TIMEOUT); err != nil || v != int(writeLimit/time.Millisecond) {
				t.Errorf("gives up after %d ms, %v; want %v", v, err, writeLimit)
			}
			switch v, err := option(unix.TCP_RTO_MAX_MS); {
			case errors.Is(err, unix.ENOPROTOOPT):
				t.Log("this kernel can't be told how often to send again")
			case err != nil || v != int(resendMost/time.Millisecond):
				t.Errorf("sends again every %d ms, %v; want %v", v, err, resendMost)
			}
		})
	}
}
