// Package session holds what stands behind the RPC's connections: the actor rpc, one session below it for each client, and
// the waiters below those. When a client goes away its session ends, and its waits with it.
//
//	in      OpenSession, CloseSession, AwaitTransaction, ForgetTransaction from the node
//	out     the answers of waiters, by the Reply of each wait
//	state   RPC: the open sessions; Session: its waits
//	units   none
//	bound   Limits: sessions, waits of all, waits of one session; permits are counted before anything is sent
//	errors  ErrNoSession; a waiter that fails is answered for with ErrFailed
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
)

// RPC is the parent of all sessions.
type RPC struct {
	session func() *actor.Props
	open    map[messages.SessionID]*actor.PID
	byPID   map[string]messages.SessionID
}

// NewRPC returns the actor; session makes the properties of a session.
func NewRPC(session func() *actor.Props) *RPC {
	return &RPC{session: session, open: map[messages.SessionID]*actor.PID{}, byPID: map[string]messages.SessionID{}}
}

// Receive handles one message.
func (a *RPC) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case messages.OpenSession:
		if a.open[m.Session] != nil {
			return
		}
		pid, err := c.SpawnNamed(a.session(), "session-"+strconv.FormatUint(uint64(m.Session), 10))
		if err != nil {
			panic(fmt.Errorf("rpc actor: open session %d: %w", m.Session, err))
		}
		a.open[m.Session], a.byPID[pid.GetId()] = pid, m.Session
	case messages.CloseSession:
		if pid := a.open[m.Session]; pid != nil {
			c.Stop(pid)
			a.forget(pid)
		}
	case messages.AwaitTransaction:
		if pid := a.open[m.Session]; pid != nil {
			c.Send(pid, m)
		} else {
			m.Reply(messages.Awaited{Err: ErrNoSession})
		}
	case messages.ForgetTransaction:
		if pid := a.open[m.Session]; pid != nil {
			c.Send(pid, m)
		}
	case *actor.Terminated:
		a.forget(m.Who)
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("rpc actor: no case for %T", m))
	}
}

func (a *RPC) forget(pid *actor.PID) {
	if id, ok := a.byPID[pid.GetId()]; ok {
		delete(a.open, id)
		delete(a.byPID, pid.GetId())
	}
}

// Session is one client: the parent of its waiters.
type Session struct {
	waiter func(messages.AwaitTransaction) *actor.Props
	waits  map[messages.WaiterID]*actor.PID
	byPID  map[string]wait
}

type wait struct {
	id    messages.WaiterID
	reply messages.Sender[messages.Awaited]
}

// NewSession returns the actor; waiter makes the properties of a waiter.
func NewSession(waiter func(messages.AwaitTransaction) *actor.Props) *Session {
	return &Session{waiter: waiter, waits: map[messages.WaiterID]*actor.PID{}, byPID: map[string]wait{}}
}

// Receive handles one message.
func (a *Session) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case messages.AwaitTransaction:
		pid, err := c.SpawnNamed(a.waiter(m), "waiter-"+strconv.FormatUint(uint64(m.Waiter), 10))
		if err != nil {
			m.Reply(messages.Awaited{Err: fmt.Errorf("%w: %w", ErrFailed, err)})
			return
		}
		a.waits[m.Waiter], a.byPID[pid.GetId()] = pid, wait{id: m.Waiter, reply: m.Reply}
	case messages.ForgetTransaction:
		if pid := a.waits[m.Waiter]; pid != nil {
			c.Stop(pid)
		}
	case *actor.Terminated: // of a waiter: it has answered, was told to stop, or failed
		if w, ok := a.byPID[m.Who.GetId()]; ok {
			delete(a.waits, w.id)
			delete(a.byPID, m.Who.GetId())
			w.reply(messages.Awaited{Err: ErrFailed}) // lost if it has answered
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("session actor: no case for %T", m))
	}
}
