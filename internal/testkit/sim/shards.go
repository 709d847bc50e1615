package sim

import (
	"context"
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// changes returns whether the set of shards that the node tracks follows the shards for which it
// produces chunks.
func (n *node) changes() bool { return n.w.s.Own && n.account != "" }

// deal sets the shards that each validator tracks at the start: those of its first two epochs.
func (w *World) deal() error {
	store, err := storage.OpenMemory(storage.NewMemDisk(),
		storage.Options{Identity: storage.Identity{ChainID: w.chain.ID, Numbering: primitives.NumberingRelease}})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	e, err := engine.Open(engine.Options{Chain: w.chain, Store: store})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	at := e.Genesis()
	return e.Epochs(func(m *epoch.Manager) error {
		id, err := m.EpochIDFromPrev(at.Hash)
		if err != nil {
			return err
		}
		for _, n := range w.nodes {
			for _, shard := range at.Layout.ShardIDs() {
				if n.account == "" {
					continue
				}
				now, err := m.CaresAboutShard(id, n.account, shard)
				if err != nil {
					return err
				}
				next, err := m.CaresAboutShardNextEpoch(at.Hash, n.account, shard)
				if err != nil {
					return err
				}
				if now || next {
					n.held = append(n.held, shard)
				}
			}
		}
		return nil
	})
}

// reshuffle runs the next step of the node's shard schedule (catch up, untrack) if no import is
// running.
func (n *node) reshuffle(life int) {
	if n.core == nil || n.life != life || n.schedule == nil || !n.core.Idle() || n.adopts > 0 {
		return
	}
	n.gate.set(true, false)
	err := n.schedule.Step()
	if err == nil {
		err = n.store.FinishUntrack()
	}
	n.gate.set(false, false)
	if err != nil {
		n.w.check.fail("%s: changing the tracked shards failed: %v", n.name, err)
		return
	}
	tip := n.engine.Tip()
	var now []primitives.ShardID
	for i := range tip.Shards {
		if tip.Shards[i].Held() {
			now = append(now, tip.Shards[i].ID)
		}
	}
	if !slices.Equal(now, n.held) {
		n.w.say(n.name, "tracks shards %v instead of %v", now, n.held)
		n.w.result.Moves++
		n.held = now
		n.step(life, consensus.ShardsChanged{})
		return
	}
	n.step(life, consensus.Tick{})
}

// question is a request of the shard schedule to other nodes. ask runs it.
type question struct {
	ask   func()
	asked bool
}

func (q *question) run() {
	if !q.asked {
		q.asked = true
		q.ask()
	}
}

// ask runs a request of the shard schedule after the latency of a round trip. It is the Schedule.Go
// of the node. The request writes the answer to the store, so it waits until no block is being
// written.
func (n *node) ask(f func()) {
	w, life, q := n.w, n.life, &question{ask: f}
	n.questions = append(slices.DeleteFunc(n.questions, func(q *question) bool { return q.asked }), q)
	var answered func()
	answered = func() {
		switch {
		case n.life != life: // the method stop has already run the request
		case n.adopts > 0:
			w.after(ms, answered)
		default:
			n.gate.set(true, false)
			q.run()
			n.gate.set(false, false)
			n.reshuffle(life)
		}
	}
	w.after(w.between(2*w.s.Latency[0], 2*w.s.Latency[1]), answered)
}

// source implements engine.PartSource. It reads states from the other nodes of the world.
type source struct{ n *node }

// each calls ask for one node after another, starting at a random node, until a call returns no
// error. It returns engine.ErrNotYet if all calls fail.
func each[T any](s source, ask func(*node) (T, error)) (out T, err error) {
	w := s.n.w
	if s.n.core == nil || w.now < w.muted {
		return out, engine.ErrNotYet
	}
	for i, first := 0, w.rng.IntN(len(w.nodes)); i < len(w.nodes); i++ {
		x := w.nodes[(first+i)%len(w.nodes)]
		if x == s.n || x.core == nil || w.faulty() && w.chance(w.s.Drop) {
			continue
		}
		if out, err = ask(x); err == nil {
			return out, nil
		}
	}
	return out, engine.ErrNotYet
}

// State implements engine.PartSource.
func (s source) State(_ context.Context, point primitives.Hash, shard primitives.ShardID) (*engine.StateHeader, error) {
	return each(s, func(n *node) (*engine.StateHeader, error) {
		x, i, err := n.offered(point, shard)
		if err != nil {
			return nil, err
		}
		return n.engine.StateHeader(x, i)
	})
}

// offered returns the block point and the index of a shard in it, if the node serves that shard's
// state at that sync point. Otherwise it returns engine.ErrNotYet.
func (n *node) offered(point primitives.Hash, shard primitives.ShardID) (*engine.BlockNode, primitives.ShardIndex, error) {
	list, err := n.offers.List()
	if err != nil {
		return nil, 0, err
	}
	for _, o := range list {
		if h, err := n.engine.Header(o.Sync); err != nil || h.PrevHash != point || !slices.Contains(o.Shards, shard) {
			continue
		}
		x, err := n.engine.Block(point)
		if err != nil {
			return nil, 0, err
		}
		i, err := x.Layout.Index(shard)
		return x, i, err
	}
	return nil, 0, engine.ErrNotYet
}

// Part implements engine.PartSource.
func (s source) Part(_ context.Context, point primitives.Hash, shard primitives.ShardID, id trie.PartID, take func([][]byte) error) error {
	part, err := each(s, func(n *node) ([][]byte, error) {
		x, i, err := n.offered(point, shard)
		if err != nil {
			return nil, err
		}
		return n.engine.Snapshots().Part(x.Block.Body.Chunks[i].PrevBlockHash, i, id)
	})
	if err != nil {
		return err
	}
	if err := take(part); err != nil {
		s.Refused(point, shard, err)
		return err
	}
	return nil
}

// Chunks implements engine.PartSource.
func (s source) Chunks(_ context.Context, block primitives.Hash, shard primitives.ShardID) ([]*primitives.Chunk, error) {
	return each(s, func(n *node) ([]*primitives.Chunk, error) { return n.engine.ChunksFor(block, shard) })
}

// Refused implements engine.PartSource. A call is a violation, because no node serves false states.
func (s source) Refused(point primitives.Hash, shard primitives.ShardID, err error) {
	s.n.w.check.fail("%s received a false state of shard %d at %v: %v", s.n.name, shard, point, err)
}
