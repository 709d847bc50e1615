package blockfeed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Chain is the chain that a Runner continues. Its methods are safe for concurrent use.
type Chain interface {
	// Tip returns the height of the newest block in memory.
	Tip() primitives.Height
	// Final returns the height of the last final block.
	Final() primitives.Height
	// Has returns whether a recent block was imported.
	Has(primitives.Hash) bool
	// Moved returns a channel that is closed when the head changes after the call.
	Moved() <-chan struct{}
}

// Importer takes the blocks of feeds. Its methods are safe for concurrent use.
type Importer interface {
	// Admit checks whether a header may be the chain's. It returns ErrPassed, ErrNotYet or a
	// *blockdoc.MismatchError if not.
	Admit(*primitives.Block) error
	// Wanted returns the shards that the node tracks in an epoch. An error means that the epoch is
	// not known yet.
	Wanted(primitives.EpochID) (*blockdoc.Wanted, error)
	// Deliver passes a block to the chain without blocking.
	Deliver(messages.BlockReceived)
}

// Options configure a Runner. All but Partial are required.
type Options struct {
	// Sources are the feeds.
	Sources []Source
	// Chain is the chain that the blocks continue.
	Chain Chain
	// Importer takes the blocks.
	Importer Importer
	// Older yields the hashes of stored blocks, newest first. Safe for concurrent use.
	Older blockdoc.Ancestors
	// Partial means that the node does not track all shards.
	Partial bool
	// Warn logs a failure. It is called once for each kind of failure of a feed, on any goroutine.
	Warn func(feed, what string, err error)
}

const (
	// maxAhead is how far above the tip blocks are requested, so that the chain does not wait for
	// the feed's latency.
	maxAhead = 8
	// lookAhead is the number of following blocks in which the runner searches for code of which a
	// transaction has only the hash.
	lookAhead = 24
	// mostAsks is how many requests for code one document may cause. The code that arrived is
	// cached, so the next try continues.
	mostAsks   = 256
	leastPause = 20 * time.Millisecond
	mostPause  = 30 * time.Second
	mostIdle   = time.Hour
	// near is how many of the newest blocks the runner tries for each transaction. It tries older
	// blocks only if no other feed has delivered the block by then.
	near     = 2048
	nearWait = 2 * time.Second
	// share is the ratio of pause to work for a feed whose documents are useless: with 9 it gets a
	// tenth of a core.
	share = 9
	// maxStrange is how many blocks a feed may deliver in a row that do not build on the chain.
	maxStrange = 2 * maxAhead
	// stuck is how long the tip may stand still after blocks were delivered, before the runner
	// delivers these blocks again.
	stuck = 3 * time.Second
)

// Status describes a feed.
type Status struct {
	Name string
	// Height is the height of the feed's highest block that connects to the chain. Zero: there was
	// none since the feed last sent invalid data.
	Height  primitives.Height
	Given   uint64 // number of blocks passed to the chain
	Refused uint64 // number of blocks that the chain rejected or that do not match their hashes
	Failed  uint64 // number of failed requests
	Last    error  // error of the last failed request or invalid block; nil: none
	LagNS   uint64 // time from the last block's timestamp until the runner passed that block to the chain, in ns
}

// Runner requests blocks from feeds. Safe for concurrent use.
type Runner struct {
	o     Options
	books *books

	mu    sync.Mutex
	state map[string]*state
}

// state is what the runner remembers about one feed.
type state struct {
	Status
	strikes int             // number of times that the feed has sent invalid data, at most 16
	again   bool            // true: request the blocks above the newest block in memory again
	last    primitives.Hash // hash of the feed's last block
	linked  bool            // true: the block last connects to the chain
	strange int             // number of consecutive blocks that did not connect to the chain
	local   bool            // true: the feed is on this machine and is polled without a rate limit
	cost    time.Duration   // time spent on the feed's last block
	time    uint64          // timestamp of the feed's last block, in ns since 1970
	between time.Duration   // time between the timestamps of the feed's last two blocks
}

// New returns a runner; Run starts it.
func New(o Options) *Runner {
	r := &Runner{o: o, books: newBooks(), state: map[string]*state{}}
	for _, s := range o.Sources {
		r.state[s.Name()] = &state{Status: Status{Name: s.Name()}, local: isLocal(s.Name()), between: time.Second}
	}
	return r
}

// Run requests blocks from all feeds until the context ends.
func (r *Runner) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range r.o.Sources {
		wg.Go(func() { r.follow(ctx, s) })
	}
	wg.Wait()
}

// Sender is a feed that accepts transactions.
type Sender interface {
	Send(ctx context.Context, signed []byte) error
}

// ErrNowhere is returned if no feed accepts transactions.
var ErrNowhere = errors.New("blockfeed: no feed accepts transactions: this node follows feeds that only " +
	"deliver blocks; also follow the JSON-RPC of a node, with rpc:URL")

// Send forwards a signed transaction to the first feed that accepts it.
func (r *Runner) Send(ctx context.Context, signed []byte) error {
	err := ErrNowhere
	for _, s := range r.o.Sources {
		to, ok := s.(Sender)
		if !ok {
			continue
		}
		if err = to.Send(ctx, signed); err == nil {
			return nil
		}
	}
	return err
}

// Status returns the status of each feed, in the order of Options.Sources.
func (r *Runner) Status() (out []Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.o.Sources {
		out = append(out, r.state[s.Name()].Status)
	}
	return out
}

// Refused handles a block that the chain rejected: the feed that sent the block gets a strike, and
// restarts above the tip.
func (r *Runner) Refused(m messages.BlockRefused) {
	r.strike(m.From, fmt.Errorf("block %v: %w", m.Hash, m.Err))
}

// ChunkRefused handles a chunk whose body does not match its header: the feed that sent the chunk
// gets a strike.
func (r *Runner) ChunkRefused(m messages.ChunkRefused) { r.strike(m.From, m.Err) }

// Wanted handles a block whose parent is unknown: the feed that sent the block restarts above the
// tip.
func (r *Runner) Wanted(m messages.BlockWanted) { r.back(m.From) }

// ChunksWanted handles a block that waits for chunk bodies: the feed that sent the block restarts
// above the tip.
func (r *Runner) ChunksWanted(m messages.ChunksWanted) { r.back(m.From) }

func (r *Runner) back(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.state[name]; s != nil {
		s.again = true
	}
}

// strike records that a feed sent invalid data.
func (r *Runner) strike(name string, err error) {
	r.mu.Lock()
	s := r.state[name]
	first := false
	if s != nil {
		s.strikes, s.again, s.Last = min(s.strikes+1, 16), true, err
		s.linked, s.Height = false, 0
		s.Status.Refused++
		first = s.strikes == 1
	}
	r.mu.Unlock()
	if first {
		r.o.Warn(name, "a feed sent an invalid block: it is queried less often", err)
	}
}

// failed records a request of a feed that got no usable reply.
func (r *Runner) failed(name string, err error) {
	r.mu.Lock()
	s := r.state[name]
	s.Failed++
	first := s.Last == nil || s.Last.Error() != err.Error()
	s.Last = err
	r.mu.Unlock()
	if first {
		r.o.Warn(name, "a request to a feed failed; retrying", err)
	}
}

// taken returns the number of the feed's strikes, and whether the feed must request the blocks
// above the tip again. taken clears the mark that says so.
func (r *Runner) taken(name string) (strikes int, back bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state[name]
	back, s.again = s.again, false
	return s.strikes, back
}

// follow requests block after block from one feed.
func (r *Runner) follow(ctx context.Context, s Source) {
	next, was, since := r.o.Chain.Tip()+1, r.o.Chain.Tip(), time.Now()
	struck, errs, waits := 0, 0, 0
	for ctx.Err() == nil {
		moved := r.o.Chain.Moved()
		tip := r.o.Chain.Tip()
		if tip != was {
			was, since = tip, time.Now()
		}
		strikes, back := r.taken(s.Name())
		// After invalid data pause only this feed, longer after each strike.
		if strikes > struck {
			struck = strikes
			pause(ctx, nil, backoff(250*time.Millisecond, strikes))
			next = r.o.Chain.Tip() + 1
			continue
		}
		if next <= tip || back || next > tip+1 && time.Since(since) > stuck {
			next, since = tip+1, time.Now()
		}
		if next > tip+maxAhead {
			pause(ctx, moved, stuck)
			continue
		}
		d, err := s.Block(ctx, next, r.o.Partial)
		if err == nil {
			if err = r.give(ctx, s, d, next); err != nil && !errors.Is(err, ErrNotYet) {
				// a feed whose expensive documents are useless gets a tenth of a core
				if idle := share * r.spent(s.Name()); idle > leastPause {
					pause(ctx, nil, min(idle, mostIdle))
				}
			}
		}
		var lie *blockdoc.MismatchError
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			next, errs, waits = next+1, 0, 0
		case errors.Is(err, ErrSkipped):
			next, errs = next+1, 0
		case errors.Is(err, ErrNotYet):
			errs = 0
			if waits++; next > tip+1 && waits > 20 { // a feed may wrongly report that a height has no block
				next, waits = tip+1, 0
			}
			pause(ctx, moved, r.pace(s.Name()))
		case errors.As(err, &lie), errors.Is(err, blockdoc.ErrForm):
			r.strike(s.Name(), fmt.Errorf("height %d: %w", next, err))
		default:
			errs++
			r.failed(s.Name(), fmt.Errorf("height %d: %w", next, err))
			pause(ctx, nil, backoff(50*time.Millisecond, errs))
			next = r.o.Chain.Tip() + 1
		}
	}
}

// pace returns the pause before a feed without a new block is polled again. For a remote feed, the
// pause is a quarter of the block time.
func (r *Runner) pace(name string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state[name]
	if s.local {
		return leastPause
	}
	return min(max(s.between/4, 2*leastPause), time.Second)
}

// isLocal returns whether a feed's address is on this machine (localhost or a loopback address).
func isLocal(name string) bool {
	if _, rest, ok := strings.Cut(name, ":http"); ok {
		name = "http" + rest
	}
	u, err := url.Parse(name)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback()
}

// give checks the document d of a feed, adds missing code to d, and delivers the block of d to the
// chain.
func (r *Runner) give(ctx context.Context, s Source, d *blockdoc.Document, height primitives.Height) error {
	h := d.Block.Header
	if h.Height != height {
		return &blockdoc.MismatchError{Where: "block.header.height",
			Err: fmt.Errorf("the document is for height %d, expected %d", h.Height, height)}
	}
	r.costs(s.Name(), 0)
	known := false
	switch err := r.o.Importer.Admit(d.Block); { // before the expensive search for code
	case errors.Is(err, ErrPassed):
		known = true
	case err != nil:
		return err
	}
	r.books.learn(d)
	w, err := r.o.Importer.Wanted(h.EpochID)
	if err != nil { // Wanted fails until the blocks before the epoch are imported
		return ErrNotYet
	}
	var chunks []*primitives.Chunk
	if !known {
		if chunks, err = r.complete(ctx, s, d, w); err != nil {
			return err
		}
	}
	now := uint64(time.Now().UnixNano())
	has := r.o.Chain.Has(h.PrevHash)
	final := r.o.Chain.Final()
	if h.Height <= final { // another feed has already delivered this height
		return nil
	}
	if !has && h.PrevHeight < final {
		return &blockdoc.MismatchError{Where: "block.header.prev_hash",
			Err: fmt.Errorf("%v is unknown and below final block %d: the feed follows another chain", h.PrevHash, final)}
	}
	r.mu.Lock()
	st := r.state[s.Name()]
	st.Given++
	if st.linked = has || st.linked && h.PrevHash == st.last; st.linked {
		st.Height, st.strange = max(st.Height, h.Height), 0
	} else {
		st.strange++
	}
	if st.strange > maxStrange {
		st.strange = 0
		r.mu.Unlock()
		return &blockdoc.MismatchError{Where: "block.header.prev_hash",
			Err: fmt.Errorf("none of the last %d blocks connects to this node's chain: the feed follows another chain", maxStrange)}
	}
	st.last = d.Hash
	if h.Timestamp > st.time && st.time > 0 {
		st.between = time.Duration(min(h.Timestamp-st.time, uint64(mostPause)))
	}
	st.time = max(st.time, h.Timestamp)
	if now > h.Timestamp {
		st.LagNS = now - h.Timestamp
	}
	r.mu.Unlock()
	if !known {
		r.o.Importer.Deliver(messages.BlockReceived{Block: d.Block, Chunks: chunks, From: s.Name()})
	}
	return nil
}

// search looks for missing code: search asks the feed for the receiver's code, and reads the blocks
// after this one, which may deploy that code to the receiver.
func (r *Runner) search(ctx context.Context, s Source, d *blockdoc.Document, e *blockdoc.CodeError, try func() ([]*primitives.Chunk, error)) ([]*primitives.Chunk, error) {
	var chunks []*primitives.Chunk
	var err error
	asks := 0
	asked := func() bool { // requests the missing code; returns whether the document now lacks different code
		if asks++; asks > mostAsks {
			return false
		}
		of := e.Of
		r.ask(ctx, s, d, e)
		chunks, err = try()
		return errors.As(err, &e) && e.Of != of
	}
	for asked() {
	}
	height := d.Block.Header.Height
	for tries := 0; errors.As(err, &e) && tries < lookAhead; tries++ {
		of := e.Of
		height++
		later, failed := s.Block(ctx, height, r.o.Partial)
		switch {
		case errors.Is(failed, ErrSkipped):
			continue
		case errors.Is(failed, ErrNotYet):
			height--
			pause(ctx, nil, 10*leastPause)
			for asked() {
			}
			continue
		case failed != nil:
			return nil, failed
		}
		later.Codes(r.books.learnCode)
		if chunks, err = try(); errors.As(err, &e) && e.Of != of {
			for asked() {
			}
		}
	}
	return chunks, err
}

// ask asks a feed for missing code. The request names the receiver of the transaction or receipt
// that lacks the code; learnCode caches the code that the feed returns.
func (r *Runner) ask(ctx context.Context, s Source, d *blockdoc.Document, e *blockdoc.CodeError) {
	to := func(receiver primitives.AccountID) {
		for _, hash := range e.Hashes {
			if code, err := s.Code(ctx, d.Block.Header.Height, receiver, hash); err == nil && code != nil {
				r.books.learnCode(code)
			}
		}
	}
	for i := range d.Shards {
		for _, t := range d.Shards[i].Transactions {
			if t.Named == e.Of {
				to(t.ReceiverID)
				return
			}
		}
		for _, x := range d.Shards[i].Receipts {
			if x.ID == e.Of {
				to(x.ReceiverID)
				return
			}
		}
	}
}

// backoff returns a pause that doubles with n, with jitter.
func backoff(first time.Duration, n int) time.Duration {
	d := min(first<<min(n, 10), mostPause)
	return d/2 + rand.N(d/2+1)
}

// pause waits for d, or until moved is closed or ctx ends.
func pause(ctx context.Context, moved <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-moved:
	case <-t.C:
	}
}
