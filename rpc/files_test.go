package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// short is a listener whose accept fails every other time, as if there were no file descriptor.
type short struct {
	net.Listener
	accepts atomic.Uint64
}

func (l *short) Accept() (net.Conn, error) {
	if l.accepts.Add(1)%2 == 1 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestFileShortageEvictsIdleConnections: a shortage of files ends neither the server nor active
// clients, and evicts idle connections.
func TestFileShortageEvictsIdleConnections(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{Addr: "127.0.0.1:0"})
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(&short{Listener: l}) }()
	for i := range 5 {
		if i == 4 {
			time.Sleep(1100 * time.Millisecond)
		}
		if r, text, err := ask(dialFrom(t, "127.0.0.1", l.Addr().String()), healthy); err != nil || r.StatusCode != 200 {
			t.Fatalf("error %v, text %s", err, text)
		}
	}
	if n := s.limiter.failed.Load(); n < 5 {
		t.Errorf("%d connections failed", n)
	}
	if n := s.limiter.evicted.Load(); n == 0 {
		t.Errorf("%d connections gave way", n)
	}
	if !strings.Contains(string(s.AppendMetrics(nil)), "troupe_rpc_connections_failed_total ") {
		t.Error("/metrics does not count the evicted connections")
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-served:
		if err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the server still listens")
	}
}

func TestConnectionsLeaveFilesForTheNode(t *testing.T) {
	for files, want := range map[uint64]uint64{256: 128, 1024: 512, 20_000: 19_488, 1: 1} {
		if got := maxConns(files); got != want {
			t.Errorf("%d files: %d places, want %d", files, got, want)
		}
	}
	s := newServer(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.Connections = 1 << 62 })})
	if most := maxConns(openFiles()); s.limiter.limits.Connections != most || s.opts.Limits.Connections != most {
		t.Errorf("%d and %d connections, want %d", s.limiter.limits.Connections, s.opts.Limits.Connections, most)
	}
}
