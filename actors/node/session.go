package node

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// DefaultSession is open as long as the node runs, for callers without a connection.
const DefaultSession messages.SessionID = 0

// sessionQueue is how many submissions of a session may be on their way; who has more waits. The default session has that of
// many connections.
const (
	sessionQueue = 64
	defaultQueue = 4096
)

// sessionHandle is what a session's requests share: permits, counted before anything is sent, and the news that its actor has failed.
type sessionHandle struct {
	id     messages.SessionID
	slots  chan struct{} // submissions on their way
	returned atomic.Uint64 // how many permits were given back
	failed atomic.Pointer[chan struct{}]
}

func newSessionHandle(id messages.SessionID, slots int) *sessionHandle {
	h := &sessionHandle{id: id, slots: make(chan struct{}, slots)}
	failed := make(chan struct{})
	h.failed.Store(&failed)
	return h
}

// done gives permits back.
func (h *sessionHandle) done(n int) {
	for range n {
		select {
		case <-h.slots:
			h.returned.Add(1)
		default: // given back when the actor failed
		}
	}
}

// fail ends the waits of an actor that has failed; what comes now goes to a new one.
func (h *sessionHandle) fail() {
	next := make(chan struct{})
	close(*h.failed.Swap(&next))
	h.done(cap(h.slots))
}

// sessionHandles are the open sessions.
type sessionHandles struct{ m sync.Map }

func (s *sessionHandles) open(h *sessionHandle) { s.m.Store(h.id, h) }

func (s *sessionHandles) close(id messages.SessionID) { s.m.Delete(id) }

// of returns a session's handle, nil if it is closed.
func (s *sessionHandles) of(id messages.SessionID) *sessionHandle {
	h, _ := s.m.Load(id)
	out, _ := h.(*sessionHandle)
	return out
}

// onHalt is told by the rpc actor of a session that has ended by itself.
func (s *sessionHandles) failed(id messages.SessionID) {
	if h := s.of(id); h != nil {
		h.fail()
	}
}

// failAll is told that the actors of all sessions have ended, and returns the sessions.
func (s *sessionHandles) failAll() (open []messages.SessionID) {
	s.m.Range(func(id, h any) bool {
		h.(*sessionHandle).fail()
		open = append(open, id.(messages.SessionID))
		return true
	})
	return open
}

// OpenSession admits a client. Waits under the context that it returns end at the
// latest with done, which is called once, when the client is gone. view.ErrTooManyRequests: there are too many.
func (n *Node) OpenSession(ctx context.Context) (session context.Context, done func(), err error) {
	if n.sessions.Add(1) > int64(n.o.Limits.Sessions) {
		n.sessions.Add(-1)
		return nil, nil, &view.LookupError{Kind: view.ErrTooManyRequests}
	}
	id := messages.SessionID(n.ids.Add(1))
	n.sessionHandles.open(newSessionHandle(id, sessionQueue))
	n.tell(n.rpc, messages.OpenSession{Session: id})
	session, cancel := context.WithCancel(messages.WithSession(ctx, id))
	return session, func() {
		cancel()
		n.sessions.Add(-1)
		n.sessionHandles.close(id)
		n.tell(n.rpc, messages.CloseSession{Session: id})
	}, nil
}

// finalityWaits counts the waits that final blocks may end.
type finalityWaits struct{ n atomic.Int64 }

// add counts one more; first tells whether there was none.
func (f *finalityWaits) add() (first bool) { return f.n.Add(1) == 1 }

func (f *finalityWaits) done() { f.n.Add(-1) }

func (f *finalityWaits) any() bool { return f.n.Load() > 0 }
