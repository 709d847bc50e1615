package engine

import (
	"slices"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// ChunkPartsView implements chunkparts.Chain. Each call reads the current chain. Safe for
// concurrent use.
type ChunkPartsView struct {
	Validation
	stored func(primitives.Hash) *primitives.Chunk
	kept   func(primitives.Hash) *primitives.PartialChunk // nil: partial chunks are not kept
}

var _ chunkparts.Chain = ChunkPartsView{}

// ChunkPartsView returns a view of the chain. stored must return the chunk with its body, or nil if
// the chunk is not part of the chain.
func (e *Engine) ChunkPartsView(stored func(primitives.Hash) *primitives.Chunk) ChunkPartsView {
	return ChunkPartsView{Validation: e.Validation(), stored: stored}
}

// Keeping returns a view that also finds chunks of which this node kept only some parts. kept must
// return these parts, or nil.
func (d ChunkPartsView) Keeping(kept func(primitives.Hash) *primitives.PartialChunk) ChunkPartsView {
	d.kept = kept
	return d
}

// Epoch returns the epoch of prev's child. known is false if prev is in neither the block tree nor
// the store. During an import, the epoch manager has a block before the block tree does. Epoch
// reports such a block as unknown.
func (d ChunkPartsView) Epoch(prev primitives.Hash) (id primitives.EpochID, known bool) {
	if d.e.Imported(prev) == nil {
		if _, err := d.e.record(prev); err != nil {
			return id, false
		}
	}
	err := d.e.Epochs(func(m *epoch.Manager) (err error) {
		id, err = m.EpochIDFromPrev(prev)
		return err
	})
	return id, err == nil
}

// Height returns the height of a block of the chain.
func (d ChunkPartsView) Height(hash primitives.Hash) (h primitives.Height, known bool) {
	if at := d.e.Imported(hash); at != nil {
		return at.Height(), true
	}
	at, err := d.e.Ref(hash)
	return at.Height, err == nil
}

// NextEpoch returns the epoch after that of prev's child.
func (d ChunkPartsView) NextEpoch(prev primitives.Hash) (id primitives.EpochID, err error) {
	err = d.e.Epochs(func(m *epoch.Manager) (err error) {
		id, err = m.NextEpochIDFromPrev(prev)
		return err
	})
	return id, err
}

// Layout returns the shard layout of an epoch.
func (d ChunkPartsView) Layout(id primitives.EpochID) (layout primitives.ShardLayout, err error) {
	err = d.e.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayout(id)
		return err
	})
	return layout, err
}

// Owner returns the block producer that owns the parts with index part of all chunks in an epoch.
func (d ChunkPartsView) Owner(id primitives.EpochID, part uint64) (owner primitives.AccountID, err error) {
	err = d.e.Epochs(func(m *epoch.Manager) (err error) {
		owner, err = m.PartOwner(id, part)
		return err
	})
	return owner, err
}

// Producer returns the canonical producer of a chunk. From protocol version 87 on, another
// validator may be the producer: see Maker and ProducerAt.
func (d ChunkPartsView) Producer(
	id primitives.EpochID,
	shard primitives.ShardID,
	h primitives.Height,
) (primitives.ValidatorStake, error) {
	return d.Validation.Producer(primitives.ChunkKey{ShardID: shard, EpochID: id, HeightCreated: h})
}

// Maker returns the producer of a shard's chunk whose previous block is prev.
func (d ChunkPartsView) Maker(prev primitives.Hash, shard primitives.ShardID) (primitives.ValidatorStake, error) {
	return d.e.ChunkProducer(prev, shard)
}

// BlockProducers returns the block producers of an epoch, without duplicates.
func (d ChunkPartsView) BlockProducers(id primitives.EpochID) (out []primitives.AccountID, err error) {
	err = d.e.Epochs(func(m *epoch.Manager) error {
		list, err := m.BlockProducersOrdered(id)
		for i := range list {
			out = append(out, list[i].AccountID)
		}
		return err
	})
	return out, err
}

// Cares returns whether a validator produces chunks of a shard in the epoch of prev's child or in
// the next epoch. Cares returns false if prev is unknown.
func (d ChunkPartsView) Cares(
	account primitives.AccountID,
	prev primitives.Hash,
	shard primitives.ShardID,
) bool {
	list, err := d.Trackers(prev, shard)
	return err == nil && slices.Contains(list, account)
}

// Trackers returns the validators that produce chunks of a shard in the epoch of prev's child or in
// the next epoch. A validator may occur repeatedly.
func (d ChunkPartsView) Trackers(
	prev primitives.Hash,
	shard primitives.ShardID,
) (list []primitives.AccountID, err error) {
	err = d.e.Epochs(func(m *epoch.Manager) (err error) {
		list, err = m.ShardTrackers(prev, shard)
		return err
	})
	return list, err
}

// Holds returns whether this node holds a shard's state for children of prev. It returns ErrUnknown
// if prev is not part of the chain.
func (d ChunkPartsView) Holds(prev primitives.Hash, shard primitives.ShardID) (bool, error) {
	parent := d.e.Imported(prev)
	if parent == nil {
		var err error
		if parent, err = d.e.Block(prev); err != nil {
			return false, err
		}
	}
	next, err := d.e.rulesAfter(parent)
	if err != nil {
		return false, err
	}
	i, err := next.layout.Index(shard)
	if err != nil {
		return false, err
	}
	holds, err := d.e.holds(parent, next.layout)
	if err != nil {
		return false, err
	}
	return holds[i], nil
}

// StoredPartial returns the parts that this node kept of a chunk, or nil.
func (d ChunkPartsView) StoredPartial(hash primitives.Hash) *primitives.PartialChunk {
	if d.kept == nil {
		return nil
	}
	return d.kept(hash)
}

// Stored returns a chunk of the chain, or nil.
func (d ChunkPartsView) Stored(hash primitives.Hash) *primitives.Chunk { return d.stored(hash) }
