// Package session contains the actors that serve clients of the RPC: the actor "rpc", below it one
// session for each client that submits or waits, and below each session its waiters. When a client
// disconnects, its session and all its waits end.
//
//	in      OpenSession, CloseSession, Request, ForgetTransaction from the node; SubmitAgain from
//	        the mempools; WatchAgain from txtracker
//	out     the answers of waiters, through the Request of each wait
//	state   Supervisor: the open sessions; Session: its waits
//	units   none
//	bound   node.Limits bounds sessions, waits, and unchecked submissions of a session; the
//	        node takes permits before it sends anything here
//	errors  ErrNoSession; view.ErrTimeout if a wait times out before a session handles it;
//	        ErrFailed if the waiter failed. If a session fails, all its waits fail; the next
//	        message starts a new session actor
//	source  our own
//
// Sessions hold no state of the chain. Reads do not pass through sessions: the RPC server answers a
// read on the goroutine of its connection.
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
	ErrNoSession = errors.New("session: the session is not open")
	ErrFailed    = errors.New("session: the actor that waits for the transaction has failed")
	// ErrUnhandled wraps ErrFailed. It is the answer to a request that reached a session after the
	// session had failed on another request. The caller may send the request again.
	ErrUnhandled = fmt.Errorf("%w on another request", ErrFailed)
)

// Name is the name of the parent of all sessions.
const Name = "rpc"

// ID returns the protoactor id of the actor at an address: a session or a waiter.
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

// Owner makes the actors of sessions, and learns when they start and fail. The node implements it.
type Owner interface {
	// Session returns the Props of a session's actor.
	Session(messages.SessionID) *actor.Props
	// Started is called when a session's actor has started. From then on, requests may be sent to it
	// directly.
	Started(messages.SessionID, *actor.PID)
	// Failed is called after a session actor has failed. All messages that were on their way to the
	// actor are lost.
	Failed(messages.SessionID)
}

// Options configure the Supervisor.
type Options struct {
	// Owner makes the actors of sessions. Required.
	Owner Owner
	// Open are the open sessions of the failed Supervisor that this one replaces. Their clients were
	// informed. Empty: it is the first one.
	Open []messages.SessionID
}

// Supervisor is the actor "rpc", the parent of all sessions.
type Supervisor struct {
	o     Options
	open  map[messages.SessionID]*actor.PID // actors of the open sessions; nil: the actor is not started yet
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
			// Stop the actor only after it has handled its queued messages: waiters submit
			// transactions even if the client has disconnected.
			c.Poison(pid)
		}
		delete(a.open, m.Session)
	case Request:
		if m.expired() { // the client no longer waits
		} else if pid := a.session(c, m.Waiter.Session); pid != nil {
			c.Send(pid, m)
		} else {
			m.Reply(messages.Awaited{Err: ErrNoSession})
		}
	case messages.ForgetTransaction:
		if pid := a.open[m.Waiter.Session]; pid != nil {
			c.Send(pid, m)
		}
	case messages.WatchAgain, messages.SubmitAgain:
		for _, pid := range a.open { // any order will do: the sessions are independent
			if pid != nil {
				c.Send(pid, m)
			}
		}
	case *actor.Restarting: // all sessions end, and the next Supervisor informs the clients
		clear(a.byPID)
	case *actor.Terminated:
		if id, ok := a.byPID[m.Who.GetId()]; ok { // an open session has ended, so its actor has failed
			delete(a.byPID, m.Who.GetId())
			a.open[id] = nil
			a.o.Owner.Failed(id)
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("rpc actor: no case for %T", m))
	}
}

// session returns the actor of a session, and starts that actor if it is not running. The result is
// nil if the session is not open.
func (a *Supervisor) session(c actor.Context, id messages.SessionID) *actor.PID {
	pid, ok := a.open[id]
	if !ok || pid != nil {
		return pid
	}
	pid, err := c.SpawnNamed(a.o.Owner.Session(id), string(appendSession(nil, id)))
	if err != nil {
		panic(fmt.Errorf("rpc actor: start session %d: %w", id, err))
	}
	a.open[id], a.byPID[pid.GetId()] = pid, id
	a.o.Owner.Started(id, pid)
	return pid
}

// SessionOptions configure a session.
type SessionOptions struct {
	// Waiter returns the Props of the actor that waits for a request. Required.
	Waiter func(Request) *actor.Props
	// Ended is closed when the session is known to have failed.
	Ended chan struct{}
}

// Session is the actor of one client, and the parent of its waiters.
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
	case messages.ForgetTransaction:
		if pid := a.waits[m.Waiter.Waiter]; pid != nil {
			c.Stop(pid)
		}
	case messages.WatchAgain, messages.SubmitAgain:
		for _, pid := range a.waits {
			c.Send(pid, m)
		}
	case *actor.Terminated: // a waiter has answered, was stopped, or failed
		if r, ok := a.byPID[m.Who.GetId()]; ok {
			delete(a.waits, r.Waiter.Waiter)
			delete(a.byPID, m.Who.GetId())
			r.Reply(messages.Awaited{Err: ErrFailed}) // without effect if the waiter has answered
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("session actor: no case for %T", m))
	}
}
