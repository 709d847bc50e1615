package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// slowSessions opens sessions two at a time.
type slowSessions struct {
	*fakeNode
	both sync.WaitGroup
}

func (n *slowSessions) OpenSession(ctx context.Context) (context.Context, func(), error) {
	n.both.Done()
	n.both.Wait()
	return n.fakeNode.OpenSession(ctx)
}

// TestSocketWaitsShareOneSession: two waits of a WebSocket that begin together have one session,
// which ends with it.
func TestSocketWaitsShareOneSession(t *testing.T) {
	n := &slowSessions{fakeNode: &fakeNode{}}
	n.both.Add(2)
	s := newServer(t, n.fakeNode, Options{})
	s.node = n
	conn, other := net.Pipe()
	defer other.Close()
	defer conn.Close()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if _, err := s.sessions.open(s, conn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := n.sessions.Load(); got != 1 {
		t.Errorf("%d sessions are open, want 1", got)
	}
}

// TestReplyAfterSocketEndFreesMemory: a request's memory is released even if its WebSocket ends
// before its reply.
func TestReplyAfterSocketEndFreesMemory(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	n := &fakeNode{tx: func(context.Context, *view.GetTx) (*view.FinalOutcome, error) {
		close(began)
		<-goOn
		return nil, &view.LookupError{Kind: view.ErrTimeout}
	}}
	s, url := served(t, n, Options{PollingTimeout: time.Minute})
	c := dial(t, url, nil)
	sendText(t, c, `{"method":"tx","params":["`+zeroHash+`","a.near"],"id":1}`+strings.Repeat(" ", 4<<20))
	<-began
	if got := s.limiter.inFlight.Load(); got < 4<<20 {
		t.Errorf("%d bytes in flight", got)
	}
	var k *socket
	s.sockets.each(func(x *socket) { k = x })
	_ = c.Close()
	eventually(t, "the WebSocket has ended", func() bool {
		k.out.mu.Lock()
		defer k.out.mu.Unlock()
		return k.out.ended
	})
	close(goOn)
	eventually(t, "nothing is in flight", func() bool { return s.limiter.inFlight.Load() == 0 })
}

// TestFreeSpaceIsNotifiedOnce: a refused subscriber is notified of room once something has left and
// not before, even if its notice is larger than half of the queue.
func TestFreeSpaceIsNotifiedOnce(t *testing.T) {
	sending, sent := make(chan struct{}), make(chan struct{})
	var queued atomic.Int64
	o := newOutbox(func(*frame, bool) error {
		sending <- struct{}{}
		<-sent
		return nil
	}, func() {}, &queued)
	o.maxMessages, o.maxBytes, o.maxQueued, o.refused = 10, 100, 1<<40, func(limits.ID) {}
	if !o.offer(frame{body: make([]byte, 40)}) {
		t.Fatal("an empty queue takes nothing")
	}
	<-sending
	if o.offer(frame{body: make([]byte, 70)}) {
		t.Fatal("the queue refuses the notice")
	}
	var notified atomic.Int64
	o.whenRoom(func() { notified.Add(1) })
	if notified.Load() != 0 {
		t.Fatal("notified of room at once, although the queue is full")
	}
	sent <- struct{}{}
	eventually(t, "it is told", func() bool { return notified.Load() == 1 })
	if !o.offer(frame{body: make([]byte, 70)}) {
		t.Fatal("the empty queue refuses a notice")
	}
	<-sending
	sent <- struct{}{}
}

// TestNothingIsSentAfterSocketEnd: nothing is sent on a WebSocket after its end, when its
// connection is released.
func TestNothingIsSentAfterSocketEnd(t *testing.T) {
	fails := make(chan struct{})
	var queued atomic.Int64
	var over atomic.Bool
	o := newOutbox(func(*frame, bool) error {
		<-fails
		time.Sleep(20 * time.Millisecond)
		over.Store(true)
		return errors.New("cut")
	}, func() {}, &queued)
	o.maxMessages, o.maxBytes, o.maxQueued, o.refused = 10, 100, 1<<40, func(limits.ID) {}
	o.offer(frame{body: []byte("x")})
	o.end()
	close(fails)
	o.settle()
	if !over.Load() {
		t.Error("a goroutine is still sending")
	}
}

// TestEmptyQueueAcceptsAnyMessage: an empty queue accepts any message even if all queues together
// are full, so that a subscriber that is notified of room is not refused again.
func TestEmptyQueueAcceptsAnyMessage(t *testing.T) {
	goOn := make(chan struct{})
	var queued atomic.Int64
	queued.Store(1 << 30)
	o := newOutbox(func(*frame, bool) error {
		<-goOn
		return nil
	}, func() {}, &queued)
	o.maxMessages, o.maxBytes, o.maxQueued, o.refused = 10, 1<<20, 1000, func(limits.ID) {}
	notified := 0
	if o.whenRoom(func() { notified++ }); notified != 1 {
		t.Fatal("no waiter was notified that the queue is empty")
	}
	if !o.offer(frame{body: make([]byte, 4<<20)}) {
		t.Fatal("it is empty, and takes nothing")
	}
	if o.offer(frame{body: make([]byte, 100<<10)}) {
		t.Error("all are full, and it takes more")
	}
	if o.whenRoom(func() { notified++ }); notified != 1 {
		t.Error("notified of room although the client has not read")
	}
	goOn <- struct{}{}
	o.settle()
	if notified != 2 {
		t.Error("the queue is empty, but no waiter was notified")
	}
}

// TestEndedQueueNotifiesNobody: a subscriber that waits for room is not notified by a queue that
// has ended: it would be refused and wait again, in a loop.
func TestEndedQueueNotifiesNobody(t *testing.T) {
	for name, end := range map[string]func(*outbox){
		"cut": (*outbox).end, "closed": func(o *outbox) { o.must(frame{kind: closeFrame}) },
	} {
		t.Run(name, func(t *testing.T) {
			goOn := make(chan struct{})
			var queued atomic.Int64
			o := newOutbox(func(*frame, bool) error {
				<-goOn
				return nil
			}, func() {}, &queued)
			o.maxMessages, o.maxBytes, o.maxQueued, o.refused = 10, 100, 1<<40, func(limits.ID) {}
			o.offer(frame{body: make([]byte, 80)})
			var notified atomic.Int64
			notify := func() { notified.Add(1) }
			o.whenRoom(notify)
			end(o)
			o.whenRoom(notify)
			close(goOn)
			o.settle()
			if o.whenRoom(notify); notified.Load() != 0 || o.offer(frame{}) {
				t.Errorf("notified of room %d times, want 0", notified.Load())
			}
		})
	}
}

// blockedListener is a listener to whose clients nothing can be sent.
type blockedListener struct {
	net.Listener
	sent chan string
}

type blockedConn struct {
	net.Conn
	sent chan string
}

func (l blockedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return blockedConn{c, l.sent}, err
}

func (c blockedConn) Write(b []byte) (int, error) {
	c.sent <- string(b)
	return 0, net.ErrClosed
}

// TestLostHandshakeTakesNoPlace: a WebSocket whose client is gone before the upgrade's reply takes
// no place.
func TestLostHandshakeTakesNoPlace(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{Addr: "127.0.0.1:0"})
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	sent, done := make(chan string, 10), make(chan error)
	go func() { done <- s.Serve(blockedListener{l, sent}) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	_, _ = io.Copy(io.Discard, c) // up to its end
	if got := <-sent; !strings.HasPrefix(got, "HTTP/1.1 101") {
		t.Errorf("sent %q", got)
	}
	s.sockets.mu.Lock()
	if n := len(s.sockets.open); n != 0 {
		t.Errorf("%d WebSockets are counted", n)
	}
	s.sockets.mu.Unlock()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// headless is a node that does not know its head.
type headless struct{ *fakeNode }

func (headless) Head() view.At { panic("no head") }

// TestPanicEndsOnlyItsWebSocket: a panic outside of methods, in a message that waits, ends its
// WebSocket but no other, and not the process.
func TestPanicEndsOnlyItsWebSocket(t *testing.T) {
	n := &fakeNode{err: view.UnknownHeight(7)}
	s, url := served(t, n, Options{})
	s.node = headless{n}
	c, other := dial(t, url, nil), dial(t, url, nil)
	sendText(t, c, `[{"method":"tx","params":["`+zeroHash+`","a.near"],"id":1},{"method":"block","params":{"block_id":7},"id":2}]`+strings.Repeat(" ", 200<<10))
	if code := closeCodeOf(t, c); code != 0 && code != websocket.CloseAbnormalClosure {
		t.Errorf("close code %d", code)
	}
	sendText(t, other, `{"method":"gas_price","id":1,"params":[null]}`)
	if got := receiveText(t, other); !strings.HasSuffix(got, `"id":1}`) {
		t.Errorf("another WebSocket: %s", got)
	}
	if got := s.metrics.panics.Load(); got != 1 {
		t.Errorf("%d panics are counted", got)
	}
	eventually(t, "nothing is in flight", func() bool { return s.limiter.inFlight.Load() == 0 })
}

// panicky panics on the first line that is logged.
type panicky struct{ did atomic.Bool }

func (*panicky) Levels() []logrus.Level { return logrus.AllLevels }
func (p *panicky) Fire(*logrus.Entry) error {
	if p.did.CompareAndSwap(false, true) {
		panic("the log is full")
	}
	return nil
}

// TestPanicInBatchFailsWholeBatch: a panic outside of methods, in a concurrent request of a batch,
// fails the whole batch.
func TestPanicInBatchFailsWholeBatch(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	hook := new(panicky)
	log.AddHook(hook)
	n := &fakeNode{tx: func(context.Context, *view.GetTx) (*view.FinalOutcome, error) { return nil, errors.New("no disk") }}
	s := newServer(t, n, Options{Log: log})
	one := `{"method":"tx","params":["` + zeroHash + `","a.near"],"id":1}`
	if status, reply := post(s, "/", "["+one+","+one+"]"); status != 500 || !hook.did.Load() {
		t.Errorf("status %d, reply %s", status, reply)
	}
	if status, reply := post(s, "/", `{"method":"health","id":1}`); status != 200 {
		t.Errorf("the next: %d %s", status, reply)
	}
}

// TestFloodOfFramesIsReadSlowly: a client that floods a WebSocket with fragments or pings is read
// only as fast as its share of work allows, and others are not affected.
func TestFloodOfFramesIsReadSlowly(t *testing.T) {
	for name, flood := range map[string]func(net.Conn) (int, error){
		"pieces": func(c net.Conn) (int, error) {
			b := []byte{0x01, 0x81, 0, 0, 0, 0, '['}
			for range 8192 {
				b = append(b, 0x00, 0x82, 0, 0, 0, 0, '0', ',')
			}
			return c.Write(b)
		},
		"pings": func(c net.Conn) (int, error) {
			return c.Write(bytes.Repeat([]byte{0x89, 0x80, 0, 0, 0, 0}, 8192))
		},
		"drained": func(c net.Conn) (int, error) { // a refused message is read to its end
			_, _ = c.Write([]byte{0x81, 0xff, 0, 0, 0, 0, 0, 0x9f, 0, 0, 0, 0, 0, 0})
			return c.Write(make([]byte, 8<<20))
		},
	} {
		s, url := served(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) {
			l.AddressWork, l.AddressInFlight = limits.ByAddress{Max: 1, Loopback: true}, limits.ByAddress{Max: 100 << 10, Loopback: true}
		})})
		c := dial(t, url, nil).NetConn()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = c.SetWriteDeadline(time.Now().Add(20 * time.Second))
			_, _ = flood(c)
		}()
		var k *socket
		s.sockets.each(func(x *socket) { k = x })
		eventually(t, name+" are charged for", func() bool { return k.client.quota.wait(time.Now(), time.Millisecond) > 0 })
		_ = c.Close()
		<-gone
	}
}
