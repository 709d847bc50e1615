package chain

import (
	"errors"
	"io"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/link"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// fake is an engine that knows no block's parent, or finds every block bad. What needs a real engine is tested with package
// node.
type fake struct {
	err   error
	asked int
}

func (f *fake) NewChunk(parent primitives.Hash, _ primitives.ShardIndex, txs []*primitives.SignedTransaction, _ primitives.SecretKey) (*primitives.Chunk, error) {
	if f.err != nil {
		return nil, f.err
	}
	c := &primitives.Chunk{ChunkBody: primitives.ChunkBody{Transactions: txs}}
	c.Header.PrevBlockHash = parent
	return c, nil
}
func (f *fake) NewBlock(*engine.Proposal, primitives.SecretKey) (*primitives.Block, error) {
	return nil, f.err
}
func (f *fake) Begin(*primitives.Block, []*primitives.Chunk, bool) (*engine.Pending, error) {
	f.asked++
	return nil, f.err
}
func (f *fake) Adopt(*engine.Pending, func()) (*engine.Accepted, error) { return nil, f.err }
func (f *fake) Stored() ([]*engine.Accepted, error)                     { return nil, f.err }

type heard struct {
	chunks  []messages.ChunkMade
	refused []messages.BlockRefused
}

func newActor(f *fake) (*Actor, *heard) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	h := &heard{}
	return New(Options{Engine: f, Log: log, Out: Out{
		ChunkMade: func(m messages.ChunkMade) { h.chunks = append(h.chunks, m) },
		Refused:   func(m messages.BlockRefused) { h.refused = append(h.refused, m) },
	}}), h
}

func received(height primitives.Height) messages.BlockReceived {
	h := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	h.Height, h.PrevHash = height, primitives.Hash{byte(height), byte(height >> 8)}
	h.Init()
	return messages.BlockReceived{Block: &primitives.Block{Header: h}, From: "peer"}
}

// TestOrphansAreBounded: blocks without a parent are kept once each, and no more than the bound.
func TestOrphansAreBounded(t *testing.T) {
	a, h := newActor(&fake{err: engine.ErrOrphan})
	for i := range primitives.Height(2 * MaxOrphans) {
		a.Handle(received(i + 1))
		a.Handle(received(i + 1))
	}
	if a.waiting != MaxOrphans || len(a.orphans) != MaxOrphans || len(a.known) != MaxOrphans {
		t.Errorf("%d blocks wait under %d parents, want %d", a.waiting, len(a.orphans), MaxOrphans)
	}
	if len(h.refused) != 0 {
		t.Errorf("%d orphans were refused", len(h.refused))
	}
}

func TestBadBlocks(t *testing.T) {
	bad := errors.New("bad signature")
	a, h := newActor(&fake{err: bad})
	m := received(1)
	a.Handle(m)
	if len(h.refused) != 1 || h.refused[0].Err != bad || h.refused[0].From != "peer" || h.refused[0].Hash != m.Block.Hash() {
		t.Errorf("refused %+v", h.refused)
	}
	a, h = newActor(&fake{err: engine.ErrKnown})
	if a.Handle(m); len(h.refused) != 0 {
		t.Error("a known block is refused")
	}
}

// TestOwnFailuresEndTheProcess: what this node cannot make is no peer's fault.
func TestOwnFailuresEndTheProcess(t *testing.T) {
	for name, m := range map[string]any{"block": messages.MakeBlock{Height: 3}, "chunk": messages.MakeChunk{ShardID: 1}} {
		panics := func(err error) (p bool) {
			defer func() { p = recover() != nil }()
			a, _ := newActor(&fake{err: err})
			a.Handle(m)
			return false
		}
		if !panics(errors.New("disk is full")) {
			t.Errorf("%s: an error of the engine passes", name)
		}
		if panics(engine.ErrOrphan) {
			t.Errorf("%s: a parent that final blocks have overtaken ends the process", name)
		}
	}
}

func TestChunkAndDrain(t *testing.T) {
	f := &fake{}
	a, h := newActor(f)
	a.Handle(messages.MakeChunk{Parent: primitives.Hash{1}, Shard: 2})
	if len(h.chunks) != 1 || h.chunks[0].Shard != 2 || h.chunks[0].Chunk.Header.PrevBlockHash != (primitives.Hash{1}) {
		t.Fatalf("chunks %+v", h.chunks)
	}
	req := link.NewRequest[messages.DrainChain, messages.Drained](messages.DrainChain{})
	a.Handle(req)
	if r := <-req.Answer(); r.Err != nil {
		t.Error(r.Err)
	}
	f.err = engine.ErrKnown
	a.Handle(messages.MakeChunk{})
	a.Handle(received(1))
	if len(h.chunks) != 1 || f.asked != 0 {
		t.Error("a drained chain goes on")
	}
}
