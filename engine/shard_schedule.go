package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Plan decides whether the node holds a shard. The shard must be in the layout of the block `at`.
// now is whether to hold the shard in that block's epoch. next is whether to hold the shard, or its
// children if the shard is split, in the next epoch.
type Plan func(at *BlockNode, shard primitives.ShardID) (now, next bool)

// PartSource fetches the data for shard catchups from peers. The methods may block. A method
// returns ErrNotYet if no answer has arrived. The caller may then repeat the request.
type PartSource interface {
	// State fetches the state header of a shard at a sync point. point is the block before the
	// epoch's sync block.
	State(ctx context.Context, point primitives.Hash, shard primitives.ShardID) (*StateHeader, error)
	// Part fetches one part of that state and passes it to take, which verifies and stores it. If
	// take returns an error, Part asks another peer. Up to Schedule.Parallel calls run at the same
	// time.
	Part(
		ctx context.Context,
		point primitives.Hash,
		shard primitives.ShardID,
		id trie.PartID,
		take func([][]byte) error,
	) error
	// Chunks fetches the new chunks of a block, in the form for a node that holds only this shard
	// (ChunksFor).
	Chunks(ctx context.Context, block primitives.Hash, shard primitives.ShardID) ([]*primitives.Chunk, error)
	// Refused tells the source that its last state header or its last chunks for a shard were
	// wrong. The source must then ask peers other than the sender of that data.
	Refused(point primitives.Hash, shard primitives.ShardID, err error)
}

// Limits of one Step.
const (
	catchUpBlocks  = 16 // number of blocks whose chunks are fetched together and applied in one step
	finishBlocks   = 64 // number of blocks above the flat head whose chunks are fetched together
	maxSpareShards = 2  // maximum number of unneeded shards that are kept while there is no recent sync point
)

// Schedule changes the set of shards that an engine holds, according to a plan.
//
// Problem. Each epoch may assign a validator to shards other than its current shards. A node must
// obtain the shards of the next epoch in time, and drop old shards, while it produces and validates
// blocks.
//
// Invariants. (1) Step never waits for peers, so that the engine's goroutine continues to import
// blocks. Requests run on other goroutines, at most one per shard, and a later Step uses their
// results. (2) Step never drops a shard that is needed in this epoch or the next. Step also never
// drops a shard whose state possibly no other node has yet (handedOver). (3) Each catchup's sync
// point is stored. After a restart the catchup continues from that point, or Step abandons the
// catchup and removes its data.
//
// Outline. For each shard that the plan wants and the tip does not hold, a catchup starts at the
// newest sync point: fetch the state header, create a ShardCatchup, fetch the parts, apply the
// blocks up to the flat head, finish. A shard that neither this epoch nor the next needs is
// untracked. While no newer sync point exists, up to maxSpareShards of such shards stay, because
// the next holder of a shard may need state parts from this node.
//
// If a shard is split before its catchup ends, the catchup is abandoned. Catchups of the children
// start at the sync point of the next epoch. If a newer sync point appears before a catchup has its
// complete state, the catchup starts again at the newer point, because peers drop the older state.
//
// All methods run on the engine's goroutine.
//
// Rejected. Fetching on the engine's goroutine: imports would stop. Holding every shard for some
// more epochs: the extra shards would multiply the disk space.
type Schedule struct {
	// Go runs a function that may block. nil: the function runs on a new goroutine.
	Go func(func())
	// Parallel is the number of parts of a shard that are fetched at the same time. 0: one.
	Parallel int
	// Blocks is the number of blocks that one step applies. 0: catchUpBlocks.
	Blocks int
	// WaitRemovals makes Step wait until the rows of untracked shards are removed, so that the
	// effects of a step depend only on the chain. The simulator sets WaitRemovals.
	WaitRemovals bool

	e        *Engine
	plan     Plan
	source   PartSource
	catchups map[primitives.ShardID]*catchup
	failed   map[primitives.ShardID]primitives.Hash // hash of the tip when a catchup of the shard last failed to start
	scans    map[storage.EpochBegin]*pointScan      // searches for the sync points of the newest epochs, by epoch
	asking   sync.WaitGroup                         // counts running requests
	begun    bool                                   // the catchups that a previous process began were checked
	// more means that the last step made progress, so the next step may make progress immediately.
	more bool
}

// catchup is one shard that is being caught up.
type catchup struct {
	id       primitives.ShardID
	accounts storage.AccountRange
	point    storage.BlockRef
	header   *StateHeader
	total    uint64
	received atomic.Uint64 // number of stored parts
	session  *ShardCatchup
	chunks   map[primitives.Hash][]*primitives.Chunk
	reply    chan answer // receives the result of the running request; nil: no request runs
	cancel   context.CancelFunc
}

// answer applies the result of a request. A later Step calls it on the engine's goroutine.
type answer func()

// NewSchedule returns the schedule of an engine, which must have Options.Scheduled. The schedule
// continues catchups of the node's previous run.
func NewSchedule(e *Engine, plan Plan, source PartSource) *Schedule {
	return &Schedule{
		e:        e,
		plan:     plan,
		source:   source,
		catchups: map[primitives.ShardID]*catchup{},
		failed:   map[primitives.ShardID]primitives.Hash{},
		scans:    map[storage.EpochBegin]*pointScan{},
	}
}

// PlanOf returns the plan to hold the shards for which a validator produces chunks.
func (e *Engine) PlanOf(account primitives.AccountID) Plan {
	return func(at *BlockNode, shard primitives.ShardID) (now, next bool) {
		e.epochMu.Lock()
		defer e.epochMu.Unlock()
		now, err := e.epochs.CaresAboutShard(at.Header().EpochID, account, shard)
		now = now || err != nil // keep the shard on an error
		next, err = e.epochs.CaresAboutShardNextEpoch(at.Header().PrevHash, account, shard)
		return now, next || err != nil
	}
}

// CatchingUp returns the shards that are being caught up, ascending.
func (s *Schedule) CatchingUp() []primitives.ShardID { return slices.Sorted(maps.Keys(s.catchups)) }

// Step does everything that is possible without waiting for peers. The caller calls Step after each
// block, and at intervals if no block arrives. Step does nothing while rows of an untracked shard
// are being removed. An error is a fault of this node, not of a peer.
func (s *Schedule) Step() error {
	tip := s.e.Tip()
	s.more = false
	if s.removing() {
		return nil
	}
	if !s.begun {
		if all, err := s.dropUnwanted(tip); err != nil || !all {
			return err
		}
		s.begun = true
	}
	var newest storage.BlockRef
	if len(s.catchups) > 0 {
		var err error
		if newest, err = s.newest(); err != nil {
			return err
		}
	}
	// Without a recent sync point, a dropped shard could not be caught up again before the next
	// sync point. So do not abandon catchups whose state is complete.
	late, spare := s.e.snapshots.last.Load().stale(), 0
	for _, id := range s.CatchingUp() {
		if s.removing() {
			return nil
		}
		c, err := s.catchups[id], error(nil)
		switch {
		case !tip.Layout.Has(id) || !s.wanted(tip, id) && (!late || c.session == nil || c.session.block == nil):
			err = s.abandon(c)
		case c.point.Height < newest.Height && (c.session == nil || c.session.block == nil):
			err = s.repoint(c, newest)
		}
		if err != nil {
			return err
		}
	}
	for i, id := range tip.Layout.ShardIDs() {
		if s.removing() {
			return nil
		}
		wanted, held := s.wanted(tip, id), tip.Shards[i].Held()
		switch {
		case held && !wanted:
			if at := s.e.flatHead; !at.Layout.Has(id) || s.wanted(at, id) || !s.e.handedOver(at, id) {
				continue // a branch may still need the shard, or no other node has its state yet
			}
			if late && spare < maxSpareShards {
				spare++
				continue
			}
			if err := s.e.UntrackShard(id); err != nil && !errors.Is(err, ErrNotYet) {
				return err
			}
		case wanted && !held:
			before := s.catchups[id].position()
			if err := s.advance(tip, id); err != nil {
				return fmt.Errorf("engine: catchup of shard %d: %w", id, err)
			}
			s.more = s.more || s.catchups[id].position() != before
		}
	}
	return nil
}

// removing returns whether rows of an untracked shard are being removed from the store.
func (s *Schedule) removing() bool {
	if s.WaitRemovals {
		s.e.removalsDone.Wait()
	}
	return s.e.removalsRunning.Load() > 0
}

// repoint moves a catchup from an old sync point to the newest sync point. Peers keep only the
// state of the newest point, so missing parts of the old point's state may never arrive. Therefore
// repoint normally abandons the catchup, which then starts again. But if the shard's state is
// complete and at least as new as the state of the newest point, the catchup continues with the
// newest point's header.
func (s *Schedule) repoint(c *catchup, newest storage.BlockRef) error {
	at, entered, err := s.e.storedShardAt(c.id)
	if err != nil {
		return err
	}
	if entered {
		point, err := s.e.Block(newest.Hash)
		if err != nil {
			return err
		}
		if index, err := point.Layout.Index(c.id); err == nil && point.Layout.Equal(at.Layout) {
			first, err := s.e.Block(point.Block.Body.Chunks[index].PrevBlockHash)
			if err != nil {
				return err
			}
			if at.Height() >= first.Height() {
				c.cancel()
				c.point, c.header, c.reply = newest, nil, nil
				return s.savePoint(c)
			}
		}
	}
	c.point = storage.BlockRef{}
	return s.abandon(c)
}

// dropUnwanted abandons catchups that a previous run of the node began and that the plan does not
// want now. Each call abandons at most one catchup. all means that no such catchup was left.
func (s *Schedule) dropUnwanted(tip *BlockNode) (all bool, err error) {
	list, err := s.e.store.IncomingShards()
	if err != nil {
		return false, err
	}
	for _, id := range slices.Sorted(maps.Keys(list)) {
		c := &catchup{id: id, accounts: list[id], cancel: func() {}}
		if tip.Layout.Has(id) && s.wanted(tip, id) {
			if point, err := s.savedPoint(tip, id); err != nil || !point.IsZero() {
				if err != nil {
					return false, err
				}
				continue
			}
		}
		return false, s.abandon(c)
	}
	return true, nil
}

// savedPoint returns the stored sync point from which the catchup of a shard can continue. It
// returns the zero value if there is no such point.
func (s *Schedule) savedPoint(tip *BlockNode, id primitives.ShardID) (at storage.BlockRef, err error) {
	raw, err := storage.Misc.Get(s.e.store.Reader(), catchupRow(id))
	if err != nil || len(raw) != len(primitives.Hash{}) {
		return at, absent(err)
	}
	x, err := s.e.Block(primitives.Hash(raw))
	if errors.Is(err, ErrUnknown) || errors.Is(err, storage.ErrGone) {
		return at, nil
	}
	if err == nil && x.Layout.Equal(tip.Layout) {
		at = ref(x)
	}
	return at, err
}

func (s *Schedule) wanted(at *BlockNode, id primitives.ShardID) bool {
	now, next := s.plan(at, id)
	return now || next
}

// Close cancels the running requests and waits until they have ended. The catchups stay in the
// store, so that the next Schedule can continue them.
func (s *Schedule) Close() {
	for _, c := range s.catchups {
		c.cancel()
	}
	s.asking.Wait()
}

// advance does all steps of one shard's catchup that are possible now.
func (s *Schedule) advance(tip *BlockNode, id primitives.ShardID) error {
	c := s.catchups[id]
	if c == nil {
		if s.failed[id] == tip.Hash { // try again only after the tip has changed
			return nil
		}
		var err error
		if c, err = s.begin(tip, id); err != nil || c == nil {
			return err
		}
		s.catchups[id] = c
	}
	if c.reply != nil {
		select {
		case done := <-c.reply:
			c.reply = nil
			done()
		default:
			return nil
		}
	}
	switch {
	case c.header == nil:
		s.askHeader(c)
		return nil
	case c.session == nil:
		return s.startSession(c)
	case c.session.block == nil:
		return s.fetchParts(c)
	}
	return s.catchUp(c)
}

// catchupRow is the name of the row that stores a catchup's sync point for a restart.
func catchupRow(id primitives.ShardID) string { return fmt.Sprintf("join %d", id) }

// begin returns a new catchup of a shard. The catchup starts at the stored sync point or, if no
// sync point is stored, at the newest sync point. begin returns nil if the catchup cannot start
// yet.
func (s *Schedule) begin(tip *BlockNode, id primitives.ShardID) (*catchup, error) {
	r, err := Accounts(tip.Layout, id)
	if err != nil {
		return nil, err
	}
	c := &catchup{id: id, accounts: r, chunks: map[primitives.Hash][]*primitives.Chunk{}, cancel: func() {}}
	newest, err := s.newest()
	if err != nil {
		return nil, err
	}
	if c.point, err = s.savedPoint(tip, id); err != nil {
		return nil, err
	}
	if !c.point.IsZero() {
		if c.point.Height < newest.Height {
			err = s.repoint(c, newest)
		}
		if err != nil || c.point.IsZero() { // the catchup is abandoned; it starts again after its data is removed
			return nil, err
		}
		return c, nil
	}
	if c.point = newest; newest.IsZero() {
		return nil, nil
	}
	x, err := s.e.Block(c.point.Hash)
	if err != nil || !x.Layout.Equal(tip.Layout) {
		return nil, err // the sync point is of an epoch before, with a different layout
	}
	// A catchup may start at the sync point of a previous epoch if the current epoch already needs
	// the shard: without this node the shard may get no chunks, and then there would never be
	// another sync point. If only the next epoch needs the shard, wait for this epoch's sync point,
	// but at most for half of the epoch.
	if x.Header().EpochID != tip.Header().EpochID {
		if now, _ := s.plan(tip, id); !now {
			if half, err := s.epochHalfDone(tip); err != nil || !half {
				return nil, err
			}
		}
	}
	// CatchUpShard refuses a sync point if this node held the shard at or after the block of the
	// state.
	if left, was := s.e.store.UntrackedAt(id); was {
		index, err := x.Layout.Index(id)
		if err != nil {
			return nil, err
		}
		if at, err := s.e.Header(x.Block.Body.Chunks[index].PrevBlockHash); err != nil || at.Height <= left {
			return nil, err
		}
	}
	return c, s.savePoint(c)
}

// savePoint stores the sync point of a catchup.
func (s *Schedule) savePoint(c *catchup) error {
	var batch storage.Batch
	row := storage.Raw(c.point.Hash[:])
	storage.Misc.Put(&batch, catchupRow(c.id), &row)
	return s.e.store.Write(&batch)
}

// pointScan is the search for the sync point of one epoch.
type pointScan struct {
	scan  syncScan
	point storage.BlockRef // the sync point; zero: not found yet
}

// maxScannedHeights is the number of heights that one step searches. The sync point is usually
// among the first blocks of an epoch. The sync point comes later if a shard has no chunks at the
// start of the epoch.
const maxScannedHeights = 256

// newest returns the newest sync point at or below the flat head. It first searches the epochs
// whose states peers keep. Then it takes the newest sync point whose state this node keeps. newest
// returns the zero value if there is no sync point, or if the search continues in the next step.
// Sync points of previous epochs are needed because an epoch has no sync point while a shard has no
// chunks in that epoch. If that shard's producers could not catch up from a previous epoch's point,
// there would never be a new sync point.
func (s *Schedule) newest() (storage.BlockRef, error) {
	epochs, err := s.e.store.Epochs()
	if err != nil || len(epochs) == 0 {
		return storage.BlockRef{}, err
	}
	epochs = epochs[max(0, len(epochs)-keptSnapshotEpochs):]
	maps.DeleteFunc(s.scans, func(b storage.EpochBegin, _ *pointScan) bool { return b.Height < epochs[0].Height })
	end := s.e.store.Tip().FlatHead.Height + 1
	for _, begin := range slices.Backward(epochs) {
		x := s.scans[begin]
		if x == nil {
			x = &pointScan{scan: syncScan{epoch: begin, next: begin.Height + 1}}
			s.scans[begin] = x
		}
		if x.point.IsZero() {
			upTo := min(end, x.scan.next+maxScannedHeights)
			p, err := s.e.snapshots.findPoint(&x.scan, upTo)
			if err != nil {
				return storage.BlockRef{}, err
			}
			if p != nil {
				x.point = p.at
			} else if upTo < end { // the next step continues the search here
				x.scan.next = max(x.scan.next, upTo)
				s.more = true
				return storage.BlockRef{}, nil
			}
		}
		if !x.point.IsZero() {
			return x.point, nil
		}
		end = begin.Height
	}
	if p := s.e.snapshots.lastKept(); p != nil {
		return p.at, nil
	}
	return storage.BlockRef{}, nil
}

// epochHalfDone returns whether the flat head has passed the middle of the tip's epoch.
func (s *Schedule) epochHalfDone(tip *BlockNode) (half bool, err error) {
	err = s.e.Epochs(func(m *epoch.Manager) error {
		first, length, _, err := m.EpochSpan(tip.Hash)
		half = s.e.store.Tip().FlatHead.Height >= first+primitives.Height(length)/2
		return err
	})
	return half, err
}

// abandon ends a catchup and removes the catchup's data from the store.
func (s *Schedule) abandon(c *catchup) error {
	c.cancel()
	if err := s.e.removeShard(c.id, c.accounts); err != nil {
		return err
	}
	if c.session != nil {
		c.session.drop()
	}
	delete(s.catchups, c.id)
	return s.forgetPoint(c.id)
}

func (s *Schedule) forgetPoint(id primitives.ShardID) error {
	var batch storage.Batch
	storage.Misc.Delete(&batch, catchupRow(id))
	return s.e.store.Write(&batch)
}

// isSourceFault returns whether an error means that data from the source is wrong.
func isSourceFault(err error) bool {
	var invalid chain.Invalid
	return errors.Is(err, ErrChunk) || errors.Is(err, ErrMissing) || errors.Is(err, trie.ErrMissing) ||
		errors.Is(err, trie.ErrCorrupt) ||
		errors.As(err, &invalid)
}

func (s *Schedule) startSession(c *catchup) error {
	point, err := s.e.Block(c.point.Hash)
	if err != nil {
		return err
	}
	index, err := point.Layout.Index(c.id)
	if err != nil {
		return err
	}
	j, err := s.e.CatchUpShard(point, index, c.header.Chunk, c.header.Before)
	switch {
	case err == nil:
		c.session = j
	case isSourceFault(err):
		s.source.Refused(c.point.Hash, c.id, err)
		c.header = nil
	// The layout has changed, or the shard was held at that block.
	case errors.Is(err, ErrNotYet), errors.Is(err, ErrUnknown), errors.Is(err, ErrReshard):
		delete(s.catchups, c.id)
		s.failed[c.id] = s.e.Tip().Hash
		return s.forgetPoint(c.id)
	default:
		return err
	}
	return nil
}

// catchUp applies the next blocks up to the flat head. If no such block is left, catchUp applies
// the blocks above the flat head. The engine then holds the shard.
func (s *Schedule) catchUp(c *catchup) error {
	for range cmp.Or(s.Blocks, catchUpBlocks) {
		next, more, err := c.session.Next()
		if err != nil {
			return err
		}
		if !more {
			return s.finish(c)
		}
		chunks, there := c.chunks[next.Hash]
		if !there {
			return s.askBelowFlatHead(c, next)
		}
		err = c.session.CatchUp(chunks)
		delete(c.chunks, next.Hash)
		switch {
		case err == nil:
		case isSourceFault(err):
			s.refuse(c, err)
			return nil
		case errors.Is(err, ErrReshard):
			return s.abandon(c)
		default:
			return err
		}
	}
	return nil
}

// refuse drops the fetched chunks and reports to the source that these chunks are wrong.
func (s *Schedule) refuse(c *catchup, err error) {
	s.source.Refused(c.point.Hash, c.id, err)
	clear(c.chunks)
}

func (s *Schedule) finish(c *catchup) error {
	err := c.session.Finish(func(hash primitives.Hash) []*primitives.Chunk { return c.chunks[hash] })
	switch {
	case err == nil:
		delete(s.catchups, c.id)
		return s.forgetPoint(c.id)
	case errors.Is(err, ErrMissing):
		var lack []*BlockNode
		for hash, x := range s.e.entries {
			if _, there := c.chunks[hash]; !there {
				lack = append(lack, x)
			}
		}
		slices.SortFunc(
			lack,
			func(a, b *BlockNode) int { return cmp.Or(cmp.Compare(a.Height(), b.Height()), a.Hash.Compare(b.Hash)) },
		)
		var list []primitives.Hash
		for _, x := range lack[:min(len(lack), finishBlocks)] {
			list = append(list, x.Hash)
		}
		if len(list) == 0 { // all chunks were fetched, so a fetched chunk must be incomplete
			s.refuse(c, err)
			return nil
		}
		for hash := range c.chunks {
			if s.e.entries[hash] == nil {
				delete(c.chunks, hash)
			}
		}
		s.askChunks(c, list)
		return nil
	case isSourceFault(err):
		s.refuse(c, err)
		return nil
	case errors.Is(err, ErrNotYet):
		return nil
	}
	return err
}
