package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// ChooseLimit is how long choosing transactions for a chunk may take (produce_chunk_add_transactions_time_limit).
const ChooseLimit = 200 * time.Millisecond

// Chooser chooses a new chunk's transactions; *engine.Engine is one. It is asked from many goroutines.
type Chooser interface {
	Prepare(parent primitives.Hash, shard primitives.ShardIndex, waiting apply.Candidates, stop func() bool) (*apply.Prepared, error)
}

// ChunkProducer picks the transactions of the shard's next chunk.
type ChunkProducer struct {
	chooser Chooser
	pool    *mempool.Pool
	make    messages.Sender[messages.MakeChunk]
	dropped messages.Sender[messages.TransactionsDropped]
	log     *logrus.Logger
}

// NewChunkProducer returns the actor.
func NewChunkProducer(c Chooser, p *mempool.Pool, chain messages.Sender[messages.MakeChunk], dropped messages.Sender[messages.TransactionsDropped], log *logrus.Logger) *ChunkProducer {
	return &ChunkProducer{chooser: c, pool: p, make: chain, dropped: dropped, log: log}
}

// Receive is the only way to the actor's state.
func (a *ChunkProducer) Receive(c actor.Context) { a.Handle(c.Message()) }

// Handle takes one message.
func (a *ChunkProducer) Handle(msg any) {
	switch m := msg.(type) {
	case messages.ProduceChunk:
		a.produce(&m)
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("chunk-producer actor: no case for %T", m))
	}
}

func (a *ChunkProducer) produce(m *messages.ProduceChunk) {
	out := new(apply.Prepared)
	if c := a.pool.Choose(); c != nil {
		var err error
		if out, err = a.choose(m, c); err != nil {
			if errors.Is(err, engine.ErrOrphan) {
				a.log.WithField("shard", m.ShardID).Debug("chunk on a block that is gone")
				return
			}
			panic(fmt.Errorf("chunk-producer: shard %d: %w", m.ShardID, err))
		}
	}
	a.make(messages.MakeChunk{
		Parent: m.Parent, Shard: m.Shard, ShardID: m.ShardID, Producer: m.Producer, Transactions: out.Transactions,
	})
}

func (a *ChunkProducer) choose(m *messages.ProduceChunk, c *mempool.Choice) (*apply.Prepared, error) {
	end := time.Now().Add(ChooseLimit)
	out, err := a.chooser.Prepare(m.Parent, m.Shard, c, func() bool { return time.Now().After(end) })
	dropped := c.Done(out)
	if len(dropped) > 0 {
		a.dropped(messages.TransactionsDropped{Hashes: dropped})
		if a.log.IsLevelEnabled(logrus.DebugLevel) {
			for i := range out.Dropped {
				d := &out.Dropped[i]
				a.log.WithFields(logrus.Fields{"shard": m.ShardID, "tx": d.Hash(), "reason": d.Reason}).Debug("transaction dropped")
			}
		}
	}
	return out, err
}
