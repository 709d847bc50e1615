package chain

import (
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// received handles a block from the net.
func (a *Actor) received(m *messages.BlockReceived) {
	if m.Taken != nil {
		m.Taken()
	}
	if !a.isClosing() {
		a.precheck(m)
		a.next()
	}
}

// precheck checks a received block as far as possible without its parent, and adds it to the
// pool.
func (a *Actor) precheck(m *messages.BlockReceived) {
	hash := m.Block.Hash()
	if err := a.pool.Refusal(hash); err != nil {
		a.refuse(m.Block, m.From, err)
		return
	}
	b := blockpool.Block{Block: m.Block, Chunks: m.Chunks, From: m.From, Standing: blockpool.Orphan}
	if !a.pool.Has(hash) { // else this copy can only bring chunk bodies
		as, err := a.o.Engine.Precheck(m.Block)
		if err != nil {
			a.precheckFailed(m.Block, m.From, err)
			return
		}
		b.Standing, b.Producer, b.Needs = as.Standing, as.Producer, as.Needs
	}
	out, err := a.pool.Add(b, a.o.Clock())
	if out.Bad != nil && a.o.Out.ChunkRefused != nil {
		a.o.Out.ChunkRefused(messages.ChunkRefused{From: m.From, Err: out.Bad})
	}
	switch {
	case errors.Is(err, blockpool.ErrRefused):
		a.refuse(m.Block, m.From, err)
	case err != nil:
		a.dropped(hash, m.From, err)
	}
	a.requestMissing(m.Block, m.From, &out)
}

// requestMissing asks the net for what a block lacks.
func (a *Actor) requestMissing(b *primitives.Block, from string, out *blockpool.Out) {
	if !out.Parent.IsZero() && a.o.Out.Wanted != nil {
		a.o.Out.Wanted(messages.BlockWanted{Hash: out.Parent, From: from})
	}
	if len(out.Chunks) > 0 && a.o.Out.ChunksWanted != nil {
		a.o.Out.ChunksWanted(messages.ChunksWanted{Block: b, Chunks: out.Chunks, From: from})
	}
}

// precheckFailed handles a copy of a block that was not added. Nothing is remembered, since
// another copy may be right.
func (a *Actor) precheckFailed(b *primitives.Block, from string, err error) {
	switch engine.VerdictOf(err) {
	case engine.VerdictLocalFault:
		a.fail(err)
	case engine.VerdictStale, engine.VerdictWaiting:
		a.dropped(b.Hash(), from, err)
	default:
		a.refuse(b, from, err)
	}
}

// receivedChunk handles a chunk that came without its block.
func (a *Actor) receivedChunk(m *messages.ChunkReceivedAlone) {
	if a.isClosing() {
		return
	}
	signed, need := false, blockpool.Need{}
	if !a.pool.Wants(m.Chunk.Hash) {
		var err error
		if signed, need, err = a.o.Engine.PrecheckBody(m.Chunk); err != nil {
			a.fail(err)
			return
		}
	}
	err := a.pool.AddBody(m.Chunk, signed, need)
	if err != nil && engine.VerdictOf(err) == engine.VerdictInvalid && a.o.Out.ChunkRefused != nil {
		a.o.Out.ChunkRefused(messages.ChunkRefused{Hash: m.Chunk.Hash, From: m.From, Err: err})
	}
	a.next()
}

// beginImport starts the import of a received block after its parent. A block that lacks
// chunk bodies waits for them.
func (a *Actor) beginImport(b *blockpool.Block) {
	p, err := a.o.Engine.BeginImport(b.Block, b.Chunks, false)
	if err == nil {
		a.applyChunks(p, false, b.From)
		return
	}
	if errors.Is(err, engine.ErrMissing) {
		if out, ok := a.pool.WaitForChunks(b.Hash(), a.o.Clock()); ok {
			a.requestMissing(b.Block, b.From, &out)
			return
		}
	}
	a.importFailed(b.Block, b.From, err)
}

// importFailed handles the error of a received block.
func (a *Actor) importFailed(b *primitives.Block, from string, err error) {
	hash := b.Hash()
	switch engine.VerdictOf(err) {
	case engine.VerdictInvalid:
		fell := a.pool.Refused(hash, err)
		a.refuse(b, from, err)
		for i := range fell {
			a.refuse(fell[i].Block, fell[i].From, a.pool.Refusal(fell[i].Hash()))
		}
	case engine.VerdictEarly:
		a.pool.Dropped(hash, true)
		a.refuse(b, from, err)
	case engine.VerdictStale, engine.VerdictWaiting:
		a.pool.Dropped(hash, false)
		a.dropped(hash, from, err)
	default:
		a.fail(err)
	}
}

// refuse reports a block that is its sender's fault.
func (a *Actor) refuse(b *primitives.Block, from string, err error) {
	hash := b.Hash()
	if a.o.Log.IsLevelEnabled(logrus.InfoLevel) {
		a.o.Log.WithError(err).WithFields(logrus.Fields{"block": hash, "peer": from}).Info("block refused")
	}
	if a.o.Out.Refused != nil {
		a.o.Out.Refused(messages.BlockRefused{Hash: hash, Height: b.Header.Height, From: from, Err: err})
	}
}

// dropped logs a block that is not kept and is no peer's fault.
func (a *Actor) dropped(hash primitives.Hash, from string, err error) {
	if a.o.Log.IsLevelEnabled(logrus.DebugLevel) {
		a.o.Log.WithError(err).WithFields(logrus.Fields{"block": hash, "peer": from}).Debug("block dropped")
	}
}

// blockImported continues with blocks that waited for the imported one, and checks again those
// that could not be checked before it.
func (a *Actor) blockImported(acc *engine.Accepted) {
	epoch := false
	if acc.IsHead {
		a.tip = acc.Entry.Height()
		epoch = acc.Entry.Header().EpochID != acc.OldHead.Header().EpochID
	}
	for _, b := range a.pool.Imported(acc.Entry.Block, a.tip, acc.Final.Height, epoch) {
		a.precheck(&messages.BlockReceived{Block: b.Block, From: b.From})
	}
}
