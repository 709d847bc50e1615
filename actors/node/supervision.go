package node

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/system"
)

// failure is what happens when an actor panics.
//
// # Supervision
//
// Problem: an actor that panics leaves its state in doubt and its senders waiting. A silent
// restart of the chain would leave a node alive and wrong; ending the process for one client's
// bug would let one request stop everything.
//
// Invariants:
//   - No failure leaves the node alive and wrong: an actor restarts only if its state can be
//     rebuilt.
//   - Every client that waits for a failed actor gets an answer: the mailbox calls Failed on
//     messages it drops, and a failed session's handle ends its requests.
//   - Reads never depend on a failed actor.
//
// Outline: actors panic instead of handling impossible errors. The mailbox hands the panic with
// its stack to supervisor.HandleFailure, which looks up the actor's kind in failures. halts:
// the actor stops and Node.halt ends block production for good; reads go on. restarts:
// protoactor makes the actor anew from Options; the sixth failure within restartSpan halts
// instead. stopsAlone: the actor ends, and its parent answers for it. Actors that serve single
// clients are not counted, so that a client cannot halt the node.
//
// Rejected: ending the process on each failure, since the bad block is still there after a
// restart and the node would serve nothing; a generic retry, which would hide a state in doubt.
//
// TestEachFailure trips every row of the table.
type failure byte

const (
	// halts: blocks need the actor and its state. The node takes no more blocks; submissions and
	// waits fail with the reason, reads go on. Only a disk failure ends the process.
	halts failure = iota
	// stopsAlone: the actor serves one client. The client's waits get an error, and its next
	// request starts a new actor.
	stopsAlone
	// restarts: the actor's state can be rebuilt or is not worth keeping. Requests in work may get
	// an error, and the next ones succeed. The sixth failure of one actor in a minute halts the
	// node.
	restarts
)

// failures is the rule for each kind of actor.
var failures = map[string]failure{
	"chain":          halts,      // the engine may be half changed
	"producer":       halts,      // a vote may be lost or doubled
	"validator":      restarts,   // signatures and chain are on disk; halts if it fails while it changes the engine
	"shard":          halts,      // the chain waits for its answer
	"chunk-producer": halts,      // the block waits for its chunk
	"mempool":        restarts,   // the pool is lost; waiters submit again
	"milestones":     restarts,   // waiters watch again and read what they missed
	"rpc":            restarts,   // all sessions and waits end with an error
	"streams":        restarts,   // all subscriptions end with their cursor
	"subscriber":     stopsAlone, // one subscription ends with its cursor
	"session":        stopsAlone, // all waits of a client
	"waiter":         stopsAlone, // one wait
	"meter":          restarts,   // a summary line is missing
	"network":        restarts,   // all connections are made again
}

// An actor that restarts more than maxRestarts times within restartSpan halts the node.
const (
	maxRestarts = 5
	restartSpan = time.Minute
)

// supervisor applies the table: as the guardian of the top, and as the strategy of every
// parent.
type supervisor struct {
	onHalt   func(who string, reason any, stack []byte) // called for an actor that halts the node
	log      *logrus.Logger
	mu       sync.Mutex
	halted   map[string]bool        // actors that have halted the node, by id
	restarts map[string][]time.Time // by id; only actors that serve no single client, so they are few
}

// HandleFailure is part of actor.SupervisorStrategy.
func (s *supervisor) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, _ any) {
	c, ok := reason.(*system.Crash)
	if !ok {
		c = &system.Crash{Reason: reason, Stack: debug.Stack()}
	}
	id := child.GetId()
	switch rule := failures[c.Kind]; {
	case rule == stopsAlone:
		s.log.WithField("actor", id).Errorf("actor failed: %v\n%s", c.Reason, c.Stack)
		sup.StopChildren(child)
	case rule == restarts && s.mayRestart(id, time.Now()):
		s.log.WithField("actor", id).Errorf("actor restarts: %v\n%s", c.Reason, c.Stack)
		sup.RestartChildren(child)
	default:
		s.mu.Lock()
		if s.halted == nil {
			s.halted = map[string]bool{}
		}
		s.halted[id] = true
		s.mu.Unlock()
		sup.StopChildren(child)
		s.onHalt(id, c.Reason, c.Stack)
	}
}

// mayRestart counts a restart of an actor and returns whether it is allowed.
func (s *supervisor) mayRestart(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.restarts == nil {
		s.restarts = map[string][]time.Time{}
	}
	recent := slices.DeleteFunc(s.restarts[id], func(t time.Time) bool { return now.Sub(t) > restartSpan })
	s.restarts[id] = append(recent, now)
	return len(recent) < maxRestarts
}

// hasHalted returns whether an actor has failed and halted the node.
func (s *supervisor) hasHalted(pid *actor.PID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halted[pid.GetId()]
}

// spawner holds what actors are spawned with.
type spawner struct {
	root                 *actor.RootContext // its guardian is the supervisor
	meter                *system.Meter
	dispatcher           actor.Dispatcher // replaces all dispatchers in tests; nil: none
	subscriberDispatcher actor.Dispatcher // of subscribers, of which there may be thousands
	// of sessions and waiters: a block wakes hundreds at once, and the next block must not wait
	// for them
	waitDispatcher actor.Dispatcher
	supervisor     *supervisor
	trip           tripHook // of tests; nil: none
}

// kindOf returns the kind of an actor: the last part of its id without a number.
func kindOf(id string) string {
	id = id[strings.LastIndexByte(id, '/')+1:]
	kind := strings.TrimRight(id, "0123456789")
	if kind == "" {
		return "shard"
	}
	kind = strings.TrimSuffix(kind, "-")
	if _, known := failures[kind]; !known {
		return "other"
	}
	return kind
}

// props returns the properties of an actor. kind is its row in failures and its name in
// metrics.
func (k *spawner) props(kind string, producer func() actor.Actor) *actor.Props {
	if _, ok := failures[kind]; !ok {
		panic(fmt.Sprintf("node: no rule for how a %s fails", kind))
	}
	more := []actor.PropsOption{actor.WithSupervisor(k.supervisor)}
	switch {
	case k.dispatcher != nil:
		more = append(more, actor.WithDispatcher(k.dispatcher))
	case kind == "subscriber":
		more = append(more, actor.WithDispatcher(k.subscriberDispatcher))
	case kind == "session" || kind == "waiter":
		more = append(more, actor.WithDispatcher(k.waitDispatcher))
	}
	if k.trip != nil {
		inner := producer
		producer = func() actor.Actor { return &trippedActor{inner(), kind, k.trip} }
	}
	return system.Props(kind, k.meter, producer, more...)
}

// tripHook is called with each message of an actor, before and after it is handled.
type tripHook func(kind string, m any, after bool)

// trippedActor calls the hook of a test.
type trippedActor struct {
	actor.Actor
	kind string
	trip tripHook
}

// Receive is part of actor.Actor.
func (t *trippedActor) Receive(c actor.Context) {
	t.trip(t.kind, c.Message(), false)
	t.Actor.Receive(c)
	t.trip(t.kind, c.Message(), true)
}

// spawn starts an actor below the guardian. make is called again with true when it restarts.
func (k *spawner) spawn(kind, name string, make func(again bool) actor.Actor) (*actor.PID, error) {
	again := false
	pid, err := k.root.SpawnNamed(k.props(kind, func() actor.Actor {
		a := make(again)
		again = true
		return a
	}), name)
	if err != nil {
		return nil, fmt.Errorf("node: start actor %s: %w", name, err)
	}
	return pid, nil
}

// onlyOnce returns a constructor for an actor that must not restart.
func onlyOnce(a actor.Actor) func(bool) actor.Actor {
	return func(again bool) actor.Actor {
		if again {
			panic(fmt.Sprintf("node: a %T was restarted", a))
		}
		return a
	}
}
