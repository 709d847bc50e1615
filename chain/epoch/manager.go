package epoch

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/primitives"
)

// Sizes of the Manager's caches (nearcore chain/epoch-manager/src/lib.rs:70).
const (
	epochCacheSize    = 50
	blockCacheSize    = 1000
	sampleCacheSize   = 1000
	syncDataCacheSize = 4  // nearcore has no such cache
	listCacheSize     = 64 // nearcore has no such cache
)

// Store returns rows of persisted Changes that the Manager's caches lack. For a missing row a
// method returns nil (or false) without an error. Returned values are shared, so the Manager's
// callers must not change them.
type Store interface {
	BlockInfo(primitives.Hash) (*BlockInfo, error)
	EpochInfo(primitives.EpochID) (*EpochInfo, error)
	EpochStart(primitives.EpochID) (h primitives.Height, ok bool, err error)
	EpochSummary(primitives.EpochID) (*EpochSummary, error)
	// Aggregator returns the Aggregator of a recent Changes.
	Aggregator() (*Aggregator, error)
}

// Changes contains the rows that a block adds to the Store, in one batch with the block. The zero
// value has no rows: the block was recorded before.
type Changes struct {
	BlockInfo *BlockInfo // stored under its Hash
	// EpochStart means that the block is the first of the epoch BlockInfo.EpochID, which therefore
	// starts at BlockInfo.Height.
	EpochStart bool
	// NextNextEpoch is the info of the epoch after the next epoch, whose ID is BlockInfo.Hash.
	// NextNextEpoch is set if the block is the last of its epoch, or the genesis.
	NextNextEpoch *EpochInfo
	// Summary is the summary of the epoch BlockInfo.EpochID. Summary is set together with
	// NextNextEpoch, except for the genesis.
	Summary *EpochSummary
	// Aggregator contains the statistics of an epoch up to a final block. It replaces the Aggregator
	// of earlier Changes. Aggregator is set once in aggregatorPeriod heights, and after a restart.
	Aggregator *Aggregator
}

// Manager computes the epochs on all branches of a chain (nearcore EpochManager). The Manager's
// only I/O is its Store. The Manager keeps a bounded number of rows in memory. A new Manager on the
// same Store can continue at any time. Not safe for concurrent use, because queries change caches.
type Manager struct {
	configs *Configs
	rewards RewardCalculator
	store   Store

	genesis *EpochInfo // info of epoch 0 and of the epoch whose ID is the genesis hash
	dummy   *BlockInfo // placeholder for the genesis's parent, whose hash is zero; never stored

	epochs  *cache[primitives.EpochID, *EpochInfo]
	blocks  *cache[primitives.Hash, *BlockInfo]
	samples *cache[sampleKey, [][]WeightedValidator]
	// syncData caches the latest results of EpochSyncDataHash. The key is the last block of an
	// epoch.
	syncData *cache[primitives.Hash, primitives.Hash]

	kickout earlykickout.Thresholds
	// lists caches blacklists. The key is the last final block, which determines the blacklists. A
	// nil list means that there are no candidates.
	lists    *cache[primitives.Hash, []shardBlacklist]
	kickouts map[primitives.ShardID]EarlyKickoutStats

	aggregator *Aggregator // statistics up to the last final block; nil before the first final block
	finalized  primitives.Height
	// stored is the Aggregator of the Store, from which aggregate continues as long as aggregator is
	// nil. nil: not read yet, or the Store has none.
	stored *Aggregator
	ended  *VersionVotes // votes of the epoch that ended last, for metrics; nil: none ended since NewManager
	// earlier has two copies of aggregator as it was at lower heights, the copy of the greater
	// height first. The second copy is at least earlierEvery heights below aggregator, unless the
	// epoch manager was just created or rewound.
	earlier [2]earlierStats
}

type sampleKey struct {
	epoch  primitives.EpochID
	height primitives.Height
}

// NewManager returns a Manager for the rows in store. If the store is empty, the caller must record
// the genesis first. Errors: ErrConfig, and errors of selecting the genesis validators.
func NewManager(g *GenesisParams, configs *Configs, store Store) (*Manager, error) {
	info, err := GenesisEpochInfo(g, configs)
	if err != nil {
		return nil, err
	}
	kickout := earlykickout.Protocol()
	if g.EarlyKickout != nil {
		kickout = *g.EarlyKickout
	}
	return &Manager{
		kickout: kickout, lists: newCache[primitives.Hash, []shardBlacklist](listCacheSize),
		kickouts: map[primitives.ShardID]EarlyKickoutStats{},
		configs:  configs, rewards: newRewardCalculator(g), store: store, genesis: info, dummy: &BlockInfo{},
		epochs:   newCache[primitives.EpochID, *EpochInfo](epochCacheSize),
		blocks:   newCache[primitives.Hash, *BlockInfo](blockCacheSize),
		samples:  newCache[sampleKey, [][]WeightedValidator](sampleCacheSize),
		syncData: newCache[primitives.Hash, primitives.Hash](syncDataCacheSize),
	}, nil
}

// BlockInfo returns the info of a recorded block. For the zero hash it returns the placeholder that
// stands for the genesis's parent. Errors: ErrMissingBlock.
func (m *Manager) BlockInfo(hash primitives.Hash) (*BlockInfo, error) {
	if hash.IsZero() {
		return m.dummy, nil
	}
	if b, ok := m.blocks.get(hash); ok {
		return b, nil
	}
	b, err := m.store.BlockInfo(hash)
	if err != nil {
		return nil, fmt.Errorf("block info %v: %w", hash, err)
	}
	if b == nil {
		return nil, missingBlock(hash)
	}
	m.blocks.put(hash, b)
	return b, nil
}

// EpochInfo returns an epoch's info. Errors: ErrEpochOutOfBounds.
func (m *Manager) EpochInfo(id primitives.EpochID) (*EpochInfo, error) {
	if id.IsZero() {
		return m.genesis, nil
	}
	if e, ok := m.epochs.get(id); ok {
		return e, nil
	}
	e, err := m.store.EpochInfo(id)
	if err != nil {
		return nil, fmt.Errorf("epoch info %v: %w", id, err)
	}
	if e == nil {
		return nil, epochOutOfBounds(id)
	}
	m.epochs.put(id, e)
	return e, nil
}

// EpochStart returns the height of an epoch's first block according to the store. On another branch
// the epoch may start at another height. Errors: ErrEpochOutOfBounds if the epoch has not started.
func (m *Manager) EpochStart(id primitives.EpochID) (primitives.Height, error) {
	h, ok, err := m.store.EpochStart(id)
	if err != nil {
		return 0, fmt.Errorf("epoch start %v: %w", id, err)
	}
	if !ok {
		return 0, epochOutOfBounds(id)
	}
	return h, nil
}

// Configs returns the chain's epoch configs.
func (m *Manager) Configs() *Configs { return m.configs }

// EpochConfig returns the rules of an epoch.
func (m *Manager) EpochConfig(id primitives.EpochID) (*Config, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return nil, err
	}
	return m.configs.ForVersion(info.ProtocolVersion), nil
}

// ProtocolVersion returns the protocol version of an epoch.
func (m *Manager) ProtocolVersion(id primitives.EpochID) (primitives.ProtocolVersion, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return 0, err
	}
	return info.ProtocolVersion, nil
}

// ShardLayout returns the layout of an epoch. Errors: ErrSharding if the layout of an old epoch is
// unknown.
func (m *Manager) ShardLayout(id primitives.EpochID) (primitives.ShardLayout, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return primitives.ShardLayout{}, err
	}
	return m.layoutOf(info)
}

func (m *Manager) layoutOf(info *EpochInfo) (primitives.ShardLayout, error) {
	if !info.ShardLayout.IsZero() {
		return info.ShardLayout, nil
	}
	if l := m.configs.ForVersion(info.ProtocolVersion).ShardLayout; !l.IsZero() {
		return l, nil
	}
	return primitives.ShardLayout{}, fmt.Errorf("%w: no shard layout for protocol version %d", ErrSharding, info.ProtocolVersion)
}
