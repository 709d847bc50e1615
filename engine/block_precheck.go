package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Prechecked is what could be told of a block at once.
type Prechecked struct {
	Standing blockpool.Status
	Producer primitives.AccountID // none for a stranger
	Needs    []blockpool.Need     // of its new chunks, by shard index
}

// Admit judges what can be judged of a received block at once, whether its parent is known or not: its form, its height, that
// the producer of that height made it, and that two thirds have voted for one of that height on that parent, by the parent's epoch or else by one of those that are under way, or that headers tell of (AddHeaders). Of
// a block of another epoch nothing can be said: it is a stranger.
//
// An error is about this copy alone and not to be remembered: what a hash covers may come again with the right signature and body.
func (e *Engine) Precheck(b *primitives.Block) (a Prechecked, err error) {
	h := b.Header
	if e.Imported(b.Hash()) != nil {
		return a, ErrKnown
	}
	if h.Height <= e.TipFinal().Height {
		return a, ErrOld
	}
	parent := e.Imported(h.PrevHash)
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	id, m := h.EpochID, e.epochs
	switch {
	case parent == nil && h.PrevHeight <= e.TipFinal().Height: // a parent that is there no more, or never was
		return a, ErrOld
	case parent == nil:
		a.Standing = blockpool.Orphan
		known, err := e.isCurrentEpoch(id)
		if err != nil {
			return Prechecked{}, err
		}
		if !known {
			e.headerChain.mu.Lock()
			defer e.headerChain.mu.Unlock()
			if m, err = e.headerEpochs(id); err != nil || m == nil {
				return Prechecked{Standing: blockpool.Stranger}, err
			}
		}
	case !e.descendsFromFinal(parent):
		return a, ErrOld
	case h.Height <= parent.Height():
		return a, chain.InvalidBlockHeight
	default:
		if id, err = e.epochs.EpochIDFromPrev(parent.Hash); err != nil {
			return a, err
		}
		if h.EpochID != id {
			return a, chain.InvalidEpochHash
		}
	}
	v, err := m.BlockProducer(id, h.Height)
	if err != nil {
		return a, err
	}
	layout, err := m.ShardLayout(id)
	if err != nil {
		return a, err
	}
	if a.Needs, err = e.needs(parent, layout); err != nil {
		return a, err
	}
	a.Producer = v.AccountID
	if e.o.PartialBodies {
		return a, chain.ValidateView(b, v.PublicKey, layout.NumShards(), e.verify)
	}
	var voters []chain.Approver
	if parent != nil {
		voters, err = ApproversOf(m, parent.Hash)
	} else {
		voters, err = votersOf(m, id)
	}
	if err != nil {
		return a, err
	}
	if err := chain.ValidateOrigin(b, v.PublicKey, layout.NumShards(), voters, e.verify); errors.Is(err, chain.NotEnoughApprovals) {
		return a, fmt.Errorf("%w: %w", ErrGossipCheck, err)
	} else if err != nil {
		return a, err
	}
	return a, nil
}

// needs tells what is needed of the chunks of a block of this layout on parent. If that is not known (nil) it is what the tip's block
// would need; what is wrong about that is seen when the block is judged.
func (e *Engine) needs(parent *BlockNode, layout primitives.ShardLayout) ([]blockpool.Need, error) {
	if parent == nil {
		if parent = e.Tip(); !layout.Equal(parent.Layout) && !layoutDescends(layout, parent.Layout) {
			holds := make([]bool, layout.NumShards())
			for i, id := range layout.ShardIDs() {
				holds[i] = e.tracks(layout, id)
			}
			return needsOf(layout, holds), nil
		}
	}
	holds, err := e.holds(parent, layout)
	if err != nil {
		return nil, err
	}
	return needsOf(layout, holds), nil
}

// layoutDescends tells whether each shard of a layout is one of another, or comes of one of those.
func layoutDescends(layout, from primitives.ShardLayout) bool {
	for _, id := range layout.ShardIDs() {
		if parent, err := layout.Parent(id); err != nil || !from.Has(parent) {
			return false
		}
	}
	return true
}

func needsOf(layout primitives.ShardLayout, holds []bool) []blockpool.Need {
	out, held := make([]blockpool.Need, len(holds)), heldIDs(layout, holds)
	for i := range out {
		if out[i].Body = holds[i]; !holds[i] {
			out[i].To = held
		}
	}
	return out
}

// isCurrentEpoch tells whether an epoch is that of the final block, of the tip, of its child, or the one that follows. An older one's
// validators have nothing to say any more. The caller holds epochMu.
func (e *Engine) isCurrentEpoch(id primitives.EpochID) (bool, error) {
	tip := e.Tip()
	child, err := e.epochs.EpochIDFromPrev(tip.Hash)
	if err != nil {
		return false, err
	}
	next, err := e.epochs.NextEpochIDFromPrev(tip.Hash)
	if err != nil {
		return false, err
	}
	known := id == tip.Header().EpochID || id == child || id == next
	if f := e.Imported(e.TipFinal().Hash); f != nil {
		known = known || id == f.Header().EpochID
	}
	if !known {
		return false, nil
	}
	_, err = e.epochs.EpochInfo(id)
	if errors.Is(err, epoch.ErrEpochOutOfBounds) {
		return false, nil
	}
	return err == nil, err
}

// AdmitBody tells whether a chunk was signed by who had to make it, and what is needed of it then. That is known if the block before it
// is part of the chain.
func (e *Engine) PrecheckBody(c *primitives.Chunk) (signed bool, need blockpool.Need, err error) {
	h := &c.Header
	parent := e.Imported(h.PrevBlockHash)
	if parent == nil || h.HeightCreated != parent.Height()+1 || h.ChunkHash() != c.Hash {
		return false, need, nil
	}
	v, err := e.ChunkProducer(h.PrevBlockHash, h.ShardID)
	if errors.Is(err, epoch.ErrSharding) {
		return false, need, nil
	}
	if err != nil || !e.verify(h.Signature, c.Hash[:], v.PublicKey) {
		return false, need, err
	}
	var layout primitives.ShardLayout
	err = e.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayoutFromPrev(parent.Hash)
		return err
	})
	if err != nil {
		return false, need, err
	}
	i, err := layout.Index(h.ShardID)
	if err != nil {
		return false, need, err
	}
	needs, err := e.needs(parent, layout)
	if err != nil {
		return false, need, err
	}
	return true, needs[i], nil
}
