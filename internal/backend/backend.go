package backend

import (
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

// Options are what a backend needs beside the engine.
type Options struct {
	Engine    *engine.Engine
	VM        *vm.VM // the engine's, to be watched
	Genesis   *genesis.Config
	Submit    Submitter
	Halted    func() *view.Halted // why the node takes no blocks, the same value as long as it is the same; nil: it does
	Version   view.Version
	RPCAddr   string // as config.json has it
	Validator *primitives.KeyFile
	NodeKey   primitives.PublicKey
	// MaxIdle is how old the head may be for a healthy node, 0: any age (a chain that makes blocks on demand).
	MaxIdle time.Duration
	// KeepEpochs is gc_num_epochs_to_keep, the head's included; 0: an archival node, which keeps all.
	KeepEpochs uint64
	// Views runs the calls of CallFunction; nil: there are none.
	Views *viewpool.Pool
	// MaxGasBurntView is max_gas_burnt_view, 0: what a call may burn in a block.
	MaxGasBurntView primitives.Gas
	Now             func() time.Time
	// Config is the JSON of client_config.
	Config []byte
	// Origins bound ReceiptToTx.
	Origins Origins
	// Steer does what a sandbox is asked to; nil: nothing.
	Steer Steerer
	// Network tells of other nodes; nil: there are none.
	Network Network
}

// Network is what there is to tell of other nodes.
type Network interface {
	Info() *view.NetworkInfo
	// Syncing tells whether the node is behind the others, and how high the highest of them is.
	Syncing() (bool, primitives.Height)
}

// Lagging is a Network of a replica.
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

// Backend implements rpc.Node.
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
	authors     [authorSlots]atomic.Pointer[authored]
}

// New returns a backend.
func New(o Options) *Backend {
	return of(o, newPast(max(1, runtime.GOMAXPROCS(0)/2)), genesis.AppendView(nil, o.Genesis))
}

func of(o Options, past *past, genesisJSON []byte) *Backend {
	b := &Backend{digests: digests{past: past}, Options: o, genesisJSON: genesisJSON, started: o.Now()}
	b.validator.Store(o.Validator)
	return b
}

// Rekeyed says that the validator has another key from here on; nil: none.
func (b *Backend) Rekeyed(key *primitives.KeyFile) { b.validator.Store(key) }

// Child returns a backend of a chain that begins with this one's.
func (b *Backend) Child(change func(*Options)) *Backend {
	o := b.Options
	change(&o)
	return of(o, b.digests.past, b.genesisJSON)
}

// Head is the head of the current chain.
func (b *Backend) Head() view.At {
	h := b.Engine.Head()
	return view.At{Height: h.Height(), Hash: h.Hash}
}

// block is a block found by reference: in memory, or on disk.
type block struct {
	ref   storage.BlockRef
	entry *engine.BlockNode // nil: not in memory
	rec   *storage.Record   // nil: not asked yet
	ahead bool              // it is on its way to the disk: there is no record, and only entry tells of it
}

// errAhead says that what is asked is not in memory, of a block that is on its way to the disk.
var errAhead = errors.New("backend: it is not in memory")

// find resolves a reference.
func (b *Backend) find(r view.BlockRef) (*block, error) {
	e := b.Engine
	switch r.Kind {
	case view.RefOptimistic, view.RefNearFinal, view.RefFinal: // what is known of a chain that has only begun to come is no state of it
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
		// A block that was collected is told by its hash, as neard does, whose heights keep their hashes.
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

// gone tells whether an error of the store means that something isn't there.
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

// whole returns header and body. Of a block before its sync point a node may have the header alone:
// to it, as to neard (chain/client/src/view_client_actor.rs, GetBlock), that block is unknown.
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

// executed returns an error of view.UnknownBlock for a block of which the node does not know what
// it did: one from the genesis to the block after which the state is that the node began with.
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

// layout returns the layout of a block's epoch.
func (b *Backend) layout(h *primitives.BlockHeader) (l primitives.ShardLayout, err error) {
	err = b.Engine.Epochs(func(m *epoch.Manager) (err error) { l, err = m.ShardLayout(h.EpochID); return })
	return l, err
}

// GenesisConfig returns the JSON of genesis_config.
func (b *Backend) GenesisConfig() ([]byte, error) { return b.genesisJSON, nil }

// ProtocolConfig returns the configuration in force at a block.
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
	runtime, err := parameters.Get(parameters.Version{Protocol: pv, Numbering: b.Engine.Chain().Version.Numbering})
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

// Health is nil for a node that keeps up.
func (b *Backend) Health() error {
	if b.syncing() {
		return &view.LookupError{Kind: view.ErrSyncing}
	}
	age := b.Now().Sub(time.Unix(0, int64(b.Engine.Head().Header().Timestamp)))
	if b.MaxIdle > 0 && age > b.MaxIdle || b.Halted != nil && b.Halted() != nil {
		return &view.LookupError{Kind: view.ErrNoNewBlocks, Elapsed: uint64(age)}
	}
	return nil
}

// NetworkInfo lists peers: a node by itself has none.
func (b *Backend) NetworkInfo() (*view.NetworkInfo, error) {
	if b.Network != nil {
		return b.Network.Info(), nil
	}
	return &view.NetworkInfo{PeerMaxCount: 40}, nil
}

// Validators describes an epoch.
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
		// The genesis and the block after it have the same id of an epoch: it is the last of none (nearcore view_client_actor.rs:908).
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

// nextEpoch returns the epoch of the block after another on the head's chain: ErrUnknownEpoch where
// the other one is not on it, or its head.
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
