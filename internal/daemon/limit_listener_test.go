package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestMetricsConnectionsAreLimited: idle connections to the second listener lock out no client.
func TestMetricsConnectionsAreLimited(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serveMetrics(l, func(b []byte) []byte { return append(b, "figures"...) })
	defer s.stop(context.Background())
	var open []net.Conn
	for range 4 * metricsReaders {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	client := http.Client{Timeout: 10 * time.Second}
	r, err := client.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	r.Body.Close()
	client.CloseIdleConnections()
	if err != nil || string(text) != "figures" {
		t.Fatalf("text %s, error %v", text, err)
	}
	left := 0
	for _, c := range open {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				left++
			}
		}
	}
	if left >= metricsReaders || left == 0 {
		t.Errorf("%d connections are open, want fewer than %d", left, metricsReaders)
	}
}
