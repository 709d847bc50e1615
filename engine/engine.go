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

// Options are what an Engine works with.
type Options struct {
	Chain *ChainSpec
	Store *storage.Store
	VM    action.VM // nil: contracts do not run
	// Par runs receipts of a chunk in parallel; nil: one by one.
	Par apply.Par
	// Signature checks transactions in chunks; nil: every one is checked. A node passes one that remembers what its door has
	// checked.
	Signature verify.SignatureFunc
	// Verify checks signatures of blocks, votes and delegate actions; nil: primitives.Signature.Verify.
	Verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	// VRF checks the random value of blocks; nil: primitives.VerifyVRF.
	VRF func(key primitives.PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool
	// MaxHeightJump bounds how far a block's height may lie above the head: 20 epochs by default; 0 in a sandbox, which may
	// fast-forward: no bound.
	MaxHeightJump primitives.Height
	// Tracks tells which shards this node holds; nil: all. What the store holds already is held on until its shard is split.
	Tracks Track
	// Scheduled: what is to be held and is not here comes in (Schedule).
	Scheduled bool
	// Assigned are validators whose shards are held besides, with Scheduled: those of which they make chunks, in each epoch others.
	Assigned []primitives.AccountID
	// Snapshots: the states at the sync blocks of the last two epochs stay, so that parts of them can be given (Part).
	Snapshots bool
	// SyncPointEpochs is for how many epochs without a sync block what belongs to the newest one stays, at the most; 0: DefaultSyncPointEpochs.
	SyncPointEpochs int
	// Warn is told what the engine goes on without, by any goroutine: ErrFarBehind, ErrNoPoint. nil: nobody hears it.
	Warn func(error)
	// MainResults is how many results of main transitions of witnesses are kept for each shard; 0: DefaultMainResults, negative: none, as only tests want it.
	MainResults int
	// Inspect: the engine is opened to look at what is there, and nothing of the store goes because these options do not ask for it.
	Inspect bool
	// ProofBytes is how many bytes of state proofs are kept for witnesses; 0: none are made but on demand.
	ProofBytes int64
	// ProofsFor is whose witnesses they are for: kept is what proves the chunks of shards of which that account makes chunks in the epoch or
	// the next, if there are others to check them. Empty: every chunk.
	ProofsFor primitives.AccountID
	// StateBytes is what the nodes of all tries may take in memory, about; 0: no bound.
	StateBytes uint64
	// Tries are how the forests are made, but for their sources. Tests make them small.
	Tries trie.Options
	// GapBlocks is how many blocks above the one that it refers to a transaction with a strict nonce waits for those before it;
	// 0: DefaultGapBlocks.
	GapBlocks primitives.Height
	// ResidentBlocks are how many of the newest blocks have all they did in memory where finality stands still; 0: maxAboveFlatHead.
	ResidentBlocks int
	// CorruptInput changes what a new chunk is applied to, so that the simulator sees its checks find that; nil: nobody does.
	CorruptInput func(*apply.Input)
	// RemoteState is the chain that this one is a fork of; nil: it is none.
	Base RemoteState
	// PartialBodies: blocks come from feeds, which tell of their bodies the chunks' headers alone (chain.ValidateView).
	PartialBodies bool
	// Now is the clock by which blocks and headers of peers may be from too far in the future, ns since 1970; nil: it is not asked.
	Now func() uint64
}

// DefaultGapBlocks is neard's (transaction_pool_strict_nonce_ttl_blocks).
const DefaultGapBlocks primitives.Height = 64

// Engine is the core. See the package comment for who may call what.
type Engine struct {
	o       Options
	parent  *Engine     // of a child, see sandbox_child.go; nil: it is none
	gone    atomic.Bool // a child that was discarded: its states are given back
	chain   *ChainSpec
	store   *storage.Store
	coding  *primitives.ReedSolomon
	pricing epoch.GasPriceRules
	genesis *BlockNode

	epochs  *epoch.Manager
	epochMu sync.Mutex // the manager's caches: the writer and readers of validators

	mu      sync.RWMutex // entries
	entries map[primitives.Hash]*BlockNode

	ancestry        ancestry
	flatHead        *BlockNode // Flat and the frontier on disk are of this block or of folding's; held. Of a child: where it begins
	flatHeadUpdate  *flatHeadUpdate
	flatHeadPause   atomic.Pointer[func() time.Duration] // how long one may wait; nil: not at all
	resident        []*BlockNode                         // that are not light, as they came, and some that are gone
	trimmedAt       primitives.Height                    // the last block whose tries were made smaller
	evictedBytes    atomic.Uint64                        // bytes that have left
	precompiler     precompiler                          // code that is compiled ahead
	vrf             *vrfCache                            // its parent's, if it has one
	patch           pendingPatch                         // for the block that was made last
	mocks           atomic.Pointer[primitives.Mocks]     // what contracts are told that are called beside the chain; nil: the truth
	ownChunks       recentHashes                         // chunks: they need not be checked when a block of this engine has them
	validChunks     recentHashes                         // chunks whose bodies code to their headers, with the receipts that this engine has for them
	validBlocks     recentHashes                         // blocks that were good but for the bodies that they lacked
	pipeline        commitPipeline
	headerChain     headerChain // headers ahead of the blocks
	proofs          witnessCache
	mainResults     *mainResults
	times           Times
	stateSnapshots  stateSnapshots
	revertPoints    []*RevertPoint              // that have not ended
	removalsDone    sync.WaitGroup              // rows of shards that are let go
	removalsRunning atomic.Int32                // of those that go on
	view            atomic.Pointer[head]        // what is on disk
	tip             atomic.Pointer[head]        // what is adopted: the same, or ahead of it
	viewed          atomic.Pointer[viewedEpoch] // by CallView, last
}

// head is what readers begin with.
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

// Open starts the engine on a store: a new chain from its genesis, or where the store left off.
func Open(o Options) (*Engine, error) {
	c := o.Chain
	if o.Base != nil {
		o.Tries.Beneath = o.Base
	}
	if o.VRF == nil {
		o.VRF = new(vrfKeys).verify
	}
	e := &Engine{
		o: o, chain: c, store: o.Store, entries: map[primitives.Hash]*BlockNode{}, vrf: new(vrfCache), mainResults: newMainResults(o.MainResults),
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
	return e, e.resume()
}

// ChainSpec returns what the genesis says.
func (e *Engine) Chain() *ChainSpec { return e.chain }

// Coding is how this chain's chunks are cut into parts.
func (e *Engine) Coding() *primitives.ReedSolomon { return e.coding }

// Pricing are the bounds of the gas price.
func (e *Engine) Pricing() epoch.GasPriceRules { return e.pricing }

// Epochs runs f with the epoch manager, which nothing else uses meanwhile. f must not keep it.
func (e *Engine) Epochs(f func(*epoch.Manager) error) error {
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	return f(e.epochs)
}

// BlockNode returns a recent block by hash, nil if it is unknown, not on disk yet, or folded away.
func (e *Engine) BlockNode(hash primitives.Hash) *BlockNode {
	if x := e.Imported(hash); x != nil && x.persisted.Load() && !x.evicted {
		return x
	}
	return nil
}

// Head returns the canonical head.
func (e *Engine) Head() *BlockNode { return e.view.Load().entry }

// Final returns the last final block of the head's chain.
func (e *Engine) Final() storage.BlockRef { return e.view.Load().final }

// Store returns the store, for readers.
func (e *Engine) Store() *storage.Store { return e.store }

// forest makes the forest of a shard whose state after a block is on disk.
func (e *Engine) forest(at storage.BlockRef, layout primitives.ShardLayout, i int) *trie.Forest {
	f := trie.New(e.o.Tries)
	f.SetSource(e.source(at, layout, i))
	return f
}

// source is where the forest of a shard finds what it does not have in memory: in the store, after a block.
func (e *Engine) source(at storage.BlockRef, layout primitives.ShardLayout, i int) trie.Source {
	id, r := layout.ShardIDs()[i], accounts(layout, primitives.ShardIndex(i))
	return trie.Source{Rows: e.rows(id), Load: func(from, to []byte, yield func(key, value []byte) bool) error {
		return e.store.Load(at, id, r, from, to, yield)
	}, Early: func() (*trie.Source, func(bool)) {
		x := e.store.StaleReader()
		if x == nil {
			return nil, nil
		}
		return &trie.Source{Rows: rowsOf(x.Frontier, id), Load: func(from, to []byte, yield func(key, value []byte) bool) error {
			return x.Load(id, r, from, to, yield)
		}}, x.Done
	}}
}

// version returns the rules of an epoch. The caller holds epochMu.
func (e *Engine) version(id primitives.EpochID) (*parameters.RuntimeConfig, error) {
	pv, err := e.epochs.ProtocolVersion(id)
	if err != nil {
		return nil, err
	}
	return parameters.Get(parameters.Version{Protocol: pv, Numbering: e.chain.Version.Numbering})
}

// begin makes the genesis block and its states, and stores them.
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
		if roots[i], err = trie.New(e.o.Tries).BuildFrontier(first.Pairs(i), e.o.StateBytes/uint64(len(ids)), rows[i].add); err != nil {
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
		TotalSupply: c.TotalSupply, ShardIDs: ids, StateRoots: hashes, Congestion: first.Congestion(), BlockProducers: producers,
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

func newGenesisEntry(block *primitives.Block, chunks []*primitives.Chunk, layout primitives.ShardLayout, cfg *parameters.RuntimeConfig, roots []*trie.Root) *BlockNode {
	entry := &BlockNode{Block: block, Hash: block.Hash(), Layout: layout, Config: cfg, Tree: new(primitives.PartialMerkleTree),
		Shards: make([]ShardState, len(chunks)), finalHeight: block.Header.Height}
	entry.refs.Store(1)
	entry.persisted.Store(true)
	for i, c := range chunks {
		h := &c.Header
		entry.Shards[i] = ShardState{ID: h.ShardID, Chunk: c, OutgoingAt: entry.Hash, OutgoingOf: h.ShardID, Extra: &chain.ChunkExtra{
			StateRoot: h.PrevStateRoot, GasLimit: h.GasLimit, CongestionInfo: h.CongestionInfo,
		}}
		if roots != nil {
			entry.Shards[i].root = roots[i]
		}
	}
	return entry
}

// start sets the first view: head, and the block that is folded.
func (e *Engine) start(genesis, at *BlockNode) {
	e.genesis = genesis
	e.entries[at.Hash] = at
	e.flatHead = at
	e.show(&head{entry: at, final: storage.BlockRef{Height: e.chain.Height, Hash: genesis.Hash}})
}

// show sets the head, with nothing ahead of it.
func (e *Engine) show(h *head) {
	e.view.Store(h)
	e.tip.Store(h)
}

// Genesis returns the first block. Its states are not held.
func (e *Engine) Genesis() *BlockNode { return e.genesis }
