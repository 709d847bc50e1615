package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Anchored returns whether the messages about an epoch's chunks contain the chunk's anchor. That is
// so from protocol version 87 on. known is false if the epoch is unknown.
func (v Validation) Anchored(id primitives.EpochID) (anchored, known bool) {
	err := v.e.Epochs(func(m *epoch.Manager) error {
		version, err := m.ProtocolVersion(id)
		anchored = version >= epoch.EarlyKickoutVersion
		return err
	})
	return anchored && err == nil, err == nil
}

// ProducerAt checks the anchor in a message (anchor.Check) and returns the chunk producer that the
// anchor determines. Errors: anchor.ErrWrong if the anchor is wrong; anchor.ErrEarly if the anchor
// cannot be checked yet. Together with anchor.ErrEarly, ProducerAt returns the producer if the
// anchor block is known. Any other error means that the epoch is unknown or lacks the shard.
func (v Validation) ProducerAt(
	k primitives.ChunkKey,
	at primitives.ChunkAnchor,
) (out primitives.ValidatorStake, err error) {
	err = v.e.Epochs(func(m *epoch.Manager) error {
		p, err := m.AnchoredChunkProducer(at.PrevPrevBlock, k.EpochID, k.ShardID, k.HeightCreated)
		if err == nil {
			out = *p
		}
		// The anchor is wrong if the known parent contradicts it, even if the anchor block is
		// unknown.
		check := anchor.Check(m, k, at, v.e.chain.Height)
		switch {
		case err == nil:
			return check
		case errors.Is(check, anchor.ErrWrong):
			return fmt.Errorf("%w; %w", check, err)
		case errors.Is(err, epoch.ErrMissingBlock), errors.Is(err, epoch.ErrChunkProducerNotInDB):
			return fmt.Errorf("%w: %w", anchor.ErrEarly, err)
		}
		return err
	})
	if err != nil && !errors.Is(err, anchor.ErrEarly) {
		out = primitives.ValidatorStake{}
	}
	return out, err
}

// Parent returns the parent of a block that the epoch manager knows; zero for the genesis.
func (v Validation) Parent(hash primitives.Hash) (parent primitives.Hash, err error) {
	err = v.e.Epochs(func(m *epoch.Manager) error {
		b, err := m.BlockInfo(hash)
		if err == nil {
			parent = b.PrevHash
		}
		return err
	})
	return parent, err
}

// Following returns the producer of a shard's chunk at height h in the given epoch. The chunk's
// previous block is an unknown child of prev, so prev is the chunk's anchor. The result is the
// producer that is stored with prev or, if none is stored, the canonical producer.
func (d ChunkPartsView) Following(
	id primitives.EpochID,
	prev primitives.Hash,
	shard primitives.ShardID,
	h primitives.Height,
) (out primitives.ValidatorStake, err error) {
	err = d.e.Epochs(func(m *epoch.Manager) error {
		p, err := m.AnchoredChunkProducer(prev, id, shard, h)
		if errors.Is(err, epoch.ErrMissingBlock) || errors.Is(err, epoch.ErrChunkProducerNotInDB) {
			p, err = m.CanonicalChunkProducer(id, shard, h)
		}
		if err == nil {
			out = *p
		}
		return err
	})
	return out, err
}
