package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/net/jetstream"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// ErrAgain says that the node is to be stopped and started again: what it has stored is another
// chain than it had open.
var ErrAgain = errors.New("the chain went back: the node begins again with it")

// cursorRow keeps how far a replica is in its writer's log.
const cursorRow = "replica_cursor"

// cursor is how far a replica is.
type cursor struct {
	Log string `json:"log,omitempty"` // of the writer; empty: it has nothing of any
	At  string `json:"at,omitempty"`  // all that begins before this place in it is here
	Seq uint64 `json:"seq,omitempty"` // a message of the stream; what comes behind it may be here, too
	// Back: the chain goes back to this block, and Then is the cursor.
	Back *view.At `json:"back,omitempty"`
	Then *cursor  `json:"then,omitempty"`
	// Lost: what is here is no part of the writer's chain any more.
	Lost bool `json:"lost,omitempty"`
}

func readCursor(s *storage.Store) (c cursor, err error) {
	raw, err := storage.Misc.Get(s.Reader(), cursorRow)
	if errors.Is(err, storage.ErrNotFound) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	return c, err
}

func (c *cursor) write(s *storage.Store) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	var b storage.Batch
	row := storage.Raw(raw)
	storage.Misc.Put(&b, cursorRow, &row)
	return s.Write(&b)
}

// Bounds of a replica.
const (
	maxGiven     = 32 // records that the chain has and that are not on disk
	changedTries = 3  // of a record that is not what it should be, before the node halts
	cursorPeriod = time.Second
	pauseLimit   = 10 * time.Second
)

// replica follows a writer's records.
type replica struct {
	h      *Daemon
	names  jetstream.Names
	link   jetstream.Link
	by     *primitives.PublicKey
	asker  *jetstream.Asker
	passer *passer
	again  bool // a snapshot may come: whoever started the node starts it again
	maxLag time.Duration
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	cursor   cursor
	written  cursor
	given    []*givenRecord // not on disk, in their order
	room     chan struct{}
	failed   error // of a record that was given
	stop     context.CancelCauseFunc
	follower *jetstream.Follower
	cutAt    time.Time // zero: the server is there
	gapAt    time.Time // zero: what comes next can be had, as far as is known; else since when it can't
	caught   bool      // it has been near the end of the stream
	seen     primitives.Height

	records, snapshots, changed atomic.Uint64
	lags                        lagCounts
}

type givenRecord struct {
	r    jetstream.Record
	done bool
}

// goBack does, before the engine is opened, what a way back of the writer asks for.
func goBack(s *storage.Store) error {
	if s.Tip().Empty {
		return nil
	}
	c, err := readCursor(s)
	if err != nil || c.Back == nil {
		return err
	}
	err = s.Rewind(storage.BlockRef{Height: c.Back.Height, Hash: c.Back.Hash})
	switch {
	case errors.Is(err, storage.ErrOrder): // it is folded, or never was here
		return (&cursor{Lost: true}).write(s)
	case err != nil:
		return err
	}
	return c.Then.write(s)
}

// asReplica has the node follow a writer.
func (h *Daemon) asReplica(o *Options, ports *ports, track engine.Track, no *node.Options) (err error) {
	switch {
	case ports.network != nil:
		return errors.New("a replica is in no network: it has its writer's blocks (troupe.network.enabled, --boot-nodes)")
	case h.fork != nil:
		return errors.New("a replica can't be a fork of another chain")
	case track != nil:
		return errors.New("a replica holds all shards: of this node tracked_shards_config says otherwise")
	}
	if h.replica, err = h.newReplica(o.Home, o.Again); err != nil {
		return err
	}
	no.Replica, no.Keys, no.Pooled = true, nil, h.replica.passer.pass
	return nil
}

// newReplica makes what follows the writer, before the node starts.
func (h *Daemon) newReplica(hm *home.Home, again bool) (*replica, error) {
	c := &hm.Config.Replica
	r := &replica{
		h: h, names: jetstream.NamesOf(hm.Genesis.ChainID, h.Engine.Genesis().Hash), again: again, maxLag: c.MaxLag, done: make(chan struct{}),
		link: jetstream.Link{URL: c.Of, Token: hm.Config.JetStream.Token, Name: "troupe replica"}, room: make(chan struct{}, maxGiven), cutAt: time.Now(),
	}
	if c.Key != "" {
		key, err := primitives.ParsePublicKey(c.Key)
		if err != nil {
			return nil, err
		}
		r.by = &key
	}
	var err error
	if r.cursor, err = readCursor(h.store); err != nil {
		return nil, err
	}
	r.written = r.cursor
	if r.asker, err = jetstream.NewAsker(r.link, r.names, r.by); err != nil {
		return nil, err
	}
	r.passer = newPasser(r.asker, h.log)
	r.passer.refuse = func(tx *primitives.SignedTransaction, why error) { h.Node.Refused(tx, why) }
	return r, nil
}

// start begins to follow, once the node runs.
func (r *replica) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.run(ctx)
	go r.passer.run(ctx)
}

// close ends it, while the node still runs.
func (r *replica) close() {
	if r == nil {
		return
	}
	if r.cancel != nil {
		r.cancel()
		<-r.done
	}
	r.asker.Close()
}

func (r *replica) run(ctx context.Context) {
	defer close(r.done)
	defer r.save()
	pause, tries := 100*time.Millisecond, 0
	for ctx.Err() == nil {
		before := r.records.Load()
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if r.records.Load() > before {
			pause, tries = 100*time.Millisecond, 0
		}
		if r.over(ctx, err, &tries) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, pauseLimit)
	}
}

// over does what the end of following asks for, and tells whether there is nothing more to do.
func (r *replica) over(ctx context.Context, err error, tries *int) bool {
	log := r.h.log.WithError(err)
	halted, is := r.h.Node.Halted()
	switch {
	case is:
		r.h.log.Errorf("the replica follows no more: %s", halted.Reason)
		return true
	case errors.Is(err, ErrAgain):
		r.end(ErrAgain)
		return true
	case errors.Is(err, jetstream.ErrGap), errors.Is(err, jetstream.ErrLog), errors.Is(err, engine.ErrOrphan):
		log.Warn("the writer's records do not go on from what is here: a snapshot is fetched")
		// it does not get them, and is no longer well, until it has taken one up, whatever the
		// server says meanwhile
		r.reached(err)
		r.mu.Lock()
		if r.gapAt.IsZero() {
			r.gapAt = time.Now()
		}
		r.mu.Unlock()
		switch err := r.fetch(ctx); {
		case err == nil:
			r.end(ErrArrived)
			return true
		case ctx.Err() == nil:
			if errors.Is(err, jetstream.ErrChanged) {
				r.changed.Add(1)
			}
			r.h.log.WithError(err).Error("no snapshot came; it is asked for again")
		}
	case errors.Is(err, jetstream.ErrChanged), errors.Is(err, storage.ErrDamaged), errors.Is(err, engine.ErrExecutedBlock):
		r.changed.Add(1)
		if *tries++; *tries < changedTries {
			log.Error("a record is not what was published; it is asked for again")
			return false
		}
		r.h.Node.Halt(fmt.Errorf("a record of the writer is refused: %w", err))
		return true
	default:
		log.Warn("following the writer is tried again")
	}
	return false
}

// end has the node started again.
func (r *replica) end(err error) {
	select {
	case r.h.failed <- err:
	default: // it ends anyway
	}
}

// follow takes records until something is wrong.
func (r *replica) follow(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	at := r.cursor
	r.stop, r.failed, r.given = stop, nil, nil
	r.room = make(chan struct{}, maxGiven)
	room := r.room
	r.mu.Unlock()
	if at.Lost {
		return fmt.Errorf("%w: the chain went back behind what is kept", jetstream.ErrGap)
	}
	f, err := jetstream.Follow(jetstream.FollowerOptions{Link: r.link, Names: r.names, Log: at.Log, After: at.Seq, By: r.by, Said: r.reached})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.follower = f
	r.mu.Unlock()
	defer func() {
		f.Close()
		r.mu.Lock()
		r.follower = nil
		r.mu.Unlock()
	}()
	go r.saves(ctx)
	for {
		x, err := f.Next(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return errors.Join(err, r.drain(room))
		}
		if err := r.take(ctx, x, room); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return errors.Join(err, r.drain(room))
		}
	}
}

// take has the chain take one record.
func (r *replica) take(ctx context.Context, x jetstream.Record, room chan struct{}) error {
	known, err := r.goesOn(&x)
	if err != nil || known {
		return err
	}
	if x.Back {
		if err := r.drain(room); err != nil {
			return err
		}
		return r.back(&x)
	}
	b, err := storage.Unpack(x.Payload)
	if err != nil {
		return err
	}
	if b.Ref.Height != x.Height || b.Ref.Hash != x.Hash {
		return fmt.Errorf("%w: block %v is said to be %d %v", jetstream.ErrChanged, b.Ref, x.Height, x.Hash)
	}
	g, err := engine.ReadExecutedBlock(b)
	if err != nil {
		return err
	}
	select {
	case room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	x.Payload = nil
	y := &givenRecord{r: x}
	r.mu.Lock()
	r.given, r.seen = append(r.given, y), x.Height
	r.mu.Unlock()
	r.h.Node.Give(g, func(err error) { r.gave(y, err, room) })
	return nil
}

// goesOn tells whether a record is here already. It must follow on what is.
func (r *replica) goesOn(x *jetstream.Record) (known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.cursor
	if n := len(r.given); n > 0 {
		last := r.given[n-1].r
		at = cursor{Log: last.Log, At: last.Next}
	}
	if at.At == "" { // it begins with the genesis
		if g := r.h.Engine.Genesis().Hash; r.h.Engine.Head().Hash != g || x.Prev != g || x.Back {
			return false, fmt.Errorf("%w: the first is of block %d", jetstream.ErrGap, x.Height)
		}
		return false, nil
	}
	if at.Log != "" && at.Log != x.Log { // it began anew while this one followed
		return false, fmt.Errorf("%w: %q, not %q", jetstream.ErrLog, x.Log, at.Log)
	}
	have, err := storage.ParseLogPlace(at.At)
	if err != nil {
		return false, err
	}
	from, err := storage.ParseLogPlace(x.From)
	if err != nil {
		return false, fmt.Errorf("%w: %w", jetstream.ErrChanged, err)
	}
	begin, err := storage.ParseLogPlace(x.At)
	if err != nil {
		return false, fmt.Errorf("%w: %w", jetstream.ErrChanged, err)
	}
	switch {
	case from.Compare(have) > 0:
		return false, fmt.Errorf("%w: block %d comes behind %s of the log, and what is here ends at %s", jetstream.ErrGap, x.Height, x.From, at.At)
	case begin.Compare(have) < 0:
		return true, nil
	}
	return false, nil
}

// gave is told of each record that was given, on the chain's goroutine.
func (r *replica) gave(y *givenRecord, err error, room chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { <-room }()
	if err != nil {
		if r.failed == nil {
			r.failed = err
		}
		r.stop(err)
		return
	}
	y.done = true
	if r.failed != nil { // of one before it
		return
	}
	now := time.Now().UnixNano()
	for len(r.given) > 0 && r.given[0].done {
		x := &r.given[0].r
		r.cursor = cursor{Log: x.Log, At: x.Next, Seq: x.Seq}
		r.lags.add(time.Duration(max(0, now-x.Published)))
		r.records.Add(1)
		r.gapAt = time.Time{}
		r.caught = r.caught || time.Duration(now-x.Published) <= r.maxLag
		r.given[0] = nil
		r.given = r.given[1:]
	}
}

// drain waits until all that was given is on disk.
func (r *replica) drain(room chan struct{}) error {
	limit := time.NewTimer(pauseLimit)
	defer limit.Stop()
	for range maxGiven {
		select {
		case room <- struct{}{}:
		case <-limit.C:
			return errors.New("blocks that were given do not come to the disk")
		}
	}
	for range maxGiven {
		<-room
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// back has the chain go back at the next start.
func (r *replica) back(x *jetstream.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cursor = cursor{Log: r.cursor.Log, At: r.cursor.At, Seq: r.cursor.Seq, Back: &view.At{Height: x.Height, Hash: x.Hash}, Then: &cursor{Log: x.Log, At: x.Next, Seq: x.Seq}}
	if err := r.cursor.write(r.h.store); err != nil {
		return err
	}
	r.written = r.cursor
	return ErrAgain
}

// fetch gets a snapshot of the writer's folder into one beside the node's, which the next start
// takes.
func (r *replica) fetch(ctx context.Context) error {
	if !r.again {
		return errors.New("whoever started this node does not start it again")
	}
	hm := r.h.home
	if at := dataDir(hm); mounted(at) {
		return fmt.Errorf("%s is the root of a disk: no copy of the writer's chain can take its place; have the chain in a folder on it", at)
	}
	dir := comingDir(hm)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	id, err := identity(hm, readFingerprints(hm.Paths.Data))
	if err != nil {
		return err
	}
	f, err := r.asker.Fetch(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := storage.Receive(dir, id, f); err != nil {
		return errors.Join(err, storage.RemoveUnfinishedSnapshot(dir))
	}
	s, err := openComing(hm, dir, r.h.log)
	if err != nil {
		return err
	}
	height := s.Tip().Head.Height
	if err := errors.Join((&cursor{Log: f.Log, At: f.End, Seq: f.Seq}).write(s), s.Close()); err != nil {
		return err
	}
	r.snapshots.Add(1)
	r.h.log.WithField("ms", time.Since(begin).Milliseconds()).WithField("height", height).Info("a snapshot of the writer has come")
	return markArrived(dir)
}

// saves writes the cursor now and then.
func (r *replica) saves(ctx context.Context) {
	tick := time.NewTicker(cursorPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.save()
		}
	}
}

func (r *replica) save() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cursor == r.written {
		return
	}
	if err := r.cursor.write(r.h.store); err != nil {
		r.h.log.WithError(err).Warn("how far the replica is could not be written: it takes up more again at the next start")
		return
	}
	r.written = r.cursor
}

// reached is told whether the server is there.
func (r *replica) reached(err error) {
	r.mu.Lock()
	was := r.cutAt
	if err == nil {
		r.cutAt = time.Time{}
	} else if was.IsZero() {
		r.cutAt = time.Now()
	}
	r.mu.Unlock()
	if err != nil {
		r.h.log.WithError(err).Warn("the replica does not reach the writer's records")
	} else {
		r.h.log.Info("the replica gets the writer's records")
	}
}
