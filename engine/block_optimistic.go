package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/optimistic"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// Bounds of optimistic blocks in the engine.
const (
	maxOptimistic       = 2 // optimistic blocks whose results are kept for a block
	maxOptimisticEnding = 8 // dropped optimistic blocks whose jobs have not ended
)

// errCanceled is the error of an OptimisticJob that was cancelled before it ran.
var errCanceled = errors.New("engine: the optimistic block is no longer needed")

// OptimisticApply applies the chunks of a block before the block arrives.
//
// Problem. A block is made only when its chunks are endorsed, and its chunks can be applied only
// when it is known. So applying and endorsing would take place one after the other. But all that
// applying chunks needs of the block are its height, timestamp and random value, which its producer
// announces beforehand, and the list of its chunks, which is probably the list of all chunks on its
// parent.
//
// Invariants. (1) A result is used only for a block for which applying has the same input. (2) The
// states and the changes of an unused result are released, and nothing of it is visible. (3) The
// engine keeps at most maxOptimistic, and none up to the height or on the parent of a block that
// has begun import.
// (4) All methods run on the engine's goroutine, except OptimisticJob.Run.
//
// Outline.
//
//	BeginOptimistic  validates the chunks and prepares one OptimisticJob for each shard
//	Run              applies a chunk, on any goroutine
//	Ended            the caller reports that a job has run
//	BeginImport      passes the jobs to the import of a block with the same input. A job of the
//	                 import then takes the result, waits for a job that runs, or runs it
//	Drop             cancels the jobs of any other block
//
// Rejected: a cache of results by the hash of their input, as in nearcore. A block would then find
// results of jobs that have ended, but could not wait for one that runs (nearcore has a second pool
// for blocks that wait).
type OptimisticApply struct {
	e       *Engine
	p       *BlockImport // of a block without what depends on endorsements and approvals
	jobs    []*OptimisticJob
	running int // number of jobs of which Ended was not called yet
	dropped bool
}

// OptimisticJob applies one shard's chunk of an OptimisticApply.
type OptimisticJob struct {
	once     sync.Once
	job      *Job
	canceled atomic.Bool
	of       *OptimisticApply
	ended    bool // Ended was called; only the engine's goroutine uses this field
	taken    bool // an import uses the job; only the engine's goroutine uses this field
}

// Run applies the chunk, unless it was applied or cancelled before. If another goroutine applies
// the chunk, Run waits for it. Safe for concurrent use.
func (j *OptimisticJob) Run() {
	j.once.Do(func() {
		if j.job.err = errCanceled; !j.canceled.Load() {
			j.job.err = nil
			j.job.Run()
		}
	})
}

// Failed returns whether applying the chunk failed for another reason than a cancellation. The job
// must have run.
func (j *OptimisticJob) Failed() bool { return j.job.err != nil && !j.canceled.Load() }

// Canceled returns whether the job was cancelled. A cancelled job has applied the chunk at most in
// part.
func (j *OptimisticJob) Canceled() bool { return j.canceled.Load() }

// Ended reports that a call of Run has returned. The caller calls Ended once for each job.
func (j *OptimisticJob) Ended() {
	j.ended = true
	if j.of.running--; j.of.running == 0 {
		j.of.measure()
	}
	j.of.release()
}

// measure measures how long the jobs took together, unless one of them was cancelled.
func (o *OptimisticApply) measure() {
	var all timeSpan
	for _, j := range o.jobs {
		if j.Canceled() {
			return
		}
		all.add(j.job)
	}
	o.e.times.Applied.appliedAll(optimisticBlock, all)
}

// Block returns the height of the block and the hash of its parent.
func (o *OptimisticApply) Block() (primitives.Height, primitives.Hash) {
	return o.p.entry.Height(), o.p.parent.Hash
}

// Jobs returns the jobs. There is none for a shard that is not held, or for which a job costs less
// than handing it to another goroutine.
func (o *OptimisticApply) Jobs() []*OptimisticJob { return o.jobs }

// NewOptimisticBlock makes and signs the optimistic block of a height on parent. timestamp is in ns
// since 1970, and is raised to the parent's timestamp plus 1 if it is lower (nearcore
// core/primitives/src/optimistic_block.rs:53). NewBlock makes a block with the same fields if the
// Proposal has the timestamp of the optimistic block.
func (e *Engine) NewOptimisticBlock(
	parent primitives.Hash,
	height primitives.Height,
	timestamp uint64,
	key primitives.SecretKey,
) (*primitives.OptimisticBlock, error) {
	p := e.Imported(parent)
	if p == nil {
		return nil, fmt.Errorf("%w: %v", ErrOrphan, parent)
	}
	o := &primitives.OptimisticBlock{PrevBlockHash: parent, Height: height, Timestamp: max(timestamp, p.Header().Timestamp+1)}
	var err error
	if o.VRFValue, o.VRFProof, err = e.proveVRF(p.Header().RandomValue, key); err != nil {
		return nil, err
	}
	o.RandomValue = primitives.HashBytes(o.VRFValue[:])
	hash := o.Hash()
	o.Signature = key.Sign(hash[:])
	return o, nil
}

// OptimisticReceivers returns the validators to which the producer of a child of head sends its
// optimistic block: the chunk producers of the epoch of head and of the next one, by account
// (nearcore chain/client/src/client.rs:2695).
func (e *Engine) OptimisticReceivers(head *primitives.BlockHeader) (out []primitives.AccountID, err error) {
	err = e.Epochs(func(m *epoch.Manager) error {
		for _, id := range []primitives.EpochID{head.EpochID, head.NextEpochID} {
			list, err := m.ChunkProducers(id)
			if err != nil {
				return err
			}
			for i := range list {
				out = append(out, list[i].AccountID)
			}
		}
		return nil
	})
	slices.Sort(out)
	return slices.Compact(out), err
}

// CheckOptimistic validates an optimistic block (nearcore chain/client/src/client.rs:1323). If the
// parent is unknown, only the height, the time and the signature are checked, by the producers of
// the current epochs, and the error is ErrOrphan if they are right. Otherwise CheckOptimistic
// returns the shards of the block's epoch. The height must not be above maxHeight.
func (e *Engine) CheckOptimistic(
	o *primitives.OptimisticBlock,
	maxHeight primitives.Height,
) (shards []primitives.ShardID, err error) {
	parent, tip := e.Imported(o.PrevBlockHash), e.Tip()
	bounds := optimistic.Bounds{Head: tip.Height(), MaxHeight: maxHeight}
	if e.o.Now != nil {
		bounds.Now = e.o.Now()
	}
	var producers []primitives.PublicKey
	err = e.Epochs(func(m *epoch.Manager) error {
		ids := []primitives.EpochID{tip.Header().EpochID, tip.Header().NextEpochID}
		if parent != nil {
			id, err := m.EpochIDFromPrev(parent.Hash)
			if err != nil {
				return err
			}
			layout, err := m.ShardLayout(id)
			if err != nil {
				return err
			}
			ids, shards = []primitives.EpochID{id}, layout.ShardIDs()
		}
		for _, id := range ids {
			v, err := m.BlockProducer(id, o.Height)
			if err != nil {
				return err
			}
			producers = append(producers, v.PublicKey)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := optimistic.Precheck(o, bounds, producers, e.verify); err != nil {
		return nil, err
	}
	if parent == nil {
		return nil, ErrOrphan
	}
	if err := optimistic.Validate(o, parent.Header(), producers[0], optimistic.VRF(e.o.VRF)); err != nil {
		return nil, err
	}
	return shards, nil
}

// BeginOptimistic prepares to apply the chunks of a block. o must have passed CheckOptimistic.
// chunks are the new chunks of all shards, by shard index, with the bodies or receipt proofs that
// this node needs. If the engine then keeps more than maxOptimistic, it drops the lowest. An error
// concerns only this optimistic block, and leaves the engine unchanged.
func (e *Engine) BeginOptimistic(o *primitives.OptimisticBlock, chunks []*primitives.Chunk) (*OptimisticApply, error) {
	if len(e.optimistic) >= maxOptimistic+maxOptimisticEnding {
		return nil, fmt.Errorf("engine: optimistic block %d: the jobs of %d others have not ended", o.Height, len(e.optimistic))
	}
	p, err := e.beginOptimistic(o, chunks)
	if err != nil {
		return nil, fmt.Errorf("engine: optimistic block %d on %v: %w", o.Height, o.PrevBlockHash, err)
	}
	out := &OptimisticApply{e: e, p: p}
	for i := range p.jobs {
		if j := &p.jobs[i]; !j.Trivial() {
			x := &OptimisticJob{job: j, of: out}
			j.input.Canceled = &x.canceled
			out.jobs = append(out.jobs, x)
		}
	}
	out.running = len(out.jobs)
	e.optimistic = append(e.optimistic, out)
	if list := e.usableOptimistic(); len(list) > maxOptimistic {
		slices.MinFunc(list, func(a, b *OptimisticApply) int {
			return cmp.Compare(a.p.entry.Height(), b.p.entry.Height())
		}).Drop()
	}
	return out, nil
}

// usableOptimistic returns the optimistic blocks that are not dropped, in the order of arrival.
func (e *Engine) usableOptimistic() (list []*OptimisticApply) {
	for _, o := range e.optimistic {
		if !o.dropped {
			list = append(list, o)
		}
	}
	return list
}

// beginOptimistic makes the import of an optimistic block. It does the same as beginImport, without
// the checks of the header and of endorsements.
func (e *Engine) beginOptimistic(o *primitives.OptimisticBlock, chunks []*primitives.Chunk) (p *BlockImport, err error) {
	parent := e.Imported(o.PrevBlockHash)
	switch {
	case parent == nil:
		return nil, ErrOrphan
	case parent.evicted || !e.descendsFromFinal(parent):
		return nil, ErrOld
	case o.Height <= e.Tip().Height():
		return nil, ErrKnown
	case !parent.Acquire():
		return nil, errors.New("the states after the parent are no longer in memory")
	}
	defer func() {
		if err != nil {
			parent.Release()
		}
	}()
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	id, err := e.epochs.EpochIDFromPrev(parent.Hash)
	if err != nil {
		return nil, err
	}
	layout, err := e.epochs.ShardLayout(id)
	if err != nil {
		return nil, err
	}
	if len(chunks) != layout.NumShards() {
		return nil, fmt.Errorf("%d chunks, must have %d", len(chunks), layout.NumShards())
	}
	header := &primitives.BlockHeader{PrevHash: parent.Hash}
	header.Height, header.EpochID, header.Timestamp, header.RandomValue = o.Height, id, o.Timestamp, o.RandomValue
	b := &primitives.Block{Header: header}
	var prevChunks []*primitives.ChunkHeader
	for i, shard := range layout.ShardIDs() {
		_, _, index, err := e.epochs.PrevShard(parent.Hash, shard)
		if err != nil {
			return nil, err
		}
		prevChunks = append(prevChunks, parent.Block.Body.Chunks[index])
		h := chunks[i].Header // a copy, because the chunk may be included at another height
		if h.PrevBlockHash != parent.Hash || h.ShardID != shard || h.HeightCreated != parent.Height()+1 {
			return nil, fmt.Errorf("%w: chunk %v is not of shard %d on the parent", ErrChunk, chunks[i].Hash, shard)
		}
		h.HeightIncluded = o.Height
		b.Body.Chunks = append(b.Body.Chunks, &h)
	}
	holds, err := e.holds(parent, layout)
	if err != nil {
		return nil, err
	}
	if i := missing(b, chunks, layout, holds); i >= 0 {
		return nil, fmt.Errorf("%w: shard index %d", ErrMissing, i)
	}
	held := heldIDs(layout, holds)
	inherited, err := e.inherited(parent, layout)
	if err != nil {
		return nil, err
	}
	cfg, err := e.version(id)
	if err != nil {
		return nil, err
	}
	entry := &BlockNode{Block: b, Hash: o.Hash(), Layout: layout, Config: cfg, Shards: make([]ShardState, layout.NumShards())}
	entry.refs.Store(1)
	for i, h := range b.Body.Chunks {
		s := &entry.Shards[i]
		s.ID = inherited[i].ID
		if !holds[i] {
			var came *primitives.Chunk
			if len(held) > 0 {
				came = chunks[i]
			}
			if s.Chunk, err = untrackedChunk(came, h, held); err != nil {
				return nil, err
			}
			continue
		}
		if err := e.validateChunk(chunks[i], &inherited[i], layout); err != nil {
			return nil, err
		}
		checked := *chunks[i]
		checked.Header, checked.PrevOutgoingReceipts = *h, inherited[i].Outgoing
		s.Chunk = &checked
	}
	gatherIncoming(entry, holds)
	p = &BlockImport{entry: entry, parent: parent, prev: inherited}
	states := func(i primitives.ShardIndex) state.Trie { return rooted(inherited[i].root) }
	if err := e.makeJobs(p, prevChunks, states); err != nil {
		return nil, err
	}
	for i := range p.jobs {
		p.jobs[i].prove = e.proofs.wants(e.epochs, id, parent.Hash, p.jobs[i].ID)
	}
	e.precompiler.block(p)
	return p, nil
}

// sameInput returns whether applying the chunks of block b has the input with which o applies them.
// The input depends on the parent, the height, the timestamp, the random value and the chunks of
// all shards (nearcore chain/chain/src/chain.rs:3387).
func (o *OptimisticApply) sameInput(b *primitives.Block) bool {
	own, h := o.p.entry.Header(), b.Header
	return h.PrevHash == own.PrevHash && h.Height == own.Height && h.Timestamp == own.Timestamp &&
		h.RandomValue == own.RandomValue && h.EpochID == own.EpochID &&
		slices.EqualFunc(b.Body.Chunks, o.p.entry.Block.Body.Chunks, func(x, y *primitives.ChunkHeader) bool {
			return x.HeightIncluded == y.HeightIncluded && x.ChunkHash() == y.ChunkHash()
		})
}

// takeOptimistic passes the jobs of an optimistic block with the same input to the import p. It
// drops all optimistic blocks up to the height of p and all others on the parent of p: no block will
// probably use their results, and their jobs would delay the import.
func (e *Engine) takeOptimistic(p *BlockImport) {
	h := p.entry.Header()
	for _, o := range e.usableOptimistic() {
		if o.p.entry.Height() > h.Height && o.p.parent != p.parent {
			continue
		}
		if o.p.parent == p.parent && len(p.patch) == 0 && p.mocks == nil && o.sameInput(p.entry.Block) {
			for _, j := range o.jobs {
				to := &p.jobs[j.job.Shard]
				if !to.notHeld() && to.ID == j.job.ID && to.executed == nil && to.prove == j.job.prove {
					to.optimistic, j.taken = j, true
				}
			}
		}
		o.Drop()
	}
	for i := range p.jobs {
		if j := &p.jobs[i]; j.optimistic != nil || !j.Trivial() {
			e.times.Optimistic.count(j.ID, j.optimistic != nil)
		}
	}
}

// AwaitsOptimistic returns whether a job of the import takes the result of an optimistic job that has
// not ended. Only the engine's goroutine calls it.
func (p *BlockImport) AwaitsOptimistic() bool {
	for i := range p.jobs {
		if o := p.jobs[i].optimistic; o != nil && !o.ended {
			return true
		}
	}
	return false
}

// dropStaleOptimistic drops the optimistic blocks that no block can use, because their parent does
// not descend from the final block.
func (e *Engine) dropStaleOptimistic() {
	for _, o := range e.usableOptimistic() {
		if !e.descendsFromFinal(o.p.parent) {
			o.Drop()
		}
	}
}

// runOptimistic moves the result of the optimistic job to j, after waiting for that job or running
// it. It returns false if there is no optimistic job or if that job failed. The caller must then
// apply the chunk.
func (j *Job) runOptimistic() bool {
	if j.optimistic == nil {
		return false
	}
	j.optimistic.Run()
	from := j.optimistic.job
	if from.err != nil {
		return false
	}
	j.result, j.transition, j.input.Recording, j.took = from.result, from.transition, from.input.Recording, from.took
	from.result, from.transition, from.input.Recording = nil, nil, nil
	return true
}

// Drop cancels all jobs that no import uses. The states are released when all jobs have ended.
// Further calls do nothing.
func (o *OptimisticApply) Drop() {
	if o.dropped {
		return
	}
	o.dropped = true
	for _, j := range o.jobs {
		if !j.taken {
			j.canceled.Store(true)
		}
	}
	o.release()
}

// release removes a dropped o from the engine and releases its states, if no job can run any
// more.
func (o *OptimisticApply) release() {
	if !o.dropped || o.running > 0 || !slices.Contains(o.e.optimistic, o) {
		return
	}
	o.e.optimistic = slices.DeleteFunc(o.e.optimistic, func(x *OptimisticApply) bool { return x == o })
	for _, j := range o.jobs {
		if !j.taken {
			j.discard()
		}
	}
	o.p.parent.Release()
}

// discard releases the result of a job that no import uses, and prevents that the job starts. The
// job must not be running.
func (j *OptimisticJob) discard() {
	j.once.Do(func() { j.job.err = errCanceled })
	if r := j.job.result; r != nil {
		rootOf(r.Trie).Release()
		j.job.releaseRecording()
		j.job.result = nil
	}
}

// DropOptimistic drops all optimistic blocks and releases their states. No job may be running, and
// the caller must not call Ended afterwards.
func (e *Engine) DropOptimistic() {
	for _, o := range slices.Clone(e.optimistic) {
		o.running = 0
		o.Drop()
		o.release()
	}
}
