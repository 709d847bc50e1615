package node

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// DefaultSession is the session of callers without a connection. DefaultSession is open as long as
// the node runs.
const DefaultSession messages.SessionID = 0

// sessionQueue is the maximum number of unchecked submissions of a session; further submissions
// wait. defaultQueue is the maximum for the default session, which serves many callers.
const (
	sessionQueue = 64
	defaultQueue = 4096
)

// sessionHandle is shared by the requests of a session. It holds the permits that these requests
// take before they send a message, and the signal that the session's actor has failed. Safe for
// concurrent use.
type sessionHandle struct {
	id       messages.SessionID
	slots    chan struct{}                 // semaphore of permits, one for each unchecked submission
	returned atomic.Uint64                 // number of permits that were returned
	failed   atomic.Pointer[chan struct{}] // closed when the current actor has failed
	// actor is the session's actor. nil: that actor is not started or has failed, so messages go to
	// the rpc actor, which starts it.
	actor atomic.Pointer[actor.PID]
}

func newSessionHandle(id messages.SessionID, slots int) *sessionHandle {
	h := &sessionHandle{id: id, slots: make(chan struct{}, slots)}
	failed := make(chan struct{})
	h.failed.Store(&failed)
	return h
}

// done returns n permits.
func (h *sessionHandle) done(n int) {
	for range n {
		select {
		case <-h.slots:
			h.returned.Add(1)
		default: // fail has already returned this permit
		}
	}
}

// The node calls fail after the session's actor has failed. fail ends the actor's waits and returns
// all permits. The next request of the session goes to a new actor.
func (h *sessionHandle) fail() {
	h.actor.Store(nil)
	next := make(chan struct{})
	close(*h.failed.Swap(&next))
	h.done(cap(h.slots))
}

// sessionHandles are the open sessions.
type sessionHandles struct{ m sync.Map }

func (s *sessionHandles) open(h *sessionHandle) { s.m.Store(h.id, h) }

func (s *sessionHandles) close(id messages.SessionID) {
	if h := s.of(id); h != nil {
		h.actor.Store(nil)
	}
	s.m.Delete(id)
}

// started is called after the actor of a session has started.
func (s *sessionHandles) started(id messages.SessionID, pid *actor.PID) {
	if h := s.of(id); h != nil {
		h.actor.Store(pid)
	}
}

// done returns permits of a session whose submissions were checked.
func (s *sessionHandles) done(id messages.SessionID, count int) {
	if h := s.of(id); h != nil {
		h.done(count)
	}
}

// of returns the handle of a session, or nil if the session is closed.
func (s *sessionHandles) of(id messages.SessionID) *sessionHandle {
	h, _ := s.m.Load(id)
	out, _ := h.(*sessionHandle)
	return out
}

// failed is called after the actor of a session has failed.
func (s *sessionHandles) failed(id messages.SessionID) {
	if h := s.of(id); h != nil {
		h.fail()
	}
}

// The node calls failAll after the actors of all sessions have failed. failAll returns the open
// sessions.
func (s *sessionHandles) failAll() (open []messages.SessionID) {
	s.m.Range(func(id, h any) bool {
		h.(*sessionHandle).fail()
		open = append(open, id.(messages.SessionID))
		return true
	})
	return open
}

// OpenSession admits a client. The client's requests use the returned context; their waits end when
// done is called. done must be called once, when the client has disconnected. Error:
// view.ErrTooManyRequests.
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

// finalityWaits counts open waits that need finality.
type finalityWaits struct{ n atomic.Int64 }

// add counts one more wait, and returns whether it is now the only wait.
func (f *finalityWaits) add() (first bool) { return f.n.Add(1) == 1 }

func (f *finalityWaits) done() { f.n.Add(-1) }

func (f *finalityWaits) any() bool { return f.n.Load() > 0 }
