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

// failure says what happens after an actor of a kind has panicked.
//
// # Supervision
//
// Problem: the state of an actor that panicked is in doubt, and its senders still wait. If the
// chain actor were restarted silently, the node might continue with a wrong state. If each panic
// ended the process, one request could stop the node for all clients.
//
//   - A node never continues with a wrong state: an actor restarts only if its state can be
//     rebuilt.
//   - Each client that waits for a failed actor gets an answer. The mailbox calls Failed on the
//     messages that it drops, and the handle of a failed session ends its requests.
//   - Reads never depend on a failed actor.
//
// Outline: actors panic at impossible errors instead of handling them. The mailbox passes the panic
// with its stack to supervisor.HandleFailure, which looks up the actor's kind in failures. With
// halts, the actor stops and Node.halt ends block production for good; reads still work. With
// restarts, protoactor creates a new actor. The sixth failure of that actor within restartSpan
// halts the node instead. With stopsAlone, the actor ends and its parent answers its requests.
// These failures are not counted, so that a client cannot halt the node.
//
// Rejected: ending the process at each failure. A bad block would still be there after a restart,
// and the node would not even serve reads. Rejected: restarting every actor, which could continue
// with a wrong state.
//
// TestEachActorFailureHasListedEffect makes an actor of each kind fail.
type failure byte

const (
	// halts is for actors whose state blocks depend on. The node accepts no more blocks.
	// Submissions and waits get the reason as error, and reads still work. Only a disk failure ends
	// the process.
	halts failure = iota
	// stopsAlone is for actors that serve one client. The waits of that client get an error, and
	// the next request of the client starts a new actor.
	stopsAlone
	// restarts is for actors whose state can be rebuilt or is not needed. Requests that the actor
	// was handling may get an error; requests after the restart succeed. The sixth failure of one
	// actor within a minute halts the node.
	restarts
)

// failures maps each kind of actor to its rule.
var failures = map[string]failure{
	"chain":          halts,      // the engine may have applied only a part of a change
	"producer":       halts,      // an approval may be lost, or be made twice
	"validator":      restarts,   // signatures and chain are on disk; halts if a call that changes the engine failed
	"shard":          halts,      // the chain actor waits for the shard's reply
	"chunk-producer": halts,      // the block waits for its chunk
	"mempool":        restarts,   // the pool is lost; waiters submit their transactions again
	"txtracker":      restarts,   // waiters watch again, and read missed outcomes from the store
	"rpc":            restarts,   // all sessions and waits end with an error
	"streams":        restarts,   // all subscriptions end; clients resume at their cursors
	"subscriber":     stopsAlone, // one subscription ends; its client resumes at the cursor
	"session":        stopsAlone, // all waits of one client end
	"waiter":         stopsAlone, // one wait ends
	"meter":          restarts,   // a summary line is missing
	"network":        restarts,   // all connections are opened again
	"history-import": stopsAlone, // no older blocks come until the node is restarted; those that are stored stay
}

// An actor that fails more than maxRestarts times within restartSpan halts the node.
const (
	maxRestarts = 5
	restartSpan = time.Minute
)

// supervisor applies failures. The supervisor is the guardian of the top-level actors and the
// strategy of every parent.
type supervisor struct {
	onHalt   func(who string, reason any, stack []byte) // called when an actor halts the node
	log      *logrus.Logger
	mu       sync.Mutex
	halted   map[string]bool        // ids of actors whose failure halted the node
	restarts map[string][]time.Time // recent restarts by id; only for kinds with the rule restarts
}

// HandleFailure implements actor.SupervisorStrategy.
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

// mayRestart counts a failure of an actor, and returns whether the actor may restart.
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

// hasHalted returns whether an actor's failure has halted the node.
func (s *supervisor) hasHalted(pid *actor.PID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halted[pid.GetId()]
}

// spawner contains the parameters for spawning actors.
type spawner struct {
	root                 *actor.RootContext // root context; its guardian is the supervisor
	meter                *system.Meter
	subscriberDispatcher actor.Dispatcher // runs subscribers, of which there may be thousands
	// waitDispatcher runs sessions and waiters. A block wakes hundreds of them at once. The actors
	// that make the next block use another dispatcher, so they need not wait for sessions and
	// waiters.
	waitDispatcher actor.Dispatcher
	supervisor     *supervisor
	hooks          Hooks
}

// kindOf returns the kind of an actor from its id: the last part without its number.
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

// props returns the Props of an actor. kind must be in failures. The kind is also the actor's name
// in metrics.
func (k *spawner) props(kind string, producer func() actor.Actor) *actor.Props {
	if _, ok := failures[kind]; !ok {
		panic(fmt.Sprintf("node: no rule for how a %s fails", kind))
	}
	more := []actor.PropsOption{actor.WithSupervisor(k.supervisor)}
	switch {
	case k.hooks.dispatcher != nil:
		more = append(more, actor.WithDispatcher(k.hooks.dispatcher))
	case kind == "subscriber":
		more = append(more, actor.WithDispatcher(k.subscriberDispatcher))
	case kind == "session" || kind == "waiter":
		more = append(more, actor.WithDispatcher(k.waitDispatcher))
	}
	if k.hooks.trip != nil {
		inner := producer
		producer = func() actor.Actor { return &trippedActor{inner(), kind, k.hooks.trip} }
	}
	return system.Props(kind, k.meter, producer, more...)
}

// spawn starts a top-level actor. make is called with false for the first instance, and with true
// after each failure.
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

// onlyOnce returns a constructor for an actor that must not restart. The constructor panics at its
// second call.
func onlyOnce(a actor.Actor) func(bool) actor.Actor {
	return func(again bool) actor.Actor {
		if again {
			panic(fmt.Sprintf("node: a %T was restarted", a))
		}
		return a
	}
}
