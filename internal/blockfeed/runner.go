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

// Options are what a Runner works with.
type Options struct {
	Sources []Source
	Tip     func() primitives.Height   // of what was adopted
	Final   func() primitives.Height   // of the last final block
	Has     func(primitives.Hash) bool // tells whether a recent block was adopted
	// closed when the chain has another head than when it was asked for
	Moved func() <-chan struct{}
	// whether the header may be the chain's: ErrPassed, ErrNotYet, a follow.Lie
	Admit   func(*primitives.Block) error
	Deliver func(messages.BlockReceived) // to the chain; never waits
	Older   blockdoc.Ancestors           // hashes of stored blocks, the newest first
	// what is held in an epoch; an error: it is not known yet
	Wanted  func(primitives.EpochID) (*blockdoc.Wanted, error)
	Partial bool                               // not all shards are held
	Warn    func(feed, what string, err error) // told once of each kind of trouble
}

const (
	// maxAhead is how far above the tip a feed is asked, so that its way takes no time of the
	// chain's.
	maxAhead = 8
	// lookAhead is how many later blocks are asked for code of which a transaction has the hash
	// alone.
	lookAhead = 24
	// mostAsks is how often a feed is asked for code of one document; what it gave is remembered,
	// and the next try goes on.
	mostAsks   = 256
	leastPause = 20 * time.Millisecond
	mostPause  = 30 * time.Second
	mostIdle   = time.Hour
	// near is how many of the newest blocks are tried for each transaction. Those behind are tried
	// where nobody else has brought the block by then.
	near     = 2048
	nearWait = 2 * time.Second
	// share is how much longer a feed is left alone than it has cost for nothing.
	share = 9
	// maxStrange is how many blocks a feed may give without one that builds on the chain's.
	maxStrange = 2 * maxAhead
	// stuck is how long the tip may stand still behind blocks that were given to the chain before
	// they are given again.
	stuck = 3 * time.Second
)

// Status is how a feed does.
type Status struct {
	Name string
	// the highest block that it has told of in one line from the chain's own; 0: none since it lied
	Height  primitives.Height
	Given   uint64 // blocks that were given to the chain
	Refused uint64 // that the chain, or the document's own hashes, refuted
	Failed  uint64 // requests
	Last    error  // what was wrong last
	LagNS   uint64 // from a block's time to when it was given, of the last one
}

// Runner asks feeds.
type Runner struct {
	o     Options
	books *books

	mu    sync.Mutex
	state map[string]*state
}

// state is where a feed is asked next, and how it did.
type state struct {
	Status
	strikes int
	again   bool            // go back to above the tip
	last    primitives.Hash // what it gave last
	linked  bool            // that is of one line with the chain
	strange int             // blocks since one that was
	local   bool            // it is on this machine, and may be asked as often as one likes
	cost    time.Duration   // of the last document, in work of this node
	time    uint64          // of the last block that it has told of, ns
	between time.Duration   // of the last two
}

// New makes a runner.
func New(o Options) *Runner {
	r := &Runner{o: o, books: newBooks(), state: map[string]*state{}}
	for _, s := range o.Sources {
		r.state[s.Name()] = &state{Status: Status{Name: s.Name()}, local: isLocal(s.Name()), between: time.Second}
	}
	return r
}

// Run asks until the context ends.
func (r *Runner) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range r.o.Sources {
		wg.Go(func() { r.follow(ctx, s) })
	}
	wg.Wait()
}

// Sender is a feed that takes transactions.
type Sender interface {
	Send(ctx context.Context, signed []byte) error
}

// ErrNowhere says that no feed takes transactions.
var ErrNowhere = errors.New("blockfeed: no feed accepts transactions: this node follows feeds that only " +
	"deliver blocks; also follow the JSON-RPC of a node, with rpc:URL")

// Send passes a signed transaction on to the first feed that takes it.
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

// Status returns how the feeds do, in their order.
func (r *Runner) Status() (out []Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.o.Sources {
		out = append(out, r.state[s.Name()].Status)
	}
	return out
}

// Refused is told of a block that the chain has refused: its feed is struck, and asked again from
// above the tip.
func (r *Runner) Refused(m messages.BlockRefused) {
	r.strike(m.From, fmt.Errorf("block %v: %w", m.Hash, m.Err))
}

// ChunkRefused is told of a chunk's body that is not the header's.
func (r *Runner) ChunkRefused(m messages.ChunkRefused) { r.strike(m.From, m.Err) }

// Wanted is told that a block builds on one that is not known: its feed is asked again from above
// the tip.
func (r *Runner) Wanted(m messages.BlockWanted) { r.back(m.From) }

// ChunksWanted is told that a block waits for bodies.
func (r *Runner) ChunksWanted(m messages.ChunksWanted) { r.back(m.From) }

func (r *Runner) back(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.state[name]; s != nil {
		s.again = true
	}
}

// strike notes that a feed has told what is not so.
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
		r.o.Warn(name, "a feed tells what is not so, and is asked less", err)
	}
}

// failed notes a request without a reply.
func (r *Runner) failed(name string, err error) {
	r.mu.Lock()
	s := r.state[name]
	s.Failed++
	first := s.Last == nil || s.Last.Error() != err.Error()
	s.Last = err
	r.mu.Unlock()
	if first {
		r.o.Warn(name, "a feed gives nothing", err)
	}
}

// taken tells where to go on, how many strikes there are, and whether to go back.
func (r *Runner) taken(name string) (strikes int, back bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state[name]
	back, s.again = s.again, false
	return s.strikes, back
}

// follow asks one feed for block after block.
func (r *Runner) follow(ctx context.Context, s Source) {
	next, was, since := r.o.Tip()+1, r.o.Tip(), time.Now()
	struck, errs, waits := 0, 0, 0
	for ctx.Err() == nil {
		moved := r.o.Moved()
		tip := r.o.Tip()
		if tip != was {
			was, since = tip, time.Now()
		}
		strikes, back := r.taken(s.Name())
		if strikes > struck { // it waits for longer each time; others do not
			struck = strikes
			pause(ctx, nil, backoff(250*time.Millisecond, strikes))
			next = r.o.Tip() + 1
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
				// one that costs much for nothing has a tenth of a core
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
			if waits++; next > tip+1 && waits > 20 { // it said that heights are skipped; it may have been wrong
				next, waits = tip+1, 0
			}
			pause(ctx, moved, r.pace(s.Name()))
		case errors.As(err, &lie), errors.Is(err, blockdoc.ErrForm):
			r.strike(s.Name(), fmt.Errorf("height %d: %w", next, err))
		default:
			errs++
			r.failed(s.Name(), fmt.Errorf("height %d: %w", next, err))
			pause(ctx, nil, backoff(50*time.Millisecond, errs))
			next = r.o.Tip() + 1
		}
	}
}

// pace is how long a feed is left alone that has no new block: of others' machines a quarter of the
// time between blocks.
func (r *Runner) pace(name string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state[name]
	if s.local {
		return leastPause
	}
	return min(max(s.between/4, 2*leastPause), time.Second)
}

// isLocal tells whether a feed's address is one of this machine's own.
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

// give completes a block and hands it to the chain.
func (r *Runner) give(ctx context.Context, s Source, d *blockdoc.Document, height primitives.Height) error {
	h := d.Block.Header
	if h.Height != height {
		return &blockdoc.MismatchError{Where: "block.header.height", Err: fmt.Errorf("%d, and %d was asked for", h.Height, height)}
	}
	r.costs(s.Name(), 0)
	known := false
	if r.o.Admit != nil { // before anything is searched for: of a header that nobody has made nothing is read
		switch err := r.o.Admit(d.Block); {
		case errors.Is(err, ErrPassed):
			known = true
		case err != nil:
			return err
		}
	}
	r.books.learn(d)
	w, err := r.o.Wanted(h.EpochID)
	if err != nil { // of an epoch that the blocks before will tell of
		return ErrNotYet
	}
	var chunks []*primitives.Chunk
	if !known {
		if chunks, err = r.complete(ctx, s, d, w); err != nil {
			return err
		}
	}
	now := uint64(time.Now().UnixNano())
	has := r.o.Has(h.PrevHash)
	final := r.o.Final()
	if h.Height <= final { // others were faster
		return nil
	}
	if !has && h.PrevHeight < final {
		return &blockdoc.MismatchError{Where: "block.header.prev_hash", Err: fmt.Errorf("%v below block %d, which is final, and not the chain's: a feed of another chain", h.PrevHash, final)}
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
		return &blockdoc.MismatchError{Where: "block.header.prev_hash", Err: fmt.Errorf("none of %d blocks builds on one that the chain has: a feed of another chain", maxStrange)}
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
		r.o.Deliver(messages.BlockReceived{Block: d.Block, Chunks: chunks, From: s.Name()})
	}
	return nil
}

// search looks for code in later blocks, where it comes to the account that it was sent to, or asks
// for that of the account.
func (r *Runner) search(ctx context.Context, s Source, d *blockdoc.Document, e *blockdoc.CodeError, try func() ([]*primitives.Chunk, error)) ([]*primitives.Chunk, error) {
	var chunks []*primitives.Chunk
	var err error
	asks := 0
	asked := func() bool { // tells whether something else is lacking than before
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

// ask asks a feed for code: of the block, of the receiver, of who deploys it for all.
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

// backoff is a pause that doubles, with some chance in it.
func backoff(first time.Duration, n int) time.Duration {
	d := min(first<<min(n, 10), mostPause)
	return d/2 + rand.N(d/2+1)
}

// pause waits, at most until something moves.
func pause(ctx context.Context, moved <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-moved:
	case <-t.C:
	}
}
