package rpc

import (
	"net"
	"runtime"
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

// polledPair returns both ends of a connection.
func polledPair(t *testing.T, l net.Listener) (client, ours net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if ours, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	return client, ours
}

// TestEachHungUpClientIsFoundOnce: among many waiting requests, those whose clients hang up are
// found, each once, and no others. The test polls itself, so nothing depends on when a poll happens.
func TestEachHungUpClientIsFoundOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("by the system's poll")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const many = 1200            // more than one call polls
	const closed, raced = 14, 28 // closed by the server; answered in the same poll that finds it
	k := hangupPoller{running: true}
	var at []*polledConn
	var clients, ours []net.Conn
	found := make([]int, many)
	total := 0
	for i := range many {
		c, o := polledPair(t, l)
		clients, ours = append(clients, c), append(ours, o)
		at = append(at, k.add(&conn{Conn: o}, func() {
			found[i]++
			total++
			if i == 21 {
				k.remove(at[raced])
			}
		}))
	}
	k.poll()
	if total != 0 {
		t.Fatalf("%d are found, and no client has hung up", total)
	}
	if !k.remove(at[7]) || k.remove(at[7]) { // it is answered before its client hangs up
		t.Error("a connection is not removed once")
	}
	want := 0
	for i := 0; i < many; i += 7 {
		clients[i].Close()
		if i != 7 && i != raced {
			want++
		}
	}
	ours[closed].Close()
	eventually(t, "the system knows of all that hung up", func() bool {
		for i := 0; i < many; i += 7 {
			if i != closed && !hungUp(ours[i]) {
				return false
			}
		}
		return true
	})
	for range 3 {
		k.poll()
	}
	for i, n := range found {
		want := 0
		if i%7 == 0 && i != 7 && i != raced {
			want = 1
		}
		if n != want {
			t.Errorf("client %d was reported as hung up %d times, want %d", i, n, want)
		}
	}
	if left := many - want - 2; len(k.list) != left {
		t.Errorf("%d are polled, want %d", len(k.list), left)
	}
	for _, x := range at {
		k.remove(x)
	}
	if len(k.list) != 0 {
		t.Errorf("%d are polled after all were removed", len(k.list))
	}
	if x := k.add(nil, func() { t.Error("the nil connection was reported as closed") }); x.index >= 0 {
		t.Error("the nil connection is polled")
	}
}

// TestOneGoroutinePollsUntilAllWaitsEnd: one goroutine polls all connections and ends with the last.
func TestOneGoroutinePollsUntilAllWaitsEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var k hangupPoller
	gone := make(chan struct{})
	c, o := polledPair(t, l)
	at := []*polledConn{k.add(&conn{Conn: o}, func() { close(gone) })}
	if at[0].index < 0 {
		t.Skip("connections are not polled on this system")
	}
	before := runtime.NumGoroutine()
	for range 50 {
		_, o := polledPair(t, l)
		at = append(at, k.add(&conn{Conn: o}, func() { t.Error("a client that is there has hung up") }))
	}
	if n := runtime.NumGoroutine(); n >= before+50 {
		t.Errorf("%d goroutines more for 50 waits", n-before)
	}
	c.Close()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("a client that hung up is not found")
	}
	for _, x := range at {
		k.remove(x)
	}
	eventually(t, "no connection is polled", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return !k.running
	})
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
