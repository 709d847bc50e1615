package system

import (
	"log/slog"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	cmap "github.com/orcaman/concurrent-map"
)

var registryOnce sync.Once

// NewSystem makes an actor system that says nothing: failures reach the log through the supervisor.
//
// The first one also makes protoactor's registry of processes small, in the whole process. It is 1024 maps, each made of SHARD_COUNT
// maps with a lock of their own. Of the 32 that are the default nothing would be gained with so few actors, and they would take 14 MB
// and several ms of every start. There is no other way to say it, and a map finds its parts by the same number as long as it lives, so
// whoever makes a system in another way does that after this, or lives without this.
func NewSystem() *actor.ActorSystem {
	registryOnce.Do(func() { cmap.SHARD_COUNT = 1 })
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
}

// smallRegistryMaps is how many maps the registry of a small system has.
const smallRegistryMaps = 16

var template = sync.OnceValue(NewSystem)

// NewSmallSystem makes a system for few actors, of which a process may have thousands: its registry is of 16 maps, where one that protoactor makes
// is of 1024 (150 kB, and 0.2 ms of processor). All else is made as there, but for what has no state: the logger, extensions that are off, and the
// end of Shutdown, which is to be called for none of them.
func NewSmallSystem() *actor.ActorSystem {
	s := *template()
	maps := make([]cmap.ConcurrentMap, smallRegistryMaps)
	for i := range maps {
		maps[i] = cmap.New()
	}
	s.ProcessRegistry = &actor.ProcessRegistryValue{ActorSystem: &s, Address: s.ProcessRegistry.Address, LocalPIDs: &actor.SliceMap{LocalPIDs: maps}}
	s.Root = actor.NewRootContext(&s, actor.EmptyMessageHeader)
	s.Guardians = actor.NewGuardians(&s)
	s.EventStream = eventstream.NewEventStream()
	s.DeadLetter = actor.NewDeadLetter(&s)
	actor.SubscribeSupervision(&s)
	s.ProcessRegistry.Add(actor.NewEventStreamProcess(&s), "eventstream")
	return &s
}
