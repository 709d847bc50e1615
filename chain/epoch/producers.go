package epoch

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// ChunkValidator is a validator of a chunk, with the stake that counts for its endorsement.
type ChunkValidator struct {
	AccountID primitives.AccountID
	Stake     primitives.Balance
}

// ApprovalStake is an approver of a block, with its stakes in this epoch and the next. A stake is 0
// if the approver is not a block producer in that epoch.
type ApprovalStake struct {
	AccountID      primitives.AccountID
	PublicKey      primitives.PublicKey
	StakeThisEpoch primitives.Balance
	StakeNextEpoch primitives.Balance
}

// BlockProducer returns the producer of the block at a height in an epoch. The result must not be
// changed.
func (m *Manager) BlockProducer(id primitives.EpochID, h primitives.Height) (*primitives.ValidatorStake, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return nil, err
	}
	return &info.Validators[info.SampleBlockProducer(h)], nil
}

// CanonicalChunkProducer returns the canonical producer of a shard's chunk with this
// height_created: the producer drawn without a blacklist. From protocol version 87 on, the actual
// producer may be another validator (ChunkProducerFromPrev). The caller must not change the result.
// Errors: ErrSharding.
func (m *Manager) CanonicalChunkProducer(id primitives.EpochID, shard primitives.ShardID,
	h primitives.Height) (*primitives.ValidatorStake, error) {
	info, layout, index, err := m.shard(id, shard)
	if err != nil {
		return nil, err
	}
	v, err := info.SampleChunkProducer(layout, index, h)
	if err != nil {
		return nil, err
	}
	return &info.Validators[v], nil
}

// shard returns an epoch's info and layout, and the index of a shard in that layout.
func (m *Manager) shard(id primitives.EpochID,
	shard primitives.ShardID) (*EpochInfo, primitives.ShardLayout, primitives.ShardIndex, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return nil, primitives.ShardLayout{}, 0, err
	}
	layout, err := m.layoutOf(info)
	if err != nil {
		return nil, layout, 0, err
	}
	index, err := layout.Index(shard)
	if err != nil {
		return nil, layout, 0, fmt.Errorf("%w: %w", ErrSharding, err)
	}
	if int(index) >= len(info.ChunkProducers) {
		return nil, layout, 0, fmt.Errorf("%w: no chunk producers for shard %d", ErrSharding, shard)
	}
	return info, layout, index, nil
}

// ChunkValidators returns the validators that endorse a shard's chunk with the given
// height_created. The validators are in the order of the signatures in the block's body and of the
// bits in the block's header. Errors: ErrSharding.
func (m *Manager) ChunkValidators(id primitives.EpochID, shard primitives.ShardID,
	h primitives.Height) ([]ChunkValidator, error) {
	info, _, index, err := m.shard(id, shard)
	if err != nil {
		return nil, err
	}
	key := sampleKey{id, h}
	sample, ok := m.samples.get(key)
	if !ok {
		sample = info.SampleChunkValidators(h)
		m.samples.put(key, sample)
	}
	if int(index) >= len(sample) {
		return nil, fmt.Errorf("%w: no chunk validators for shard %d", ErrSharding, shard)
	}
	out := make([]ChunkValidator, len(sample[index]))
	for i, w := range sample[index] {
		out[i] = ChunkValidator{info.Validators[w.ID].AccountID, w.Weight}
	}
	return out, nil
}

// BlockProducers returns an epoch's block producers in settlement order, with repeats.
func (m *Manager) BlockProducers(id primitives.EpochID) ([]primitives.ValidatorStake, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return nil, err
	}
	out := make([]primitives.ValidatorStake, len(info.BlockProducers))
	for i, v := range info.BlockProducers {
		out[i] = info.Validators[v]
	}
	return out, nil
}

// BlockProducersOrdered returns an epoch's block producers without repeats, in the order of their
// first position in the settlement. next_bp_hash, the next_bps of light clients and
// EXPERIMENTAL_validators_ordered are computed from this list.
func (m *Manager) BlockProducersOrdered(id primitives.EpochID) ([]primitives.ValidatorStake, error) {
	all, err := m.BlockProducers(id)
	if err != nil {
		return nil, err
	}
	seen := make(map[primitives.AccountID]bool, len(all))
	return slices.DeleteFunc(all, func(v primitives.ValidatorStake) bool {
		was := seen[v.AccountID]
		seen[v.AccountID] = true
		return was
	}), nil
}

// BlockProducersHash returns the next_bp_hash of the headers whose next epoch is id.
func (m *Manager) BlockProducersHash(id primitives.EpochID) (primitives.Hash, error) {
	vs, err := m.BlockProducersOrdered(id)
	if err != nil {
		return primitives.Hash{}, err
	}
	return primitives.BlockProducersHash(vs), nil
}

// ChunkProducers returns an epoch's chunk producers without repeats, by ID.
func (m *Manager) ChunkProducers(id primitives.EpochID) ([]primitives.ValidatorStake, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return nil, err
	}
	ids := slices.Concat(info.ChunkProducers...)
	slices.Sort(ids)
	var out []primitives.ValidatorStake
	for _, v := range slices.Compact(ids) {
		out = append(out, info.Validators[v])
	}
	return out, nil
}

// ChunkProducersForShard returns a shard's chunk producers in an epoch, in settlement order.
// Errors: ErrSharding.
func (m *Manager) ChunkProducersForShard(id primitives.EpochID,
	shard primitives.ShardID) ([]primitives.AccountID, error) {
	info, _, index, err := m.shard(id, shard)
	if err != nil {
		return nil, err
	}
	out := make([]primitives.AccountID, len(info.ChunkProducers[index]))
	for i, v := range info.ChunkProducers[index] {
		out[i] = info.Validators[v].AccountID
	}
	return out, nil
}

// Validator returns an account's seat in an epoch. The result must not be changed. Errors:
// ErrNotAValidator.
func (m *Manager) Validator(id primitives.EpochID, account primitives.AccountID) (*primitives.ValidatorStake, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return nil, err
	}
	v, ok := info.Validator(account)
	if !ok {
		return nil, notAValidator(account, id)
	}
	return v, nil
}

// BlockApprovers returns the approvers of a child of parent, in the order of the header's
// approvals. First come the block producers of the child's epoch. If the end of the epoch is
// overdue, the next epoch's block producers follow (nearcore lib.rs:1109).
func (m *Manager) BlockApprovers(parent primitives.Hash) ([]ApprovalStake, error) {
	id, err := m.EpochIDFromPrev(parent)
	if err != nil {
		return nil, err
	}
	current, err := m.BlockProducers(id)
	if err != nil {
		return nil, err
	}
	var out []ApprovalStake
	place := map[primitives.AccountID]int{}
	for _, v := range current {
		if _, ok := place[v.AccountID]; !ok {
			place[v.AccountID] = len(out)
			out = append(out, ApprovalStake{AccountID: v.AccountID, PublicKey: v.PublicKey, StakeThisEpoch: v.Stake})
		}
	}
	p, err := m.BlockInfo(parent)
	if err != nil {
		return nil, err
	}
	if more, err := m.needsNextEpochApprovals(p); err != nil || !more {
		return out, err
	}
	nextID, err := m.NextEpochIDFromPrev(parent)
	if err != nil {
		return nil, err
	}
	next, err := m.BlockProducers(nextID)
	if err != nil {
		return nil, err
	}
	for _, v := range next {
		if i, ok := place[v.AccountID]; ok {
			out[i].StakeNextEpoch = v.Stake
			continue
		}
		place[v.AccountID] = len(out)
		out = append(out, ApprovalStake{AccountID: v.AccountID, PublicKey: v.PublicKey, StakeNextEpoch: v.Stake})
	}
	return out, nil
}

// NumTotalParts returns the number of parts into which a chunk is encoded: the number of block
// producer seats in the genesis's config, at least 2.
func (m *Manager) NumTotalParts() int {
	_, total := m.partCounts()
	return total
}

// NumDataParts returns the number of parts that are sufficient to restore a chunk.
func (m *Manager) NumDataParts() int {
	data, _ := m.partCounts()
	return data
}

func (m *Manager) partCounts() (data, total int) {
	return primitives.ChunkPartCounts(int(m.configs.ForVersion(m.configs.genesisPV).NumBlockProducerSeats))
}

// PartOwner returns the account that stores and forwards the parts with this number. The owner is
// the same for all chunks of an epoch.
func (m *Manager) PartOwner(id primitives.EpochID, part uint64) (primitives.AccountID, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return "", err
	}
	return info.Validators[info.BlockProducers[part%uint64(len(info.BlockProducers))]].AccountID, nil
}
