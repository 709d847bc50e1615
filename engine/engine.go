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

// Options configure an Engine. Chain and Store are required. The zero value of every other field is
// valid.
type Options struct {
	// Chain is the chain spec read from the genesis. Required.
	Chain *ChainSpec
	// Store is the open store. Required. The caller closes it after Engine.Close.
	Store *storage.Store
	// VM runs contracts. nil: contracts do not run.
	VM action.VM
	// Upgrades says which protocol version produced blocks vote for. nil: as neard without an
	// override.
	Upgrades *epoch.UpgradeSchedule
	// Par runs receipts of a chunk in parallel. nil: one by one.
	Par apply.Par
	// Signature checks transactions in chunks. nil: every signature is verified. A node passes one
	// that knows the transactions which its RPC and mempool have verified (signature.Checker).
	Signature verify.SignatureFunc
	// Verify checks signatures of blocks, approvals and delegate actions. nil:
	// primitives.Signature.Verify.
	Verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	// VRF checks the random value of blocks. nil: primitives.VerifyVRF with a cache of decoded
	// keys.
	VRF func(key primitives.PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool
	// MaxHeightJump bounds how far a block's height may lie above the head, in blocks. 0: no bound,
	// for a sandbox, which may fast-forward. Other nodes pass 20 epochs.
	MaxHeightJump primitives.Height
	// Tracks reports which shards this node is to hold. nil: all. A shard that the store already
	// holds is kept until it is split.
	Tracks Track
	// Scheduled allows shards to be caught up and untracked while the engine runs (Schedule).
	// false: Open fails if the store lacks a tracked shard.
	Scheduled bool
	// Assigned are validators for which shards are held too, if Scheduled: those of the chunks that
	// they produce, which may differ in each epoch. nil: none.
	Assigned []primitives.AccountID
	// Snapshots keeps the states at the sync blocks of the last two epochs, so that peers can fetch
	// parts of them (Part). false: stored snapshots are removed at Open, unless Inspect is set.
	Snapshots bool
	// SyncPointEpochs is for how many epochs without a sync block the data of the newest one is
	// kept. 0: DefaultSyncPointEpochs.
	SyncPointEpochs int
	// Warn receives what the engine continues without (ErrFarBehind, ErrNoPoint) and
	// ErrUpgradeNeeded, on any goroutine. nil: such warnings are dropped.
	Warn func(error)
	// MainResults is how many results of witnesses' main transitions are cached for each shard. 0:
	// DefaultMainResults. Negative: none, for tests.
	MainResults int
	// Inspect opens the engine without removing stored data that these options do not ask for, for
	// tools that only read.
	Inspect bool
	// ProofBytes bounds the memory of state proofs that are kept for witnesses. 0: proofs are made
	// only on demand.
	ProofBytes int64
	// ProofsFor is the validator that needs the proofs for its witnesses: they are kept for shards
	// with chunks that it produces in the epoch or the next, if there are other validators to check
	// them. Empty: proofs of every chunk are kept.
	ProofsFor primitives.AccountID
	// StateBytes bounds, approximately, the memory of all trie nodes. 0: no bound.
	StateBytes uint64
	// Tries are the options of the forests, without their sources. The zero value has production
	// sizes; tests make them small.
	Tries trie.Options
	// GapBlocks is how many blocks after its reference block a transaction with a strict nonce
	// waits for the nonces before it. 0: DefaultGapBlocks.
	GapBlocks primitives.Height
	// ResidentBlocks is how many of the newest blocks stay complete in memory while finality stalls
	// (block_evict.go). 0: maxAboveFlatHead.
	ResidentBlocks int
	// CorruptInput changes the input of a new chunk, so that the simulator can test that its checks
	// notice. nil: no change.
	CorruptInput func(*apply.Input)
	// Base is the remote chain that this one is a fork of. nil: this chain is not a fork.
	Base RemoteState
	// PartialBodies accepts blocks from feeds with bodies that contain only the chunk headers
	// (chain.ValidateView). false: bodies are complete.
	PartialBodies bool
	// Now returns the time in ns since 1970, by which peers' blocks and headers may be too far in
	// the future. nil: times are not checked.
	Now func() uint64
}

// DefaultGapBlocks is neard's transaction_pool_strict_nonce_ttl_blocks.
const DefaultGapBlocks primitives.Height = 64

// Engine is the core. The package comment says which goroutine may call what.
type Engine struct {
	o       Options
	parent  *Engine     // of a child engine, see sandbox_child.go; nil: not a child
	gone    atomic.Bool // a child that was discarded: its states are released
	chain   *ChainSpec
	store   *storage.Store
	coding  *primitives.ReedSolomon
	pricing epoch.GasPriceRules
	genesis *BlockNode

	epochs  *epoch.Manager
	epochMu sync.Mutex // guards the manager's caches, which the writer and readers of validators use

	mu      sync.RWMutex // guards entries
	entries map[primitives.Hash]*BlockNode

	ancestry ancestry
	// the block of the flat state and frontier on disk, unless an update runs; held. Of a child:
	// its first block
	flatHead *BlockNode
	// running update; nil: none
	flatHeadUpdate *flatHeadUpdate
	flatHeadPause  atomic.Pointer[func() time.Duration] // how long an update may wait before it starts; nil: not at all
	resident       []*BlockNode                         // not evicted, oldest first; some may have left the tree
	trimmedAt      primitives.Height                    // the last block at which tries were reduced
	evictedBytes   atomic.Uint64                        // trie bytes evicted so far
	precompiler    precompiler                          // contract code being compiled
	vrf            *vrfCache                            // shared with the parent engine, if any
	patch          pendingPatch                         // for the block that was produced last
	mocks          atomic.Pointer[primitives.Mocks]     // overrides for contracts called outside of a block; nil: none
	ownChunks      recentHashes                         // chunks produced here: not checked again in an own block
	// chunks with a body that codes to the header, and with the receipts that this engine has for
	// them
	validChunks     recentHashes
	validBlocks     recentHashes // blocks that were valid except for missing bodies, or passed the gossip check
	pipeline        commitPipeline
	headerChain     headerChain // headers above the blocks
	proofs          witnessCache
	mainResults     *mainResults
	times           Times
	stateSnapshots  stateSnapshots
	revertPoints    []*RevertPoint              // that have not ended
	removalsDone    sync.WaitGroup              // waits for removals of untracked shards
	removalsRunning atomic.Int32                // number of running removals
	view            atomic.Pointer[head]        // the persisted head
	tip             atomic.Pointer[head]        // the in-memory head: the same block or a descendant
	viewed          atomic.Pointer[viewedEpoch] // the epoch that CallView used last
}

// head is a head with its final block.
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

// Open starts the engine on a store: from the genesis if the store is empty, else where the store
// left off.
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
		vrf: new(vrfCache), mainResults: newMainResults(o.MainResults),
		pricing: epoch.NewGasPriceRules(c.Version.Protocol, c.MinGasPrice, c.MaxGasPrice, c.Adjustment),
	}
	e.ancestry.init(e)
	e.pipeline.init()
	e.proofs.limit = o.ProofBytes
	var err error
	if e.epochs, err = epoch.NewManager(c.Params, c.Configs, epochStore{e}); err != nil {
		return nil, fmt.Errorf("engine: epochs: %w", err)
	}
	if e.coding, err = primitives.NewReedSolomon(e.epochs.NumDataParts(), e.epochs.NumTotalParts()); err != nil {
		return nil, fmt.Errorf("engine: chunk coding: %w", err)
	}
	if o.Store.Tip().Empty {
		return e, e.begin()
	}
	if err := e.resume(); err != nil {
		return e, err
	}
	e.adviseUpgrade(e.Head().Header())
	return e, nil
}

// Chain returns the chain spec.
func (e *Engine) Chain() *ChainSpec { return e.chain }

// Coding returns the Reed-Solomon coding of this chain's chunks.
func (e *Engine) Coding() *primitives.ReedSolomon { return e.coding }

// Pricing returns the bounds of the gas price.
func (e *Engine) Pricing() epoch.GasPriceRules { return e.pricing }

// Epochs calls f with the epoch manager, to which it has exclusive access meanwhile. f must not
// keep it or call an Engine method that takes the same lock.
func (e *Engine) Epochs(f func(*epoch.Manager) error) error {
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	return f(e.epochs)
}

// BlockNode returns a recent block by hash. It returns nil if the block is unknown, not on disk
// yet, evicted or below the flat head.
func (e *Engine) BlockNode(hash primitives.Hash) *BlockNode {
	if x := e.Imported(hash); x != nil && x.persisted.Load() && !x.evicted {
		return x
	}
	return nil
}

// Head returns the canonical persisted head.
func (e *Engine) Head() *BlockNode { return e.view.Load().entry }

// Final returns the last final block of the head's chain.
func (e *Engine) Final() storage.BlockRef { return e.view.Load().final }

// Store returns the store, for readers.
func (e *Engine) Store() *storage.Store { return e.store }

// forest returns an empty forest for a shard with its state after a block on disk.
func (e *Engine) forest(at storage.BlockRef, layout primitives.ShardLayout, i int) *trie.Forest {
	f := trie.New(e.o.Tries)
	f.SetSource(e.source(at, layout, i))
	return f
}

// source returns where a shard's forest loads what is not in memory: the store, as of a block.
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

// begin builds the genesis block with its states and stores them.
func (e *Engine) begin() error {
	c := e.chain
	layout, err := e.epochs.ShardLayout(primitives.EpochID{})
	if err != nil {
		return err
	}
	cfg, err := parameters.Get(c.Version)
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

// start initialises the tree: at is the flat head and the head.
func (e *Engine) start(genesis, at *BlockNode) {
	e.genesis = genesis
	e.entries[at.Hash] = at
	e.flatHead = at
	e.show(&head{entry: at, final: storage.BlockRef{Height: e.chain.Height, Hash: genesis.Hash}})
}

// show sets the head, with no block in flight.
func (e *Engine) show(h *head) {
	e.view.Store(h)
	e.tip.Store(h)
}

// Genesis returns the first block. Its states are not retained.
func (e *Engine) Genesis() *BlockNode { return e.genesis }
