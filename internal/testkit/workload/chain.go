package workload

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ChainOptions configure a chain. Only Options and Rules may affect blocks and states. Tests
// compare chains that differ in the other fields.
type ChainOptions struct {
	Options
	Rules
	Folder string           // path of the data folder; empty: the data is in memory
	Disk   *storage.MemDisk // disk of a chain whose data is in memory; nil: a new disk
	Store  storage.Options  // options of the store; Options.Identity is ignored
	// Par runs receipts and shards in parallel. nil: one after another.
	Par apply.Par
	// Signature verifies the signatures of transactions. nil: every signature is verified.
	Signature verify.SignatureFunc
	// StateBytes bounds the memory of the tries, in bytes. 0: no bound.
	StateBytes uint64
	// Tries are the options of the tries.
	Tries trie.Options
	// WarmBlocks is engine.Options.ResidentBlocks.
	WarmBlocks int
	// VM runs contracts. nil: contract calls fail.
	VM action.VM
}

// Goroutines is an apply.Par that starts one goroutine for each call of do.
func Goroutines(n int, do func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// Chain drives an engine and signs for all validators.
type Chain struct {
	o      ChainOptions
	id     storage.Identity
	chain  *engine.ChainSpec
	Store  *storage.Store
	Engine *engine.Engine
	keys   map[primitives.AccountID]primitives.SecretKey
}

// OpenChain opens an existing chain. If there is no chain, OpenChain creates one.
func OpenChain(o ChainOptions) (*Chain, error) {
	if o.Disk == nil {
		o.Disk = storage.NewMemDisk()
	}
	c := &Chain{o: o, keys: map[primitives.AccountID]primitives.SecretKey{}}
	var err error
	if c.chain, err = NewChain(o.Options, o.Rules); err != nil {
		return nil, err
	}
	hash, err := GenesisHash(o.Options, o.Rules)
	if err != nil {
		return nil, err
	}
	c.id = storage.Identity{ChainID: c.chain.ID, Genesis: hash, Numbering: primitives.NumberingRelease}
	return c, c.open()
}

func (c *Chain) open() (err error) {
	so := c.o.Store
	so.Identity = c.id
	if c.o.Folder == "" {
		c.Store, err = storage.OpenMemory(c.o.Disk, so)
	} else {
		c.Store, err = storage.Open(c.o.Folder, so)
	}
	if err != nil {
		return err
	}
	c.Engine, err = engine.Open(engine.Options{Chain: c.chain, Store: c.Store, Par: c.o.Par, Signature: c.o.Signature, VM: c.o.VM,
		StateBytes: c.o.StateBytes, Tries: c.o.Tries, ResidentBlocks: c.o.WarmBlocks})
	if err != nil {
		_ = c.Store.Close() // ignored, because an earlier error is returned
	}
	return err
}

// Close closes the chain. OpenChain can open it again.
func (c *Chain) Close() error {
	err := c.Engine.Close() // Close waits for the running write of the flat state
	return errors.Join(err, c.Store.Close())
}

// Drive returns a Chain for another engine of the same chain, such as a child engine. Close and
// Restart must not be called on the result.
func (c *Chain) Drive(e *engine.Engine) *Chain {
	return &Chain{o: c.o, id: c.id, chain: c.chain, Store: e.Store(), Engine: e, keys: c.keys}
}

// Restart closes the chain and opens it again.
func (c *Chain) Restart() error {
	if err := c.Close(); err != nil {
		return err
	}
	return c.open()
}

func (c *Chain) key(id primitives.AccountID) primitives.SecretKey {
	k, ok := c.keys[id]
	if !ok {
		k = StakeKey(id)
		c.keys[id] = k
	}
	return k
}

// Plan describes the next block that Chain produces.
type Plan struct {
	Parent primitives.Hash
	Height primitives.Height
	// Transactions are put into the chunks of their signers' shards, in this order.
	Transactions []*primitives.SignedTransaction
	// Missing returns whether a shard gets no new chunk. The transactions of such a shard are
	// dropped. nil: every shard gets a chunk.
	Missing func(primitives.ShardIndex) bool
	// Chunks are used instead of new chunks, by shard index. A nil element: a new chunk is
	// produced.
	Chunks []*primitives.Chunk
	// Patch contains records that the block writes into the state.
	Patch []genesis.Record
	// Delay is added to the parent's timestamp, in ns; 0: one second.
	Delay uint64
}

// Make produces a block and its chunks, signed by their producers. Make does not import the block.
func (c *Chain) Make(p *Plan) (*primitives.Block, []*primitives.Chunk, error) {
	parent := c.Engine.BlockNode(p.Parent)
	if parent == nil {
		return nil, nil, fmt.Errorf("%w: %v", engine.ErrOrphan, p.Parent)
	}
	layout, err := c.childLayout(p.Parent)
	if err != nil {
		return nil, nil, err
	}
	byShard := make([][]*primitives.SignedTransaction, layout.NumShards())
	for _, tx := range p.Transactions {
		i, err := layout.Index(layout.ShardOf(tx.SignerID))
		if err != nil {
			return nil, nil, err
		}
		byShard[i] = append(byShard[i], tx)
	}
	if p.Delay == 0 {
		p.Delay = 1_000_000_000
	}
	vote, err := c.vote(p.Parent)
	if err != nil {
		return nil, nil, err
	}
	prop := &engine.Proposal{
		Parent: p.Parent, Height: p.Height, Timestamp: parent.Header().Timestamp + p.Delay,
		Chunks: make([]*primitives.Chunk, len(byShard)), Endorsements: make([][]primitives.Signature, len(byShard)),
		Vote: vote, Patch: p.Patch,
	}
	for i := range byShard {
		if p.Missing != nil && p.Missing(primitives.ShardIndex(i)) {
			continue
		}
		if err := c.chunk(prop, parent, p, layout.ShardIDs()[i], i, byShard[i]); err != nil {
			return nil, nil, err
		}
	}
	approvers, err := c.Engine.Approvers(p.Parent)
	if err != nil {
		return nil, nil, err
	}
	inner := primitives.NewApprovalInner(p.Parent, parent.Height(), p.Height)
	message := inner.SignedBytes(p.Height)
	for _, a := range approvers {
		prop.Approvals = append(prop.Approvals, c.key(a.AccountID).Sign(message))
	}
	producer, err := c.Engine.BlockProducer(p.Parent, p.Height)
	if err != nil {
		return nil, nil, err
	}
	b, err := c.Engine.NewBlock(prop, c.key(producer.AccountID))
	return b, prop.Chunks, err
}

// vote returns the protocol version for which the child of a block votes.
func (c *Chain) vote(parent primitives.Hash) (v primitives.ProtocolVersion, err error) {
	stays := cmp.Or(c.o.Release, parameters.Newest(primitives.NumberingRelease))
	if c.o.Upgrade == 0 {
		return stays, nil
	}
	err = c.Engine.Epochs(func(m *epoch.Manager) error {
		next, err := m.NextEpochIDFromPrev(parent)
		if err == nil {
			v, err = m.ProtocolVersion(next)
		}
		return err
	})
	return max(stays, min(v+1, c.o.Upgrade)), err
}

// childLayout returns the shard layout of a block's children.
func (c *Chain) childLayout(parent primitives.Hash) (layout primitives.ShardLayout, err error) {
	err = c.Engine.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayoutFromPrev(parent)
		return err
	})
	return layout, err
}

// chunk adds the chunk of one shard and its endorsements to prop.
func (c *Chain) chunk(prop *engine.Proposal, parent *engine.BlockNode, p *Plan, id primitives.ShardID, i int,
	txs []*primitives.SignedTransaction) error {
	var made *primitives.Chunk
	if p.Chunks != nil {
		made = p.Chunks[i]
	}
	if made == nil {
		producer, err := c.Engine.ChunkProducer(p.Parent, id)
		if err != nil {
			return err
		}
		if made, err = c.Engine.NewChunk(p.Parent, primitives.ShardIndex(i), txs, c.key(producer.AccountID)); err != nil {
			return err
		}
	}
	validators, err := c.Engine.ChunkValidators(parent, id)
	if err != nil {
		return err
	}
	message := primitives.ChunkEndorsementBytes(made.Hash)
	for _, v := range validators {
		prop.Endorsements[i] = append(prop.Endorsements[i], c.key(v.AccountID).Sign(message))
	}
	prop.Chunks[i] = made
	return nil
}

// Accept imports a block and waits until the block is on disk. produced means that c's engine
// produced the block.
func (c *Chain) Accept(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*engine.Imported, error) {
	p, err := c.Engine.BeginImport(b, chunks, produced)
	if err != nil {
		return nil, err
	}
	jobs := p.Jobs()
	if c.o.Par == nil {
		for i := range jobs {
			jobs[i].Run()
		}
	} else {
		c.o.Par(len(jobs), func(i int) { jobs[i].Run() })
	}
	return c.Engine.Commit(p)
}

// Next produces and imports a block after the head.
func (c *Chain) Next(txs []*primitives.SignedTransaction) (*engine.Imported, error) {
	head := c.Engine.Head()
	b, chunks, err := c.Make(&Plan{Parent: head.Hash, Height: head.Height() + 1, Transactions: txs})
	if err != nil {
		return nil, err
	}
	return c.Accept(b, chunks, true)
}

// Base returns the Base for transactions in the block after the head.
func (c *Chain) Base() Base {
	head := c.Engine.Head()
	return Base{Height: head.Height() + 1, Hash: head.Hash}
}
