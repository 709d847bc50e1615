package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/state"
)

// BlockImport is a valid block whose chunks are yet to be applied. It holds its parent's states, and those that its jobs make,
// until it is adopted or dropped.
type BlockImport struct {
	entry  *BlockNode
	parent *BlockNode
	prev   []ShardState // what the parent left, by the block's shards
	jobs   []Job
	first  bool // of its epoch
	patch  []genesis.Record
	mocks  *primitives.Mocks // what contracts are told; nil: the truth
	began  time.Time

	produced bool // this engine made the block
	complete bool // the entry is complete: somebody may have seen it, and it does not change any more
	imported bool // the engine's now
	dropped  bool
}

// Job applies one shard's chunk, or what a missing chunk leaves to do; nothing if the shard is not held. Jobs of a block are independent.
type Job struct {
	Shard    primitives.ShardIndex
	ID       primitives.ShardID
	input    apply.Input
	result   *apply.Result
	err      error
	executed *executedShard // what applying gave elsewhere; nil: it is applied here
	took     time.Duration

	prove      bool        // somebody asks what proves it
	transition *Transition // then this, but for its block
}

// Run applies the chunk. It may run on any goroutine, once. A panic is an error like others, which Adopt tells.
func (j *Job) Run() {
	if j.notHeld() {
		return
	}
	began := time.Now()
	defer func() { j.took = time.Since(began) }()
	if j.executed != nil {
		j.err = Catch(j.applyExecuted)
		return
	}
	for {
		j.input.Recording = recordings.Get().(state.Recording)
		j.err = Catch(func() (err error) {
			if j.result, err = apply.Apply(&j.input); err == nil && j.prove {
				j.transition = j.makeTransition()
			}
			return err
		})
		if !j.retryFork() {
			return
		}
	}
}

// reapplyStored tells whether a chunk of a fork is to be applied once more, after a while, since the other chain did not give what it needs. What it
// has given is remembered, so that each time there is less to ask for. Until then the block waits: no other outcome can be told.
func (j *Job) retryFork() bool {
	f, ok := j.input.Trie.(forkTrie)
	if !ok || !errors.Is(j.err, state.ErrAway) {
		return false
	}
	return f.base.Again(j.err)
}

// notHeld tells whether the shard is not held.
func (j *Job) notHeld() bool { return j.input.Trie == nil }

// releaseRecording gives up the recording, for use by another job.
func (j *Job) releaseRecording() {
	if rec := j.result.Recording; rec != nil {
		rec.Reset()
		recordings.Put(rec)
	}
	j.result.Recording, j.input.Recording = nil, nil
}

// Done tells whether the job has run, to who knows that it is not running now.
func (j *Job) Done() bool { return j.result != nil || j.err != nil || j.notHeld() }

// Trivial tells whether there is nothing to run, so that applying takes less than handing the job to another goroutine.
func (j *Job) Trivial() bool {
	in := &j.input
	if j.notHeld() {
		return true
	}
	if len(in.Transactions) > 0 || len(in.Incoming) > 0 || in.Validators != nil || len(in.Patch) > 0 {
		return false
	}
	for i := range in.Congestion {
		if c := &in.Congestion[i]; c.Shard == in.Block.ShardID {
			return c.Info.DelayedReceiptsGas.IsZero() && c.Info.BufferedReceiptsGas.IsZero()
		}
	}
	return false
}

// recordings are empty ones that were used before: a chunk's takes some megabytes.
var recordings = sync.Pool{New: func() any { return new(recording) }}

// Jobs returns the work to be done before Commit.
func (p *BlockImport) Jobs() []Job { return p.jobs }

// Drop gives back what a block holds that is not going to be adopted. None of its jobs may be running, or run later.
func (p *BlockImport) Drop() {
	if p.imported || p.dropped {
		return
	}
	p.dropped = true
	for i := range p.jobs {
		if p.complete {
			break
		}
		if r := p.jobs[i].result; r != nil {
			p.entry.Shards[i].root = rootOf(r.Trie)
		}
	}
	p.entry.Release()
	p.parent.Release()
}

// Block returns the block.
func (p *BlockImport) Block() *primitives.Block { return p.entry.Block }

// Begin judges a block and its new chunks (by shard index; nil: missed) and prepares their application. produced says that
// this engine made it: then what it took from its own books is not checked again, and of its chunks only those that others made are.
//
// A block that is good but for chunks that are not there gives ErrMissing, and is judged at less cost the next time. VerdictOf tells what
// other errors mean.
//
// Where a chunk that its validators endorse tells another outcome than this engine has, the error is a Fault with a Doubt in it.
func (e *Engine) BeginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*BlockImport, error) {
	p, layout, err := e.beginImport(b, chunks, produced)
	if d := (*OutcomeMismatch)(nil); errors.As(err, &d) {
		f := e.mismatchFailure(d, layout)
		d.parent.Release()
		return nil, f
	}
	return p, err
}

// beginImport is Begin; behind a Doubt the parent is still held.
func (e *Engine) beginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (p *BlockImport, layout primitives.ShardLayout, err error) {
	began := time.Now()
	if e.Imported(b.Hash()) != nil {
		return nil, layout, ErrKnown
	}
	parent := e.Imported(b.Header.PrevHash)
	if parent == nil {
		return nil, layout, fmt.Errorf("%w: %v of block %d", ErrOrphan, b.Header.PrevHash, b.Header.Height)
	}
	if !e.descendsFromFinal(parent) {
		return nil, layout, fmt.Errorf("%w: block %d on %v", ErrOld, b.Header.Height, parent.Hash)
	}
	if parent.evicted {
		if parent, err = e.restoreEvicted(parent); err != nil {
			return nil, layout, err
		}
	}
	if !parent.Acquire() {
		return nil, layout, fmt.Errorf("engine: the states of block %d are gone", parent.Height())
	}
	defer func() {
		if err != nil && !errors.As(err, new(*OutcomeMismatch)) {
			parent.Release()
		}
	}()
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	j, tree, err := e.validationContext(b, parent, produced)
	if err != nil {
		return nil, layout, err
	}
	if err := chain.ValidateBlock(b, j); err != nil {
		if j.Told {
			return nil, layout, fmt.Errorf("%w: %w", ErrPartialBody, err)
		}
		return nil, layout, fmt.Errorf("%w: %w", ErrGossipCheck, err)
	}
	if layout, err = e.epochs.ShardLayout(j.EpochID); err != nil {
		return nil, layout, err
	}
	holds, err := e.holds(parent, layout)
	if err != nil {
		return nil, layout, err
	}
	if i := missing(b, chunks, layout, holds); i >= 0 {
		e.validBlocks.add(b.Hash())
		return nil, layout, fmt.Errorf("%w: of shard index %d of block %d", ErrMissing, i, b.Header.Height)
	}
	held := heldIDs(layout, holds)
	inherited, err := e.inherited(parent, layout)
	if err != nil {
		return nil, layout, err
	}
	cfg, err := e.version(j.EpochID)
	if err != nil {
		return nil, layout, err
	}
	entry := &BlockNode{Block: b, Hash: b.Hash(), Layout: layout, Config: cfg, Tree: tree,
		Shards: make([]ShardState, layout.NumShards()), finalHeight: e.finalHeight(b.Header, parent)}
	entry.refs.Store(1)
	for i, h := range b.Body.Chunks {
		s := &entry.Shards[i]
		s.ID = inherited[i].ID // a header that is repeated behind a split is that of the shard before
		if h.HeightIncluded != b.Header.Height {
			continue
		}
		if !holds[i] {
			var came *primitives.Chunk
			if len(held) > 0 {
				came = chunks[i]
			}
			if s.Chunk, err = untrackedChunk(came, h, held); err != nil {
				return nil, layout, fmt.Errorf("%w: shard %d of block %d: %w", ErrMissing, s.ID, b.Header.Height, err)
			}
			continue
		}
		s.Chunk = chunks[i]
		if own := produced && e.ownChunks.has(s.Chunk.Hash); !own {
			prev := &inherited[i]
			if err := e.validateChunk(s.Chunk, prev, layout); err != nil {
				return nil, layout, chunkError(b, i, parent, s.Chunk, j.Assigned[i], err)
			}
			// What came beside the checked hashes is replaced: the header's signature and height are the block's, the receipts ours.
			checked := *s.Chunk
			checked.Header, checked.PrevOutgoingReceipts = *h, prev.Outgoing
			s.Chunk = &checked
		}
	}
	gatherIncoming(entry, holds)
	p = &BlockImport{entry: entry, parent: parent, prev: inherited, produced: produced, began: began}
	p.patch, p.mocks = e.takePatch(entry.Hash)
	if err := e.makeJobs(p, j.PrevChunks, func(i primitives.ShardIndex) state.Trie { return rooted(inherited[i].root) }); err != nil {
		return nil, layout, err
	}
	asked := false
	for i := range p.jobs {
		p.jobs[i].prove = e.wantsProof(j.EpochID, parent.Hash, p.jobs[i].ID)
		asked = asked || p.jobs[i].prove
	}
	e.proofs.wanted.Store(asked)
	e.precompileBlock(p)
	return p, layout, nil
}

// validateChunk compares a chunk with what the shard before it left here. What its body codes to is looked at once, by its witness or its block, whichever
// comes first: a chunk's hash tells on what it is, and so with which receipts it was compared.
func (e *Engine) validateChunk(c *primitives.Chunk, prev *ShardState, layout primitives.ShardLayout) error {
	if e.validChunks.has(c.Hash) {
		return chain.ValidateChunkAgain(c, prev.Extra)
	}
	err := chain.ValidateChunk(c, prev.Extra, prev.Outgoing, layout, e.coding)
	if err == nil {
		e.validChunks.add(c.Hash)
	}
	return err
}

// descendsFromFinal tells whether an entry is the last final block or a descendant of it (nearcore chain/chain/src/chain.rs:842).
// What was found is noted in the entries, so that a long way to the final block is gone once and not for each block.
func (e *Engine) descendsFromFinal(at *BlockNode) bool {
	final := e.TipFinal()
	if e.parent != nil && final.Height < e.flatHead.Height() { // it leads to where this child begins, and is no entry
		final = ref(e.flatHead)
	}
	var path []*BlockNode
	for at != nil && at.Height() > final.Height && at.descendsFrom != final.Hash {
		path = append(path, at)
		at = e.Imported(at.Header().PrevHash)
	}
	if at == nil || at.Hash != final.Hash && at.descendsFrom != final.Hash {
		return false
	}
	for _, x := range path {
		x.descendsFrom = final.Hash
	}
	return true
}

// finalHeight returns the height of a header's last final block.
func (e *Engine) finalHeight(h *primitives.BlockHeader, parent *BlockNode) primitives.Height {
	switch h.LastFinalBlock {
	case primitives.Hash{}:
		return e.chain.Height
	case parent.Header().LastFinalBlock:
		return parent.finalHeight
	case parent.Hash:
		return parent.Height()
	case parent.Header().PrevHash:
		return parent.Header().PrevHeight
	}
	if f := e.Imported(h.LastFinalBlock); f != nil {
		return f.Height()
	}
	return parent.finalHeight
}

// gatherIncoming sorts the receipts that the new chunks of a block bring to the shards that are held: one list a chunk for each shard,
// the lists shuffled by the previous block's hash (runtime.md 6.1). The entry's shards are known to be held by their state or, while that
// is to come, by holds.
func gatherIncoming(entry *BlockNode, holds []bool) {
	lists := make([][][]*primitives.Receipt, len(entry.Shards))
	for i := range entry.Shards {
		c := entry.Shards[i].Chunk
		if c == nil {
			continue
		}
		if c.Proofs == nil {
			for k, g := range chain.GroupReceipts(c.PrevOutgoingReceipts, entry.Layout) {
				lists[k] = append(lists[k], g.Receipts)
			}
			continue
		}
		for k := range entry.Shards {
			if p := chain.ProofTo(c, entry.Shards[k].ID); p != nil {
				lists[k] = append(lists[k], p.Receipts)
			}
		}
	}
	for k := range lists {
		if holds[k] {
			entry.Shards[k].Incoming = apply.OrderIncoming(entry.Header().PrevHash, lists[k])
		}
	}
}

// incoming returns what a shard's new chunk applies: this block's receipts, then those of the blocks before, down to but
// not including the one that holds the shard's previous chunk. Behind a split these are of the shard before, as far as they
// are for this one (nearcore chain/chain/src/store/utils.rs:186).
func (e *Engine) incoming(entry, parent *BlockNode, shard int, since primitives.Height) ([]*primitives.Receipt, error) {
	out := entry.Shards[shard].Incoming
	layout, id := entry.Layout, entry.Shards[shard].ID
	for at := parent; at.Height() > since; {
		if at.evicted {
			rec, err := e.store.Block(ref(at))
			if err != nil {
				return nil, err
			}
			if at, err = e.loadLocked(rec); err != nil {
				return nil, err
			}
		}
		if !at.Layout.Equal(layout) {
			var err error
			if id, err = layout.Parent(id); err != nil {
				return nil, err
			}
			layout = at.Layout
		}
		index, err := layout.Index(id)
		if err != nil {
			return nil, err
		}
		if more := at.Shards[index].Incoming; len(more) > 0 {
			if id != entry.Shards[shard].ID {
				more = chain.ReceiptsFor(more, entry.Layout, primitives.ShardIndex(shard))
			}
			out = append(out[:len(out):len(out)], more...)
		}
		prev := e.Imported(at.Header().PrevHash)
		if prev == nil { // folded: the shard has missed many chunks
			rec, err := e.store.BlockByHash(at.Header().PrevHash)
			if err != nil {
				return nil, fmt.Errorf("engine: receipts for shard index %d since height %d: %w", shard, since, err)
			}
			if prev, err = e.loadLocked(rec); err != nil {
				return nil, err
			}
		}
		at = prev
	}
	return out, nil
}

// actionBlock is what actions know of an entry's epoch and chain.
func (e *Engine) actionBlock(entry *BlockNode, info *epoch.EpochInfo) action.Block {
	b := action.Block{
		Config: entry.Config, ChainID: e.chain.ID, VM: e.o.VM, EpochID: entry.Header().EpochID, EpochHeight: info.EpochHeight, Stakes: stakes{info},
	}
	if verify := e.o.Verify; verify != nil {
		b.Verify = func(s primitives.Signature, hash primitives.Hash, key primitives.PublicKey) bool {
			return verify(s, hash[:], key)
		}
	}
	return b
}

// blockInput is what the parts of all shards in a block have in common, but for a sandbox's patch.
type blockInput struct {
	input  apply.Input
	update *apply.ValidatorUpdate // in the first block of an epoch, but for each shard's proposals
	first  bool                   // of its epoch
}

// newBlockInput gathers it from a block and its parent, without any state. The caller holds epochMu.
func (e *Engine) newBlockInput(entry, parent *BlockNode) (c blockInput, err error) {
	h, m := entry.Header(), e.epochs
	c.input = apply.Input{Layout: entry.Layout, Signature: e.o.Signature, Par: propagatePanics(e.o.Par)}
	info, err := m.EpochInfo(h.EpochID)
	if err != nil {
		return c, err
	}
	minimum, err := m.MinimumStake(parent.Hash)
	if err != nil {
		return c, err
	}
	c.input.Block = e.actionBlock(entry, info)
	block := &c.input.Block
	block.Height, block.PrevHash, block.Timestamp, block.RandomValue = h.Height, parent.Hash, h.Timestamp, h.RandomValue
	block.GasPrice, block.MinimumStake = parent.Header().NextGasPrice, minimum
	for _, x := range entry.Block.Body.Chunks {
		c.input.Congestion = append(c.input.Congestion, apply.ShardCongestion{Shard: x.ShardID, Info: x.CongestionInfo, Missed: uint64(h.Height - x.HeightIncluded)})
		c.input.Requests = append(c.input.Requests, senderRequests(x))
	}
	if c.first, err = m.IsNextBlockEpochStart(parent.Hash); err != nil {
		return c, err
	}
	if c.first {
		if c.update, err = validatorUpdate(m, parent.Hash, e.chain.Treasury); err != nil {
			return c, err
		}
	}
	rule, err := m.MayProposeSplit(h.Height, parent.Hash)
	if err != nil {
		return c, err
	}
	c.input.Split = splitRule(rule)
	return c, nil
}

// forShard is the input of one shard, whose state, transactions and receipts are yet to come. proposals are those of its new chunk's header, or of the
// last new one's result.
func (c *blockInput) forShard(entry *BlockNode, shard primitives.ShardIndex, fresh bool, proposals []primitives.ValidatorStake) apply.Input {
	in := c.input
	header := entry.Block.Body.Chunks[shard]
	in.Block.ShardID, in.NewChunk, in.GasLimit = entry.Shards[shard].ID, fresh, header.GasLimit
	if c.update != nil {
		u := *c.update
		if u.LastProposals = proposals; fresh {
			u.LastProposals = header.PrevValidatorProposals
		}
		in.Validators = &u
	}
	return in
}

// makeJobs makes the jobs of a judged block, on the states that trie gives: what prevChunks, by its layout, left. The caller
// holds epochMu.
func (e *Engine) makeJobs(p *BlockImport, prevChunks []*primitives.ChunkHeader, trie func(primitives.ShardIndex) state.Trie) error {
	entry, parent := p.entry, p.parent
	c, err := e.newBlockInput(entry, parent)
	if err != nil {
		return err
	}
	c.input.Block.Mocks = p.mocks
	p.first = c.first
	p.jobs = make([]Job, len(entry.Shards))
	for i := range entry.Shards {
		s, prev := &entry.Shards[i], &p.prev[i]
		job := &p.jobs[i]
		if job.Shard, job.ID = primitives.ShardIndex(i), s.ID; !prev.Held() {
			continue
		}
		job.input = c.forShard(entry, job.Shard, s.Chunk != nil, prev.Extra.Proposals)
		in := &job.input
		in.Trie = trie(job.Shard)
		if s.Chunk == nil {
			continue
		}
		in.Patch = patchFor(p.patch, entry.Layout, s.ID)
		since := prevChunks[i].HeightIncluded
		if in.Incoming, err = e.incoming(entry, parent, i, since); err != nil {
			return err
		}
		in.Transactions = make([]apply.Transaction, len(s.Chunk.Transactions))
		for k, tx := range s.Chunk.Transactions {
			in.Transactions[k] = apply.Transaction{SignedTransaction: tx, Valid: e.ancestry.valid(parent, tx.BlockHash)}
		}
		if e.o.CorruptInput != nil {
			e.o.CorruptInput(in)
		}
	}
	return nil
}

func validatorUpdate(m *epoch.Manager, last primitives.Hash, treasury primitives.AccountID) (*apply.ValidatorUpdate, error) {
	stakes, rewards, err := m.StakeInfo(last)
	if err != nil {
		return nil, err
	}
	list := func(m epoch.AccountMap[primitives.Balance]) []apply.AccountAmount {
		out := make([]apply.AccountAmount, len(m))
		for i, x := range m {
			out[i] = apply.AccountAmount{Account: x.Account, Amount: x.Value}
		}
		return out
	}
	return &apply.ValidatorUpdate{Stakes: list(stakes), Rewards: list(rewards), Treasury: treasury}, nil
}

func splitRule(r *epoch.DynamicResharding) *apply.SplitRule {
	if r == nil {
		return nil
	}
	return &apply.SplitRule{MaxShards: int(r.MaxNumberOfShards), Force: r.ForceSplitShards, Block: r.BlockSplitShards,
		MemoryThreshold: r.MemoryUsageThreshold, MinChildMemory: r.MinChildMemoryUsage}
}

// stakes answers contracts' questions about validators.
type stakes struct{ info *epoch.EpochInfo }

func (s stakes) Stake(a primitives.AccountID) primitives.Balance {
	if v, ok := s.info.Validator(a); ok {
		return v.Stake
	}
	return primitives.Balance{}
}

func (s stakes) Total() primitives.Balance { return s.info.TotalStake() }
