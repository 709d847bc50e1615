package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// TestPacerSharesHalfOfTheCores: the work of any number of connections takes as long as on half of
// the cores. A client that comes while many connections of another wait is at most the second to be
// admitted.
func TestPacerSharesHalfOfTheCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		var stopping atomic.Bool
		p.init(100, &stopping)
		const conns, payments = 64, 50
		began, all := time.Now(), sync.WaitGroup{}
		for i := range conns {
			all.Go(func() {
				for range payments {
					p.pass(fair.Client{Address: [16]byte{1}, Conn: uint64(i)}, int64(paceQuantum))
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		came := time.Now()
		p.pass(fair.Client{Address: [16]byte{2}}, int64(paceQuantum))
		if took := time.Since(came); took > 3*paceQuantum {
			t.Errorf("another client waited %v", took)
		}
		all.Wait()
		want := conns * payments * paceQuantum / time.Duration(p.cores)
		if took := time.Since(began); took < want-3*paceSlack || took > want+3*paceSlack {
			t.Errorf("elapsed time %v, want %v", took, want)
		}
		if p.waiting() != 0 || p.delays.Load() == 0 {
			t.Errorf("%d wait, %d have waited", p.waiting(), p.delays.Load())
		}
		time.Sleep(time.Second)
		came = time.Now()
		if p.pass(fair.Client{Address: [16]byte{2}}, int64(paceQuantum)); time.Since(came) != 0 {
			t.Errorf("a client alone waited %v", time.Since(came))
		}
		synctest.Wait()
	})
}

// TestPacerDelaysNoLoneConnection: a connection that works continuously, in large and small pieces,
// is not delayed while no other works.
func TestPacerDelaysNoLoneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		var stopping atomic.Bool
		p.init(100, &stopping)
		p.cores = 1
		for range 20 {
			for _, work := range []time.Duration{10 * time.Millisecond, paceQuantum, paceQuantum, 3 * time.Millisecond} {
				time.Sleep(work)
				began := time.Now()
				p.pass(fair.Client{Conn: 1}, int64(work))
				if took := time.Since(began); took != 0 {
					t.Fatalf("the connection waited %v after %v of work", took, work)
				}
			}
		}
	})
}

func TestShutdownEndsPacerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		var stopping atomic.Bool
		p.init(100, &stopping)
		began, all := time.Now(), sync.WaitGroup{}
		for i := range 50 {
			all.Go(func() { p.pass(fair.Client{Conn: uint64(i)}, int64(time.Second)) })
		}
		time.Sleep(time.Millisecond)
		stopping.Store(true)
		p.stop()
		p.pass(fair.Client{}, int64(time.Hour))
		all.Wait()
		if took := time.Since(began); took > time.Millisecond {
			t.Errorf("elapsed time %v is out of bounds", took)
		}
	})
}

// TestConnectionPaysUnlessReadsBlock: a connection pays for its work unless its reads block. It
// also pays if its client sends requests before it has the replies to earlier ones.
func TestConnectionPaysUnlessReadsBlock(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	for _, tc := range []struct {
		name   string
		blocks bool // reads wait for the client
		served int  // requests that each read returns
		queued bool // replies wait to be sent when a read returns
		pays   bool
	}{
		{name: "reads do not block", pays: true},
		{name: "reads block", blocks: true, served: 1},
		{name: "reads block and return several requests", blocks: true, served: 2, pays: true},
		{name: "reads block while replies are queued", blocks: true, served: 1, queued: true, pays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &conn{limiter: s.limiter, client: noClient}
			c.pace.unsent = func() bool { return tc.queued }
			s.limiter.pacer.due = -1
			now := clock()
			for range 10 {
				c.pace.from = now - int64(paceQuantum) // it has worked for so long
				c.pace.served = tc.served
				start := c.pace.before(c)
				if now = clock(); tc.blocks {
					start -= int64(time.Second)
				}
				c.pace.after(c, start, 100)
			}
			if paid := s.limiter.pacer.due != -1; paid != tc.pays {
				t.Errorf("the connection pays: %v", paid)
			}
		})
	}
}

// TestClientThatSendsEarlyPaysForReplies: the time in which another goroutine sends the replies is
// paid by a client that does not wait for them, and by no other.
func TestClientThatSendsEarlyPaysForReplies(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	for _, early := range []bool{false, true} {
		c := &conn{limiter: s.limiter, client: noClient}
		c.pace.unsent = func() bool { return early }
		s.limiter.pacer.due = -1
		for range 2 {
			c.pace.from = clock()
			c.pace.sent.Store(int64(paceQuantum))
			c.pace.after(c, c.pace.before(c)-int64(time.Second), 100)
		}
		if paid := s.limiter.pacer.due != -1; paid != early {
			t.Errorf("sends early: %v; pays: %v", early, paid)
		}
	}
}

// TestPaceDelaysNoClientThatWaits: many clients whose requests are answered late at the same time
// are not delayed further, because each waits for its replies.
func TestPaceDelaysNoClientThatWaits(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	for i := range 64 {
		c := &conn{limiter: s.limiter, client: noClient}
		c.pace.after(c, clock(), 100) // its first request came with the connection
		for range 3 {
			c.pace.from -= int64(time.Second) // the reply took that long
			start := c.pace.before(c)
			c.pace.after(c, start-int64(2*paceMost), 100)
		}
		if n := s.limiter.pacer.delays.Load(); n != 0 {
			t.Fatalf("connection %d waited", i)
		}
	}
}

// TestFloodsDelayOthersLittle: while 64 connections send without waiting, a request of another
// client waits for few of their requests.
func TestFloodsDelayOthersLittle(t *testing.T) {
	head := strings.Builder{}
	for i := range 350 {
		fmt.Fprintf(&head, "X-%d: %d\r\n", i, i*i)
	}
	for name, flood := range map[string]struct{ open, again string }{
		"HTTP": {"", "GET /health HTTP/1.1\r\nHost: x\r\n" + head.String() + "\r\n"},
		"WebSocket": {"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
			maskedText(`{"jsonrpc":"2.0","id":1,"method":"health","params":[]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			var served atomic.Int64
			n := &countingNode{served: &served}
			s, addr := serve(t, &n.fakeNode, Options{})
			s.node = n
			many := []byte(strings.Repeat(flood.again, 100))
			for range 64 {
				c := dialFrom(t, "127.0.0.3", addr)
				go func() { _, _ = io.Copy(io.Discard, c) }()
				go func() {
					_, err := io.WriteString(c, flood.open)
					for err == nil {
						_, err = c.Write(many)
					}
				}()
			}
			eventually(t, "the flood has begun", func() bool { return served.Load() > 10_000 })
			honest := dialFrom(t, "127.0.0.2", addr)
			var waited []int64
			for range 50 {
				before := served.Load()
				if r, _, err := ask(honest, healthy); err != nil || r.StatusCode != 200 {
					t.Fatalf("error %v", err)
				}
				waited = append(waited, served.Load()-before)
			}
			slices.Sort(waited)
			t.Logf("requests of the flood that were served while one waited: %v", waited)
			if median := waited[len(waited)/2]; median > 1000 {
				t.Errorf("of 50 requests half waited for %d of the flood", median)
			}
		})
	}
}

// countingNode counts its calls.
type countingNode struct {
	fakeNode
	served *atomic.Int64
}

func (n *countingNode) Health() error { n.served.Add(1); return nil }

func maskedText(s string) string {
	return string([]byte{0x81, 0x80 | byte(len(s)), 0, 0, 0, 0}) + s
}

// TestSmallMessagesAreWrittenTogether: consecutive small messages are written together, none is
// lost, and their order is kept.
func TestSmallMessagesAreWrittenTogether(t *testing.T) {
	var c cork
	var got bytes.Buffer
	writes := 0
	write := func(b []byte) (int, error) {
		writes++
		return got.Write(b)
	}
	want := strings.Builder{}
	put := func(size int, more bool) {
		b := bytes.Repeat([]byte{byte('a' + want.Len()%26)}, size)
		want.Write(b)
		c.more = more
		if n, err := c.write(b, write); n != size || err != nil {
			t.Fatalf("got %d, error %v", n, err)
		}
	}
	for i := range 100 {
		put(100, i < 99)
	}
	if writes != 1 || got.String() != want.String() {
		t.Fatalf("%d writes of %d bytes, want one of %d", writes, got.Len(), want.Len())
	}
	put(corkBytes-10, true)
	put(20, true)
	put(3*corkBytes, true)
	put(1, true)
	put(1, false)
	if writes != 5 || got.String() != want.String() {
		t.Errorf("%d writes of %d bytes, want %d", writes, got.Len(), want.Len())
	}
	c.more = true
	_, _ = c.write([]byte("x"), write)
	c.more = false
	broken := errors.New("broken")
	if _, err := c.write([]byte("y"), func([]byte) (int, error) { return 0, broken }); err != broken {
		t.Errorf("a failure: %v", err)
	}
}

// TestNoticesArriveWholeAndInOrder: notices on a WebSocket arrive whole and in order, also if they
// are sent together.
func TestNoticesArriveWholeAndInOrder(t *testing.T) {
	server, client := net.Pipe()
	s := newServer(t, &fakeNode{}, Options{})
	c := &conn{Conn: server, limiter: s.limiter, client: noClient, transfer: new(transfer)}
	go func() {
		for i := range 1000 {
			c.cork.more = i < 999
			_, _ = fmt.Fprintf(c, "%d\n", i)
		}
		_ = server.Close()
	}()
	b, err := io.ReadAll(client)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(b))
	for i, line := range lines {
		if line != fmt.Sprint(i) {
			t.Fatalf("line %d is %s", i, line)
		}
	}
	if len(lines) != 1000 {
		t.Errorf("%d lines", len(lines))
	}
	runtime.KeepAlive(c)
}
