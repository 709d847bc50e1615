package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
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

// withoutToken returns the URLs of a writer without secrets, for the log.
func withoutToken(urls string) string {
	list := strings.Split(urls, ",")
	for i, u := range list {
		if at := strings.LastIndexByte(u, '@'); at >= 0 {
			scheme, _, _ := strings.Cut(u, "//")
			list[i] = scheme + "//" + u[at+1:]
		}
	}
	return strings.Join(list, ",")
}

// ErrRewound is delivered by Failed when the stored chain must be rewound. A restart does that.
var ErrRewound = errors.New("the chain was rewound: the node restarts")

// cursorRow is the row of the store with the replica's position in its writer's log.
const cursorRow = "replica_cursor"

// cursor is the position up to which a replica has stored the writer's log. The store keeps the
// cursor in the row cursorRow.
type cursor struct {
	Log string `json:"log,omitempty"` // ID of the writer's log; empty: no message was received yet
	At  string `json:"at,omitempty"`  // position in the log before which all records are stored
	Seq uint64 `json:"seq,omitempty"` // sequence number of the last message; messages after it may be stored too
	// Back is the block to which the next start must rewind the chain. After that, Then becomes the
	// cursor.
	Back *view.At `json:"back,omitempty"`
	Then *cursor  `json:"then,omitempty"`
	// Lost means that the stored chain is no longer part of the writer's chain. The replica then
	// needs a snapshot.
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
	maxInFlight  = 32 // maximum number of records that were passed to the chain and are not on disk yet
	changedTries = 3  // number of times that a damaged record is received before the node halts
	cursorPeriod = time.Second
	pauseLimit   = 10 * time.Second
)

// replica follows a writer's records. It receives these records from a JetStream server, passes
// them to the chain, and stores its position. The stored position may be behind the store, because
// receiving a record twice has no effect.
type replica struct {
	h      *Daemon
	names  jetstream.Names
	link   jetstream.Link
	by     *primitives.PublicKey
	asker  *jetstream.Asker
	passer *passer
	again  bool // the caller restarts the node, so snapshots can be installed
	maxLag time.Duration
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	cursor   cursor
	written  cursor
	inFlight []*inFlightRecord // records that were passed to the chain and are not on disk yet, in order
	room     chan struct{}
	failed   error // first error of an in-flight record
	stop     context.CancelCauseFunc
	follower *jetstream.Follower
	cutAt    time.Time // when the connection to the server was lost; zero: the server is connected
	gapAt    time.Time // when the replica found that the next record is missing; zero: no record is missing
	caught   bool      // the replica has caught up with the stream at least once
	seen     primitives.Height

	records, snapshots, changed atomic.Uint64
	lags                        lagCounts
}

type inFlightRecord struct {
	r    jetstream.Record
	done bool
}

// finishRewind rewinds the store before the engine opens it, if the cursor's Back is set.
func finishRewind(s *storage.Store) error {
	if s.Tip().Empty {
		return nil
	}
	c, err := readCursor(s)
	if err != nil || c.Back == nil {
		return err
	}
	err = s.Rewind(storage.BlockRef{Height: c.Back.Height, Hash: c.Back.Hash})
	switch {
	case errors.Is(err, storage.ErrOrder): // the block is below the flat head, or is not stored
		return (&cursor{Lost: true}).write(s)
	case err != nil:
		return err
	}
	return c.Then.write(s)
}

// asReplica sets the node up as a replica.
func (h *Daemon) asReplica(o *Options, ports *ports, track engine.Track, no *node.Options) (err error) {
	switch {
	case ports.network != nil:
		return errors.New("a replica cannot join a network: turn it off (troupe.network.enabled, --boot-nodes)")
	case h.fork != nil:
		return errors.New("a replica cannot be a fork of another chain")
	case track != nil:
		return errors.New("a replica needs all shards: set tracked_shards_config to \"AllShards\"")
	}
	if h.replica, err = h.newReplica(o.Home, o.Restarts); err != nil {
		return err
	}
	no.Replica, no.Keys, no.Pooled = true, nil, h.replica.passer.pass
	return nil
}

// newReplica creates the follower before the node starts.
func (h *Daemon) newReplica(hm *home.Home, again bool) (*replica, error) {
	c := &hm.Config.Replica
	r := &replica{
		h: h, names: jetstream.NamesOf(hm.Genesis.ChainID, h.Engine.Genesis().Hash), again: again, maxLag: c.MaxLag, done: make(chan struct{}),
		link: jetstream.Link{URL: c.Of, Token: hm.Config.JetStream.Token, Name: "troupe replica"},
		room: make(chan struct{}, maxInFlight), cutAt: time.Now(),
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

// start starts following, once the node runs.
func (r *replica) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.run(ctx)
	go r.passer.run(ctx)
}

// close stops following, while the node still runs. A nil receiver is allowed.
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
		if r.handleEnd(ctx, err, &tries) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, pauseLimit)
	}
}

// handleEnd handles the error that ended follow. The result is whether the replica must stop for
// good.
func (r *replica) handleEnd(ctx context.Context, err error, tries *int) bool {
	log := r.h.log.WithError(err)
	halted, is := r.h.Node.Halted()
	switch {
	case is:
		r.h.log.Errorf("the replica has stopped following its writer: %s", halted.Reason)
		return true
	case errors.Is(err, ErrRewound):
		r.requestRestart(ErrRewound)
		return true
	case errors.Is(err, jetstream.ErrGap), errors.Is(err, jetstream.ErrLog), errors.Is(err, engine.ErrOrphan):
		log.Warn("the writer's records do not continue the stored chain: fetching a snapshot")
		// The node is unhealthy until a snapshot is installed, even if the server is reachable.
		r.onConnection(err)
		r.mu.Lock()
		if r.gapAt.IsZero() {
			r.gapAt = time.Now()
		}
		r.mu.Unlock()
		switch err := r.fetch(ctx); {
		case err == nil:
			r.requestRestart(ErrStateSynced)
			return true
		case ctx.Err() == nil:
			if errors.Is(err, jetstream.ErrChanged) {
				r.changed.Add(1)
			}
			r.h.log.WithError(err).Error("fetching a snapshot failed; retrying")
		}
	case errors.Is(err, jetstream.ErrChanged), errors.Is(err, storage.ErrDamaged), errors.Is(err, engine.ErrExecutedBlock):
		r.changed.Add(1)
		if *tries++; *tries < changedTries {
			log.Error("a record is damaged; retrying")
			return false
		}
		r.h.Node.Halt(fmt.Errorf("a record of the writer is rejected: %w", err))
		return true
	default:
		log.Warn("following the writer failed; retrying")
	}
	return false
}

// requestRestart asks the caller to restart the node.
func (r *replica) requestRestart(err error) {
	select {
	case r.h.failed <- err:
	default: // the node is already stopping
	}
}

// follow receives records until an error.
func (r *replica) follow(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	at := r.cursor
	r.stop, r.failed, r.inFlight = stop, nil, nil
	r.room = make(chan struct{}, maxInFlight)
	room := r.room
	r.mu.Unlock()
	if at.Lost {
		return fmt.Errorf("%w: the writer rewound its chain below the stored blocks", jetstream.ErrGap)
	}
	f, err := jetstream.Follow(jetstream.FollowerOptions{Link: r.link, Names: r.names, Log: at.Log, After: at.Seq,
		By: r.by, Said: r.onConnection})
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
	go r.saveLoop(ctx)
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

// take passes one record of the writer's log to the chain. take drops a record that is already
// stored.
func (r *replica) take(ctx context.Context, x jetstream.Record, room chan struct{}) error {
	known, err := r.isKnown(&x)
	if err != nil || known {
		return err
	}
	if x.Back {
		if err := r.drain(room); err != nil {
			return err
		}
		return r.scheduleRewind(&x)
	}
	b, err := storage.Unpack(x.Payload)
	if err != nil {
		return err
	}
	if b.Ref.Height != x.Height || b.Ref.Hash != x.Hash {
		return fmt.Errorf("%w: the record contains block %v, but the headers of its message state block %d (%v)",
			jetstream.ErrChanged, b.Ref, x.Height, x.Hash)
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
	y := &inFlightRecord{r: x}
	r.mu.Lock()
	r.inFlight, r.seen = append(r.inFlight, y), x.Height
	r.mu.Unlock()
	r.h.Node.Give(g, func(err error) { r.onImported(y, err, room) })
	return nil
}

// isKnown returns whether a record is already stored. isKnown returns an error for a record that
// does not continue the stored log.
func (r *replica) isKnown(x *jetstream.Record) (known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.cursor
	if n := len(r.inFlight); n > 0 {
		last := r.inFlight[n-1].r
		at = cursor{Log: last.Log, At: last.Next}
	}
	if at.At == "" { // nothing was received yet, so the store must be empty
		if g := r.h.Engine.Genesis().Hash; r.h.Engine.Head().Hash != g || x.Prev != g || x.Back {
			return false, fmt.Errorf("%w: the stream begins with block %d, but this node has only the genesis", jetstream.ErrGap, x.Height)
		}
		return false, nil
	}
	if at.Log != "" && at.Log != x.Log { // the stream now contains a different log
		return false, fmt.Errorf("%w: the record of block %d is from log %q, but this node has stored records from log %q",
			jetstream.ErrLog, x.Height, x.Log, at.Log)
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
		return false, fmt.Errorf("%w: the record of block %d follows log position %s, but the stored records end at %s",
			jetstream.ErrGap, x.Height, x.From, at.At)
	case begin.Compare(have) < 0:
		return true, nil
	}
	return false, nil
}

// onImported is called for each in-flight record, on the chain's goroutine.
func (r *replica) onImported(y *inFlightRecord, err error, room chan struct{}) {
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
	if r.failed != nil { // processing of an earlier record has failed
		return
	}
	now := time.Now().UnixNano()
	for len(r.inFlight) > 0 && r.inFlight[0].done {
		x := &r.inFlight[0].r
		r.cursor = cursor{Log: x.Log, At: x.Next, Seq: x.Seq}
		r.lags.add(time.Duration(max(0, now-x.Published)))
		r.records.Add(1)
		r.gapAt = time.Time{}
		r.caught = r.caught || time.Duration(now-x.Published) <= r.maxLag
		r.inFlight[0] = nil
		r.inFlight = r.inFlight[1:]
	}
}

// drain waits until all in-flight records are on disk.
func (r *replica) drain(room chan struct{}) error {
	limit := time.NewTimer(pauseLimit)
	defer limit.Stop()
	for range maxInFlight {
		select {
		case room <- struct{}{}:
		case <-limit.C:
			return fmt.Errorf("received records were not on disk after %v", pauseLimit)
		}
	}
	for range maxInFlight {
		<-room
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// scheduleRewind stores that the next start rewinds the chain, and returns ErrRewound.
func (r *replica) scheduleRewind(x *jetstream.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cursor = cursor{Log: r.cursor.Log, At: r.cursor.At, Seq: r.cursor.Seq,
		Back: &view.At{Height: x.Height, Hash: x.Hash}, Then: &cursor{Log: x.Log, At: x.Next, Seq: x.Seq}}
	if err := r.cursor.write(r.h.store); err != nil {
		return err
	}
	r.written = r.cursor
	return ErrRewound
}

// fetch downloads a snapshot of the writer's store into a folder next to the node's data folder.
// The next start installs the snapshot.
func (r *replica) fetch(ctx context.Context) error {
	if !r.again {
		return errors.New("the replica needs a snapshot of the writer, which only `troupe run` installs, " +
			"since that requires a restart of the node")
	}
	hm := r.h.home
	dir := incomingDir(hm)
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
	s, err := openIncoming(hm, dir, r.h.log, false)
	if err != nil {
		return err
	}
	height := s.Tip().Head.Height
	if err := errors.Join((&cursor{Log: f.Log, At: f.End, Seq: f.Seq}).write(s), s.Close()); err != nil {
		return err
	}
	r.snapshots.Add(1)
	r.h.log.WithField("ms", time.Since(begin).Milliseconds()).WithField("height", height).Info("received a snapshot of the writer")
	return markComplete(dir)
}

// saveLoop stores the cursor once in cursorPeriod.
func (r *replica) saveLoop(ctx context.Context) {
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
		r.h.log.WithError(err).Warn("the replica's position was not stored: the next start repeats more records")
		return
	}
	r.written = r.cursor
}

// The JetStream client calls onConnection with an error when the connection to the server is lost,
// and with nil when the connection is established.
func (r *replica) onConnection(err error) {
	r.mu.Lock()
	was := r.cutAt
	if err == nil {
		r.cutAt = time.Time{}
	} else if was.IsZero() {
		r.cutAt = time.Now()
	}
	r.mu.Unlock()
	if err != nil {
		r.h.log.WithError(err).Warn("the replica has lost the connection to the writer's records")
	} else {
		r.h.log.Info("the replica is connected to the writer's records")
	}
}
