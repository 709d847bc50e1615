package rpc

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestPollRateIsBounded: however many requests wait, no more connections are polled in a second
// than with maxFastPolled.
func TestPollRateIsBounded(t *testing.T) {
	for _, waiting := range []int{0, 1, maxFastPolled, 8 * maxFastPolled} {
		after := pollDelay(waiting)
		if perSecond, most := float64(waiting)/after.Seconds(), maxFastPolled/pollInterval.Seconds(); after < pollInterval || perSecond > most {
			t.Errorf("%d wait: each is looked at after %v, %.0f in a second; want at most %.0f", waiting, after, perSecond, most)
		}
	}
}

// TestEachHungUpClientIsFoundOnce: among many waiting requests, those whose clients hang up are
// found, each once, and no others. One goroutine polls all of them and ends with the last.
func TestEachHungUpClientIsFoundOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("by the system's poll")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const many = 1200 // more than one call polls
	var k hangupPoller
	var at []*polledConn
	var clients, ours []net.Conn
	hungUp := make([]atomic.Int64, many)
	before := runtime.NumGoroutine()
	for i := range many {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		o, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer o.Close()
		clients, ours = append(clients, c), append(ours, o)
		at = append(at, k.add(&conn{Conn: o}, func() { hungUp[i].Add(1) }))
	}
	if n := runtime.NumGoroutine() - before; n > 3 {
		t.Errorf("%d goroutines more for %d waits", n, many)
	}
	for i := 0; i < many; i += 7 {
		clients[i].Close()
	}
	k.remove(at[7]) // it is answered at this moment
	ours[14].Close()
	found := func() (n int) {
		for i := range hungUp {
			n += int(hungUp[i].Load())
		}
		return n
	}
	for end := time.Now().Add(time.Minute); found() < (many+6)/7-1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d are found, want %d", found(), (many+6)/7-1)
		}
	}
	time.Sleep(2 * pollInterval)
	for i := range hungUp {
		want := int64(0)
		if i%7 == 0 && i != 7 {
			want = 1
		}
		if n := hungUp[i].Load(); n != want {
			t.Errorf("client %d was reported as hung up %d times, want %d", i, n, want)
		}
	}
	for _, x := range at {
		k.remove(x)
		k.remove(x)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		k.mu.Lock()
		looking := k.running
		k.mu.Unlock()
		if !looking {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a connection is still polled")
		}
	}
	if x := k.add(nil, func() { t.Error("the nil connection was reported as closed") }); x.index >= 0 {
		t.Error("no connection is looked at")
	}
}

// TestWaitOnClosedConnectionEndsAtOnce: a wait that begins after its connection was closed here,
// for example a queued WebSocket message, ends at once and not by its timeout.
func TestWaitOnClosedConnectionEndsAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	o.Close()
	var k hangupPoller
	hungUp := 0
	x := k.add(&conn{Conn: o}, func() { hungUp++ })
	k.remove(x)
	if hungUp != 1 || x.index >= 0 || k.running {
		t.Errorf("reported as hung up %d times, want once, at once", hungUp)
	}
}
