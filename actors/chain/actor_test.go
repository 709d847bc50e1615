package chain

import (
	"errors"
	"io"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// fake is an engine that takes no block: each method returns err, and Precheck returns standing.
// Tests that need a real engine are in commit_pipeline_test.go and in package node.
type fake struct {
	err      error
	standing blockpool.Status
	asked    int
	made     int // calls of NewBlock
}

func (f *fake) Precheck(*primitives.Block) (engine.Prechecked, error) {
	return engine.Prechecked{Standing: f.standing, Producer: "producer"}, nil
}
func (f *fake) PrecheckBody(*primitives.Chunk) (bool, blockpool.Need, error) {
	return false, blockpool.Need{}, nil
}

func (f *fake) NewBlock(*engine.Proposal, primitives.SecretKey) (*primitives.Block, error) {
	f.made++
	return nil, f.err
}
func (f *fake) BeginImport(*primitives.Block, []*primitives.Chunk, bool) (*engine.BlockImport, error) {
	f.asked++
	return nil, f.err
}
func (f *fake) FinishImport(*engine.BlockImport, func()) (*engine.Imported, error) { return nil, f.err }
func (f *fake) Stored() ([]*engine.Imported, error)                                { return nil, f.err }

func (f *fake) NewRevertPoint() (*engine.RevertPoint, error) { return nil, f.err }
func (f *fake) ShareRevertPoint(*engine.RevertPoint) (*engine.RevertPoint, error) {
	return nil, engine.ErrEnded
}
func (f *fake) EndRevertPoint(*engine.RevertPoint) {}
func (f *fake) Rewind(*engine.RevertPoint) error   { return f.err }
func (f *fake) Head() *engine.BlockNode            { return nil }
func (f *fake) Final() storage.BlockRef            { return storage.BlockRef{} }

// recorder records what the actor sends. It implements messages.NetworkSender, and of
// messages.BlockSender only Halted.
type recorder struct {
	messages.BlockSender
	refused []messages.BlockRefused
	halted  []messages.ChainHalted
}

func (h *recorder) Refused(m messages.BlockRefused)    { h.refused = append(h.refused, m) }
func (h *recorder) Halted(m messages.ChainHalted)      { h.halted = append(h.halted, m) }
func (h *recorder) ChunkRefused(messages.ChunkRefused) {}
func (h *recorder) Wanted(messages.BlockWanted)        {}
func (h *recorder) ChunksWanted(messages.ChunksWanted) {}

func newActor(f *fake) (*Actor, *recorder) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	h := &recorder{}
	return New(Options{Engine: f, Log: log, Counters: new(blockpool.Counters), Out: Out{BlockSender: h, NetworkSender: h}}), h
}

func received(height primitives.Height) messages.BlockReceived {
	h := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	h.Height, h.PrevHash = height, primitives.Hash{byte(height), byte(height >> 8)}
	h.Init()
	return messages.BlockReceived{Block: &primitives.Block{Header: h}, From: "peer"}
}

// TestOrphanIsKeptOnceWithinWindow: an orphan that arrives twice is kept and counted once. Orphans
// above the window are not kept.
func TestOrphanIsKeptOnceWithinWindow(t *testing.T) {
	a, h := newActor(&fake{standing: blockpool.Orphan})
	for i := range primitives.Height(2 * blockpool.MaxBlocks) {
		a.Handle(received(i + 1))
		a.Handle(received(i + 1))
	}
	if n, _ := a.blocks.Pool().Len(); n != int(blockpool.Window) || a.o.Counters.Orphans.Load() != int64(n) {
		t.Errorf("%d blocks wait, %d orphans are counted, want %d", n, a.o.Counters.Orphans.Load(), blockpool.Window)
	}
	if len(h.refused) != 0 {
		t.Errorf("%d orphans were refused", len(h.refused))
	}
}

// TestImportErrorDecidesBlocksFate: a block is received twice, and its import fails to start with
// err both times. The test checks whether the block is refused, dropped, or halts the chain.
func TestImportErrorDecidesBlocksFate(t *testing.T) {
	m := received(1)
	for name, tt := range map[string]struct {
		err            error
		refused, asked int // number of BlockRefused, and of calls of BeginImport
		halted         bool
	}{
		"bad, and remembered":   {chain.InvalidApprovals, 2, 1, false},
		"bad chunk":             {engine.ErrChunk, 2, 1, false},
		"too early":             {chain.InvalidBlockFutureTime, 0, 2, false},
		"a copy that was told":  {errors.Join(engine.ErrPartialBody, chain.InvalidSignature), 2, 2, false},
		"known":                 {engine.ErrKnown, 0, 2, false},
		"overtaken":             {engine.ErrOld, 0, 2, false},
		"its parent went":       {engine.ErrOrphan, 0, 2, false},
		"this node's own fault": {errors.New("state"), 0, 1, true},
		"a doubt of this node": {&engine.ApplyFailure{Height: 7, Block: primitives.Hash{8},
			Err: &engine.OutcomeMismatch{Err: chain.InvalidStateRoot}}, 0, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{err: tt.err}
			a, h := newActor(f)
			m, taken := m, 0
			m.Taken = func() { taken++ }
			a.Handle(m)
			a.Handle(m)
			if taken != 2 {
				t.Errorf("taken %d times, want 2", taken)
			}
			if len(h.refused) != tt.refused || f.asked != tt.asked || len(h.halted) != 0 != tt.halted || a.halted != tt.halted {
				t.Errorf("refused %d times, prechecked %d times, halted %v; want %d, %d, %v", len(h.refused), f.asked,
					a.halted, tt.refused, tt.asked, tt.halted)
			}
			if f := (*engine.ApplyFailure)(nil); errors.As(tt.err, &f) &&
				(h.halted[0].Height != f.Height || h.halted[0].Block != f.Block || h.halted[0].Drop == nil) {
				t.Errorf("halted %+v", h.halted[0])
			}
			for _, r := range h.refused {
				if !errors.Is(r.Err, tt.err) || r.From != "peer" || r.Hash != m.Block.Hash() {
					t.Errorf("refused %+v", r)
				}
			}
		})
	}
}

// TestOvertakenOwnBlockIsDropped: a block of this node is dropped if a received block has overtaken
// it or if it contains another producer's bad chunk. Any other error halts the chain.
func TestOvertakenOwnBlockIsDropped(t *testing.T) {
	for _, err := range []error{engine.ErrOrphan, engine.ErrOld, engine.ErrKnown, engine.ErrChunk,
		chain.InvalidApprovals, engine.ErrMissing, errors.New("disk is full")} {
		a, h := newActor(&fake{err: err})
		a.Handle(messages.MakeBlock{Height: 3})
		own := err != engine.ErrOrphan && err != engine.ErrOld && err != engine.ErrKnown && err != engine.ErrChunk
		if a.halted != own || len(h.halted) != 0 != own || own && !errors.Is(h.halted[0].Err, err) {
			t.Errorf("%v: halted %v, want %v", err, a.halted, own)
		}
	}
}

func TestDrainedChainIgnoresRequests(t *testing.T) {
	f := &fake{}
	a, h := newActor(f)
	req := system.NewRequest[messages.DrainChain, messages.Drained](messages.DrainChain{})
	a.Handle(req)
	if r := <-req.Answer(); r.Err != nil {
		t.Error(r.Err)
	}
	f.err = engine.ErrKnown
	a.Handle(messages.MakeBlock{Height: 3})
	a.Handle(received(1))
	if f.made != 0 || f.asked != 0 || len(h.halted) != 0 {
		t.Error("a drained chain goes on")
	}
}
