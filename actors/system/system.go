package system

import (
	"log/slog"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	cmap "github.com/orcaman/concurrent-map"
)

var registryOnce sync.Once

// NewSystem returns an actor system that logs nothing. Supervisors log failures of actors.
//
// The first call also shrinks protoactor's process registries for the whole process. A registry has
// 1024 maps, and each map has SHARD_COUNT parts, each with a lock. With few actors the default of
// 32 parts has no benefit. That default costs 14 MB and several ms at every start. SHARD_COUNT is a
// global variable that each map reads once. So create no other actor system before this call.
func NewSystem() *actor.ActorSystem {
	registryOnce.Do(func() { cmap.SHARD_COUNT = 1 })
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
}

// smallRegistryMaps is how many maps the registry of a small system has.
const smallRegistryMaps = 16

var template = sync.OnceValue(NewSystem)

// NewSmallSystem returns a system for few actors. A process may have thousands of small systems,
// one for each sandbox world. The registry of a small system has 16 maps instead of 1024, which
// saves 150 kB and 0.2 ms of CPU time. A small system shares the logger and the disabled extensions
// of a template system. Do not call Shutdown on a small system.
func NewSmallSystem() *actor.ActorSystem {
	s := *template()
	maps := make([]cmap.ConcurrentMap, smallRegistryMaps)
	for i := range maps {
		maps[i] = cmap.New()
	}
	s.ProcessRegistry = &actor.ProcessRegistryValue{ActorSystem: &s, Address: s.ProcessRegistry.Address,
		LocalPIDs: &actor.SliceMap{LocalPIDs: maps}}
	s.Root = actor.NewRootContext(&s, actor.EmptyMessageHeader)
	s.Guardians = actor.NewGuardians(&s)
	s.EventStream = eventstream.NewEventStream()
	s.DeadLetter = actor.NewDeadLetter(&s)
	actor.SubscribeSupervision(&s)
	s.ProcessRegistry.Add(actor.NewEventStreamProcess(&s), "eventstream")
	return &s
}
