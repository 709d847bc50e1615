package chain

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

const validator primitives.AccountID = "test.near"

// testChain is an actor with a real engine and one validator. Its shards apply chunks at once, and
// the test decides when a disk sync ends and with which error.
type testChain struct {
	*Actor
	t        *testing.T
	e        *engine.Engine
	key      primitives.SecretKey
	slow     atomic.Bool // each sync sends to arrived and then waits for its error from gate
	arrived  chan struct{}
	gate     chan error
	stored   chan struct{} // one element for each call of the actor's disk function
	adopted  []messages.BlockImported
	accepted []messages.BlockAccepted
	refused  []messages.BlockRefused
	halts    []messages.ChainHalted
	wanted   []messages.BlockWanted
}

// faulty is an engine whose FinishImport fails with err for the block at height at. A nil err
// disables that.
type faulty struct {
	*engine.Engine
	at  primitives.Height
	err error
}

func (f *faulty) FinishImport(p *engine.BlockImport, stored func()) (*engine.Imported, error) {
	if f.err != nil && p.Block().Header.Height == f.at {
		return nil, f.err
	}
	return f.Engine.FinishImport(p, stored)
}

func newTestChain(t *testing.T) (*testChain, *faulty) {
	c, key := testnode.Sandbox(t, 2, nil)
	disk := storage.NewMemDisk()
	s := &testChain{t: t, key: key, arrived: make(chan struct{}, 64), gate: make(chan error), stored: make(chan struct{}, 64)}
	s.e = testnode.Open(t, testnode.Options{Chain: c, Disk: disk})
	disk.Fault = func(bytes int) error {
		if bytes > 0 || !s.slow.Load() {
			return nil
		}
		s.arrived <- struct{}{}
		return <-s.gate
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	f := &faulty{Engine: s.e}
	s.Actor = New(Options{Engine: f, Keys: map[primitives.AccountID]primitives.SecretKey{validator: s.key},
		Vote: parameters.Newest(primitives.NumberingRelease), Log: log, Out: Out{BlockSender: s, ShardSender: s, NetworkSender: s}})
	s.disk = func(stored) { s.stored <- struct{}{} }
	return s, f
}

func (s *testChain) Apply(_ primitives.ShardID, m messages.ApplyChunk) {
	m.Job.Run()
	s.Handle(messages.ChunkApplied{Block: m.Block})
}
func (s *testChain) Imported(m messages.BlockImported)  { s.adopted = append(s.adopted, m) }
func (s *testChain) Accepted(m messages.BlockAccepted)  { s.accepted = append(s.accepted, m) }
func (s *testChain) Refused(m messages.BlockRefused)    { s.refused = append(s.refused, m) }
func (s *testChain) Halted(m messages.ChainHalted)      { s.halts = append(s.halts, m) }
func (s *testChain) Wanted(m messages.BlockWanted)      { s.wanted = append(s.wanted, m) }
func (s *testChain) ChunkRefused(messages.ChunkRefused) {}
func (s *testChain) ChunksWanted(messages.ChunksWanted) {}

// make requests a block on the tip, with no new chunks.
func (s *testChain) make() {
	s.t.Helper()
	s.makeOn(s.e.Tip(), s.e.Tip().Height()+1)
}

// makeOn requests a block at height on parent, with no new chunks.
func (s *testChain) makeOn(parent *engine.BlockNode, height primitives.Height) {
	s.t.Helper()
	inner := primitives.NewApprovalInner(parent.Hash, parent.Height(), height)
	approvals := []primitives.Signature{s.key.Sign(inner.SignedBytes(height))}
	s.Handle(messages.MakeBlock{Parent: parent.Hash, Height: height, Producer: validator, Approvals: approvals,
		Chunks: make([]*primitives.Chunk, 2), Endorsements: make([][]primitives.Signature, 2)})
}

// deliverUntilAccepted passes stored messages to the actor until that many blocks are accepted.
func (s *testChain) deliverUntilAccepted(blocks int) {
	s.t.Helper()
	for len(s.accepted) < blocks {
		<-s.stored
		s.Handle(stored{})
	}
}

// begin makes a first block, which opens a log segment, and then sets slow.
func (s *testChain) begin() {
	s.t.Helper()
	s.make()
	s.deliverUntilAccepted(1)
	s.slow.Store(true)
}

// TestBlocksAreImportedAheadOfTheDisk: blocks are imported without waiting for the disk, up to
// engine.MaxAhead of them. They are accepted in order once they are on disk, and DrainChain is
// answered only after that.
func TestBlocksAreImportedAheadOfTheDisk(t *testing.T) {
	s, _ := newTestChain(t)
	s.begin()
	s.make()
	<-s.arrived // the sync of the first block; all later blocks share the next sync
	for len(s.adopted) < 1+engine.MaxAhead {
		s.make()
	}
	s.make()
	if len(s.adopted) != 1+engine.MaxAhead || len(s.proposals) != 1 || len(s.accepted) != 1 {
		t.Fatalf("%d blocks adopted, %d wait, %d accepted, want %d, 1 and 1", len(s.adopted), len(s.proposals),
			len(s.accepted), 1+engine.MaxAhead)
	}
	s.gate <- nil
	s.deliverUntilAccepted(2)
	if len(s.accepted) != 2 || len(s.adopted) != engine.MaxAhead+2 || len(s.proposals) != 0 {
		t.Fatalf("with one more on disk: %d accepted, %d adopted", len(s.accepted), len(s.adopted))
	}
	req := system.NewRequest[messages.DrainChain, messages.Drained](messages.DrainChain{})
	s.Handle(req)
	select {
	case <-req.Answer():
		t.Fatal("the chain is drained while blocks are on their way to the disk")
	case <-time.After(20 * time.Millisecond): // absence cannot be waited for: 20 ms is how long the test looks
	}
	close(s.gate)
	s.deliverUntilAccepted(len(s.adopted))
	if r := <-req.Answer(); r.Err != nil {
		t.Error(r.Err)
	}
	for i := range s.accepted {
		if s.accepted[i].Hash != s.adopted[i].Hash || s.accepted[i].Height() != primitives.Height(i+1) {
			t.Errorf("block %d is reported at position %d", s.accepted[i].Height(), i)
		}
	}
	if s.e.Head().Height() != engine.MaxAhead+2 || s.e.Head() != s.e.Tip() {
		t.Errorf("head %d, tip %d", s.e.Head().Height(), s.e.Tip().Height())
	}
}

// TestDiskFailureEndsTheProcess: blocks that reached the disk before a sync failed are still
// reported. Then the actor panics, which ends the process.
func TestDiskFailureEndsTheProcess(t *testing.T) {
	s, _ := newTestChain(t)
	s.begin()
	s.make()
	<-s.arrived
	s.make()
	s.gate <- nil
	s.deliverUntilAccepted(2)
	<-s.arrived
	s.gate <- syscall.EIO
	<-s.stored
	failed := func() (reason any) {
		defer func() { reason = recover() }()
		s.Handle(stored{})
		return nil
	}()
	if err, ok := failed.(error); !ok || !errors.Is(err, syscall.EIO) {
		t.Errorf("the actor fails with %v, want the disk's error", failed)
	}
	s.e.Abandon()
	if len(s.accepted) != 2 || s.e.Head().Height() != 2 || s.e.Tip() != s.e.Head() {
		t.Errorf("%d blocks reported, head %d, tip %d, want 2", len(s.accepted), s.e.Head().Height(), s.e.Tip().Height())
	}
}

// TestBlockWithInvalidChunkIsRefused: a received block with an invalid chunk is refused, and
// another block at its height is then accepted. A fault of this node panics; an invalid chunk in a
// block of this node does not.
func TestBlockWithInvalidChunkIsRefused(t *testing.T) {
	maker, _ := newTestChain(t)
	maker.make()
	block := maker.adopted[0].Block
	m := messages.BlockReceived{Block: block, Chunks: make([]*primitives.Chunk, 2), From: "peer"}
	for bad, blamed := range map[error]int{engine.ErrChunk: 1, engine.ErrOld: 0} {
		s, f := newTestChain(t)
		f.at, f.err = 1, bad
		s.Handle(m)
		if len(s.refused) != blamed || len(s.adopted) != 0 {
			t.Fatalf("%v: refused %+v, adopted %d", bad, s.refused, len(s.adopted))
		}
		if blamed > 0 && (!errors.Is(s.refused[0].Err, bad) || s.refused[0].From != "peer" ||
			s.refused[0].Hash != block.Hash()) {
			t.Errorf("%v: refused %+v", bad, s.refused)
		}
		f.err = nil
		s.Handle(m)
		if len(s.adopted) != 1-blamed || len(s.refused) != 2*blamed {
			t.Errorf("%v: sent again: %d imported, refused %+v", bad, len(s.adopted), s.refused)
		}
		s.make() // another block at that height
		if len(s.adopted) == 0 {
			t.Errorf("%v: a good block after it is not adopted", bad)
		}
		if _, err := s.e.Flush(); err != nil {
			t.Error(err)
		}
	}
	panics := func(err error, own bool) (p bool) {
		s, f := newTestChain(t)
		f.at, f.err = 1, err
		defer func() { p = recover() != nil }()
		if own {
			s.make()
		} else {
			s.Handle(m)
		}
		return false
	}
	if !panics(storage.ErrDamaged, false) {
		t.Error("a failure of this node's own passes for the block's")
	}
	if panics(engine.ErrChunk, true) {
		t.Error("another's chunk in a block of its own ends the process")
	}
	if _, err := maker.e.Flush(); err != nil {
		t.Error(err)
	}
}

// TestBlockOfLosingForkIsDropped: three kinds of blocks are dropped without halting the chain or
// blaming a peer: an own block on a branch that the final block excludes, an own block that is
// already imported, and received blocks on such a branch.
func TestBlockOfLosingForkIsDropped(t *testing.T) {
	other, _ := newTestChain(t)
	other.makeOn(other.e.Genesis(), 2)
	for len(other.adopted) < 3 {
		other.make()
	}
	s, _ := newTestChain(t)
	s.make()
	lost := s.e.Tip()
	for _, m := range other.adopted { // blocks 2, 3 and 4; with 4, block 2 is final
		s.Handle(messages.BlockReceived{Block: m.Block, From: "peer"})
	}
	if len(s.adopted) != 4 || s.e.TipFinal().Height != 2 {
		t.Fatalf("%d blocks adopted, final %d", len(s.adopted), s.e.TipFinal().Height)
	}
	s.makeOn(lost, 5)
	s.makeOn(other.e.Genesis(), 5)
	late, _ := newTestChain(t)
	late.make()
	for len(late.adopted) < 6 { // late's block 1 equals s's own block 1, so its further blocks extend s's losing branch
		late.makeOn(late.e.Tip(), late.e.Tip().Height()+3)
	}
	for _, m := range late.adopted {
		s.Handle(messages.BlockReceived{Block: m.Block, From: "late"})
		s.Handle(messages.BlockReceived{Block: m.Block, From: "late"})
	}
	if s.halted || len(s.halts) != 0 || len(s.refused) != 0 || len(s.adopted) != 4 {
		t.Fatalf("halted %+v, refused %+v, %d blocks adopted", s.halts, s.refused, len(s.adopted))
	}
	s.make()
	if s.e.Tip().Height() != 5 || len(s.adopted) != 5 {
		t.Errorf("the chain does not go on: tip %d", s.e.Tip().Height())
	}
	for _, x := range []*testChain{s, other, late} {
		if _, err := x.e.Flush(); err != nil {
			t.Error(err)
		}
	}
}

// TestForgedOrphanStaysOutOfPool: blocks whose parent and height were changed after signing do not
// enter the pool. So they cannot displace a valid block that arrives before its parent.
func TestForgedOrphanStaysOutOfPool(t *testing.T) {
	other, _ := newTestChain(t)
	for len(other.adopted) < 6 {
		other.make()
	}
	s, _ := newTestChain(t)
	for i := range 2 * blockpool.MaxBlocks {
		h := *other.adopted[3].Block.Header
		h.PrevHash, h.Height = primitives.Hash{1, byte(i), byte(i >> 8)}, 1<<40
		h.Init()
		s.Handle(messages.BlockReceived{Block: &primitives.Block{Header: &h, Body: other.adopted[3].Block.Body},
			From: "forger"})
	}
	if n, _ := s.blocks.Pool().Len(); n != 0 || len(s.refused) != 2*blockpool.MaxBlocks || len(s.wanted) != 0 {
		t.Errorf("%d forged blocks are kept, %d refused, %d parents requested", n, len(s.refused), len(s.wanted))
	}
	for _, m := range slices.Backward(other.adopted) {
		s.Handle(messages.BlockReceived{Block: m.Block, From: "peer"})
	}
	if s.e.Tip().Hash != other.e.Tip().Hash || len(s.wanted) != 5 {
		t.Errorf("tip %d, want 6; %d parents requested, want 5", s.e.Tip().Height(), len(s.wanted))
	}
	for _, x := range []*testChain{s, other} {
		if _, err := x.e.Flush(); err != nil {
			t.Error(err)
		}
	}
}

// TestFailedRollbackDropsWaitingMakeBlock: MakeBlock requests that waited for a rollback are
// dropped if the rollback fails.
func TestFailedRollbackDropsWaitingMakeBlock(t *testing.T) {
	s, _ := newTestChain(t)
	s.begin()
	snap, err := s.e.NewRevertPoint()
	if err != nil {
		t.Fatal(err)
	}
	s.e.EndRevertPoint(snap)
	s.make()
	<-s.arrived
	r := system.NewRequest[messages.Rollback, messages.SnapshotTaken](messages.Rollback{Snapshot: snap})
	s.Handle(r)
	s.make() // waits until the rollback is done
	if len(s.proposals) != 1 {
		t.Fatalf("%d blocks wait to be made, want 1", len(s.proposals))
	}
	s.slow.Store(false)
	s.gate <- nil
	s.deliverUntilAccepted(2)
	if a := <-r.Answer(); !errors.Is(a.Err, engine.ErrEnded) {
		t.Errorf("an ended snapshot: %v", a.Err)
	}
	if len(s.adopted) != 2 {
		t.Errorf("%d blocks were adopted, want 2", len(s.adopted))
	}
}
