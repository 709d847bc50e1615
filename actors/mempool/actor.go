package mempool

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Out is whom the actor talks to.
type Out struct {
	ProduceChunk messages.Sender[messages.ProduceChunk]        // the chunk-producer
	Dropped      messages.Sender[messages.TransactionsDropped] // milestones
}

// Actor keeps a shard's pool in step with the chain.
type Actor struct {
	shard primitives.ShardID
	pool  *Pool
	// mine tells whether a returned transaction's signer lives in this shard, base the height of a block.
	mine func(*primitives.SignedTransaction) bool
	base func(primitives.Hash) (primitives.Height, bool)
	out  Out
	side map[primitives.Hash]sideBlock // accepted, above the final block, and not canonical
}

// sideBlock is what a block of a branch that is not canonical includes: it stays in the pool until that branch wins.
type sideBlock struct {
	prev   primitives.Hash
	height primitives.Height
	txs    []*primitives.SignedTransaction
}

// NewActor returns the actor of a shard's pool.
func NewActor(shard primitives.ShardID, pool *Pool, mine func(*primitives.SignedTransaction) bool, base func(primitives.Hash) (primitives.Height, bool), out Out) *Actor {
	return &Actor{shard: shard, pool: pool, mine: mine, base: base, out: out, side: map[primitives.Hash]sideBlock{}}
}

// Receive is the only way to the actor's state.
func (a *Actor) Receive(c actor.Context) { a.Handle(c.Message()) }

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case messages.BlockAdopted:
		a.accept(m.BlockAccepted)
	case messages.ProduceChunk:
		a.out.ProduceChunk(m)
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("mempool actor: no case for %T", m))
	}
}

func (a *Actor) accept(m *messages.BlockAccepted) {
	var chunk *primitives.Chunk
	for i := range m.Shards {
		if m.Shards[i].ID == a.shard {
			chunk = m.Shards[i].Chunk
		}
	}
	if !m.IsHead {
		b := sideBlock{prev: m.Block.Header.PrevHash, height: m.Height()}
		if chunk != nil {
			b.txs = chunk.Transactions
		}
		a.side[m.Hash] = b
		return
	}
	if m.Reorganised {
		for prev := m.Block.Header.PrevHash; ; {
			b, ok := a.side[prev]
			if !ok {
				break
			}
			a.pool.remove(b.txs)
			delete(a.side, prev)
			prev = b.prev
		}
	}
	for hash, b := range a.side {
		if b.height <= m.Final {
			delete(a.side, hash)
		}
	}
	var returned []*primitives.SignedTransaction
	for _, tx := range m.Returned {
		if a.mine(tx) {
			returned = append(returned, tx)
		}
	}
	if expired := a.pool.accept(m.Height(), chunk, returned, a.base); len(expired) > 0 && a.out.Dropped != nil {
		a.out.Dropped(messages.TransactionsDropped{Hashes: expired})
	}
}
