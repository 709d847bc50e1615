package engine

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/primitives"
)

// Validation implements partialwitness.Chain on the engine's current chain. Safe for concurrent
// use.
type Validation struct{ e *Engine }

var _ partialwitness.Chain = Validation{}

// Validation returns the engine as a partialwitness.Chain.
func (e *Engine) Validation() Validation { return Validation{e} }

// Relevant returns whether a block can still include a chunk with this key (nearcore
// chain/client/src/stateless_validation/validate.rs:260).
func (v Validation) Relevant(k primitives.ChunkKey) (ok bool) {
	tip, final := v.e.Tip(), v.e.TipFinal()
	if k.HeightCreated <= final.Height || k.HeightCreated > tip.Height()+partialwitness.MaxAhead {
		return false
	}
	// An error means that the epoch is unknown, so the chunk is irrelevant.
	_ = v.e.Epochs(func(m *epoch.Manager) error {
		layout, err := m.ShardLayout(k.EpochID)
		if err != nil || !layout.Has(k.ShardID) {
			return err
		}
		possible, err := possibleEpochs(m, tip, k.HeightCreated)
		ok = slices.Contains(possible, k.EpochID)
		return err
	})
	return ok
}

// possibleEpochs returns the epochs that a chunk of height h near the tip can belong to (nearcore
// chain/epoch-manager/src/adapter.rs:728).
func possibleEpochs(m *epoch.Manager, tip *BlockNode, h primitives.Height) ([]primitives.EpochID, error) {
	if tip.Header().PrevHash.IsZero() {
		id, err := m.EpochIDFromPrev(tip.Hash)
		return []primitives.EpochID{id}, err
	}
	first, length, _, err := m.EpochSpan(tip.Hash)
	if err != nil {
		return nil, err
	}
	header := tip.Header()
	switch end := first + primitives.Height(length); {
	case h >= end: // h may be in either epoch, because the first may last longer than planned
		return []primitives.EpochID{header.EpochID, header.NextEpochID}, nil
	case h >= first:
		return []primitives.EpochID{header.EpochID}, nil
	}
	info, err := m.BlockInfo(tip.Hash)
	if err != nil {
		return nil, err
	}
	if info, err = m.BlockInfo(info.EpochFirstBlock); err != nil {
		return nil, err
	}
	if info, err = m.BlockInfo(info.PrevHash); err != nil || h > info.Height {
		return nil, err
	}
	return []primitives.EpochID{info.EpochID}, nil
}

// Producer returns the canonical producer of a chunk. Use it only for messages without an anchor,
// which exist only before protocol version 87.
func (v Validation) Producer(k primitives.ChunkKey) (out primitives.ValidatorStake, err error) {
	err = v.e.Epochs(func(m *epoch.Manager) error {
		p, err := m.CanonicalChunkProducer(k.EpochID, k.ShardID, k.HeightCreated)
		if err == nil {
			out = *p
		}
		return err
	})
	return out, err
}

// AnchoredProducer returns the producer of the chunk with key k, according to the anchor in its
// message (epoch.Manager.AnchoredChunkProducer). AnchoredProducer does not check that the anchor
// belongs to the key.
func (v Validation) AnchoredProducer(k primitives.ChunkKey, anchor primitives.Hash) (primitives.ValidatorStake, error) {
	return v.e.AnchoredChunkProducer(anchor, k)
}

// Validators returns the validators assigned to a chunk, in the order of the assignment.
func (v Validation) Validators(k primitives.ChunkKey) (out []chain.Assigned, err error) {
	err = v.e.Epochs(func(m *epoch.Manager) (err error) {
		out, err = assigned(m, k.EpochID, k.ShardID, k.HeightCreated)
		return err
	})
	return out, err
}

// Producers returns the chunk producers of a shard in an epoch.
func (v Validation) Producers(id primitives.EpochID, shard primitives.ShardID) (out []primitives.AccountID, err error) {
	err = v.e.Epochs(func(m *epoch.Manager) (err error) {
		out, err = m.ChunkProducersForShard(id, shard)
		return err
	})
	return out, err
}

// AllValidators returns all validators of an epoch.
func (v Validation) AllValidators(id primitives.EpochID) (out []primitives.AccountID, err error) {
	err = v.e.Epochs(func(m *epoch.Manager) error {
		info, err := m.EpochInfo(id)
		if err != nil {
			return err
		}
		for i := range info.Validators {
			out = append(out, info.Validators[i].AccountID)
		}
		return nil
	})
	return out, err
}

// Key returns the public key of a validator in an epoch.
func (v Validation) Key(id primitives.EpochID, account primitives.AccountID) (out primitives.PublicKey, err error) {
	err = v.e.Epochs(func(m *epoch.Manager) error {
		p, err := m.Validator(id, account)
		if err == nil {
			out = p.PublicKey
		}
		return err
	})
	return out, err
}

// BlockProducer returns the block producer of a height in an epoch.
func (v Validation) BlockProducer(id primitives.EpochID, h primitives.Height) (out primitives.AccountID, err error) {
	err = v.e.Epochs(func(m *epoch.Manager) error {
		p, err := m.BlockProducer(id, h)
		if err == nil {
			out = p.AccountID
		}
		return err
	})
	return out, err
}

// CodeOf returns the contract code that the main transition of the chunk k called. Validators of
// the chunk request that code. at is the transition that the request names. CodeOf searches the
// chunk's parent only on the head's chain, although a block of another branch may contain the chunk
// (nearcore chain/client/src/stateless_validation/partial_witness/partial_witness_actor.rs:787).
// Errors: partialwitness.ErrIrrelevant if the chunk can no longer be included;
// partialwitness.ErrContracts if at is not the main transition; partialwitness.ErrEarly if the
// parent is not known yet; ErrUnknown if the head's chain has no block of the parent's height. A
// wrong request costs only reading a few blocks.
func (e *Engine) CodeOf(
	k primitives.ChunkKey,
	at primitives.TransitionKey,
) (codes map[primitives.Hash][]byte, err error) {
	if !e.Validation().Relevant(k) {
		return nil, fmt.Errorf("%w: shard %d at height %d", partialwitness.ErrIrrelevant, k.ShardID, k.HeightCreated)
	}
	prev := e.Head()
	if prev.Height()+1 < k.HeightCreated {
		return nil, fmt.Errorf("%w: it has height %d", partialwitness.ErrEarly, k.HeightCreated-1)
	}
	for prev.Height()+1 > k.HeightCreated { // a short loop, because the parent is above the final block
		if prev, err = e.Block(prev.Header().PrevHash); err != nil {
			return nil, err
		}
	}
	if prev.Height()+1 != k.HeightCreated {
		return nil, fmt.Errorf("%w: a block of height %d", ErrUnknown, k.HeightCreated-1)
	}
	s, err := newSpan(e, prev.Hash, k.ShardID)
	if err != nil {
		return nil, err
	}
	if at != (primitives.TransitionKey{Block: s.last.Hash, ShardID: s.shard}) {
		return nil, fmt.Errorf(
			"%w: the request names shard %d in block %v, expected shard %d in block %v, the chunk's main transition",
			partialwitness.ErrContracts,
			at.ShardID,
			at.Block,
			s.shard,
			s.last.Hash,
		)
	}
	main, _, err := e.Transitions(prev.Hash, k.ShardID)
	if err != nil {
		return nil, err
	}
	list, err := e.Codes(main)
	if err != nil {
		return nil, err
	}
	codes = make(map[primitives.Hash][]byte, len(list))
	for _, c := range list {
		codes[primitives.HashBytes(c)] = c
	}
	return codes, nil
}
