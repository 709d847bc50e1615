package sim

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/refmodel"
	"github.com/troupe-chain/troupe/primitives"
)

// shortKickout replaces the protocol's early kickout thresholds in scenarios with Dead or Slow
// producers. With the protocol's thresholds a kickout would take more than a thousand blocks.
var shortKickout = earlykickout.Thresholds{GraceBlocks: 15, MinMissed: 3, MinProducedPercent: 80}

// withholds returns whether a message is lost because its sender is a dead or slow chunk producer.
// That applies to the parts and the witness of the sender's chunks. A slow producer loses the parts
// and the witness of every second height.
func (n *node) withholds(m consensus.Message) bool {
	s := &n.w.s
	if n.index >= s.Dead+s.Slow {
		return false
	}
	var height primitives.Height
	switch m := m.(type) {
	case *primitives.PartialChunk:
		height = m.Header.HeightCreated
	case *primitives.PartialWitness:
		height = m.HeightCreated
	case *primitives.ContractAccesses:
		height = m.Key.HeightCreated
	default:
		return false
	}
	return n.index < s.Dead || height%2 == 0
}

// producers compares the chunk producers that each node computes with the chunk producers that
// refmodel computes.
type producers struct {
	c     *checks
	model refmodel.Producers
	known map[primitives.Hash]bool
	lists int // number of pairs of a block and a shard with a non-empty blacklist
}

func (p *producers) init(c *checks) {
	limits := earlykickout.Protocol()
	if t := c.w.chain.Params.EarlyKickout; t != nil {
		limits = *t
	}
	*p = producers{c: c, known: map[primitives.Hash]bool{}, model: refmodel.Producers{
		Grace: int64(limits.GraceBlocks), Missed: int64(limits.MinMissed), Percent: int64(limits.MinProducedPercent),
		Epochs: map[[32]byte]*refmodel.ProducersEpoch{}}}
}

// adopted compares the producers of the next chunks on a block that a node has imported.
func (p *producers) adopted(n *node, at *engine.BlockNode) {
	err := n.engine.Epochs(func(m *epoch.Manager) error {
		if err := p.add(n, m, at); err != nil {
			return err
		}
		id, err := m.EpochIDFromPrev(at.Hash)
		if err != nil {
			return err
		}
		if err := p.learn(m, id); err != nil {
			return err
		}
		info, err := m.EpochInfo(id)
		if err != nil {
			return err
		}
		for i, shard := range p.model.Epochs[id].Shards {
			got, err := m.ChunkProducerFromPrev(at.Hash, primitives.ShardID(shard))
			if err != nil {
				return err
			}
			if want := info.Validators[p.model.Producer(at.Hash, id, i)].AccountID; got.AccountID != want {
				return fmt.Errorf("the chunk producer of shard %d after block %d is %s, but the model computes %s",
					shard, at.Height(), got.AccountID, want)
			}
		}
		return nil
	})
	if err != nil {
		p.c.fail("%s: %v", n.name, err)
	}
}

// add passes a block to the model. Before the block, add passes those ancestors of it that the
// model does not have.
func (p *producers) add(n *node, m *epoch.Manager, at *engine.BlockNode) error {
	h := at.Header()
	if p.known[at.Hash] {
		return nil
	}
	if !h.PrevHash.IsZero() && !p.known[h.PrevHash] {
		parent := n.engine.Imported(h.PrevHash)
		if parent == nil {
			return fmt.Errorf("block %d was imported before its parent", h.Height)
		}
		if err := p.add(n, m, parent); err != nil {
			return err
		}
	}
	if err := p.learn(m, h.EpochID); err != nil {
		return err
	}
	p.model.Add(refmodel.ProducersBlock{Hash: at.Hash, Prev: h.PrevHash, Final: h.LastFinalBlock, Epoch: h.EpochID,
		Height: int64(h.Height), Mask: h.ChunkMask})
	p.known[at.Hash] = true
	for i := range p.model.Epochs[h.EpochID].Shards {
		if p.model.Epochs[h.EpochID].Version >= int(epoch.EarlyKickoutVersion) && len(p.model.Listed(at.Hash, i)) > 0 {
			p.lists++
		}
	}
	return nil
}

// learn passes an epoch to the model, if the model does not have it.
func (p *producers) learn(m *epoch.Manager, id primitives.EpochID) error {
	if p.model.Epochs[id] != nil {
		return nil
	}
	info, err := m.EpochInfo(id)
	if err != nil {
		return err
	}
	e := &refmodel.ProducersEpoch{Version: int(info.ProtocolVersion), Seed: info.RngSeed}
	for i, shard := range info.ShardLayout.ShardIDs() {
		var seats []int
		for _, v := range info.ChunkProducers[i] {
			seats = append(seats, int(v))
		}
		e.Shards, e.Seats = append(e.Shards, uint64(shard)), append(e.Seats, seats)
	}
	for i := range info.Validators {
		e.Stakes = append(e.Stakes, info.Validators[i].Stake.Big())
	}
	p.model.Epochs[id] = e
	return nil
}
