package backend

import (
	"cmp"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/viewpool"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage"
)

// Options configure a backend. Fields without a note are required.
type Options struct {
	Engine  *engine.Engine
	VM      *vm.VM // VM whose counters Status reports
	Genesis *genesis.Config
	Submit  Submitter
	// Obstacles says what keeps the node from accepting or signing blocks. nil: nothing does.
	Obstacles Obstacles
	Version   view.Version
	RPCAddr   string // value of rpc.addr in config.json
	Validator *primitives.KeyFile
	NodeKey   primitives.PublicKey
	// MaxIdle is the age of the head above which the node counts as unhealthy. Zero allows any age,
	// for a chain that makes blocks on demand.
	MaxIdle time.Duration
	// KeepEpochs is gc_num_epochs_to_keep, including the head's epoch. Zero means an archival node,
	// which keeps every block.
	KeepEpochs uint64
	// Views runs the calls of CallFunction; nil: CallFunction is not supported.
	Views *viewpool.Pool
	// MaxGasBurntView is max_gas_burnt_view. Zero: the gas limit of a call in a block.
	MaxGasBurntView primitives.Gas
	Now             func() time.Time
	// Config is the JSON that client_config returns.
	Config []byte
	// Origins are the bounds of ReceiptToTx.
	Origins Origins
	// Control executes the sandbox_ methods. nil: these methods are not supported.
	Control SandboxControl
	// Network reports on peers. nil: the node has no network.
	Network Network
	// History has blocks below the first one of the engine's store. nil: there are none.
	History History
	// OlderWaits is the largest number of requests that wait for the rest of a transaction of History.
	// Zero: DefaultOlderWaits.
	OlderWaits int
}

// Obstacles reports what keeps a node from accepting or signing blocks.
type Obstacles interface {
	// Halted returns why the node accepts no blocks, or nil if the node accepts them. The pointer
	// does not change until the reason changes.
	Halted() *view.Halted
	// KeyWait returns how long the validator's key signs nothing, or nil if it does not wait.
	KeyWait() *view.KeyWait
}

// Network reports on the node's peers.
type Network interface {
	Info() *view.NetworkInfo
	// Syncing returns whether the node is behind its peers, and the height of the highest peer.
	Syncing() (bool, primitives.Height)
}

// PeerDebugger is a Network with data for debug pages about peers.
type PeerDebugger interface {
	// DebugPeers returns the data of the page peer_store, network_graph,
	// recent_outbound_connections or snapshot_hosts.
	DebugPeers(page string) any
}

// Lagging is the Network of a replica, which also reports how far the replica is behind its writer.
type Lagging interface {
	Lag() *view.Replica
}

func (b *Backend) lag() *view.Replica {
	if r, ok := b.Network.(Lagging); ok {
		return r.Lag()
	}
	return nil
}

func (b *Backend) syncing() bool {
	if b.Network == nil {
		return false
	}
	is, _ := b.Network.Syncing()
	return is
}

// Backend implements rpc.Node. It is safe for concurrent use.
type Backend struct {
	Options
	genesisJSON []byte
	started     time.Time
	status      atomic.Pointer[statusAt]
	validator   atomic.Pointer[primitives.KeyFile]
	first       atomic.Pointer[earliest]
	long        longCalls
	digests     digests
	origins     origins
	parents     parents
	tags        tags
	older       older
	reads       documentReads
	authors     [authorSlots]atomic.Pointer[authored]
}

// New returns a backend of o's engine.
func New(o Options) *Backend {
	return of(o, newPast(max(1, runtime.GOMAXPROCS(0)/2)), genesis.AppendView(nil, o.Genesis))
}

func of(o Options, past *past, genesisJSON []byte) *Backend {
	b := &Backend{digests: digests{past: past}, Options: o, genesisJSON: genesisJSON, started: o.Now()}
	b.older.looks, b.reads.slots = make(chan struct{}, olderLooks), make(chan struct{}, olderDecoders)
	b.older.maxWaits = int64(cmp.Or(o.OlderWaits, DefaultOlderWaits))
	b.validator.Store(o.Validator)
	return b
}

// Rekeyed sets the validator key that Status reports. nil means that the node is no longer a
// validator.
func (b *Backend) Rekeyed(key *primitives.KeyFile) { b.validator.Store(key) }

// Child returns a backend for a chain instance that branched off the one of b. change modifies a
// copy of the options of b. The new backend and b share the encoded genesis and the limit on
// historical readers.
func (b *Backend) Child(change func(*Options)) *Backend {
	o := b.Options
	change(&o)
	return of(o, b.digests.past, b.genesisJSON)
}

// Head returns the head of the current chain.
func (b *Backend) Head() view.At {
	h := b.Engine.Head()
	return view.At{Height: h.Height(), Hash: h.Hash}
}

// block is a resolved block reference. Its data is in memory (entry), on disk (rec), or both.
type block struct {
	ref   storage.BlockRef
	entry *engine.BlockNode // the block in memory; nil: not in memory
	rec   *storage.Record   // the stored block; nil: not read yet
	ahead bool              // the block is not persisted yet, so only entry has the block's data
}

// errAhead means that a block is not persisted yet and that the requested data of that block is not
// in memory.
var errAhead = errors.New("backend: the block is not on disk yet, and the requested part of it is not in memory")

// find resolves a reference to a block. find returns a *view.LookupError if there is no such block.
func (b *Backend) find(r view.BlockRef) (*block, error) {
	e := b.Engine
	switch r.Kind {
	case view.RefOptimistic, view.RefNearFinal, view.RefFinal: // a node that has not synced yet has no such block
		if e.Head() == e.Genesis() && b.syncing() {
			return nil, &view.LookupError{Kind: view.ErrNotSynced}
		}
	}
	switch r.Kind {
	case view.RefOptimistic:
		return held(e.Head()), nil
	case view.RefNearFinal:
		if h := e.Head().Header().LastDSFinalBlock; !h.IsZero() {
			return b.byHash(h)
		}
		return b.byHash(e.Genesis().Hash)
	case view.RefFinal:
		return b.byHash(e.Final().Hash)
	case view.RefGenesis:
		return b.byHash(e.Genesis().Hash)
	case view.RefEarliest:
		ref, err := e.Store().NextBlock(max(e.Store().Tip().Tail, e.Chain().Height))
		if err != nil {
			return nil, err
		}
		return b.byHash(ref.Hash)
	case view.RefHash:
		return b.byHash(r.Hash)
	}
	return b.byHeight(r.Height)
}

func held(x *engine.BlockNode) *block {
	return &block{ref: storage.BlockRef{Height: x.Height(), Hash: x.Hash}, entry: x}
}

func (b *Backend) byHash(hash primitives.Hash) (*block, error) {
	if x := b.Engine.BlockNode(hash); x != nil {
		return held(x), nil
	}
	rec, err := b.Engine.Store().BlockByHash(hash)
	if gone(err) {
		return nil, view.UnknownBlock(hash)
	}
	if err != nil {
		return nil, err
	}
	return &block{ref: rec.Ref(), rec: rec}, nil
}

func (b *Backend) byHeight(height primitives.Height) (*block, error) {
	head := b.Engine.Head()
	if height > head.Height() {
		return nil, view.UnknownHeight(height)
	}
	for x := head; x != nil && x.Height() >= height; x = b.Engine.BlockNode(x.Header().PrevHash) {
		if x.Height() == height {
			return held(x), nil
		}
	}
	rec, err := b.Engine.Store().BlockAt(height)
	if gone(err) {
		// The error for a collected block names its hash. neard, too, keeps the hashes of collected
		// blocks by height.
		if hash, err := b.Engine.Store().CollectedAt(height); err == nil {
			return nil, view.UnknownBlock(hash)
		}
		return nil, view.UnknownHeight(height)
	}
	if err != nil {
		return nil, err
	}
	return &block{ref: rec.Ref(), rec: rec}, nil
}

// gone returns whether a store error means that the data is not stored, or no longer stored.
func gone(err error) bool {
	return errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone)
}

func (b *Backend) record(k *block) (*storage.Record, error) {
	if k.ahead {
		return nil, errAhead
	}
	if k.rec == nil {
		rec, err := b.Engine.Store().Block(k.ref)
		if err != nil {
			return nil, err
		}
		k.rec = rec
	}
	return k.rec, nil
}

// whole returns a block's header and body. After state sync a node may have only the header of a
// block before the sync point. As in neard, such a block is reported as unknown
// (chain/client/src/view_client_actor.rs, GetBlock).
func (b *Backend) whole(k *block) (*primitives.Block, error) {
	if k.entry != nil {
		return k.entry.Block, nil
	}
	out := &primitives.Block{}
	var err error
	if out.Header, err = b.header(k); err != nil {
		return nil, err
	}
	raw, err := k.rec.Body()
	if err != nil {
		return nil, err
	}
	if err := borsh.Unmarshal(raw, &out.Body); err != nil {
		return nil, err
	}
	if len(out.Body.Chunks) == 0 {
		return nil, view.UnknownBlock(k.ref.Hash)
	}
	return out, nil
}

// executed returns view.UnknownBlock for a block whose execution results this node does not have.
// These are the blocks after the genesis up to the block at which state sync ended.
func (b *Backend) executed(k *block) error {
	if k.ref.Height == b.Engine.Chain().Height {
		return nil
	}
	begin, err := b.Engine.Store().Begin()
	if err == nil && k.ref.Height <= begin {
		err = view.UnknownBlock(k.ref.Hash)
	}
	return err
}

func (b *Backend) header(k *block) (*primitives.BlockHeader, error) {
	if k.entry != nil {
		return k.entry.Header(), nil
	}
	rec, err := b.record(k)
	if err != nil {
		return nil, err
	}
	raw, err := rec.Header()
	if err != nil {
		return nil, err
	}
	h := new(primitives.BlockHeader)
	return h, borsh.Unmarshal(raw, h)
}

// layout returns the shard layout of a block's epoch.
func (b *Backend) layout(h *primitives.BlockHeader) (l primitives.ShardLayout, err error) {
	err = b.Engine.Epochs(func(m *epoch.Manager) (err error) { l, err = m.ShardLayout(h.EpochID); return })
	return l, err
}

// GenesisConfig returns the JSON of genesis_config. The caller must not change the result.
func (b *Backend) GenesisConfig() ([]byte, error) { return b.genesisJSON, nil }

// ProtocolConfig returns the protocol configuration in force at a block.
func (b *Backend) ProtocolConfig(r view.BlockRef) (*view.ProtocolConfig, error) {
	k, err := b.find(r)
	if err != nil {
		return nil, err
	}
	h, err := b.header(k)
	if err != nil {
		return nil, err
	}
	var c *epoch.Config
	var layout primitives.ShardLayout
	var pv primitives.ProtocolVersion
	err = b.Engine.Epochs(func(m *epoch.Manager) (err error) {
		if c, err = m.EpochConfig(h.EpochID); err != nil {
			return err
		}
		if layout, err = m.ShardLayout(h.EpochID); err != nil {
			return err
		}
		pv, err = m.ProtocolVersion(h.EpochID)
		return err
	})
	if err != nil {
		return nil, err
	}
	runtime, err := parameters.ForGenesis(parameters.Version{Protocol: pv, Numbering: b.Engine.Chain().Version.Numbering})
	if err != nil {
		return nil, err
	}
	g := b.Genesis
	fixed := func(r genesis.Ratio) view.Ratio { return view.Ratio{Num: int32(r.Num), Den: int32(r.Den)} }
	return &view.ProtocolConfig{
		ProtocolVersion: pv, GenesisTime: uint64(g.GenesisTime), ChainID: g.ChainID, GenesisHeight: g.GenesisHeight,
		NumBlockProducerSeats: c.NumBlockProducerSeats, DynamicResharding: g.DynamicResharding,
		ProtocolUpgradeStakeThreshold: view.Ratio(c.ProtocolUpgradeStakeThreshold), EpochLength: c.EpochLength,
		GasLimit: g.GasLimit, MinGasPrice: g.MinGasPrice, MaxGasPrice: g.MaxGasPrice,
		BlockProducerKickoutThreshold: uint64(c.BlockProducerKickoutThreshold),
		ChunkProducerKickoutThreshold: uint64(c.ChunkProducerKickoutThreshold),
		ChunkValidatorOnlyKickout:     uint64(c.ChunkValidatorOnlyKickoutThreshold),
		TargetValidatorMandates:       c.TargetValidatorMandatesPerShard,
		OnlineMinThreshold:            view.Ratio(c.OnlineMinThreshold), OnlineMaxThreshold: view.Ratio(c.OnlineMaxThreshold),
		GasPriceAdjustmentRate: fixed(g.GasPriceAdjustmentRate), RuntimeConfig: runtime,
		TransactionValidityPeriod: g.TransactionValidityPeriod, ProtocolRewardRate: fixed(g.ProtocolRewardRate),
		MaxInflationRate: view.Ratio(c.MaxInflationRate), NumBlocksPerYear: g.NumBlocksPerYear,
		ProtocolTreasuryAccount: g.ProtocolTreasuryAccount, FishermenThreshold: c.FishermenThreshold,
		MinimumStakeDivisor: c.MinimumStakeDivisor, MaxKickoutStakePercent: uint64(c.ValidatorMaxKickoutStakePerc),
		MinimumStakeRatio: view.Ratio(c.MinimumStakeRatio), MinimumValidatorsPerShard: c.MinimumValidatorsPerShard,
		ShuffleShardAssignment: c.ShuffleShardAssignment, ShardLayout: layout,
	}, nil
}

// Health returns nil if the node keeps up with the chain.
func (b *Backend) Health() error {
	if b.syncing() {
		return &view.LookupError{Kind: view.ErrSyncing}
	}
	age := b.Now().Sub(time.Unix(0, int64(b.Engine.Head().Header().Timestamp)))
	if b.MaxIdle > 0 && age > b.MaxIdle || b.Obstacles != nil && b.Obstacles.Halted() != nil {
		return &view.LookupError{Kind: view.ErrNoNewBlocks, Elapsed: uint64(age)}
	}
	return nil
}

// NetworkInfo lists the node's peers. The list is empty for a node without a network.
func (b *Backend) NetworkInfo() (*view.NetworkInfo, error) {
	if b.Network != nil {
		return b.Network.Info(), nil
	}
	return &view.NetworkInfo{PeerMaxCount: 40}, nil
}

// Validators describes the validators of an epoch.
func (b *Backend) Validators(r view.EpochRef) (*view.Validators, error) {
	q := engine.LatestValidators()
	switch r.Kind {
	case view.EpochByID:
		q = engine.ValidatorsOfEpoch(r.ID)
	case view.EpochByBlock:
		k, err := b.find(r.Block)
		if err != nil || k.ref.Hash == b.Engine.Head().Hash {
			return nil, &view.LookupError{Kind: view.ErrUnknownEpoch}
		}
		h, err := b.header(k)
		if err != nil {
			return nil, err
		}
		next, err := b.nextEpoch(k)
		if err != nil {
			return nil, err
		}
		// The genesis and its child have the same epoch id. So the genesis is not the last block of
		// an epoch (nearcore view_client_actor.rs:908).
		if next == h.EpochID {
			return nil, &view.LookupError{Kind: view.ErrNoValidatorInfo}
		}
		q = engine.ValidatorsOfEpoch(h.EpochID)
	}
	v, err := b.Engine.Validators(q)
	if errors.Is(err, epoch.ErrEpochOutOfBounds) || errors.Is(err, epoch.ErrMissingBlock) {
		return nil, &view.LookupError{Kind: view.ErrUnknownEpoch}
	}
	return v, err
}

// nextEpoch returns the epoch of k's child on the head's chain. nextEpoch returns ErrUnknownEpoch
// if k is the head or is not on that chain.
func (b *Backend) nextEpoch(k *block) (of primitives.EpochID, err error) {
	store := b.Engine.Store()
	ref, err := store.NextBlock(k.ref.Height + 1)
	if gone(err) {
		return of, &view.LookupError{Kind: view.ErrUnknownEpoch}
	}
	if err != nil {
		return of, err
	}
	rec, err := store.Block(ref)
	switch {
	case gone(err):
	case err != nil:
		return of, err
	case rec.Prev() == k.ref:
		return rec.Epoch(), nil
	}
	return of, &view.LookupError{Kind: view.ErrUnknownEpoch}
}
