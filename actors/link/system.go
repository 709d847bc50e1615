package link

import (
	"log/slog"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	cmap "github.com/orcaman/concurrent-map"
)

var small sync.Once

// NewSystem makes an actor system that says nothing: failures reach the log through the supervisor.
//
// The first one also makes protoactor's registry of processes small, in the whole process. It is 1024 maps, each made of SHARD_COUNT
// maps with a lock of their own. Of the 32 that are the default nothing would be gained with so few actors, and they would take 14 MB
// and several ms of every start. There is no other way to say it, and a map finds its parts by the same number as long as it lives, so
// whoever makes a system in another way does that after this, or lives without this.
func NewSystem() *actor.ActorSystem {
	small.Do(func() { cmap.SHARD_COUNT = 1 })
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
}
