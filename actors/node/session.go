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

// How many submissions of a session may be on their way; further ones wait. The default session
// serves many callers.
const (
	sessionQueue = 64
	defaultQueue = 4096
)

// sessionHandle is what the requests of a session share: permits, taken before anything is
// sent, and the signal that the session's actor has failed. Safe for concurrent use.
type sessionHandle struct {
	id       messages.SessionID
	slots    chan struct{}                 // permits of submissions on their way
	returned atomic.Uint64                 // number of permits given back
	failed   atomic.Pointer[chan struct{}] // closed when the current actor has failed
}

func newSessionHandle(id messages.SessionID, slots int) *sessionHandle {
	h := &sessionHandle{id: id, slots: make(chan struct{}, slots)}
	failed := make(chan struct{})
	h.failed.Store(&failed)
	return h
}

// done gives n permits back.
func (h *sessionHandle) done(n int) {
	for range n {
		select {
		case <-h.slots:
			h.returned.Add(1)
		default: // fail has given it back
		}
	}
}

// fail ends the waits of an actor that has failed. Later requests go to a new one.
func (h *sessionHandle) fail() {
	next := make(chan struct{})
	close(*h.failed.Swap(&next))
	h.done(cap(h.slots))
}

// sessionHandles are the open sessions.
type sessionHandles struct{ m sync.Map }

func (s *sessionHandles) open(h *sessionHandle) { s.m.Store(h.id, h) }

func (s *sessionHandles) close(id messages.SessionID) { s.m.Delete(id) }

// of returns a session's handle, or nil if it is closed.
func (s *sessionHandles) of(id messages.SessionID) *sessionHandle {
	h, _ := s.m.Load(id)
	out, _ := h.(*sessionHandle)
	return out
}

// failed handles a session after its actor has failed.
func (s *sessionHandles) failed(id messages.SessionID) {
	if h := s.of(id); h != nil {
		h.fail()
	}
}

// failAll handles the failure of all sessions' actors, and returns the open sessions.
func (s *sessionHandles) failAll() (open []messages.SessionID) {
	s.m.Range(func(id, h any) bool {
		h.(*sessionHandle).fail()
		open = append(open, id.(messages.SessionID))
		return true
	})
	return open
}

// OpenSession admits a client. Waits under the returned context end at the latest with done,
// which must be called once, when the client is gone. Error: view.ErrTooManyRequests.
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

// add counts one more and returns whether there was none.
func (f *finalityWaits) add() (first bool) { return f.n.Add(1) == 1 }

func (f *finalityWaits) done() { f.n.Add(-1) }

func (f *finalityWaits) any() bool { return f.n.Load() > 0 }
