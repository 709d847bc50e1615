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

// failure is what becomes of an actor that panics, and what clients see of it.
type failure byte

const (
	// halts: blocks need it and its state, and a silent restart would leave the node alive and wrong. The node takes no more
	// blocks: who waits or submits is told, reads go on. Only a failure of the disk ends the process.
	halts failure = iota
	// stopsAlone: it serves one client. What he waits for is answered with an error; his next request makes it anew.
	stopsAlone
	// restarts: what it knows can be had again, or is not worth keeping. Who waits for what it was doing may get an error; the next
	// request works. One that restarts too often halts the node.
	restarts
)

// failures says it for every actor, in one place.
var failures = map[string]failure{
	"chain":          halts,      // the engine may be half changed
	"producer":       halts,      // a vote may be lost or doubled
	"validator":      restarts,   // what was signed is on disk, and so is the chain; where it fails while it changes the chain, it halts
	"shard":          halts,      // the chain waits for its answer
	"chunk-producer": halts,      // the block waits for its chunk
	"mempool":        restarts,   // the pool is lost; waiters send their transactions again
	"milestones":     restarts,   // waiters say again what they watch, and read what they have missed
	"rpc":            restarts,   // all sessions end, and with them all waits, with an error
	"streams":        restarts,   // all subscriptions end, and say where to go on
	"subscriber":     stopsAlone, // one subscription, which says where to go on
	"session":        stopsAlone, // all waits of a client
	"waiter":         stopsAlone, // one wait
	"meter":          restarts,   // a summary line is missing
	"network":        restarts,   // all connections end, and are made anew
}

// So many restarts of one actor in this time are not worth another.
const (
	maxRestarts = 5
	restartSpan = time.Minute
)

// supervisor carries the table out: as the guardian of the top, and as the strategy of every parent.
type supervisor struct {
	onHalt   func(who string, reason any, stack []byte) // of an actor that halts the node
	log      *logrus.Logger
	mu       sync.Mutex
	halted     map[string]bool        // actors that have halted the node, by id
	restarts map[string][]time.Time // by id; of those that serve no single client, so they are few
}

// HandleFailure is part of actor.SupervisorStrategy.
func (s *supervisor) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
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

// mayRestart tells whether an actor may restart once more.
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

// hasHalted tells whether an actor is gone.
func (s *supervisor) hasHalted(pid *actor.PID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halted[pid.GetId()]
}

// spawner is what actors are spawned with.
type spawner struct {
	root       *actor.RootContext // its guardian is the supervisor
	meter      *system.Meter
	dispatcher actor.Dispatcher
	subscriberDispatcher        actor.Dispatcher // of subscribers, of which there may be thousands
	waitDispatcher      actor.Dispatcher // of sessions and waiters, of which there may be as many: a block wakes hundreds at once, and the next one does not wait behind them
	supervisor *supervisor
	trip       tripHook // of tests; nil: nobody asks
}

// kindOf tells the kind of an actor by its id: the last part of its path, without a number.
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

// props returns the properties of an actor of this kind; kind is also the name under which it is counted.
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

// trippedActor is an actor in a test.
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

// spawn starts an actor below the guardian. make is called again if it restarts.
func (k *spawner) spawn(kind, name string, make func(again bool) actor.Actor) (*actor.PID, error) {
	again := false
	pid, err := k.root.SpawnNamed(k.props(kind, func() actor.Actor {
		a := make(again)
		again = true
		return a
	}), name)
	if err != nil {
		return nil, fmt.Errorf("node: spawn %s: %w", name, err)
	}
	return pid, nil
}

// onlyOnce makes an actor that is never made again.
func onlyOnce(a actor.Actor) func(bool) actor.Actor {
	return func(again bool) actor.Actor {
		if again {
			panic(fmt.Sprintf("node: a %T was restarted", a))
		}
		return a
	}
}
