// Package importer decides what happens to each block that a node receives or produces. It imports,
// drops or rejects the block, or keeps the block until its parent and chunk bodies have arrived. It
// also chooses which block is imported next. The chain actor of a follower and the state machine of
// a validator (consensus) both use the package.
//
//	in      Take, TakeBody, Produced: blocks and chunk bodies; Next: start an import; Done and
//	        Finish: its jobs have run; Refresh: the set of shards that the node holds has changed; Reset: the chain
//	        was rolled back
//	out     effects, see Effect
//	state   Importer: the block that is being imported, and the blocks that cannot be imported
//	        yet (chain/blockpool)
//	units   times in ns, heights in blocks
//	bound   the limits of chain/blockpool; one import at a time
//	errors  engine.VerdictOf classifies them, see Effect
//	source  nearcore chain/client/src/client.rs (receive_block, process_block_processing_artifact),
//	        chain/chain/src/chain.rs (maybe_mark_block_invalid)
//
// The package has no goroutine, clock or socket. An Importer is not safe for concurrent use.
package importer

import (
	"errors"

	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/primitives"
)

// Engine is the part of *engine.Engine that an Importer uses.
type Engine interface {
	Precheck(b *primitives.Block) (engine.Prechecked, error)
	PrecheckBody(c *primitives.Chunk) (signed bool, need blockpool.Need, err error)
	BeginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*engine.BlockImport, error)
	FinishImport(p *engine.BlockImport, stored func()) (*engine.Imported, error)
}

// Options configure an Importer.
type Options struct {
	// Engine is the chain. Required.
	Engine Engine
	// Emit carries out an effect. The method that causes the effect returns after Emit. Emit may
	// call the Importer. Required.
	Emit func(Effect)
	// Tip and Final are the heights of the engine's tip and of its last final block.
	Tip, Final primitives.Height
	// Counters count orphans and their evictions. nil: not counted.
	Counters *blockpool.Counters
	// Measured has the metrics that Families lists. nil: not measured.
	Measured *metrics.Set
	// Hooks are for tests. Zero: no hooks.
	Hooks Hooks
}

// Hooks let tests change an Importer. The zero value does nothing.
type Hooks struct {
	// DropOrphans makes the Importer drop blocks whose parent is unknown: a bug that the simulator
	// must detect.
	DropOrphans bool
}

// Importer is the state machine that the package comment describes.
type Importer struct {
	o      Options
	pool   *blockpool.Pool
	tip    primitives.Height
	run    *Run // the running import; nil: none
	failed bool // Failed was emitted
	// lacking has the times in ns since which pooled blocks lack chunk bodies.
	lacking map[primitives.Hash]uint64
	orphans map[primitives.Hash]orphanTimes // pooled blocks that lack or lacked their parent
	// pending means that the running import needs results of an optimistic block that is still being
	// applied, since the time pendingSince in ns. pendingFor is how long it was pending, in ns.
	pending                  bool
	pendingSince, pendingFor uint64
}

// Run is a running import.
type Run struct {
	Import *engine.BlockImport
	Block  *primitives.Block
	Hash   primitives.Hash
	From   string // peer that sent the block; empty: this node produced it
	// Own means that this node produced the block. BeginImport then skips the checks of the bodies
	// of chunks that this node itself produced.
	Own  bool
	left int // number of jobs that have not ended
}

// New returns an Importer without blocks.
func New(o Options) *Importer {
	i := &Importer{o: o, lacking: map[primitives.Hash]uint64{}, orphans: map[primitives.Hash]orphanTimes{}}
	i.Reset(o.Tip, o.Final)
	return i
}

// Pool returns the pool of blocks that cannot be imported yet. The caller must not change it.
func (i *Importer) Pool() *blockpool.Pool { return i.pool }

// Tip returns the height of the engine's tip.
func (i *Importer) Tip() primitives.Height { return i.tip }

// Running returns the running import, or nil.
func (i *Importer) Running() *Run { return i.run }

// fail emits Failed.
func (i *Importer) fail(err error, r *Run) {
	i.failed = true
	i.o.Emit(Failed{Err: err, Run: r})
}

// Take adds a peer's block to the pool, with the chunk bodies that came with the block, and
// requests what is missing. now is in ns. checked means that Take has just run Precheck on the
// block without an error, and that the block's epoch is known. err is the reason why the pool did
// not keep the block. err is nil if the pool kept the block or had the block already.
func (i *Importer) Take(b blockpool.Block, now uint64) (checked bool, err error) {
	hash := b.Hash()
	if err := i.pool.Refusal(hash); err != nil {
		i.o.Emit(Rejected{Block: b.Block, From: b.From, Err: err})
		return false, err
	}
	b.Standing = blockpool.Orphan
	if !i.pool.Has(hash) { // if the pool has the block, this copy can only add chunk bodies
		as, err := i.o.Engine.Precheck(b.Block)
		if err != nil {
			i.precheckFailed(&b, err)
			return false, err
		}
		b.Standing, b.Producer, b.Needs = as.Standing, as.Producer, as.Needs
		checked = as.Standing != blockpool.UnknownEpoch
	}
	if b.Standing == blockpool.Orphan && i.o.Hooks.DropOrphans {
		return checked, nil
	}
	out, err := i.pool.Add(b, now)
	if out.Bad != nil {
		i.o.Emit(BadBody{From: b.From, Err: out.Bad})
	}
	switch {
	case errors.Is(err, blockpool.ErrRefused):
		i.o.Emit(Rejected{Block: b.Block, From: b.From, Err: err})
	case err != nil:
		i.o.Emit(Dropped{Block: b.Block, From: b.From, Err: err})
	}
	if b.Standing == blockpool.UnknownEpoch || errors.Is(err, blockpool.ErrFar) {
		i.o.Emit(Ahead{Block: b.Block, From: b.From})
	}
	switch {
	case b.Standing != blockpool.Follows:
		i.orphaned(hash, now)
	case len(out.Chunks) > 0:
		i.lacks(hash, now)
	}
	i.missing(&b, &out)
	return checked, err
}

// precheckFailed handles an error of Precheck. precheckFailed does not remember the hash as
// invalid, because another copy of the block may be valid.
func (i *Importer) precheckFailed(b *blockpool.Block, err error) {
	switch v := engine.VerdictOf(err); {
	case v == engine.VerdictLocalFault:
		i.fail(err, nil)
	case v == engine.VerdictInvalid, errors.Is(err, engine.ErrPartialBody):
		i.countInvalid(err)
		i.o.Emit(Rejected{Block: b.Block, From: b.From, Err: err})
	default:
		i.o.Emit(Dropped{Block: b.Block, From: b.From, Err: err})
	}
}

// missing requests what the pool needs for a block.
func (i *Importer) missing(b *blockpool.Block, out *blockpool.Out) {
	if !out.Parent.IsZero() || len(out.Chunks) > 0 {
		i.o.Emit(Missing{Block: b.Block, From: b.From, Parent: out.Parent, Chunks: out.Chunks})
	}
}

// TakeBody adds a chunk body that arrived without its block. TakeBody returns nil if the pool kept
// the body, otherwise the reason why the pool did not. A body that contradicts its header causes a
// BadBody.
func (i *Importer) TakeBody(c *primitives.Chunk, from string) error {
	signed, need := false, blockpool.Need{}
	if !i.pool.Wants(c.Hash) {
		var err error
		if signed, need, err = i.o.Engine.PrecheckBody(c); err != nil {
			i.fail(err, nil)
			return err
		}
	}
	err := i.pool.AddBody(c, signed, need)
	if err != nil && engine.VerdictOf(err) == engine.VerdictInvalid {
		i.o.Emit(BadBody{Chunk: c.Hash, From: from, Err: err})
	}
	return err
}

// Next begins the import of the lowest block that is ready, and returns that import. It returns nil
// if no block is ready, if an import is running, or if it emitted Failed. The caller must call
// Run.Start.
func (i *Importer) Next(now uint64) *Run {
	for i.run == nil && !i.failed {
		b := i.pool.Next()
		if b == nil {
			return nil
		}
		if r := i.begin(b, now); r != nil {
			return r
		}
	}
	return nil
}

// begin begins the import of a received block whose parent is imported. If chunk bodies are
// missing, the block returns to the pool until they arrive, and begin returns nil. begin also
// returns nil after an error.
func (i *Importer) begin(b *blockpool.Block, now uint64) *Run {
	hash := b.Hash()
	p, err := i.o.Engine.BeginImport(b.Block, b.Chunks, false)
	if err == nil {
		i.complete(hash, now)
		i.measureOrphaned(hash, now)
		i.run = &Run{Import: p, Block: b.Block, Hash: hash, From: b.From, left: len(p.Jobs())}
		i.beginPending(now)
		return i.run
	}
	if errors.Is(err, engine.ErrMissing) {
		out, ok := i.pool.WaitForChunks(hash, now)
		if !ok { // the pool has all bodies, but the node now holds other shards
			if as, err := i.o.Engine.Precheck(b.Block); err == nil {
				i.pool.Refresh(hash, as.Needs, now)
				out, ok = i.pool.WaitForChunks(hash, now)
			}
		}
		if ok {
			i.lacks(hash, now)
			i.missing(b, &out)
			return nil
		}
	}
	i.importFailed(b.Block, b.From, err)
	return nil
}

// Produced begins the import of a block that the engine produced. No import may be running. After
// an error the engine is unchanged.
func (i *Importer) Produced(b *primitives.Block, chunks []*primitives.Chunk) (*Run, error) {
	p, err := i.o.Engine.BeginImport(b, chunks, true)
	if err != nil {
		return nil, err
	}
	i.run = &Run{Import: p, Block: b, Hash: b.Hash(), Own: true, left: len(p.Jobs())}
	return i.run, nil
}

// Start runs the trivial jobs of an import, and passes every other job to the function do. When the
// passed jobs have run, the caller must call Finish. ready means that no job was passed, so that
// the caller must call Finish at once.
func (r *Run) Start(do func(*engine.Job)) (ready bool) {
	jobs := r.Import.Jobs()
	var rest []*engine.Job
	for k := range jobs {
		if jobs[k].Trivial() {
			jobs[k].Run()
			r.left--
			continue
		}
		rest = append(rest, &jobs[k])
	}
	for _, j := range rest {
		do(j)
	}
	return len(rest) == 0
}

// Done counts a job that has run, and returns whether all jobs have run.
func (r *Run) Done() (last bool) {
	r.left--
	return r.left == 0
}

// Finish adds the block of the running import to the chain, after its jobs have run. stored is
// passed to engine.FinishImport. If the block starts an epoch, pooled blocks whose epoch was
// unknown are taken again.
func (i *Importer) Finish(stored func(), now uint64) {
	r := i.run
	if i.run = nil; !r.Own {
		i.measurePending(now)
	}
	acc, err := i.o.Engine.FinishImport(r.Import, stored)
	switch {
	case err == nil:
		i.imported(acc, r, now)
	case engine.VerdictOf(err) == engine.VerdictLocalFault:
		i.fail(err, r)
	case r.Own:
		r.Import.Drop()
		i.o.Emit(OwnFailed{Height: r.Block.Header.Height, Err: err})
	default:
		r.Import.Drop()
		i.importFailed(r.Block, r.From, err)
	}
}

// imported updates the pool after an import. If the imported block makes an epoch known, imported
// takes the pooled blocks of unknown epochs again.
func (i *Importer) imported(acc *engine.Imported, r *Run, now uint64) {
	epoch := false
	if acc.IsHead {
		i.tip = acc.Entry.Height()
		epoch = acc.Entry.Header().EpochID != acc.OldHead.Header().EpochID
	}
	child := i.pool.HasChild(acc.Entry.Hash)
	again := i.pool.Imported(acc.Entry.Block, i.tip, acc.Final.Height, epoch)
	if child {
		for _, b := range i.pool.Blocks() {
			if b.Header.PrevHash == acc.Entry.Hash { // if it lacks nothing, its import begins at once
				i.parentImported(b.Hash(), now)
				i.lacks(b.Hash(), now)
			}
		}
	}
	i.o.Emit(Imported{Imported: acc, Run: r})
	if acc.UpgradeNeeded != nil && child {
		// The child has passed Precheck as an orphan, and would wait for chunk bodies forever.
		i.fail(acc.UpgradeNeeded, nil)
		return
	}
	for k := range again { // Take emits what becomes of the block
		_, _ = i.Take(blockpool.Block{Block: again[k].Block, From: again[k].From}, now)
	}
}

// importFailed handles an error of importing a peer's block.
func (i *Importer) importFailed(b *primitives.Block, from string, err error) {
	hash := b.Hash()
	switch v := engine.VerdictOf(err); v {
	case engine.VerdictInvalid:
		i.countInvalid(err)
		fell := i.pool.Refused(hash, err)
		i.o.Emit(Rejected{Block: b, From: from, Err: err})
		for k := range fell {
			i.o.Emit(Rejected{Block: fell[k].Block, From: fell[k].From, Err: i.pool.Refusal(fell[k].Hash())})
		}
	case engine.VerdictEarly, engine.VerdictStale, engine.VerdictWaiting:
		i.pool.Dropped(hash, v == engine.VerdictEarly)
		if errors.Is(err, engine.ErrPartialBody) {
			i.o.Emit(Rejected{Block: b, From: from, Err: err})
			return
		}
		i.o.Emit(Dropped{Block: b, From: from, Err: err})
	case engine.VerdictLocalFault:
		i.fail(err, nil)
	}
}

// Refresh computes again which chunk bodies the pooled blocks need. The caller calls Refresh when
// the set of shards that the node holds has changed.
func (i *Importer) Refresh(now uint64) {
	for _, b := range i.pool.Blocks() {
		as, err := i.o.Engine.Precheck(b.Block)
		if err != nil {
			continue // the import will report the error
		}
		out := i.pool.Refresh(b.Hash(), as.Needs, now)
		i.missing(&b, &out)
	}
}

// Stop ends the running import and removes all pooled blocks. Stop returns the running import, or
// nil if there was none. The import's jobs may still be running. The caller must call Import.Drop
// after the jobs have ended, or keep the import for a report.
func (i *Importer) Stop() *Run {
	r := i.run
	i.run = nil
	i.endPending(i.pendingSince)
	i.pool.Clear()
	return r
}

// Reset removes all blocks from the pool and forgets which blocks were invalid. The caller calls
// Reset after the chain was rolled back. No import may be running.
func (i *Importer) Reset(tip, final primitives.Height) {
	i.tip, i.pool = tip, blockpool.New(tip, final)
	if i.o.Counters != nil {
		i.pool.SetCounters(i.o.Counters)
	}
}
