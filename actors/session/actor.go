// Package session holds what stands behind the RPC's connections: the actor rpc, one session below it for each client that
// submits or waits, and the waiters below those. When a client goes away its session ends, and its waits with it.
//
//	in      OpenSession, CloseSession, Request, SubmitTransactions, ForgetTransaction from the node; SubmissionsDone from the
//	        mempools; WatchAgain from milestones, SubmitAgain from the mempools
//	out     the answers of waiters, by the Request of each wait; SubmitTransactions to the mempools
//	state   RPC: the open sessions; Session: its waits
//	units   none
//	bound   Limits: sessions, waits of all, of one client, submissions of one session; permits are counted before anything is sent
//	errors  ErrNoSession; view.ErrTimeout where the time of a wait is over before its turn comes; a waiter that fails is answered for with ErrFailed. A session that fails takes its waits with it, and
//	        the next message makes it anew
//	source  our own
//
// Sessions hold no state of the chain: reads are answered by the connection's own goroutine from snapshots.
package session

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
)

// Errors of waits.
var (
	ErrNoSession = errors.New("session: not open")
	ErrFailed    = errors.New("session: the waiter failed")
	// ErrUnhandled is the ErrFailed of a request that came to a session which had failed on another, so that it may be sent again.
	ErrUnhandled = fmt.Errorf("%w: not on this request", ErrFailed)
)

// Name is that of the actor above all sessions.
const Name = "rpc"

// ID is the name in the process of the actor of an address: a session or a waiter.
func ID(a messages.Address) string {
	b := append(make([]byte, 0, 64), Name+"/"...)
	b = appendSession(b, a.Session)
	if a.Waiter != 0 {
		b = appendWaiter(append(b, '/'), a.Waiter)
	}
	return string(b)
}

func appendSession(b []byte, id messages.SessionID) []byte {
	return strconv.AppendUint(append(b, "session-"...), uint64(id), 10)
}

func appendWaiter(b []byte, id messages.WaiterID) []byte {
	return strconv.AppendUint(append(b, "waiter-"...), uint64(id), 10)
}

// Options are what the actors work with.
type Options struct {
	Session func(messages.SessionID) *actor.Props
	// Failed is told of a session that has ended by itself, with all that was on its way to it. nil: nobody asks.
	Failed func(messages.SessionID)
	Open   []messages.SessionID // already: of an actor that has failed, whose sessions' clients have been told
}

// Supervisor is the parent of all sessions.
type Supervisor struct {
	o     Options
	open  map[messages.SessionID]*actor.PID // nil: nothing has needed it yet
	byPID map[string]messages.SessionID
}

// NewSupervisor returns the actor.
func NewSupervisor(o Options) *Supervisor {
	a := &Supervisor{o: o, open: map[messages.SessionID]*actor.PID{}, byPID: map[string]messages.SessionID{}}
	for _, id := range o.Open {
		a.open[id] = nil
	}
	return a
}

// Receive handles one message.
func (a *Supervisor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case messages.OpenSession:
		if _, ok := a.open[m.Session]; !ok {
			a.open[m.Session] = nil
		}
	case messages.CloseSession:
		if pid := a.open[m.Session]; pid != nil {
			delete(a.byPID, pid.GetId())
			c.Poison(pid) // behind what he has handed in, which is looked at also when he is gone
		}
		delete(a.open, m.Session)
	case Request:
		if m.expired() { // nobody waits for it any more
		} else if pid := a.session(c, m.Waiter.Session); pid != nil {
			c.Send(pid, m)
		} else {
			m.Reply(messages.Awaited{Err: ErrNoSession})
		}
	case messages.SubmitTransactions:
		if pid := a.session(c, m.From.Session); pid != nil {
			c.Send(pid, m)
		}
	case messages.ForgetTransaction:
		if pid := a.open[m.Waiter.Session]; pid != nil {
			c.Send(pid, m)
		}
	case messages.WatchAgain, messages.SubmitAgain:
		for _, pid := range a.open { // each on its own, so the order does not matter
			if pid != nil {
				c.Send(pid, m)
			}
		}
	case *actor.Restarting: // all sessions end now, and who makes the next actor tells their clients
		clear(a.byPID)
	case *actor.Terminated:
		if id, ok := a.byPID[m.Who.GetId()]; ok { // nobody has closed it: it has failed
			delete(a.byPID, m.Who.GetId())
			a.open[id] = nil
			if a.o.Failed != nil {
				a.o.Failed(id)
			}
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("rpc actor: no case for %T", m))
	}
}

// session returns the actor of an open session, which is made if there is none; nil: it is not open.
func (a *Supervisor) session(c actor.Context, id messages.SessionID) *actor.PID {
	pid, ok := a.open[id]
	if !ok || pid != nil {
		return pid
	}
	pid, err := c.SpawnNamed(a.o.Session(id), string(appendSession(nil, id)))
	if err != nil {
		panic(fmt.Errorf("rpc actor: open session %d: %w", id, err))
	}
	a.open[id], a.byPID[pid.GetId()] = pid, id
	return pid
}

// SessionOptions are what a session works with.
type SessionOptions struct {
	Waiter func(Request) *actor.Props
	Submit messages.Sender[messages.SubmitTransactions]
	// Done is told of submissions that are done with.
	Done func(int)
	// Ended is closed once it is known that the session has failed.
	Ended chan struct{}
}

// Session is one client: the parent of its waiters.
type Session struct {
	o     SessionOptions
	waits map[messages.WaiterID]*actor.PID
	byPID map[string]Request
}

// NewSession returns the actor.
func NewSession(o SessionOptions) *Session {
	return &Session{o: o, waits: map[messages.WaiterID]*actor.PID{}, byPID: map[string]Request{}}
}

// Receive handles one message.
func (a *Session) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case Request:
		m.takenBy.Store(&a.o.Ended)
		if m.expired() || !m.begin() {
			return
		}
		pid, err := c.SpawnNamed(a.o.Waiter(m), string(appendWaiter(nil, m.Waiter.Waiter)))
		if err != nil {
			m.Reply(messages.Awaited{Err: fmt.Errorf("%w: %w", ErrFailed, err)})
			return
		}
		a.waits[m.Waiter.Waiter], a.byPID[pid.GetId()] = pid, m
	case messages.SubmitTransactions:
		a.o.Submit(m)
	case messages.SubmissionsDone:
		a.o.Done(m.Count)
	case messages.ForgetTransaction:
		if pid := a.waits[m.Waiter.Waiter]; pid != nil {
			c.Stop(pid)
		}
	case messages.WatchAgain, messages.SubmitAgain:
		for _, pid := range a.waits {
			c.Send(pid, m)
		}
	case *actor.Terminated: // of a waiter: it has answered, was told to stop, or failed
		if r, ok := a.byPID[m.Who.GetId()]; ok {
			delete(a.waits, r.Waiter.Waiter)
			delete(a.byPID, m.Who.GetId())
			r.Reply(messages.Awaited{Err: ErrFailed}) // lost if it has answered
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("session actor: no case for %T", m))
	}
}
