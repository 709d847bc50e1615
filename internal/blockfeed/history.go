package blockfeed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// HistoryCheck is a walk from a known block of a chain down to older ones, which a feed provides.
// Each block names the hash of the block below it, so no block of another chain can get in between.
// The headers of a block's chunks name the outcome roots of the chunks below them. A HistoryCheck can
// be stored as JSON, and continued by another process.
type HistoryCheck struct {
	// Height and Hash are those of the next block. If Below is set, the block above does not name the
	// height, which is at most Height.
	Height primitives.Height `json:"height"`
	Below  bool              `json:"below,omitempty"`
	Hash   primitives.Hash   `json:"hash"`
	// Roots are the outcome roots that chunks above name, by shard.
	Roots map[primitives.ShardID]primitives.Hash `json:"outcome_roots,omitempty"`
	// Shards are the shards of the block above, in the order of its chunks.
	Shards []primitives.ShardID `json:"shards,omitempty"`
	// Done means that the block below is the genesis.
	Done bool `json:"done,omitempty"`

	Blocks   uint64 `json:"blocks"`
	Outcomes uint64 `json:"outcomes"` // outcomes that a block above proves
	// Unproven are the outcomes of the topmost chunks, and those below a change of the shard layout whose
	// root the chunks above the change do not name.
	Unproven uint64 `json:"unproven_outcomes"`

	// Excess is by how many bytes transactions, receipts and other content that no hash covers exceed
	// what the chunk headers of their blocks allow (blockdoc.Report.Unproven). The blocks below allow it
	// if the feed is true: their chunks had the receipts that the blocks above executed.
	Excess int64 `json:"excess_bytes,omitempty"`

	unproven []primitives.ShardID // shards of the last block with such outcomes
}

// Add verifies that a block is the next one, and moves the walk to its parent. r is the result of
// d.Check, and genesis the hash of the chain's genesis block. After an error the walk is where it was.
// Errors: blockdoc.MismatchError, blockdoc.ErrLacks.
func (c *HistoryCheck) Add(d *blockdoc.Document, r *blockdoc.Report, genesis primitives.Hash) error {
	h := d.Block.Header
	if d.Hash != c.Hash {
		return &blockdoc.MismatchError{Where: "block",
			Err: fmt.Errorf("at height %d the feed has block %v, but the chain has %v", h.Height, d.Hash, c.Hash)}
	}
	roots := map[primitives.ShardID]primitives.Hash{}
	var ids []primitives.ShardID
	for _, x := range d.Block.Body.Chunks {
		ids = append(ids, x.ShardID)
	}
	changed := false
	if c.Shards == nil || slices.Equal(ids, c.Shards) {
		for id, root := range c.Roots {
			roots[id] = root
		}
	} else {
		changed = true
	}
	proven, unproven, excess := 0, 0, c.Excess+r.Unproven-r.Allowed
	var shards []primitives.ShardID
	for _, x := range d.Block.Body.Chunks {
		if x.HeightIncluded != h.Height {
			continue
		}
		s := d.Shard(x.ShardID)
		got, has := r.Outcomes[x.ShardID]
		if s == nil || !has {
			return fmt.Errorf("%w: block %d has a new chunk of shard %d, which the feed does not publish", blockdoc.ErrLacks, h.Height, x.ShardID)
		}
		if !r.Complete[x.ShardID] { // their paths prove the others, and that some are missing
			return fmt.Errorf("%w: the feed leaves out outcomes of shard %d in block %d", blockdoc.ErrLacks, x.ShardID, h.Height)
		}
		switch want, named := roots[x.ShardID]; {
		case changed && c.namesParent(x.ShardID, got, ids) || named && got == want:
			proven += len(s.Outcomes)
		case !named:
			if unproven += len(s.Outcomes); len(s.Outcomes) > 0 {
				shards = append(shards, x.ShardID)
			}
			for i := range s.Outcomes {
				excess += int64(view.OutcomeSize(&s.Outcomes[i]))
			}
		default:
			return &blockdoc.MismatchError{Where: "outcomes",
				Err: fmt.Errorf("those of shard %d in block %d have the root %v, but the next chunk names %v",
					x.ShardID, h.Height, got, want)}
		}
		roots[x.ShardID] = x.PrevOutcomeRoot
	}
	if excess > maxExcess {
		return &blockdoc.MismatchError{Where: "shards",
			Err: fmt.Errorf("the transactions, receipts, metadata and failures down to block %d have %d MiB more than their chunks allow, the limit is %d MiB",
				h.Height, excess>>20, int64(maxExcess)>>20)}
	}
	c.Excess = max(0, excess)
	c.Blocks, c.Outcomes, c.Unproven = c.Blocks+1, c.Outcomes+uint64(proven), c.Unproven+uint64(unproven)
	c.Roots, c.Shards, c.Hash, c.unproven = roots, ids, h.PrevHash, shards
	c.Done = h.PrevHash == genesis || h.IsGenesis()
	if c.Height, c.Below = h.PrevHeight, false; h.Version < primitives.HeaderV3 {
		c.Height, c.Below = h.Height-min(h.Height, 1), true
	}
	return nil
}

// namesParent returns whether the chunks of a new shard layout name the outcome root of a shard of the
// layout below, which has the shards ids.
//
// The children of a shard begin with a copy of its ChunkExtra (nearcore
// chain/chain/src/resharding/manager.rs, child_chunk_extra), so their first chunks name the outcome root
// of the parent's last chunk. If the new layout has the shard too, its own chunk names the root.
// Otherwise the root is that of a shard that only the new layout has: without the layouts it is unknown
// which are the children, but no two shards execute the same. Layouts before version 2 number the shards
// anew, so a root that is not named proves no lie.
func (c *HistoryCheck) namesParent(id primitives.ShardID, root primitives.Hash, ids []primitives.ShardID) bool {
	if slices.Contains(c.Shards, id) {
		named, has := c.Roots[id]
		return has && named == root
	}
	for child, named := range c.Roots {
		if named == root && !slices.Contains(ids, child) {
			return true
		}
	}
	return false
}

// Bounds of a walk.
const (
	maxExcess    = 4 << 30 // of HistoryCheck.Excess. The queues of all shards have fewer receipts
	maxGap       = 1000    // heights without a block between two blocks that do not name their parents' heights
	maxFetched   = 8       // blocks that CheckHistory fetches and checks at the same time
	historyTries = 5       // requests for one block
	historyPause = time.Second
	historyLimit = 5 * time.Minute // for the requests for one block
)

// CheckHistory fetches and verifies blocks from the place of c down to the height to, or to the block
// above the genesis. It calls each after each block.
func CheckHistory(
	ctx context.Context, s Source, c *HistoryCheck, to primitives.Height, genesis primitives.Hash, each func() error,
) error {
	w := walk{Source: s, at: c, to: to, genesis: genesis, fetches: maxFetched}
	return w.run(ctx, func(*blockdoc.Document) error { return each() })
}

// walk moves a HistoryCheck downwards.
type walk struct {
	Source
	at      *HistoryCheck
	to      primitives.Height // lowest height
	genesis primitives.Hash
	fetches int          // blocks that are fetched at the same time
	pace    *pacer       // bounds the processor time; nil: no bound
	budget  *fetchBudget // bounds the replies that are held; nil: one of its own with maxFetchBytes
	// missed is called on other goroutines after each failed request for a block that is repeated. nil:
	// not called.
	missed func(primitives.Height, error)
}

// run fetches and verifies blocks until the walk is done. It calls each after each block; an error of
// each ends it.
func (w *walk) run(ctx context.Context, each func(*blockdoc.Document) error) error {
	ctx, cancel := context.WithCancel(ctx)
	ahead := map[primitives.Height]*fetching{}
	defer func() {
		for _, x := range ahead {
			x.share.end()
		}
	}()
	var fetchers sync.WaitGroup
	defer fetchers.Wait()
	defer cancel()
	for c := w.at; !c.Done && c.Height >= w.to; {
		x := w.fetch(ctx, ahead, &fetchers)
		if x.err == nil {
			x.err = c.Add(x.d, x.r, w.genesis)
		}
		if p := (*parallel.Panic)(nil); errors.As(x.err, &p) {
			panic(p)
		}
		if err := x.err; err != nil {
			return fmt.Errorf("block %d of %s: %w", c.Height, w.Name(), err)
		}
		if err := each(x.d); err != nil {
			return err
		}
	}
	return nil
}

// pacer bounds the share of the processor that verification takes.
type pacer struct {
	slots   chan struct{} // semaphore of what runs
	percent time.Duration // of one core
}

// newPacer returns a pacer for a share in percent of one core, at least 1.
func newPacer(percent int) *pacer {
	return &pacer{make(chan struct{}, (percent+99)/100), time.Duration(percent)}
}

// do runs f, and then rests. After the end of ctx it may return without running f.
func (p *pacer) do(ctx context.Context, f func()) { p.doAfter(ctx, 0, f) }

// doAfter is do for work that has begun elsewhere: it also rests for the time spent there.
func (p *pacer) doAfter(ctx context.Context, spent time.Duration, f func()) {
	if p == nil {
		f()
		return
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-p.slots }()
	begin := time.Now()
	f()
	if rest := (spent + time.Since(begin)) * (100*time.Duration(cap(p.slots)) - p.percent) / p.percent; rest > 0 {
		pause(ctx, nil, rest)
	}
}

// fetched is a block with the result of its Check.
type fetched struct {
	d   *blockdoc.Document
	r   *blockdoc.Report
	err error
}

// fetching is a block that is being fetched.
type fetching struct {
	there chan fetched
	stop  context.CancelFunc
	share *fetchShare
}

// fetch returns the next block. The blocks below it are fetched and checked meanwhile, on goroutines
// of their own: the check of a large block takes longer than its transfer. A fetch of a height that the
// walk has passed is ended, so that a feed cannot collect requests that it does not answer.
func (w *walk) fetch(ctx context.Context, ahead map[primitives.Height]*fetching, fetchers *sync.WaitGroup) fetched {
	c := w.at
	if w.budget == nil {
		w.budget = &fetchBudget{limit: maxFetchBytes}
	}
	for at := c.Height; ; at-- {
		for h, x := range ahead {
			if h > at {
				x.stop()
				x.share.end()
				delete(ahead, h)
			}
		}
		for i := primitives.Height(0); i < primitives.Height(w.fetches) && i <= at && (i == 0 || at-i >= w.to); i++ {
			if h := at - i; ahead[h] == nil {
				one, stop := context.WithCancel(ctx)
				there := make(chan fetched, 1)
				share := &fetchShare{fetchBudget: w.budget, next: i == 0}
				ahead[h] = &fetching{there, stop, share}
				one = context.WithValue(one, shareKey{}, share)
				fetchers.Go(func() {
					defer stop()
					there <- w.fetchOne(one, h)
				})
			}
		}
		var x fetched
		awaited := ahead[at]
		awaited.share.awaited()
		select {
		case x = <-awaited.there:
			awaited.share.end() // the block in hand is beside the budget
			delete(ahead, at)
		case <-ctx.Done():
			return fetched{err: ctx.Err()}
		}
		if errors.Is(x.err, errBudget) { // it was ahead then; now it is the next one, which no budget bounds
			at++
			continue
		}
		absent := isAbsent(x.err)
		switch {
		case absent && !c.Below:
			return fetched{err: fmt.Errorf("%w: the feed has no block at this height", blockdoc.ErrLacks)}
		case absent && (at == 0 || c.Height-at >= maxGap):
			return fetched{err: fmt.Errorf("%w: the feed has no block at this height, nor at the %d below", blockdoc.ErrLacks, c.Height-at)}
		case !absent:
			return x
		}
	}
}

// isAbsent returns whether an error of Source.Block says that the feed has no block at the height. A server
// that is too busy does not say that.
func isAbsent(err error) bool {
	return (errors.Is(err, ErrSkipped) || errors.Is(err, ErrNotYet)) &&
		!errors.Is(err, errNoShard) && !errors.As(err, new(*statusError))
}

// fetchOne fetches and checks a block on a goroutine of its own. A panic becomes its error.
func (w *walk) fetchOne(ctx context.Context, h primitives.Height) (x fetched) {
	defer func() {
		if p := parallel.Recovered(recover()); p != nil {
			x.err = p
		}
	}()
	spent := new(time.Duration)
	if x.d, x.err = w.fetchOld(context.WithValue(ctx, decodeTime{}, spent), h); x.err == nil {
		x.err = context.Canceled
		w.pace.doAfter(ctx, *spent, func() { x.r, x.err = x.d.Check(blockdoc.Known{}) })
	}
	return x
}

// fetchOld requests a block several times, for at most historyLimit. Only errors of the connection are
// worth another request.
func (w *walk) fetchOld(ctx context.Context, at primitives.Height) (d *blockdoc.Document, err error) {
	ctx, cancel := context.WithTimeout(ctx, historyLimit)
	defer cancel()
	for n := range historyTries {
		if n > 0 {
			if share := shareOf(ctx); share != nil {
				share.again()
			}
			pause(ctx, nil, backoff(historyPause, n-1))
		}
		d, err = w.Block(ctx, at, true)
		if err == nil || ctx.Err() != nil || isAbsent(err) || errors.Is(err, errNoShard) ||
			errors.Is(err, blockdoc.ErrForm) || errors.Is(err, errBudget) || errors.As(err, new(*blockdoc.MismatchError)) {
			break
		}
		if w.missed != nil {
			w.missed(at, err)
		}
	}
	return d, err
}

// ParseHistory returns the source of KIND:URL for CheckHistory. A Lake may also be a local folder:
// lake:PATH. Feeds without outcomes (rpc) are refused.
func ParseHistory(text string) (Source, error) {
	if path, is := strings.CutPrefix(text, "lake:"); is && !strings.Contains(path, "://") && path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		t := new(http.Transport)
		t.RegisterProtocol("file", http.NewFileTransport(http.Dir(path)))
		return &lake{base: "file://", http: &http.Client{Transport: t}, folder: path}, nil
	}
	s, err := Parse(text)
	if _, is := s.(*jsonRPC); is {
		return nil, fmt.Errorf("feed %q: an RPC node gives no outcomes; use lake:URL, lake:FOLDER or neardata:URL", text)
	}
	return s, err
}
