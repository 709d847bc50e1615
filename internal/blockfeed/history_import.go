package blockfeed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/history"
)

// ImportState says what an import of history does.
type ImportState string

// The states of an import.
const (
	ImportWaiting ImportState = "waiting"   // it has not begun, or the node does not have its first blocks yet
	ImportRunning ImportState = "importing" // blocks are fetched
	ImportAway    ImportState = "retrying"  // the feed does not deliver the next block
	// ImportRefused: the feed contradicts the chain at the next block. The block is requested again, after
	// pauses that grow.
	ImportRefused  ImportState = "contradicted"
	ImportDiskFull ImportState = "disk_full" // the disk has less room than ImportOptions.Reserve
	ImportStopped  ImportState = "stopped"   // an error that a restart of the node with other settings may end
	ImportDone     ImportState = "done"      // all blocks down to the configured height are stored
)

// ImportStates lists the states, for metrics.
var ImportStates = []ImportState{ImportWaiting, ImportRunning, ImportAway, ImportRefused, ImportDiskFull, ImportStopped, ImportDone}

// HistoryChain is a node's chain as an import sees it.
type HistoryChain interface {
	// Lowest returns the lowest block that the node has, and the block above it. ErrNoLowest: it does
	// not have them yet. ErrHasAll: it has all blocks.
	Lowest() (lowest history.Block, above *primitives.Block, err error)
	// HashAt returns the hash of the chain's block at a height. Errors: storage.ErrNotFound, ErrGone.
	HashAt(primitives.Height) (primitives.Hash, error)
}

// Errors of HistoryChain.Lowest.
var (
	ErrNoLowest = errors.New("blockfeed: the node does not have its first blocks yet")
	ErrHasAll   = errors.New("blockfeed: the node has all blocks since the genesis")
)

// ImportOptions configure an Import.
type ImportOptions struct {
	Store  *history.Store
	Source Source
	Chain  HistoryChain
	Log    ImportLog
	// Dir is the folder of Store, for texts and for the room on its disk.
	Dir string
	// Genesis is the hash of the genesis block.
	Genesis primitives.Hash
	// First is the lowest height to import.
	First primitives.Height
	// Fetches is the number of blocks that are fetched at the same time, at least 1.
	Fetches int
	// Percent bounds the processor time, in percent of one core, at least 1.
	Percent int
	// Reserve is the room in bytes that the import leaves on the disk. 0: the import does not ask
	// how much room there is.
	Reserve uint64
}

// ImportLog receives what an import reports. Safe for concurrent use.
type ImportLog interface {
	Infof(string, ...any)
	Warnf(string, ...any)
	Errorf(string, ...any)
}

// Import is the background job that stores the history of a chain from a feed. It is bounded in what
// it fetches at the same time, in processor time and in disk space. Methods other than Run are safe for
// concurrent use.
type Import struct {
	o      ImportOptions
	pace   *pacer
	budget *fetchBudget

	failures int       // runs since the last block that ended because the feed did not deliver one
	refused  int       // runs since the last block that ended because the feed contradicts the chain
	said     time.Time // time of the last line about progress
	flushed  time.Time

	mu     sync.Mutex
	status ImportStatus
	met    bool              // the feed has delivered a block
	warned bool              // the log says that the feed is away; cleared by the next block
	from   primitives.Height // height at which the measurement of the rate began
	since  time.Time         // its time
}

// ImportStatus is what an import has done.
type ImportStatus struct {
	State  ImportState
	Reason string // why it does not import now; empty: it does, or is done
	Source string
	Stats  history.Stats
	// First is the lowest height that will be imported, and Next the height of the next block.
	First, Next primitives.Height
	Check       HistoryCheck
	FetchBytes  int64         // replies of the feed that are held for blocks ahead of the next one
	Errors      uint64        // failed attempts since the start
	Left        time.Duration // estimate; negative: unknown
}

// Share returns how much of the import is done, from 0 to 1, by heights.
func (s *ImportStatus) Share() float64 {
	if s.State == ImportDone {
		return 1
	}
	top := s.Stats.Top.Height
	if s.Stats.Blocks == 0 || top < s.First {
		return 0
	}
	return float64(top-s.Stats.Low.Height+1) / float64(top-min(s.First, top)+1)
}

// Rhythms of an import.
const (
	importLogPeriod   = time.Minute
	importFlushPeriod = 5 * time.Second
	importWait        = 5 * time.Second // until the node may have its first blocks
	importDiskWait    = time.Minute
	importRetry       = 5 * time.Second // first pause after a failure; it doubles
	importMaxRetry    = 5 * time.Minute
	importRefusal     = time.Minute // first pause after a contradiction; it doubles
	importMaxRefusal  = time.Hour
	importRefusals    = 24                // contradictions without a new block from one line in the log to the next
	importEndless     = time.Duration(-1) // Run is not called again
)

// NewImport returns a job that has not begun.
func NewImport(o ImportOptions) *Import {
	m := &Import{o: o, pace: newPacer(o.Percent), budget: &fetchBudget{limit: maxFetchBytes}}
	m.status = ImportStatus{State: ImportWaiting, Source: o.Source.Name(), First: o.First, Left: -1}
	return m
}

// Status returns what the import has done.
func (m *Import) Status() ImportStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.status
	s.Stats, s.FetchBytes = m.o.Store.Stats(), m.budget.Held()
	s.Left = -1
	if done := float64(m.from) - float64(s.Next); s.State == ImportRunning && !m.since.IsZero() && done > 0 {
		s.Left = time.Duration(float64(time.Since(m.since)) / done * float64(s.Next-min(s.Next, s.First)+1))
	}
	if s.State == ImportDone {
		s.Left = 0
	}
	return s
}

// Run imports blocks until the import is done, until it has to pause, or until ctx ends. It returns the
// pause after which it wants to be called again; a negative pause means never.
func (m *Import) Run(ctx context.Context) time.Duration {
	defer func() {
		if p := parallel.Recovered(recover()); p != nil { // supervision logs it
			m.setState(ImportStopped, p.Error(), true)
			panic(p)
		}
	}()
	w := walk{Source: m.o.Source, to: m.o.First, genesis: m.o.Genesis, fetches: m.o.Fetches, pace: m.pace, budget: m.budget, missed: m.missed}
	var err error
	if w.at, err = m.place(); err == nil {
		err = m.room()
	}
	if err == nil {
		m.enter(w.at)
		err = w.run(ctx, func(d *blockdoc.Document) error { return m.store(ctx, w.at, d) })
		if bad := (*storeError)(nil); !errors.As(err, &bad) {
			if flushErr := m.o.Store.Flush(); flushErr != nil {
				err = &storeError{flushErr}
			}
		}
	}
	return m.conclude(ctx, err)
}

// storeError is an error of the store, not of the feed.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// errRoom means that the disk has less room than the import leaves.
var errRoom = errors.New("blockfeed: too little room on the disk")

// place returns where the walk continues: below the stored blocks, or at the node's lowest block.
func (m *Import) place() (*HistoryCheck, error) {
	lowest, above, err := m.o.Chain.Lowest()
	if err != nil {
		return nil, err
	}
	if err := m.o.Store.Flush(); err != nil { // after a failed write it finds out what is stored
		return nil, &storeError{err}
	}
	top := m.o.Store.Stats().Top
	text := m.o.Store.Progress()
	if len(text) == 0 {
		return newHistoryCheck(lowest, above), nil
	}
	hash, err := m.o.Chain.HashAt(top.Height)
	if lowest.Height > top.Height || err != nil || hash != top.Hash {
		return nil, &storeError{fmt.Errorf("the blocks in %s, up to block %d, %v, do not adjoin the blocks of this node, which begin at %d: "+
			"the data folder has been replaced. Restore the data folder that belongs to them, or stop the node and remove %s to begin the import again",
			m.o.Dir, top.Height, top.Hash, lowest.Height, m.o.Dir)}
	}
	c := new(HistoryCheck)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, &storeError{fmt.Errorf("the progress in %s: %w: stop the node and remove the folder to begin the import again", m.o.Dir, err)}
	}
	return c, nil
}

// newHistoryCheck returns a walk that begins with a block, whose outcomes the block above proves.
func newHistoryCheck(at history.Block, above *primitives.Block) *HistoryCheck {
	c := &HistoryCheck{Height: at.Height, Hash: at.Hash}
	if above == nil || above.Header.PrevHash != at.Hash {
		return c
	}
	c.Roots = map[primitives.ShardID]primitives.Hash{}
	for _, x := range above.Body.Chunks {
		c.Shards = append(c.Shards, x.ShardID)
		if x.HeightIncluded == above.Header.Height {
			c.Roots[x.ShardID] = x.PrevOutcomeRoot
		}
	}
	return c
}

// enter records that the import runs from the place c.
func (m *Import) enter(c *HistoryCheck) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status.State == ImportWaiting && !c.Done && c.Height >= m.o.First {
		m.said = time.Now() // the next line comes after a period
		m.o.Log.Infof("import of history: blocks %d to %d from %s", c.Height, m.o.First, m.o.Source.Name())
	}
	if m.since.IsZero() {
		m.from, m.since = c.Height, time.Now()
	}
	if m.status.State != ImportAway && m.status.State != ImportRefused { // until the feed delivers the block
		m.status.State, m.status.Reason = ImportRunning, ""
	}
	m.status.Next, m.status.Check = c.Height, *c
}

// missed records that a request for a block has failed and is repeated. If it is the next block, the
// import has no progress until the request succeeds.
func (m *Import) missed(h primitives.Height, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status.State != ImportRunning || h != m.status.Next {
		return
	}
	m.status.State, m.status.Reason = ImportAway, fmt.Sprintf("block %d of %s: %v", h, m.o.Source.Name(), err)
	if !m.met && !m.warned {
		m.warned = true
		m.o.Log.Warnf("import of history: the feed does not answer: %s. It will be asked again", m.status.Reason)
	}
}

// firstMiss returns whether the feed has stopped delivering blocks in this run, and the log does not say
// it yet.
func (m *Import) firstMiss() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.failures == 1 && !m.warned
	m.warned = true
	return first
}

// room returns errRoom if the disk has too little room.
func (m *Import) room() error {
	if m.o.Reserve == 0 {
		return nil
	}
	free, err := history.Free(m.o.Dir)
	if err == nil && free < m.o.Reserve {
		return fmt.Errorf("%w: %s has %d MiB, and the import leaves %d MiB (troupe.history.disk_reserve_bytes)", errRoom, m.o.Dir, free>>20, m.o.Reserve>>20)
	}
	return nil
}

// store stores a verified block with the place of the walk after it.
func (m *Import) store(ctx context.Context, c *HistoryCheck, d *blockdoc.Document) (err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	err = context.Canceled
	m.pace.do(ctx, func() { err = m.o.Store.Append(d, text, c.unproven...) })
	if errors.Is(err, context.Canceled) || errors.Is(err, blockdoc.ErrForm) { // the latter is an error of the feed
		return err
	}
	now := time.Now()
	if err == nil && now.Sub(m.flushed) >= importFlushPeriod {
		m.flushed = now
		if err = m.o.Store.Flush(); err == nil {
			if err := m.room(); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return &storeError{err}
	}
	m.failures, m.refused = 0, 0
	m.mu.Lock()
	m.met, m.warned = true, false
	m.status.State, m.status.Reason = ImportRunning, "" // after missed
	m.status.Next, m.status.Check = c.Height, *c
	m.status.Check.Roots, m.status.Check.Shards = nil, slices.Clone(c.Shards)
	m.mu.Unlock()
	if now.Sub(m.said) >= importLogPeriod {
		m.said = now
		s := m.Status()
		left := "unknown"
		if s.Left >= 0 {
			left = s.Left.Round(time.Second).String()
		}
		m.o.Log.Infof("import of history: %.2f %% done, at height %d of %d to %d, time left: %s", 100*s.Share(), c.Height, s.First, s.Stats.Top.Height, left)
	}
	return nil
}

// conclude records the end of a Run, and returns the pause after it.
func (m *Import) conclude(ctx context.Context, err error) time.Duration {
	var bad *storeError
	switch {
	case err == nil, errors.Is(err, ErrHasAll):
		s := m.Status()
		if err == nil {
			m.o.Log.Infof("import of history: done, with %d blocks down to height %d; %d outcomes are proven, %d are not", s.Stats.Blocks, s.Stats.Low.Height, s.Check.Outcomes, s.Check.Unproven)
		} else {
			m.o.Log.Infof("import of history: nothing to do, this node has all blocks since the genesis")
		}
		m.setState(ImportDone, "", false)
		return importEndless
	case ctx.Err() != nil:
		return importEndless
	case errors.Is(err, ErrNoLowest):
		m.setState(ImportWaiting, "the node does not have its first blocks yet", false)
		return importWait
	case errors.Is(err, errRoom), storage.IsFull(err):
		m.setOnce(ImportDiskFull, err, m.o.Log.Warnf, "import of history: paused: %v. It continues by itself when there is room", err)
		return importDiskWait
	case errors.As(err, &bad):
		m.setOnce(ImportStopped, err, m.o.Log.Errorf, "import of history: stopped: %v", err)
		return importEndless
	case errors.As(err, new(*blockdoc.MismatchError)):
		wait := min(importRefusal<<min(m.refused, 10), importMaxRefusal)
		if m.refused++; m.refused%importRefusals == 1 {
			m.o.Log.Errorf("import of history: the feed contradicts the chain: %v. The block is not stored. It is requested again, at least "+
				"once an hour. If that does not help, set troupe.history.source to another feed and restart the node; the import continues at this block", err)
		}
		m.setState(ImportRefused, err.Error(), true)
		return wait
	}
	wait := min(importRetry<<min(m.failures, 10), importMaxRetry)
	if m.failures++; m.firstMiss() || m.failures%20 == 0 {
		m.o.Log.Warnf("import of history: the feed does not deliver the next block: %v. It will be asked again", err)
	}
	m.setState(ImportAway, err.Error(), true)
	return wait
}

// setOnce logs and records a state that the import was not in before.
func (m *Import) setOnce(state ImportState, err error, log func(string, ...any), text string, args ...any) {
	if m.setState(state, err.Error(), true) {
		log(text, args...)
	}
}

// setState records a state and returns whether it is a new one.
func (m *Import) setState(state ImportState, reason string, failed bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failed {
		m.status.Errors++
	}
	changed := m.status.State != state
	if state != ImportRunning {
		m.since = time.Time{}
	}
	m.status.State, m.status.Reason = state, reason
	return changed
}
