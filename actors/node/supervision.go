package node

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/link"
)

// failure is what becomes of an actor that panics.
type failure byte

const (
	// halts: blocks need it and its state, and a silent restart would leave the node alive and wrong. The node takes no more
	// blocks and goes on serving reads; only a failure of the disk ends the process.
	halts failure = iota
	// stopsAlone: it serves one client, who gets an error.
	stopsAlone
	// restarts: it has no state worth keeping, and nothing depends on it.
	restarts
)

// failures says it for every actor, in one place.
var failures = map[string]failure{
	"chain":          halts,      // the engine may be half changed
	"producer":       halts,      // a vote may be lost or doubled
	"shard":          halts,      // the chain waits for its answer
	"chunk-producer": halts,      // the block waits for its chunk
	"mempool":        halts,      // the pool would run out of step with the chain
	"milestones":     halts,      // every wait would end in its timeout
	"rpc":            halts,      // the register of sessions would be empty
	"session":        stopsAlone, // one client's waits are answered with an error
	"waiter":         stopsAlone, // one wait is answered with an error
	"meter":          restarts,   // a summary line is missing
}

// supervisor carries the table out: as the guardian of the top, and as the strategy of every parent.
type supervisor struct {
	failed func(who string, reason any, stack []byte) // of an actor that halts
	log    *logrus.Logger
	mu     sync.Mutex
	gone   map[string]bool // actors that halted, by id
}

// HandleFailure is part of actor.SupervisorStrategy.
func (s *supervisor) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	c, ok := reason.(*link.Crash)
	if !ok {
		c = &link.Crash{Reason: reason, Stack: debug.Stack()}
	}
	switch failures[c.Kind] {
	case stopsAlone:
		s.log.WithField("actor", child.GetId()).Errorf("actor failed: %v\n%s", c.Reason, c.Stack)
		sup.StopChildren(child)
	case restarts:
		s.log.WithField("actor", child.GetId()).Errorf("actor restarts: %v\n%s", c.Reason, c.Stack)
		sup.RestartChildren(child)
	default:
		s.mu.Lock()
		if s.gone == nil {
			s.gone = map[string]bool{}
		}
		s.gone[child.GetId()] = true
		s.mu.Unlock()
		sup.StopChildren(child)
		s.failed(child.GetId(), c.Reason, c.Stack)
	}
}

// lost tells whether an actor is gone.
func (s *supervisor) lost(pid *actor.PID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone[pid.GetId()]
}

// kit is what actors are spawned with.
type kit struct {
	root       *actor.RootContext // its guardian is the supervisor
	meter      *link.Meter
	dispatcher actor.Dispatcher
	supervisor *supervisor
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
func (k *kit) props(kind string, producer func() actor.Actor) *actor.Props {
	if _, ok := failures[kind]; !ok {
		panic(fmt.Sprintf("node: no rule for how a %s fails", kind))
	}
	more := []actor.PropsOption{actor.WithSupervisor(k.supervisor)}
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
