package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/runtime/parameters"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// blockFacts computes the header fields of a block that its parent, height and chunk headers
// determine. tree is the Merkle tree of all blocks up to the parent. The caller holds epochMu.
func (e *Engine) blockFacts(
	parent *BlockNode,
	height primitives.Height,
	chunks []*primitives.ChunkHeader,
) (f chain.BlockFacts, tree *primitives.PartialMerkleTree, err error) {
	m, p := e.epochs, parent.Hash
	steps := []func() error{
		func() (err error) { f.EpochID, err = m.EpochIDFromPrev(p); return },
		func() (err error) { f.NextEpochID, err = m.NextEpochIDFromPrev(p); return },
		func() (err error) { f.EpochSyncDataHash, err = m.EpochSyncDataHash(p); return },
		func() (err error) { f.Minted, err = m.MintedAmount(p); return },
		func() (err error) { f.Version, err = m.ProtocolVersion(f.EpochID); return },
		func() (err error) {
			f.ShardSplit, err = m.ShardSplit(height, p, chain.LastFinal(parent.Header(), height), chunks)
			return
		},
		func() (err error) {
			if f.NextBPHash = parent.Header().NextBPHash; f.EpochID != parent.Header().EpochID {
				f.NextBPHash, err = m.BlockProducersHash(f.NextEpochID)
			}
			return
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return f, nil, fmt.Errorf("engine: block %d with parent %v: %w", height, p, err)
		}
	}
	tree = parent.Tree.Clone()
	tree.Insert(p)
	f.BlockMerkleRoot, f.BlockOrdinal, f.Pricing = tree.Root(), tree.Size()+1, e.pricing
	return f, tree, nil
}

// Approvers returns the validators that approve a child of parent. The validators are in the order
// of the approvals in the child's header.
func (e *Engine) Approvers(parent primitives.Hash) (out []chain.Approver, err error) {
	err = e.Epochs(func(m *epoch.Manager) (err error) { out, err = ApproversOf(m, parent); return })
	return out, err
}

// ApproversOf does the same as Approvers for a caller inside Engine.Epochs.
func ApproversOf(m *epoch.Manager, parent primitives.Hash) ([]chain.Approver, error) {
	stakes, err := m.BlockApprovers(parent)
	if err != nil {
		return nil, err
	}
	out := make([]chain.Approver, len(stakes))
	for i, s := range stakes {
		out[i] = chain.Approver{
			AccountID: s.AccountID,
			PublicKey: s.PublicKey,
			StakeThis: s.StakeThisEpoch,
			StakeNext: s.StakeNextEpoch,
		}
	}
	return out, nil
}

// BlockProducer returns the producer of the block at height on parent.
func (e *Engine) BlockProducer(
	parent primitives.Hash,
	height primitives.Height,
) (v primitives.ValidatorStake, err error) {
	err = e.Epochs(func(m *epoch.Manager) error {
		id, err := m.EpochIDFromPrev(parent)
		if err != nil {
			return err
		}
		p, err := m.BlockProducer(id, height)
		if err == nil {
			v = *p
		}
		return err
	})
	return v, err
}

// ChunkProducer returns the producer of a shard's chunk on parent
// (epoch.Manager.ChunkProducerFromPrev).
func (e *Engine) ChunkProducer(
	parent primitives.Hash,
	shard primitives.ShardID,
) (v primitives.ValidatorStake, err error) {
	err = e.Epochs(func(m *epoch.Manager) error {
		p, err := m.ChunkProducerFromPrev(parent, shard)
		if err == nil {
			v = *p
		}
		return err
	})
	return v, err
}

// AnchoredChunkProducer returns the producer of the chunk with key k
// (epoch.Manager.AnchoredChunkProducer). anchor is the parent of the chunk's parent block.
func (e *Engine) AnchoredChunkProducer(
	anchor primitives.Hash,
	k primitives.ChunkKey,
) (v primitives.ValidatorStake, err error) {
	err = e.Epochs(func(m *epoch.Manager) error {
		p, err := m.AnchoredChunkProducer(anchor, k.EpochID, k.ShardID, k.HeightCreated)
		if err == nil {
			v = *p
		}
		return err
	})
	return v, err
}

// ChunkValidators returns the validators that may endorse a shard's chunk on parent. The validators
// are in the order of the chunk's endorsements in the block.
func (e *Engine) ChunkValidators(parent *BlockNode, shard primitives.ShardID) (out []chain.Assigned, err error) {
	err = e.Epochs(func(m *epoch.Manager) error {
		id, err := m.EpochIDFromPrev(parent.Hash)
		if err == nil {
			out, err = assigned(m, id, shard, parent.Height()+1)
		}
		return err
	})
	return out, err
}

func assigned(
	m *epoch.Manager,
	id primitives.EpochID,
	shard primitives.ShardID,
	created primitives.Height,
) ([]chain.Assigned, error) {
	validators, err := m.ChunkValidators(id, shard, created)
	if err != nil {
		return nil, err
	}
	info, err := m.EpochInfo(id)
	if err != nil {
		return nil, err
	}
	out := make([]chain.Assigned, len(validators))
	for i, v := range validators {
		seat, ok := info.Validator(v.AccountID)
		if !ok {
			return nil, fmt.Errorf("engine: chunk validator %s has no seat", v.AccountID)
		}
		out[i] = chain.Assigned{AccountID: v.AccountID, PublicKey: seat.PublicKey, Stake: v.Stake}
	}
	return out, nil
}

// validationContext returns what chain.ValidateBlock needs to validate b, and the Merkle tree of
// all blocks up to the parent. The caller holds epochMu.
func (e *Engine) validationContext(
	b *primitives.Block,
	parent *BlockNode,
	produced bool,
) (*chain.ValidationContext, *primitives.PartialMerkleTree, error) {
	m := e.epochs
	if b.Header.Height <= parent.Height() {
		return nil, nil, fmt.Errorf("%w: height %d after parent height %d", chain.InvalidBlockHeight, b.Header.Height, parent.Height())
	}
	f, tree, err := e.blockFacts(parent, b.Header.Height, b.Body.Chunks)
	if err != nil {
		return nil, nil, err
	}
	layout, err := m.ShardLayout(f.EpochID)
	if err != nil {
		return nil, nil, err
	}
	producer, err := m.BlockProducer(f.EpochID, b.Header.Height)
	if err != nil {
		return nil, nil, err
	}
	j := &chain.ValidationContext{
		BlockFacts: f, Parent: parent.Header(), PrevRandom: parent.Header().RandomValue, Producer: producer.PublicKey,
		ShardIDs: layout.ShardIDs(), Verify: e.verify, VRF: e.o.VRF, Produced: produced, HeadersOnly: e.o.PartialBodies,
	}
	// A copy of each block in validBlocks has passed chain.ValidateBlock. So of this copy only the
	// signature is verified, because the hash does not cover the signature.
	if hash := b.Hash(); e.validBlocks.has(hash) {
		if !e.verify(b.Header.Signature, hash[:], producer.PublicKey) {
			return nil, nil, chain.InvalidSignature
		}
		j.Verify = func(primitives.Signature, []byte, primitives.PublicKey) bool { return true }
		if !e.o.PartialBodies { // the VRF is in the body, which the hash of a block with a partial body does not cover
			j.VRF = func(primitives.PublicKey, []byte, *[32]byte, *[64]byte) bool { return true }
		}
	}
	if e.o.MaxHeightJump > 0 {
		j.MaxHeight = e.Tip().Height() + e.o.MaxHeightJump
	}
	if e.o.Now != nil && !produced { // the time of own blocks is not checked, because a sandbox may set it
		j.Now = e.o.Now()
	}
	if j.Approvers, err = ApproversOf(m, parent.Hash); err != nil {
		return nil, nil, err
	}
	for _, id := range j.ShardIDs {
		_, _, index, err := m.PrevShard(parent.Hash, id)
		if err != nil {
			return nil, nil, err
		}
		j.PrevChunks = append(j.PrevChunks, parent.Block.Body.Chunks[index])
		signer, err := m.ChunkProducerFromPrev(parent.Hash, id)
		if err != nil {
			return nil, nil, err
		}
		j.ChunkSigners = append(j.ChunkSigners, signer.PublicKey)
	}
	j.Late = func() error {
		for i, id := range j.ShardIDs {
			created := parent.Height() + 1
			if i < len(b.Body.Chunks) && b.Body.Chunks[i].HeightIncluded == b.Header.Height {
				created = b.Body.Chunks[i].HeightCreated
			}
			validators, err := assigned(m, f.EpochID, id, created)
			if err != nil {
				return err
			}
			j.Assigned = append(j.Assigned, validators)
		}
		return nil
	}
	return j, tree, nil
}

// nextRules are the shard layout and the runtime configuration that apply to a block's children.
// They differ from the rules of the block if the children are in the next epoch and that epoch has
// different rules.
type nextRules struct {
	layout primitives.ShardLayout
	config *parameters.RuntimeConfig
}

// rulesAfter returns the rules of a block's children. Safe for concurrent use. The caller must not
// hold epochMu.
func (e *Engine) rulesAfter(parent *BlockNode) (*nextRules, error) {
	if r := parent.rules.Load(); r != nil {
		return r, nil
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	id, err := e.epochs.EpochIDFromPrev(parent.Hash)
	if err != nil {
		return nil, err
	}
	r := new(nextRules)
	if r.layout, err = e.epochs.ShardLayout(id); err != nil {
		return nil, err
	}
	if r.config, err = e.version(id); err != nil {
		return nil, err
	}
	parent.rules.Store(r)
	return r, nil
}
