package rpc

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// TestSlowTransfersGiveWay: who has begun large bodies and sends no more, or reads no more of large replies, keeps nobody out who
// does; and as long as nobody waits for the memory he is let be.
func TestSlowTransfersGiveWay(t *testing.T) {
	large := healthy + strings.Repeat(" ", 6<<20)
	for name, hold := range map[string]func(c net.Conn){
		"body": func(c net.Conn) {
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n["+strings.Repeat("0", 5<<20))
		},
		"reply": func(c net.Conn) {
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			batch := "[" + strings.Repeat(viewCodeBody+",", 5) + healthy + "]"
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(batch), batch)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := serve(t, bigState(), Options{Limits: limited(func(l *limits.Limits) {
				l.InFlight, l.ReadTimeout, l.WriteTimeout = 20<<20, time.Hour, time.Hour
			})})
			full := func() bool { return s.door.inFlight.Load()+int64(len(large)) > 20<<20 }
			for end := time.Now().Add(10 * time.Second); !full(); time.Sleep(20 * time.Millisecond) {
				if hold(dialFrom(t, "127.0.0.3", addr)); time.Now().After(end) {
					t.Fatalf("%d bytes in flight", s.door.inFlight.Load())
				}
			}
			time.Sleep(slowAfter + 100*time.Millisecond)
			// What is still on its way to the server is no slow transfer yet, on a machine that is.
			eventually(t, "who sends has room", func() bool {
				r, _, err := ask(dialFrom(t, "127.0.0.2", addr), large)
				return err == nil && r.StatusCode == 200
			})
			if s.door.refused[limits.MaxInFlight].Load() == 0 {
				t.Error("it is not counted")
			}
		})
	}
}

// TestTwoLengths: where a request has two lengths, what follows it is not taken for another one.
func TestTwoLengths(t *testing.T) {
	_, addr := serve(t, &fakeNode{}, Options{})
	c := dialFrom(t, "127.0.0.1", addr)
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(healthy), healthy)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked+
		"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	all, _ := io.ReadAll(c)
	if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 || !strings.Contains(string(all), "Connection: close") {
		t.Errorf("%d replies: %s", n, all)
	}
}
