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

// Plan tells of a block's shard whether the node is to hold it in the block's epoch, and whether in the next one: it itself, or what it is
// reshard into.
type Plan func(at *BlockNode, shard primitives.ShardID) (now, next bool)

// PartSource is who has what a shard that comes in is made of: other nodes. Its methods may take their time. ErrNotYet: nothing has come,
// it is asked again.
type PartSource interface {
	// State asks for the header of a shard's state at the block before a sync block.
	State(ctx context.Context, point primitives.Hash, shard primitives.ShardID) (*StateHeader, error)
	// Part asks for a part of that state, and gives it to take, which judges and stores it. Where that says that it is wrong, somebody else is asked. Parts
	// are asked for at once, as many as Schedule.Parallel says.
	Part(ctx context.Context, point primitives.Hash, shard primitives.ShardID, id trie.PartID, take func([][]byte) error) error
	// Chunks asks for the new chunks of a block as one gets them who holds that shard alone (ChunksFor).
	Chunks(ctx context.Context, block primitives.Hash, shard primitives.ShardID) ([]*primitives.Chunk, error)
	// Refused says that a header or chunks that it gave of a shard, last or lately, were wrong: somebody else is to be asked.
	Refused(point primitives.Hash, shard primitives.ShardID, err error)
}

// Bounds of a step.
const (
	catchUpBlocks  = 16 // that are asked for at once, and caught up with in one step
	finishBlocks   = 64 // above the folded one that are asked for at once
	maxSpareShards = 2  // shards without need that are held on to as long as a sync point is late
)

// Schedule has an engine hold what a plan says: shards come in from a source at the first sync block there is, while the chain goes on, and
// those of which neither this epoch nor the next has need are let go, but for a few as long as a newer sync block is late: who gave them may be asked again. Its methods belong to the engine's goroutine, as Join does; what it
// wantsProof the source it asks from goroutines of its own, one for each shard that comes in. A shard that the layout loses before it is in is
// executed up: what it is split into comes in at the next epoch's sync block. So is one whose state has not come when there is a newer sync block: at that it
// startsWithShard anew.
type Schedule struct {
	// Go runs what may take its time; nil: on a goroutine.
	Go func(func())
	// Parallel is how many parts of a shard are asked for at once, Blocks how many blocks a step catches up with; 0: one, and catchUpBlocks.
	Parallel, Blocks int
	// WaitRemovals: a step waits until the rows of a shard that was let go are removed, so that what it does follows from the chain alone.
	WaitRemovals bool

	e        *Engine
	plan     Plan
	source   PartSource
	catchups map[primitives.ShardID]*catchup
	failed   map[primitives.ShardID]primitives.Hash // tips at which a shard could not begin
	scans    map[storage.EpochBegin]*pointScan      // of the newest epochs
	asking   sync.WaitGroup
	begun    bool
	more     bool
}

// catchups is a shard on its way in.
type catchup struct {
	id       primitives.ShardID
	accounts storage.AccountRange
	point    storage.BlockRef
	header   *StateHeader
	total    uint64
	received atomic.Uint64 // parts that have come
	session  *ShardCatchup
	chunks   map[primitives.Hash][]*primitives.Chunk
	reply    chan answer // nil: idle is
	cancel   context.CancelFunc
}

// answer is what a question gave: what to do with it on the engine's goroutine.
type answer func()

// NewSchedule makes a schedule of an engine that was opened with Options.Scheduled. What was on its way in before a restart goes on.
func NewSchedule(e *Engine, plan Plan, source PartSource) *Schedule {
	return &Schedule{e: e, plan: plan, source: source, catchups: map[primitives.ShardID]*catchup{}, failed: map[primitives.ShardID]primitives.Hash{},
		scans: map[storage.EpochBegin]*pointScan{}}
}

// PlanOf is the plan of a validator: the shards of which it makes chunks.
func (e *Engine) PlanOf(account primitives.AccountID) Plan {
	return func(at *BlockNode, shard primitives.ShardID) (now, next bool) {
		e.epochMu.Lock()
		defer e.epochMu.Unlock()
		now, err := e.epochs.CaresAboutShard(at.Header().EpochID, account, shard)
		now = now || err != nil // what can't be told is no reason to let go of it
		next, err = e.epochs.CaresAboutShardNextEpoch(at.Header().PrevHash, account, shard)
		return now, next || err != nil
	}
}

// CatchingUp names the shards that are on their way in.
func (s *Schedule) CatchingUp() []primitives.ShardID { return slices.Sorted(maps.Keys(s.catchups)) }

// Step does what can be done without waiting; it is called behind each block, and now and then without one. While the rows of a shard that was let go are
// removed, that is nothing: no shard can come or go meanwhile. Errors are this node's.
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
	// While a point is late what was let go behind it can't come in again until there is a newer one: what has come rests where it is, and what was handed over stays.
	late, spare := s.e.stateSnapshots.last.Load().stale(), 0
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
				continue // a fork may still have need of it, or nobody else has it yet
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
				return fmt.Errorf("engine: shard %d comes in: %w", id, err)
			}
			s.more = s.more || s.catchups[id].position() != before
		}
	}
	return nil
}

// removing tells whether the rows of a shard that was let go are being removed.
func (s *Schedule) removing() bool {
	if s.WaitRemovals {
		s.e.removalsDone.Wait()
	}
	return s.e.removalsRunning.Load() > 0
}

// repoint deals with a shard that comes in at an older point than the newest. Others keep what belongs to the newest: nobody may ever give the rest, so what
// has come is given up. A shard whose state is here, behind the newest point too, goes on where it is, by the header of that.
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

// dropUnwanted gives up what was on its way in before a restart and is not wanted any more, one shard with each step.
func (s *Schedule) dropUnwanted(tip *BlockNode) (all bool, err error) {
	list, err := s.e.store.Incoming()
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

// childIntervals is the point at which a shard was coming in, if that can go on; zero: it can't, or there is none.
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

// Close ends what is being asked. The shards that are on their way go on with the next schedule.
func (s *Schedule) Close() {
	for _, c := range s.catchups {
		c.cancel()
	}
	s.asking.Wait()
}

// advance takes a shard as far in as it goes now.
func (s *Schedule) advance(tip *BlockNode, id primitives.ShardID) error {
	c := s.catchups[id]
	if c == nil {
		if s.failed[id] == tip.Hash { // or it would be asked for again and again, as fast as others answer
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

// catchupRow is where it stands at which point a shard comes in: a restart goes on with that.
func catchupRow(id primitives.ShardID) string { return fmt.Sprintf("join %d", id) }

// begin chooses the point at which a shard comes in; nil: there is none yet.
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
		if err != nil || c.point.IsZero() { // given up: it begins anew when what has come of it is removed
			return nil, err
		}
		return c, nil
	}
	if c.point = newest; newest.IsZero() {
		return nil, nil
	}
	x, err := s.e.Block(c.point.Hash)
	if err != nil || !x.Layout.Equal(tip.Layout) {
		return nil, err // of the epoch before
	}
	// At the point of an epoch before begins who should hold the shard by now: perhaps it has no chunks without this node, and then there is no newer point. Who
	// needs it in the next epoch has not to catch up with a whole one, unless half of this one has gone without a point: some shard has no chunks in it.
	if x.Header().EpochID != tip.Header().EpochID {
		if now, _ := s.plan(tip, id); !now {
			if half, err := s.epochHalfDone(tip); err != nil || !half {
				return nil, err
			}
		}
	}
	if left, was := s.e.store.UntrackedAt(id); was { // at a block behind its state there: nothing of that would be taken
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

func (s *Schedule) savePoint(c *catchup) error {
	var batch storage.Batch
	row := storage.Raw(c.point.Hash[:])
	storage.Misc.Put(&batch, catchupRow(c.id), &row)
	return s.e.store.Write(&batch)
}

// pointScan looks for the sync point of an epoch.
type pointScan struct {
	scan  syncScan
	point storage.BlockRef // zero: not found
}

// maxScannedHeights is how many heights a step looks through for the sync point of an epoch: it is among the first ones, but for one in which a shard has no chunks.
const maxScannedHeights = 256

// newest is the sync point of the newest folded epoch that has one, of as few as states are kept of, else the newest that is kept; zero: there is none, or that is not
// known yet. An epoch has none as long as a shard has had no chunks in it. That one is to come in at the point before, wherever it is, or there would never be one again.
func (s *Schedule) newest() (storage.BlockRef, error) {
	epochs, err := s.e.store.Epochs()
	if err != nil || len(epochs) == 0 {
		return storage.BlockRef{}, err
	}
	epochs = epochs[max(0, len(epochs)-keptSnapshotEpochs):]
	maps.DeleteFunc(s.scans, func(b storage.EpochBegin, _ *pointScan) bool { return b.Height < epochs[0].Height })
	end := s.e.store.Tip().Folded.Height + 1
	for _, begin := range slices.Backward(epochs) {
		x := s.scans[begin]
		if x == nil {
			x = &pointScan{scan: syncScan{epoch: begin, next: begin.Height + 1}}
			s.scans[begin] = x
		}
		if x.point.IsZero() {
			upTo := min(end, x.scan.next+maxScannedHeights)
			p, err := s.e.findPoint(&x.scan, upTo)
			if err != nil {
				return storage.BlockRef{}, err
			}
			if p != nil {
				x.point = p.at
			} else if upTo < end { // the rest is for another step
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
	if p := s.e.lastKept(); p != nil {
		return p.at, nil
	}
	return storage.BlockRef{}, nil
}

// epochHalfDone tells whether half of the tip's epoch is folded.
func (s *Schedule) epochHalfDone(tip *BlockNode) (half bool, err error) {
	err = s.e.Epochs(func(m *epoch.Manager) error {
		first, length, _, err := m.EpochSpan(tip.Hash)
		half = s.e.store.Tip().Folded.Height >= first+primitives.Height(length)/2
		return err
	})
	return half, err
}

// abandonInFlight lets go of a shard that is not awaited any more.
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

// isSourceFault tells whether an error says that what the source gave is wrong.
func isSourceFault(err error) bool {
	var invalid chain.Invalid
	return errors.Is(err, ErrChunk) || errors.Is(err, ErrMissing) || errors.Is(err, trie.ErrMissing) || errors.Is(err, trie.ErrCorrupt) || errors.As(err, &invalid)
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
	case errors.Is(err, ErrNotYet), errors.Is(err, ErrUnknown), errors.Is(err, ErrReshard): // the layout is another, or the shard was here at that block
		delete(s.catchups, c.id)
		s.failed[c.id] = s.e.Tip().Hash
		return s.forgetPoint(c.id)
	default:
		return err
	}
	return nil
}

// catchUp does what the blocks behind the shard's state did in it, as far as they are folded; then it does the rest, and the shard is held.
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

// refuse drops the chunks that the source has given.
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
		slices.SortFunc(lack, func(a, b *BlockNode) int { return cmp.Or(cmp.Compare(a.Height(), b.Height()), a.Hash.Compare(b.Hash)) })
		var list []primitives.Hash
		for _, x := range lack[:min(len(lack), finishBlocks)] {
			list = append(list, x.Hash)
		}
		if len(list) == 0 { // what it gave is not all
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
