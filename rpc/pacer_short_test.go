package rpc

import (
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// TestPacerServesFewNewConnections: however slowly the first requests of new connections are
// served, few are served at a time; a request that waits does not count for longer than leaseTime,
// and one that has ended makes way at once.
func TestPacerServesFewNewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		var stopping atomic.Bool
		p.init(1000, &stopping)
		most := 2 * int(p.cores)
		var now, peak atomic.Int64
		var all sync.WaitGroup
		begun := time.Now()
		const conns = 200
		for i := range conns {
			all.Go(func() {
				l, _ := p.begin(fair.Client{Address: [16]byte{byte(i)}, Conn: uint64(i)}, int64(paceQuantum))
				peak.Store(max(peak.Load(), now.Add(1)))
				time.Sleep(2 * time.Millisecond)
				now.Add(-1)
				p.end(l)
			})
		}
		all.Wait()
		if got := int(peak.Load()); got != most {
			t.Errorf("%d were served at a time, want %d", got, most)
		}
		want := conns / time.Duration(most) * 2 * time.Millisecond
		if took := time.Since(begun); took < want || took > want+want/4 {
			t.Errorf("elapsed time %v, want about %v", took, want)
		}
		begun = time.Now()
		for i := range 2 * most { // they never end
			all.Go(func() { p.begin(fair.Client{Conn: uint64(i)}, int64(paceQuantum)) })
		}
		all.Wait()
		if took := time.Since(begun); took < leaseTime || took > leaseTime+2*time.Millisecond {
			t.Errorf("waiting requests delayed others for %v, want %v", took, leaseTime)
		}
		if p.waiting() != 0 {
			t.Errorf("%d wait", p.waiting())
		}
		synctest.Wait()
	})
}

// TestPacerBoundsAcceptedConnections: while many new connections wait for their turn, or have not
// run, no more are accepted.
func TestPacerBoundsAcceptedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		var stopping atomic.Bool
		p.init(1000, &stopping)
		for range paceAccepted {
			p.accept()
		}
		var accepted atomic.Bool
		try := func() {
			accepted.Store(false)
			go func() { p.accept(); accepted.Store(true) }()
			synctest.Wait()
		}
		if try(); accepted.Load() {
			t.Error("one more was accepted than may be without running")
		}
		for range paceAccepted {
			p.started()
		}
		if synctest.Wait(); !accepted.Load() {
			t.Error("none was accepted after others had begun to run")
		}
		p.started()
		p.due = clock() + int64(time.Hour)
		for i := range paceFresh {
			go p.begin(fair.Client{Conn: uint64(i)}, 1)
		}
		synctest.Wait()
		if try(); accepted.Load() {
			t.Error("one more was accepted than may wait")
		}
		p.mu.Lock()
		p.due = clock()
		p.mu.Unlock()
		p.end(new(lease))
		if time.Sleep(time.Second); !accepted.Load() {
			t.Error("none was accepted after others had their turn")
		}
		for range paceAccepted - 1 {
			p.accept()
		}
		if try(); accepted.Load() {
			t.Error("one more was accepted than may be without running")
		}
		stopping.Store(true)
		p.stop()
		if synctest.Wait(); !accepted.Load() {
			t.Error("it waits although the server stops")
		}
	})
}

// TestEndedConnectionPaysForLastRequest: a connection that ends with its request pays for it, a
// pipeline for each of its requests, and a connection that has done nothing gets back what it paid
// ahead.
func TestEndedConnectionPaysForLastRequest(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	p := &s.limiter.pacer
	const work = int64(5 * paceQuantum)
	for name, c := range map[string]struct {
		requests int
		read     bool // the client waits for the reply before each request but the first
		want     int64
	}{
		"one request":               {1, false, work},
		"a pipeline":                {8, false, 8 * work},
		"one after it has waited":   {2, true, work + int64(paceQuantum)},
		"none":                      {0, false, int64(paceConn)},
		"closed before it has read": {-1, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			far := clock() + int64(time.Hour)
			p.mu.Lock()
			p.due = 0
			p.mu.Unlock()
			x := &conn{Conn: new(net.TCPConn), limiter: s.limiter, client: noClient}
			x.pace.fresh = true
			if c.requests >= 0 {
				x.pace.after(x, x.pace.before(x), 100)
			}
			p.mu.Lock()
			p.due = far // what is paid from here on does not vanish in unused time
			p.mu.Unlock()
			paid := make(chan int64)
			go func() {
				for i := range c.requests {
					if c.read && i > 0 {
						x.pace.from = clock() - work
						x.pace.after(x, x.pace.before(x)-int64(time.Second), 100)
					}
					if i > 0 {
						x.pace.from = clock() - work
					}
					x.pace.request(x)
				}
				if c.requests > 0 {
					x.pace.from = clock() - work
				}
				x.pace.end(x)
				x.pace.end(x)
				p.mu.Lock()
				defer p.mu.Unlock()
				paid <- (p.due - far) * p.cores
			}()
			var got int64
			for waiting := true; waiting; {
				select {
				case got = <-paid:
					waiting = false
				case <-time.After(time.Millisecond): // it waits for its turn: let time pass
					p.mu.Lock()
					for p.queue.Len() > 0 {
						t, _, _ := p.queue.Pop()
						p.due += t.cost / p.cores
						close(t.turn)
					}
					p.mu.Unlock()
				}
			}
			if c.requests >= 0 {
				got += int64(paceQuantum) // before the first request
			}
			if slack := c.want / 4; got < c.want-slack || got > c.want+slack+int64(paceQuantum) {
				t.Errorf("the connection paid %v, want %v", time.Duration(got), time.Duration(c.want))
			}
		})
	}
}

// busyNode takes a while for each call of Health, and counts them.
type busyNode struct {
	fakeNode
	served *atomic.Int64
}

func (n *busyNode) Health() error {
	for until := time.Now().Add(300 * time.Microsecond); time.Now().Before(until); {
	}
	n.served.Add(1)
	return nil
}

// TestShortConnectionsDelayOthersLittle: 64 clients, each with an address of its own, open
// connections for one request or one pipeline. Meanwhile a request of another client waits for few
// of their requests: for less than half as many as on a server whose pacer is off. If the clients
// reset their connections, fewer requests are served than connections opened; without the pacer it
// is 1.7 on each.
//
// The pacer changes how the scheduler orders goroutines, which no simulated clock shows. So the test
// compares two servers in the same run, under the same load, by counts. Load that begins between the
// two may spoil a comparison: one of ten must succeed.
func TestShortConnectionsDelayOthersLittle(t *testing.T) {
	const request = "GET /health HTTP/1.1\r\nHost: x\r\n"
	pipeline := strings.Repeat(request+"\r\n", 100)
	for name, flood := range map[string]connFlood{
		"one request":  {request + "Connection: close\r\n\r\n", func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }},
		"one pipeline": {pipeline, func(c *net.TCPConn) { _ = c.CloseWrite(); _, _ = io.Copy(io.Discard, c) }},
		"pipelines": {"", func(c *net.TCPConn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			for {
				if _, err := io.WriteString(c, pipeline); err != nil {
					return
				}
			}
		}},
		"resets": {pipeline, func(c *net.TCPConn) { time.Sleep(time.Millisecond); _ = c.SetLinger(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				paced := flood.run(t, true, 30)
				if name == "resets" {
					if t.Logf("%+v", paced); paced.served < paced.conns {
						return
					}
					continue
				}
				unpaced := flood.run(t, false, 5) // each takes long
				if t.Logf("with the pacer %+v, without %+v", paced, unpaced); 2*paced.median < unpaced.median {
					return
				}
			}
			t.Error("the pacer makes no difference")
		})
	}
}

// connFlood is what a client of a flood sends on each of its connections, and then does.
type connFlood struct {
	send string
	rest func(c *net.TCPConn)
}

// floodCounts are counts of a flood. median is the number of its requests that were served while one
// request of another client waited.
type floodCounts struct{ median, served, conns int64 }

// run floods a server while one client sends that many requests.
func (flood *connFlood) run(t *testing.T, paced bool, requests int) floodCounts {
	t.Helper()
	var served, opened atomic.Int64
	n := &busyNode{served: &served}
	s := newServer(t, &n.fakeNode, Options{Addr: "127.0.0.1:0"})
	s.node = n
	if !paced {
		off := new(atomic.Bool)
		off.Store(true)
		s.limiter.pacer.stopping = off // as if the server were about to stop, so no connection waits
	}
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	defer func() {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-ended
	}()
	addr := l.Addr().String()
	honest := dialFrom(t, "127.0.0.2", addr)
	defer honest.Close()
	if _, _, err := ask(honest, healthy); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	var open sync.Map
	for i := range 64 {
		all.Go(func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 5, byte(i+1))}, Timeout: 5 * time.Second}
			for !stop.Load() {
				c, err := d.Dial("tcp", addr)
				if err != nil {
					continue
				}
				open.Store(c, nil)
				if stop.Load() { // it may be too late for the loop that closes what is open
					_ = c.Close()
					return
				}
				opened.Add(1)
				if _, err := io.WriteString(c, flood.send); err == nil {
					flood.rest(c.(*net.TCPConn))
				}
				_ = c.Close()
				open.Delete(c)
			}
		})
	}
	defer all.Wait()
	defer open.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
	defer stop.Store(true)
	eventually(t, "the flood has begun", func() bool { return served.Load() > 500 })
	var waited []int64
	for range requests {
		before := served.Load()
		if r, _, err := ask(honest, healthy); err != nil || r.StatusCode != 200 {
			t.Fatalf("error %v", err)
		}
		waited = append(waited, served.Load()-before-1)
	}
	slices.Sort(waited)
	return floodCounts{waited[len(waited)/2], served.Load(), opened.Load()}
}

// TestResetConnectionIsNotServed: a connection that its client has reset while it waited for its
// turn is not served.
func TestResetConnectionIsNotServed(t *testing.T) {
	var served atomic.Int64
	n := &countingNode{served: &served}
	s, addr := serve(t, &n.fakeNode, Options{})
	s.node = n
	p := &s.limiter.pacer
	set := func(due int64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.due = due
		p.look()
	}
	set(clock() + int64(time.Hour))
	reset, good := dialFrom(t, "127.0.0.3", addr), dialFrom(t, "127.0.0.4", addr)
	for _, c := range []net.Conn{reset, good} {
		if _, err := io.WriteString(c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both wait", func() bool { return p.waiting() == 2 })
	_ = reset.(*net.TCPConn).SetLinger(0)
	_ = reset.Close()
	server := func() (c net.Conn) {
		s.limiter.mu.Lock()
		defer s.limiter.mu.Unlock()
		for x := range s.limiter.conns {
			if x.RemoteAddr().String() == reset.LocalAddr().String() {
				c = x
			}
		}
		return c
	}()
	eventually(t, "the reset has arrived", func() bool { return wasReset(server) })
	set(0)
	head := make([]byte, 12)
	if _, err := io.ReadFull(good, head); err != nil || string(head) != "HTTP/1.1 200" {
		t.Fatalf("head %q, error %v", head, err)
	}
	eventually(t, "the reset connection is gone", func() bool {
		s.limiter.mu.Lock()
		defer s.limiter.mu.Unlock()
		return len(s.limiter.conns) == 1
	})
	if n := served.Load(); n != 1 {
		t.Errorf("%d requests were served, want 1", n)
	}
}
