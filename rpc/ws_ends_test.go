package rpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// slowSessions opens sessions for two at a time.
type slowSessions struct {
	*fakeNode
	both sync.WaitGroup
}

func (n *slowSessions) OpenSession(ctx context.Context) (context.Context, func(), error) {
	n.both.Done()
	n.both.Wait()
	return n.fakeNode.OpenSession(ctx)
}

// TestOneSessionOfTwoWaits: two waits of a WebSocket that begin together have one session, which ends with it.
func TestOneSessionOfTwoWaits(t *testing.T) {
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

// TestReplyWithoutReader: what a request has held is given back also where its WebSocket ends before its reply.
func TestReplyWithoutReader(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	n := &fakeNode{tx: func(context.Context, *view.GetTx) (*view.FinalOutcome, error) {
		close(began)
		<-goOn
		return nil, &view.LookupError{Kind: view.ErrTimeout}
	}}
	s, url := served(t, n, Options{PollingTimeout: time.Minute})
	c := dial(t, url, nil)
	say(t, c, `{"method":"tx","params":["`+zeroHash+`","a.near"],"id":1}`+strings.Repeat(" ", 4<<20))
	<-began
	if got := s.door.inFlight.Load(); got < 4<<20 {
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
	eventually(t, "nothing is in flight", func() bool { return s.door.inFlight.Load() == 0 })
}

// TestRoomIsSaidOnce: who was refused is told of room once something has left, not before, also where what he offers is larger than half
// of the queue.
func TestRoomIsSaidOnce(t *testing.T) {
	sending, sent := make(chan struct{}), make(chan struct{})
	var queued atomic.Int64
	o := newOutbox(func(*frame) error {
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
		t.Fatal("there is no room for it")
	}
	var told atomic.Int64
	o.whenRoom(func() { told.Add(1) })
	if told.Load() != 0 {
		t.Fatal("it is told of room at once, and would be for ever")
	}
	sent <- struct{}{}
	eventually(t, "it is told", func() bool { return told.Load() == 1 })
	if !o.offer(frame{body: make([]byte, 70)}) {
		t.Fatal("there is no room when all has left")
	}
	<-sending
	sent <- struct{}{}
}

// TestNobodySendsBehindTheEnd: when a WebSocket has ended, nobody sends on it any more: its connection is taken apart.
func TestNobodySendsBehindTheEnd(t *testing.T) {
	fails := make(chan struct{})
	var queued atomic.Int64
	var over atomic.Bool
	o := newOutbox(func(*frame) error {
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
		t.Error("somebody is still sending")
	}
}
