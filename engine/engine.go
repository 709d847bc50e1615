package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Options configure an Engine. Chain and Store are required. Zero values are valid for all other
// fields.
type Options struct {
	// Chain is the chain spec read from the genesis. Required.
	Chain *ChainSpec
	// Store is the open store. Required. The caller closes it after Engine.Close.
	Store *storage.Store

	// Execution.

	// VM executes contracts. nil: contract calls fail.
	VM action.VM
	// Par runs receipts of a chunk in parallel. nil: receipts run one after another.
	Par apply.Par
	// Upgrades determines the protocol version for which this node's blocks vote. nil: the schedule
	// of neard without an override.
	Upgrades *epoch.UpgradeSchedule
	// CorruptInput changes the input of new chunks. The simulator sets CorruptInput to test that
	// the checks detect wrong results. nil: no change.
	CorruptInput func(*apply.Input)

	// Signatures and checks.

	// Signature verifies the signatures of transactions in chunks. nil: every signature is
	// verified. A node passes a signature.Checker, which skips signatures that were verified when
	// the RPC or the mempool received the transactions.
	Signature verify.SignatureFunc
	// Verify verifies signatures of blocks, approvals and delegate actions. nil:
	// primitives.Signature.Verify.
	Verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	// VRF verifies the random value of blocks. nil: primitives.VerifyVRF, with a cache of decoded
	// public keys.
	VRF func(key primitives.PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool
	// Now returns the time in ns since 1970. The engine refuses peers' blocks and headers whose
	// timestamps are too far in the future. nil: timestamps are not compared with a clock.
	Now func() uint64
	// MaxHeightJump is the maximum number of heights by which a block may be above the tip. Nodes
	// pass the length of 20 epochs. 0: no bound, for a sandbox, which may be fast-forwarded.
	MaxHeightJump primitives.Height
	// PartialBodies makes the engine accept blocks of a block feed, whose bodies have only the
	// chunk headers (chain.ValidateView). If PartialBodies is false, bodies must be complete.
	PartialBodies bool
	// GapBlocks bounds how long a transaction with a strict nonce waits for the transactions with
	// lower nonces. The transaction waits for at most this many blocks after its reference block.
	// 0: DefaultGapBlocks.
	GapBlocks primitives.Height

	// Tracked shards.

	// Tracks returns whether this node tracks a shard. nil: this node tracks all shards. The engine
	// keeps a shard that is already in the store until the shard is split.
	Tracks Track
	// Scheduled means that shards may be caught up and removed while the engine runs (Schedule). If
	// Scheduled is false, Open fails if the store lacks a tracked shard.
	Scheduled bool
	// Assigned are validators. If Scheduled is set, the engine also holds the shards for which
	// these validators produce chunks. These shards may change in each epoch.
	Assigned []primitives.AccountID

	// State snapshots for peers.

	// Snapshots makes the engine keep the states at the sync blocks of the last two epochs, so that
	// peers can fetch them (Part). If Snapshots is false, Open removes stored snapshots, unless
	// Inspect is set.
	Snapshots bool
	// SyncPointEpochs is the number of epochs for which the data of the last sync block is kept if
	// no sync block follows. 0: DefaultSyncPointEpochs.
	SyncPointEpochs int

	// Memory.

	// StateBytes is the approximate maximum memory of all trie nodes in bytes. 0: no maximum.
	StateBytes uint64
	// Tries are the options of the forests. The engine ignores the sources in Tries. The zero value
	// has production sizes; tests use small sizes.
	Tries trie.Options
	// ResidentBlocks is the number of newest blocks that stay complete in memory while finality
	// stalls (block_evict.go). 0: maxAboveFlatHead.
	ResidentBlocks int
	// MainResults is the maximum number of cached results of main transitions in witnesses, for each
	// shard. 0: DefaultMainResults. Negative, for tests: no cache.
	MainResults int
	// ProofBytes bounds the memory in bytes of the state proofs that are kept for witnesses. 0: no
	// proofs are kept; the engine makes each proof on demand.
	ProofBytes int64
	// ProofsFor is the validator that produces the witnesses. The engine keeps proofs for the
	// shards for which this validator produces chunks in the current epoch. If the next epoch has
	// different validators, the validator's shards of the next epoch count too. If ProofsFor is
	// empty, proofs of all chunks are kept.
	ProofsFor primitives.AccountID

	// Forks, tools and observers.

	// Base reads the remote chain from which this chain was forked. nil: this chain is no fork.
	Base RemoteState
	// Inspect is for tools that only read. If Inspect is set, Open does not remove stored data that
	// these options do not require.
	Inspect bool
	// Warn receives ErrUpgradeVoted, ErrUpgradeNeeded, and the errors that the engine ignores
	// (ErrFarBehind, ErrNoPoint). The engine calls it on any goroutine. nil: the errors are dropped.
	Warn func(error)
}

// DefaultGapBlocks is the default of neard's transaction_pool_strict_nonce_ttl_blocks.
const DefaultGapBlocks primitives.Height = 64

// Engine is the chain of one node. The package comment says which goroutine may call which method.
type Engine struct {
	o       Options
	parent  *Engine     // the engine of which this engine is a child (sandbox_child.go), or nil
	gone    atomic.Bool // this engine is a child that Discard has closed, so that its states are released
	chain   *ChainSpec
	store   *storage.Store
	coding  *primitives.ReedSolomon
	pricing epoch.GasPriceRules
	genesis *BlockNode
	begins  primitives.Height // storage.Store.Begin

	epochs  *epoch.Manager
	epochMu sync.Mutex // guards epochs

	mu      sync.RWMutex // guards entries
	entries map[primitives.Hash]*BlockNode

	ancestry ancestry
	// flatHead is the block whose state the store holds as flat state. During an update, the store
	// may already hold the state after flatHeadUpdate.to instead. The engine keeps the states of
	// flatHead in memory. In a child engine, flatHead is the block at which the child begins.
	flatHead *BlockNode
	// flatHeadUpdate is the running update, or nil.
	flatHeadUpdate *flatHeadUpdate
	// flatHeadPause returns the pause before an update starts. nil: there is no pause.
	flatHeadPause atomic.Pointer[func() time.Duration]
	// resident has the blocks that are not evicted, oldest first. Some may have left the block tree.
	resident     []*BlockNode
	trimmedAt    primitives.Height // height of the last block at which tries were evicted
	evictedBytes atomic.Uint64     // bytes of trie nodes evicted so far
	precompiler  precompiler       // compiles contract code before the code's first use
	vrf          *vrfCache         // shared with the parent engine of a child engine
	patch        pendingPatch      // state patch of the block that was produced last
	// optimistic has the optimistic blocks whose states are held, in the order of arrival.
	optimistic []*OptimisticApply
	// mocks are the signature checks that a sandbox mocks outside of blocks. nil: none.
	mocks     atomic.Pointer[primitives.Mocks]
	ownChunks recentHashes // hashes of chunks that this engine produced
	// validChunks has the hashes of chunks whose body was checked against the header and against the
	// receipts that this engine has computed.
	validChunks     recentHashes
	validBlocks     recentHashes // hashes of blocks that passed chain.ValidateBlock
	pipeline        commitPipeline
	headerChain     *HeaderChain
	proofs          *witnessCache
	epochProofs     *EpochProofs
	transactions    *Transactions
	witnesses       *WitnessChecker
	times           Times
	upgradeAdvice   upgradeAdvice // warnings given so far; only imports use it
	snapshots       *StateSnapshots
	revertPoints    []*RevertPoint              // revert points that have not ended
	removalsDone    sync.WaitGroup              // waits for removals of untracked shards
	removalsRunning atomic.Int32                // number of running removals
	view            atomic.Pointer[head]        // head of the persisted blocks
	tip             atomic.Pointer[head]        // head of the imported blocks: the persisted head or a descendant
	viewed          atomic.Pointer[viewedEpoch] // the epoch for which CallView ran last
}

// head is a block with the last final block according to its header.
type head struct {
	entry *BlockNode
	final storage.BlockRef
}

func (e *Engine) verify(sig primitives.Signature, data []byte, key primitives.PublicKey) bool {
	if e.o.Verify != nil {
		return e.o.Verify(sig, data, key)
	}
	return sig.Verify(data, key)
}

// Open opens an engine on a store. If the store is empty, Open writes the genesis to the store.
// Otherwise the engine continues from the store's head.
func Open(o Options) (*Engine, error) {
	c := o.Chain
	if o.Base != nil {
		o.Tries.UserData = o.Base
	}
	if o.VRF == nil {
		o.VRF = new(vrfKeys).verify
	}
	if o.Upgrades == nil {
		o.Upgrades = epoch.NewUpgradeSchedule(c.ID, parameters.Newest(c.Version.Numbering))
	}
	e := &Engine{
		o: o, chain: c, store: o.Store, entries: map[primitives.Hash]*BlockNode{},
		vrf:     new(vrfCache),
		pricing: epoch.NewGasPriceRules(c.Version.Protocol, c.MinGasPrice, c.MaxGasPrice, c.Adjustment),
	}
	e.ancestry.init(e)
	e.pipeline.init()
	e.precompiler.init(o.VM, c.ID)
	var err error
	if e.begins, err = o.Store.Begin(); err != nil {
		return nil, fmt.Errorf("engine: read the block with which the store began: %w", err)
	}
	if e.epochs, err = epoch.NewManager(c.Params, c.Configs, epochStore{e}); err != nil {
		return nil, fmt.Errorf("engine: open the epoch manager: %w", err)
	}
	if e.coding, err = primitives.NewReedSolomon(e.epochs.NumDataParts(), e.epochs.NumTotalParts()); err != nil {
		return nil, fmt.Errorf("engine: set up Reed-Solomon coding of chunks: %w", err)
	}
	e.witnesses = newWitnessChecker(e, e.coding, o.MainResults, &e.times.Applied)
	e.snapshots = newStateSnapshots(e, &e.o)
	e.headerChain = newHeaderChain(e)
	e.proofs = newWitnessCache(e, &e.o)
	e.transactions = &Transactions{e.store, e}
	e.epochProofs = &EpochProofs{store: e.store, chain: e, epochs: epochStore{e}}
	if o.Store.Tip().Empty {
		return e, e.begin()
	}
	if err := e.resume(); err != nil {
		return e, err
	}
	_ = e.adviseUpgrade(e.Head())
	return e, nil
}

// Chain returns the chain spec.
func (e *Engine) Chain() *ChainSpec { return e.chain }

// Coding returns the Reed-Solomon coding of this chain's chunks.
func (e *Engine) Coding() *primitives.ReedSolomon { return e.coding }

// Pricing returns the rules of the gas price.
func (e *Engine) Pricing() epoch.GasPriceRules { return e.pricing }

// Epochs calls f with the epoch manager and holds epochMu during the call. f must not retain the
// manager, and must not call an Engine method that locks epochMu.
func (e *Engine) Epochs(f func(*epoch.Manager) error) error {
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	return f(e.epochs)
}

// BlockNode returns a block of the tree by hash. It returns nil if the block is unknown, not on
// disk yet, evicted, or below the flat head. Safe for concurrent use.
func (e *Engine) BlockNode(hash primitives.Hash) *BlockNode {
	if x := e.Imported(hash); x != nil && x.persisted.Load() && !x.evicted {
		return x
	}
	return nil
}

// Head returns the persisted head of the canonical chain.
func (e *Engine) Head() *BlockNode { return e.view.Load().entry }

// Final returns the last final block according to Head.
func (e *Engine) Final() storage.BlockRef { return e.view.Load().final }

// Store returns the store, for readers.
func (e *Engine) Store() *storage.Store { return e.store }

// forest returns an empty forest that loads the state of shard index i after `at`, a persisted
// block.
func (e *Engine) forest(at storage.BlockRef, layout primitives.ShardLayout, i int) *trie.Forest {
	f := trie.New(e.o.Tries)
	f.SetSource(e.source(at, layout, i))
	return f
}

// source returns the source from which a forest loads nodes that are not in memory: the store, with
// the state after the block `at`.
func (e *Engine) source(at storage.BlockRef, layout primitives.ShardLayout, i int) trie.Source {
	id, r := layout.ShardIDs()[i], accounts(layout, primitives.ShardIndex(i))
	return trie.Source{Rows: e.rows(id), Load: func(from, to []byte, yield func(key, value []byte) bool) error {
		return e.store.Load(at, id, r, from, to, yield)
	}, Stale: func() (*trie.Source, func(bool)) {
		x := e.store.StaleReader()
		if x == nil {
			return nil, nil
		}
		return &trie.Source{
			Rows: rowsOf(x.Frontier, id),
			Load: func(from, to []byte, yield func(key, value []byte) bool) error {
				return x.Load(id, r, from, to, yield)
			},
		}, x.Done
	}}
}

// begin builds the genesis block with its states, and stores the block and the states.
func (e *Engine) begin() error {
	c := e.chain
	layout, err := e.epochs.ShardLayout(primitives.EpochID{})
	if err != nil {
		return err
	}
	cfg, err := parameters.ForGenesis(c.Version)
	if err != nil {
		return err
	}
	first, err := c.Load()
	if err != nil {
		return err
	}
	ids := layout.ShardIDs()
	roots, rows := make([]*trie.Root, len(ids)), make([]frontierRows, len(ids))
	hashes := make([]primitives.Hash, len(ids))
	for i, id := range ids {
		roots[i], err = trie.New(e.o.Tries).BuildFrontier(first.Pairs(i), e.o.StateBytes/uint64(len(ids)), rows[i].add)
		if err != nil {
			return fmt.Errorf("engine: genesis state of shard %d: %w", id, err)
		}
		hashes[i] = roots[i].Hash()
	}
	producers, err := e.epochs.BlockProducersOrdered(primitives.EpochID{})
	if err != nil {
		return err
	}
	block, chunks, err := chain.Genesis(&chain.GenesisInput{
		Version: c.Version.Protocol, Height: c.Height, Time: c.Time, GasLimit: c.GasLimit, MinGasPrice: c.MinGasPrice,
		TotalSupply: c.TotalSupply, ShardIDs: ids, StateRoots: hashes,
		Congestion: first.Congestion(), BlockProducers: producers,
	})
	if err != nil {
		return err
	}
	if err := checkPublicGenesis(c, block.Hash()); err != nil {
		return err
	}
	entry := newGenesisEntry(block, chunks, layout, cfg, roots)
	changes, err := e.epochs.RecordBlockInfo(epoch.BlockInfoFromHeader(block.Header, c.Height), primitives.Hash{})
	if err != nil {
		return fmt.Errorf("engine: genesis: %w", err)
	}
	for i := range entry.Shards {
		s := &entry.Shards[i]
		held, err := e.startsWithShard(entry, s.ID)
		if err != nil {
			return fmt.Errorf("engine: genesis: %w", err)
		}
		if !held {
			s.root.Release()
			*s = ShardState{ID: s.ID, Chunk: s.Chunk}
		}
	}
	if err := e.storeGenesis(entry, &changes, first, rows); err != nil {
		return err
	}
	for i := range entry.Shards {
		if r := entry.Shards[i].root; r != nil {
			r.Forest().SetSource(e.source(ref(entry), layout, i))
		}
	}
	e.start(entry, entry)
	return nil
}

func newGenesisEntry(
	block *primitives.Block,
	chunks []*primitives.Chunk,
	layout primitives.ShardLayout,
	cfg *parameters.RuntimeConfig,
	roots []*trie.Root,
) *BlockNode {
	entry := &BlockNode{
		Block:       block,
		Hash:        block.Hash(),
		Layout:      layout,
		Config:      cfg,
		Tree:        new(primitives.PartialMerkleTree),
		Shards:      make([]ShardState, len(chunks)),
		finalHeight: block.Header.Height,
	}
	entry.refs.Store(1)
	entry.persisted.Store(true)
	for i, c := range chunks {
		h := &c.Header
		entry.Shards[i] = ShardState{
			ID:         h.ShardID,
			Chunk:      c,
			OutgoingAt: entry.Hash,
			OutgoingOf: h.ShardID,
			Extra: &chain.ChunkExtra{
				StateRoot: h.PrevStateRoot, GasLimit: h.GasLimit, CongestionInfo: h.CongestionInfo,
			},
		}
		if roots != nil {
			entry.Shards[i].root = roots[i]
		}
	}
	return entry
}

// start initialises the block tree with the block `at`, which is both the flat head and the head.
func (e *Engine) start(genesis, at *BlockNode) {
	e.genesis = genesis
	e.entries[at.Hash] = at
	e.flatHead = at
	e.show(&head{entry: at, final: storage.BlockRef{Height: e.chain.Height, Hash: genesis.Hash}})
}

// show makes h the persisted head and the in-memory head.
func (e *Engine) show(h *head) {
	e.view.Store(h)
	e.tip.Store(h)
}

// Genesis returns the genesis block. The genesis states are not held.
func (e *Engine) Genesis() *BlockNode { return e.genesis }
