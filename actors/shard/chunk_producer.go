package shard

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// pageWait bounds the wait for the mempool's further pages if there is no time limit.
const pageWait = 200 * time.Millisecond

// Engine is the part of *engine.Engine that makes chunks. Many goroutines call it at once.
type Engine interface {
	Prepare(parent primitives.Hash, shard primitives.ShardIndex, waiting apply.Candidates,
		stop func() bool) (*apply.Prepared, error)
	NewChunk(parent primitives.Hash, shard primitives.ShardIndex, txs []*primitives.SignedTransaction,
		key primitives.SecretKey) (*primitives.Chunk, error)
}

// ChunkProducer chooses the transactions of the shard's next chunk from the mempool's candidates,
// and builds and signs the chunk. It does this work in Receive, on the actor's goroutine. So the
// chunks of one shard are made one after another, and chunks of different shards in parallel.
type ChunkProducer struct {
	engine Engine
	keys   map[primitives.AccountID]primitives.SecretKey // secret keys of this node's validators
	out    Out
	more   messages.Sender[mempool.Page] // out.More, kept so that a chunk allocates no function
	limit  time.Duration                 // maximum time for choosing a chunk's transactions; 0: no limit
	times  *metrics.Set
	log    *logrus.Logger
}

// Out sends the actor's messages.
type Out interface {
	Made(messages.ChunkMade)     // to the producer
	More(mempool.Page)           // to the shard's mempool
	Chosen(messages.ChunkChosen) // to the shard's mempool
}

// NewChunkProducer returns the actor. limit is the maximum time for choosing a chunk's transactions
// (nearcore produce_chunk_add_transactions_time_limit). 0: no limit. The actor adds
// engine.ProduceChunkTime to times. nil: not measured.
func NewChunkProducer(e Engine, keys map[primitives.AccountID]primitives.SecretKey, out Out, limit time.Duration,
	times *metrics.Set, log *logrus.Logger) *ChunkProducer {
	return &ChunkProducer{engine: e, keys: keys, out: out, more: out.More, limit: limit, times: times, log: log}
}

// Receive handles one message.
func (a *ChunkProducer) Receive(c actor.Context) { a.Handle(c.Message()) }

// Handle handles one message.
func (a *ChunkProducer) Handle(msg any) {
	switch m := msg.(type) {
	case messages.Candidates:
		a.produce(&m)
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("chunk-producer actor: no case for %T", m))
	}
}

func (a *ChunkProducer) produce(m *messages.Candidates) {
	began := time.Now()
	var txs []*primitives.SignedTransaction
	var err error
	if len(m.Page) > 0 {
		var out *apply.Prepared
		if out, err = a.choose(m); err == nil {
			txs = out.Transactions
		}
	}
	var chunk *primitives.Chunk
	if err == nil {
		chunk, err = a.engine.NewChunk(m.For.Parent, m.For.Shard, txs, a.keys[m.For.Producer])
	}
	switch {
	case errors.Is(err, engine.ErrOrphan):
		a.log.WithField("shard", m.For.ShardID).Debug("no chunk was produced: its parent block is on a branch that was removed")
	case err != nil:
		panic(fmt.Errorf("chunk-producer: produce the chunk of shard %d: %w", m.For.ShardID, err))
	default:
		a.times.Add(engine.ProduceChunkTime, int64(time.Since(began)), strconv.FormatUint(uint64(m.For.ShardID), 10))
		a.out.Made(messages.ChunkMade{Shard: m.For.Shard, Chunk: chunk, Era: m.For.Era})
	}
}

func (a *ChunkProducer) choose(m *messages.Candidates) (*apply.Prepared, error) {
	c := mempool.NewChoice(m, a.more, cmp.Or(a.limit, pageWait))
	var stop func() bool
	if a.limit > 0 {
		begun := time.Now()
		stop = func() bool { return time.Since(begun) >= a.limit }
	}
	out, err := a.engine.Prepare(m.For.Parent, m.For.Shard, c, stop)
	if err != nil {
		out = nil
	}
	if chosen, news := c.Done(out); news {
		a.out.Chosen(chosen)
	}
	if out != nil && a.log.IsLevelEnabled(logrus.DebugLevel) {
		for i := range out.Dropped {
			d := &out.Dropped[i]
			a.log.WithFields(logrus.Fields{"shard": m.For.ShardID, "tx": d.Hash(),
				"reason": d.Reason}).Debug("a transaction was dropped from the chunk and the pool")
		}
	}
	return out, err
}
