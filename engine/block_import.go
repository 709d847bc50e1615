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

// BlockImport is a block that is being imported.
//
// Problem. A block must be validated, its chunks applied, and the result written, without blocking
// the goroutine that receives messages, and without holding locks while contracts run.
//
// Invariants. (1) A block is imported only after its parent. (2) BeginImport and FinishImport run
// on the engine's goroutine. Only Job.Run may run on any other goroutine. (3) A BlockImport holds
// its parent's states, and the states that its jobs make, until FinishImport succeeds or Drop is
// called. The caller must call FinishImport until it succeeds, or Drop. (4) Nothing of the block is
// visible before FinishImport returns. (5) From the error of a failed import, VerdictOf derives
// what is at fault: the block, this copy of the block, or this node.
//
// Outline.
//
//	Precheck           on arrival, without the parent: form, height, producer, approvals
//	ValidateForGossip  optional, to relay before execution: all except chunk contents
//	BeginImport        with the parent: full validation, then one Job for each shard
//	Job.Run            applies one shard's chunk, on any goroutine
//	FinishImport       takes the results and adds the block to the in-memory chain
//	Stored             returns the block once the commit pipeline has persisted it
//	                   (block_commit_pipeline.go)
//
// BeginImport compares the header of each new chunk with this node's result for the shard's
// previous chunk. So the result of a block is checked when the next block is imported, as in
// nearcore. If an endorsed chunk contradicts this node's result, the error is an OutcomeMismatch,
// and this node cannot continue.
//
// Four caches remember the checks that were made. The caches are separate because their keys cover
// different data: a hit in one cache does not imply a hit in another cache.
//
//	cache        key                      a hit skips
//	ownChunks    hash of a chunk that     all checks of the chunk, in a block that this
//	             this engine produced     engine produced
//	validChunks  hash of a chunk whose    the checks of its coding and of its receipts' root;
//	             body was checked         not the comparison with this node's result
//	validBlocks  hash of a block that     the signatures of approvals, chunks and endorsements,
//	             passed ValidateBlock     and without PartialBodies the VRF; not the signature
//	                                      of the block itself
//	mainResults  shard and block of a     applying the main transition of a witness
//	             main transition
//
// Signatures have their own caches (package signature): Checker for transactions, which are usually
// verified before a block contains them, and CachedVerifier for signatures of validators, which
// usually arrive in messages of their own before the block does.
//
// Rejected. One cache of valid hashes: a key that covers too little would let an invalid copy pass
// after a valid copy. Applying the chunks in BeginImport: peers' messages would wait until
// contracts have run.
type BlockImport struct {
	entry  *BlockNode
	parent *BlockNode
	prev   []ShardState // states after the parent, by shard index of this block
	jobs   []Job
	first  bool // the block is the first of its epoch
	patch  []genesis.Record
	mocks  *primitives.Mocks // signature checks of contracts that the sandbox mocks; nil: none
	began  time.Time

	produced bool // this engine produced the block
	complete bool // all shard states of entry are set
	imported bool // the block is in the block tree, and the tree owns the block's states
	dropped  bool
}

// Job applies one shard's chunk. If the shard has no new chunk, the job applies only what happens
// without a chunk, such as the validator update at an epoch start. If this node does not hold the
// shard's state, the job does nothing. The jobs of a block are independent.
type Job struct {
	Shard    primitives.ShardIndex
	ID       primitives.ShardID
	input    apply.Input
	result   *apply.Result
	err      error
	executed *executedShard // result of another engine, to be written; nil: the job executes the chunk
	// optimistic applies the same chunk for an optimistic block; nil: there is none.
	optimistic *OptimisticJob
	took       time.Duration // duration of Run, or of the Run of the optimistic job
	ran        timeSpan      // of Run; zero: the job had nothing to apply
	meter      *ChunkMeter   // nil: not measured

	prove      bool        // record a state proof for the chunk's witness
	transition *Transition // made by Run if prove is set; the import sets its Block and Height
}

// Run applies the chunk. The caller must call Run once, on any goroutine. FinishImport returns the
// error of the job. A panic of the job becomes such an error too.
func (j *Job) Run() {
	if j.notHeld() {
		return
	}
	began := time.Now()
	defer func() { j.ran = timeSpan{began, time.Now()} }()
	if j.runOptimistic() {
		return
	}
	began = time.Now()
	defer func() { j.took = time.Since(began) }()
	j.input.Clock = stopwatch(began)
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
			if j.err == nil {
				j.meter.applied(updateShard, &j.input, j.result, time.Since(began))
			}
			return
		}
	}
}

// retryFork returns whether the job must apply its chunk again. The job must do so on a fork if the
// remote chain did not answer. retryFork sleeps before it returns true. Answers are cached, so each
// attempt has less to fetch. The block waits for all answers, because the block's result depends on
// the answers.
func (j *Job) retryFork() bool {
	f, ok := j.input.Trie.(forkTrie)
	if !ok || !errors.Is(j.err, state.ErrAway) {
		return false
	}
	return f.base.Again(j.err)
}

// notHeld returns whether this node lacks the shard's state.
func (j *Job) notHeld() bool { return j.input.Trie == nil }

// releaseRecording returns the recording to the pool.
func (j *Job) releaseRecording() {
	if rec := j.result.Recording; rec != nil {
		rec.Reset()
		recordings.Put(rec)
	}
	j.result.Recording, j.input.Recording = nil, nil
}

// Done returns whether the job has ended. The job must not be running.
func (j *Job) Done() bool { return j.result != nil || j.err != nil || j.notHeld() }

// Trivial returns whether running the job costs less than handing it to another goroutine.
func (j *Job) Trivial() bool {
	in := &j.input
	if j.notHeld() || j.optimistic != nil && j.optimistic.ended && j.optimistic.job.err == nil {
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

// recordings is a pool, because the recording of one chunk takes some megabytes.
var recordings = sync.Pool{New: func() any { return new(recording) }}

// Jobs returns the jobs. All jobs must have run before the caller calls FinishImport or Commit.
func (p *BlockImport) Jobs() []Job { return p.jobs }

// Drop releases the states that p holds. The caller calls Drop if it will not import the block. No
// job of p may run during or after the call. After a successful FinishImport or a first Drop, Drop
// does nothing.
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
		} else if o := p.jobs[i].optimistic; o != nil {
			o.discard()
		}
	}
	p.entry.Release()
	p.parent.Release()
}

// Block returns the block.
func (p *BlockImport) Block() *primitives.Block { return p.entry.Block }

// BeginImport validates a block and its new chunks, and prepares their application. chunks are by
// shard index. A nil element means that the shard has no new chunk or that the chunk's body is
// missing. produced means that this engine produced the block. In such a block, BeginImport does
// not check chunks that this engine produced.
//
// It returns ErrMissing if the block is valid but a chunk body is missing. A further call for the
// same block skips checks that have succeeded. If an endorsed chunk contradicts this engine's
// result, the error is an *ApplyFailure that wraps an *OutcomeMismatch. VerdictOf classifies all
// other errors.
func (e *Engine) BeginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*BlockImport, error) {
	began := time.Now()
	e.times.Imports.Add(blockAttempts, 1)
	p, layout, err := e.beginImport(b, chunks, produced)
	if err == nil {
		e.times.Imports.Add(preprocessTime, int64(time.Since(began)))
	}
	if d := (*OutcomeMismatch)(nil); errors.As(err, &d) {
		f := e.mismatchFailure(d, layout)
		d.parent.Release()
		return nil, f
	}
	return p, err
}

// beginImport implements BeginImport. If the error is an OutcomeMismatch, the parent's states are
// still held.
func (e *Engine) beginImport(
	b *primitives.Block,
	chunks []*primitives.Chunk,
	produced bool,
) (p *BlockImport, layout primitives.ShardLayout, err error) {
	began := time.Now()
	if e.Imported(b.Hash()) != nil {
		return nil, layout, ErrKnown
	}
	parent := e.Imported(b.Header.PrevHash)
	if parent == nil {
		return nil, layout, fmt.Errorf("%w: %v, the parent of block %d", ErrOrphan, b.Header.PrevHash, b.Header.Height)
	}
	if !e.descendsFromFinal(parent) {
		return nil, layout, fmt.Errorf("%w: block %d with parent %v", ErrOld, b.Header.Height, parent.Hash)
	}
	if parent.evicted {
		if parent, err = e.restoreEvicted(parent); err != nil {
			return nil, layout, err
		}
	}
	if !parent.Acquire() {
		return nil, layout, fmt.Errorf("engine: the states after block %d are no longer in memory", parent.Height())
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
		if j.HeadersOnly {
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
		return nil, layout, fmt.Errorf("%w: shard index %d of block %d", ErrMissing, i, b.Header.Height)
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
		s.ID = inherited[i].ID // a header that is repeated after a split has the id of the parent shard
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
			// Replace what the chunk's hash does not cover. The signature and HeightIncluded come
			// from the block's copy of the header. The receipts come from this node's own results.
			checked := *s.Chunk
			checked.Header, checked.PrevOutgoingReceipts = *h, prev.Outgoing
			s.Chunk = &checked
		}
	}
	gatherIncoming(entry, holds)
	p = &BlockImport{entry: entry, parent: parent, prev: inherited, produced: produced, began: began}
	p.patch, p.mocks = e.takePatch(entry.Hash)
	states := func(i primitives.ShardIndex) state.Trie { return rooted(inherited[i].root) }
	if err := e.makeJobs(p, j.PrevChunks, states); err != nil {
		return nil, layout, err
	}
	asked := false
	for i := range p.jobs {
		p.jobs[i].prove = e.proofs.wants(e.epochs, j.EpochID, parent.Hash, p.jobs[i].ID)
		asked = asked || p.jobs[i].prove
	}
	e.proofs.wanted.Store(asked)
	e.takeOptimistic(p)
	e.precompiler.block(p)
	return p, layout, nil
}

// validateChunk compares a chunk with this node's result for the shard's previous chunk. The body
// is checked against the header only once for each chunk hash, here or with the chunk's witness.
// One check is enough: the chunk hash determines the chunk's previous block, and so the receipts
// that the chunk must contain.
func (e *Engine) validateChunk(c *primitives.Chunk, prev *ShardState, layout primitives.ShardLayout) error {
	if e.validChunks.has(c.Hash) {
		return chain.ValidateChunkAgain(c, prev.Extra)
	}
	err := e.times.Applied.validate(c, prev.Extra, prev.Outgoing, layout, e.coding)
	if err == nil {
		e.validChunks.add(c.Hash)
	}
	return err
}

// descendsFromFinal returns whether a block is the last final block or descends from the last final
// block (nearcore chain/chain/src/chain.rs:842). Nodes cache the result, so that a long path to the
// final block is followed only once.
func (e *Engine) descendsFromFinal(at *BlockNode) bool {
	final := e.TipFinal()
	// A child engine has no nodes below its flat head. If the final block is below the flat head,
	// each descendant of the flat head is a descendant of the final block.
	if e.parent != nil && final.Height < e.flatHead.Height() {
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

// finalHeight returns the height of the last final block according to header h.
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

// gatherIncoming sets the incoming receipts of the shards marked in holds. Each new chunk
// contributes one list of receipts to each shard. The lists are shuffled with the previous block's
// hash (nearcore chain/chain/src/chain.rs collect_receipts_from_response).
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

// incoming returns the receipts that a shard's new chunk applies: those that arrive in the block of
// entry and in its ancestors above height since. since is the height of the block with the shard's
// previous chunk. If an ancestor is older than a split, its receipts for the parent shard are
// filtered: only receipts for accounts of this shard are taken (nearcore
// chain/chain/src/store/utils.rs:186).
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
		if prev == nil { // the shard's last chunk is so old that its parent is below the flat head
			rec, err := e.store.BlockByHash(at.Header().PrevHash)
			if err != nil {
				return nil, fmt.Errorf("engine: collect the receipts for shard index %d since height %d: %w", shard, since, err)
			}
			if prev, err = e.loadLocked(rec); err != nil {
				return nil, err
			}
		}
		at = prev
	}
	return out, nil
}

// actionBlock returns what actions can read about the block's epoch and chain.
func (e *Engine) actionBlock(entry *BlockNode, info *epoch.EpochInfo) action.Block {
	b := action.Block{
		Config: entry.Config, ChainID: e.chain.ID, VM: e.o.VM,
		EpochID: entry.Header().EpochID, EpochHeight: info.EpochHeight, Stakes: stakes{info},
	}
	if verify := e.o.Verify; verify != nil {
		b.Verify = func(s primitives.Signature, hash primitives.Hash, key primitives.PublicKey) bool {
			return verify(s, hash[:], key)
		}
	}
	return b
}

// blockInput is the part of apply.Input that all shards of a block share. It has no sandbox patch.
type blockInput struct {
	input  apply.Input
	update *apply.ValidatorUpdate // nil unless first is set; LastProposals is not set
	first  bool                   // the block is the first of its epoch
}

// newBlockInput computes the shared input of a block. newBlockInput reads no state. The caller
// holds epochMu.
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
		c.input.Congestion = append(
			c.input.Congestion,
			apply.ShardCongestion{Shard: x.ShardID, Info: x.CongestionInfo, Missed: uint64(h.Height - x.HeightIncluded)},
		)
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

// forShard returns the input of one shard, without state, transactions and receipts. fresh means
// that the shard has a new chunk. Without a new chunk, proposals must be the validator proposals of
// the shard's last result. With a new chunk, forShard ignores proposals.
func (c *blockInput) forShard(
	entry *BlockNode,
	shard primitives.ShardIndex,
	fresh bool,
	proposals []primitives.ValidatorStake,
) apply.Input {
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

// makeJobs creates the jobs of a validated block. trie returns the state of a shard before the
// block. prevChunks are the headers of the shards' previous chunks. The caller holds epochMu.
func (e *Engine) makeJobs(
	p *BlockImport,
	prevChunks []*primitives.ChunkHeader,
	trie func(primitives.ShardIndex) state.Trie,
) error {
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
		job.meter = &e.times.Applied
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

func validatorUpdate(
	m *epoch.Manager,
	last primitives.Hash,
	treasury primitives.AccountID,
) (*apply.ValidatorUpdate, error) {
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

// stakes implements the validator queries of package action for one epoch.
type stakes struct{ info *epoch.EpochInfo }

func (s stakes) Stake(a primitives.AccountID) primitives.Balance {
	if v, ok := s.info.Validator(a); ok {
		return v.Stake
	}
	return primitives.Balance{}
}

func (s stakes) Total() primitives.Balance { return s.info.TotalStake() }
