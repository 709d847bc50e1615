package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Prechecked is the result of Precheck.
type Prechecked struct {
	Standing blockpool.Status
	Producer primitives.AccountID // empty: the block's epoch is unknown
	Needs    []blockpool.Need     // what this node needs of the block's new chunks, by shard index
}

// Precheck runs the checks of a received block that do not need its parent: form, height, and the
// producer's signature. Precheck also checks that the block contains approvals of its height and
// parent by two thirds of the stake. The validators are those of the block's epoch. If the parent
// is unknown, the block's epoch must be current (isCurrentEpoch) or announced by verified headers
// (HeaderChain.Add). Precheck cannot check a block of any other epoch, and sets its Standing to
// UnknownEpoch.
//
// An error concerns only this copy of the block. The caller must not remember the block's hash as
// invalid, because another copy may have the right signature and body. ErrUpgradeNeeded means that
// the copy passed these checks, and that this program cannot import it or any other child of the
// parent.
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
	case parent == nil && h.PrevHeight <= e.TipFinal().Height: // the parent was discarded or never existed
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
			if m, err = e.headerChain.epochsOf(id); err != nil || m == nil {
				return Prechecked{Standing: blockpool.UnknownEpoch}, err
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
		if err := chain.ValidateView(b, v.PublicKey, layout.NumShards(), e.verify); err != nil {
			return a, err
		}
		return a, e.checkUpgraded(parent, id)
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
	if err := chain.ValidateOrigin(b, v.PublicKey, layout.NumShards(), voters, e.verify); errors.Is(
		err,
		chain.NotEnoughApprovals,
	) {
		return a, fmt.Errorf("%w: %w", ErrGossipCheck, err)
	} else if err != nil {
		return a, err
	}
	return a, e.checkUpgraded(parent, id)
}

// checkUpgraded returns ErrUpgradeNeeded if a block with an imported parent belongs to an epoch
// whose protocol version this program does not support. The import could not report that: it waits
// for chunk bodies, which this program cannot check either. For a block that is taken before its
// parent, Imported.UpgradeNeeded has the error. The caller holds epochMu.
func (e *Engine) checkUpgraded(parent *BlockNode, id primitives.EpochID) error {
	if parent == nil {
		return nil
	}
	if _, err := e.version(id); errors.Is(err, ErrUpgradeNeeded) {
		return err
	}
	return nil
}

// needs returns which chunk bodies and receipt proofs this node needs for a block on parent. layout
// is the block's shard layout. If parent is nil, needs assumes the needs of a child of the tip.
// BeginImport returns ErrMissing if this node then lacks a needed body or proof.
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

// layoutDescends returns whether each shard of layout is a shard of the layout `from`, or is a
// child of a shard of `from`.
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

// isCurrentEpoch returns whether id is the epoch of the final block, of the tip or of the tip's
// child, or the epoch after that of the tip's child. Validators of epochs before that of the final
// block no longer approve blocks. The caller holds epochMu.
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

// PrecheckBody returns whether a chunk's producer has signed the chunk, and what this node needs of
// the chunk. If the chunk's previous block is not imported, signed is false and err is nil.
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
