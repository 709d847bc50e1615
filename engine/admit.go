package engine

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/intake"
	"github.com/troupe-chain/troupe/primitives"
)

// Admit judges what can be judged of a received block at once, whether its parent is known or not: its form, its height, and that
// the producer of that height made it, by the parent's epoch or else by one of those that are under way. Of a block of another epoch
// nothing can be said: it is a stranger.
//
// An error is about this copy alone and not to be remembered: what a hash covers may come again with the right signature and body.
func (e *Engine) Admit(b *primitives.Block) (standing intake.Standing, producer primitives.AccountID, err error) {
	h := b.Header
	if e.Adopted(b.Hash()) != nil {
		return 0, "", ErrKnown
	}
	if h.Height <= e.TipFinal().Height {
		return 0, "", ErrOld
	}
	parent := e.Adopted(h.PrevHash)
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	id := h.EpochID
	switch {
	case parent == nil && h.PrevHeight <= e.TipFinal().Height: // a parent that is there no more, or never was
		return 0, "", ErrOld
	case parent == nil:
		standing = intake.Orphan
		if known, err := e.underWay(id); err != nil || !known {
			return intake.Stranger, "", err
		}
	case !e.descendsFromFinal(parent):
		return 0, "", ErrOld
	case h.Height <= parent.Height():
		return 0, "", chain.InvalidBlockHeight
	default:
		if id, err = e.epochs.EpochIDFromPrev(parent.Hash); err != nil {
			return 0, "", err
		}
		if h.EpochID != id {
			return 0, "", chain.InvalidEpochHash
		}
	}
	v, err := e.epochs.BlockProducer(id, h.Height)
	if err != nil {
		return 0, "", err
	}
	layout, err := e.epochs.ShardLayout(id)
	if err != nil {
		return 0, "", err
	}
	return standing, v.AccountID, chain.ValidateOrigin(b, v.PublicKey, layout.NumShards(), e.verify)
}

// underWay tells whether an epoch is that of the final block, of the tip, of its child, or the one that follows. An older one's
// validators have nothing to say any more. The caller holds epochMu.
func (e *Engine) underWay(id primitives.EpochID) (bool, error) {
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
	if f := e.Adopted(e.TipFinal().Hash); f != nil {
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

// AdmitBody tells whether a chunk was signed by who had to make it. That is known if the block before it is part of the chain.
func (e *Engine) AdmitBody(c *primitives.Chunk) (signed bool, err error) {
	h := &c.Header
	parent := e.Adopted(h.PrevBlockHash)
	if parent == nil || h.HeightCreated != parent.Height()+1 || h.ChunkHash() != c.Hash {
		return false, nil
	}
	v, err := e.ChunkProducer(h.PrevBlockHash, h.ShardID)
	if errors.Is(err, epoch.ErrSharding) {
		return false, nil
	}
	return err == nil && e.verify(h.Signature, c.Hash[:], v.PublicKey), err
}
