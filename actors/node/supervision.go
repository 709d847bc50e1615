package node

import (
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/link"
)

// failure is what becomes of an actor that panics.
type failure byte

const (
	// endsProcess: it owns state that others rely on. A silent restart would leave the node alive and wrong.
	endsProcess failure = iota
	// stopsAlone: it serves one client, who gets an error.
	stopsAlone
	// restarts: it has no state worth keeping, and nothing depends on it.
	restarts
)

// failures says it for every actor, in one place.
var failures = map[string]failure{
	"chain":          endsProcess, // the engine may be half changed
	"producer":       endsProcess, // a vote may be lost or doubled
	"shard":          endsProcess, // the chain waits for its answer
	"chunk-producer": endsProcess, // the block waits for its chunk
	"mempool":        endsProcess, // the pool would run out of step with the chain
	"milestones":     endsProcess, // every wait would end in its timeout
	"rpc":            endsProcess, // the register of sessions would be empty
	"session":        stopsAlone,  // one client's waits are answered with an error
	"waiter":         stopsAlone,  // one wait is answered with an error
	"meter":          restarts,    // a summary line is missing
}

// supervisor carries the table out: as the guardian of the top, and as the strategy of every parent.
type supervisor struct {
	exit func(who string, reason any, stack []byte)
	log  *logrus.Logger
	once sync.Once
}

// crash is a panic with the stack of where it happened, which the supervisor is too late to see.
type crash struct {
	name   string
	reason any
	stack  []byte
}

func (c *crash) String() string { return fmt.Sprint(c.reason) }

// catch notes the stack of a panic and lets it go on.
func catch(name string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, e *actor.MessageEnvelope) {
			defer func() {
				if r := recover(); r != nil {
					panic(&crash{name: name, reason: r, stack: debug.Stack()})
				}
			}()
			next(c, e)
		}
	}
}

// HandleFailure is part of actor.SupervisorStrategy.
func (s *supervisor) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	c, ok := reason.(*crash)
	if !ok {
		c = &crash{reason: reason, stack: debug.Stack()}
	}
	switch failures[c.name] {
	case stopsAlone:
		s.log.WithField("actor", child.GetId()).Errorf("actor failed: %v\n%s", c.reason, c.stack)
		sup.StopChildren(child)
	case restarts:
		s.log.WithField("actor", child.GetId()).Errorf("actor restarts: %v\n%s", c.reason, c.stack)
		sup.RestartChildren(child)
	default:
		s.once.Do(func() { s.exit(child.GetId(), c.reason, c.stack) })
	}
}

// kit is what actors are spawned with.
type kit struct {
	root       *actor.RootContext // its guardian is the supervisor
	meter      *link.Meter
	dispatcher actor.Dispatcher
	supervisor *supervisor
}

// props returns the properties of an actor of this kind; kind is also the name under which it is counted.
func (k *kit) props(kind string, producer func() actor.Actor) *actor.Props {
	if _, ok := failures[kind]; !ok {
		panic(fmt.Sprintf("node: no rule for how a %s fails", kind))
	}
	more := []actor.PropsOption{actor.WithReceiverMiddleware(catch(kind)), actor.WithSupervisor(k.supervisor)}
	if k.dispatcher != nil {
		more = append(more, actor.WithDispatcher(k.dispatcher))
	}
	return link.Props(kind, k.meter, producer, more...)
}

// spawn starts an actor below the guardian.
func (k *kit) spawn(kind, name string, a actor.Actor) (*actor.PID, error) {
	made := false
	pid, err := k.root.SpawnNamed(k.props(kind, func() actor.Actor {
		if made { // state owners are never restarted
			panic(fmt.Sprintf("node: %s was restarted", name))
		}
		made = true
		return a
	}), name)
	if err != nil {
		return nil, fmt.Errorf("node: spawn %s: %w", name, err)
	}
	return pid, nil
}
