package rpc

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// Debug returns a page of a megabyte.
func (*fakeNode) Debug(*view.Debug) ([]byte, error) { return bytes.Repeat([]byte{'x'}, 1<<20), nil }

func get(s *Server, path string) int {
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod("GET")
	ctx.Request.SetRequestURI(path)
	s.Handle(&ctx)
	return ctx.Response.StatusCode()
}

// TestGETCountsLikeACall: a GET counts like a call, except for the probes; debug pages require an
// API key if calls do.
func TestGETCountsLikeACall(t *testing.T) {
	noClient.rate = rate{}
	t.Cleanup(func() { noClient.rate = rate{} })
	for _, path := range []string{"/metrics", "/network_info", documentPath, "/debug/api/block_status?num_blocks=1000"} {
		s := newServer(t, &fakeNode{}, Options{Debug: true, Limits: limited(func(l *limits.Limits) { l.AddressRate = limits.ByAddress{Max: 5, Loopback: true} })})
		noClient.rate = rate{}
		for i := range 7 {
			want := http.StatusOK
			if i >= 5 {
				want = http.StatusTooManyRequests
			}
			if got := get(s, path); got != want {
				t.Errorf("GET %s, time %d: %d, want %d", path, i, got, want)
			}
			if got := get(s, "/health"); got != http.StatusOK {
				t.Errorf("GET /health beside %s: %d", path, got)
			}
		}
		if n := s.limiter.refused[limits.MaxAddressRate].Load(); n != 2 {
			t.Errorf("%s: %d are counted, want 2", path, n)
		}
	}
	// These call no method.
	for _, path := range []string{"/v0/last_block/final", "/v0/first_block", "/v0/block/x", "/v0/block/9999999999999999"} {
		s := newServer(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.AddressRate = limits.ByAddress{Max: 5, Loopback: true} })})
		noClient.rate = rate{}
		for i := range 7 {
			if got := get(s, path); (got == http.StatusTooManyRequests) != (i >= 5) {
				t.Errorf("GET %s, time %d: %d", path, i, got)
			}
		}
	}
	s := newServer(t, &fakeNode{}, Options{Debug: true, RequireAPIKey: true, APIKeys: []string{"abc"}})
	noClient.rate = rate{}
	for path, want := range map[string]int{"/debug/api/status": 401, "/abc/debug/api/status": 200, "/metrics": 200, "/status": 200} {
		if got := get(s, path); got != want {
			t.Errorf("GET %s: %d, want %d", path, got, want)
		}
	}
}

// TestUnreadGETRepliesCountAsInFlight: unread replies to GETs count as bytes in flight, or share
// their bytes.
func TestUnreadGETRepliesCountAsInFlight(t *testing.T) {
	const conns, most = 300, 8 << 20
	s, addr := serve(t, &fakeNode{}, Options{Debug: true, Limits: limited(func(l *limits.Limits) { l.InFlight, l.WriteTimeout = most, 5*time.Second })})
	if _, err := openAPI(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{documentPath, "/debug/api/status"} {
		heap := func() int {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before := heap()
		for range conns {
			c := dialFrom(t, "127.0.0.1", addr)
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\nGET %[1]s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
				t.Fatal(err)
			}
		}
		// Requests that are being answered use memory beside the unread replies, and a busy machine
		// takes longer to settle. No client that does not read is closed before WriteTimeout.
		more := 0
		for range 10 {
			time.Sleep(200 * time.Millisecond)
			if more = heap() - before; more <= most+24<<20 { // and the memory of 300 connections
				break
			}
		}
		if more > most+24<<20 {
			t.Errorf("GET %s from %d clients that do not read: memory grew by %d MiB", path, conns, more>>20)
		}
		if now := s.limiter.inFlight.Load(); now > most {
			t.Errorf("GET %s: %d bytes in flight, at most %d may be", path, now, most)
		}
		if r, text, err := ask(dialFrom(t, "127.0.0.1", addr), healthy); err != nil || r.StatusCode != 200 {
			t.Errorf("beside GET %s: %v %s", path, err, text)
		}
	}
}
