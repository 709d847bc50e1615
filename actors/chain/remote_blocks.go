package chain

import (
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// received handles a block from a peer.
func (a *Actor) received(m *messages.BlockReceived) {
	if m.Taken != nil {
		m.Taken()
	}
	if !a.isClosing() {
		a.precheck(m)
		a.next()
	}
}

// precheck runs the checks that do not need the block's parent, adds the block to the pool, and
// requests what is missing.
func (a *Actor) precheck(m *messages.BlockReceived) {
	hash := m.Block.Hash()
	if err := a.pool.Refusal(hash); err != nil {
		a.refuse(m.Block, m.From, err)
		return
	}
	b := blockpool.Block{Block: m.Block, Chunks: m.Chunks, From: m.From, Standing: blockpool.Orphan}
	if !a.pool.Has(hash) { // if it is pooled, this copy can only add chunk bodies
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

// requestMissing asks peers for the block's parent and for chunk bodies, as listed in out.
func (a *Actor) requestMissing(b *primitives.Block, from string, out *blockpool.Out) {
	if !out.Parent.IsZero() && a.o.Out.Wanted != nil {
		a.o.Out.Wanted(messages.BlockWanted{Hash: out.Parent, From: from})
	}
	if len(out.Chunks) > 0 && a.o.Out.ChunksWanted != nil {
		a.o.Out.ChunksWanted(messages.ChunksWanted{Block: b, Chunks: out.Chunks, From: from})
	}
}

// precheckFailed handles a block that failed precheck. Its hash is not remembered as invalid: an
// honest copy with the same hash may still arrive.
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

// receivedChunk handles a chunk body that arrived without its block.
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

// beginImport starts the import of a received block whose parent is imported. A block that lacks
// chunk bodies returns to the pool until they arrive.
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

// importFailed handles an error of importing a received block: it refuses the block and its pooled
// descendants, drops it, or halts the chain.
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

// refuse logs and reports a block that is invalid through the fault of the peer that sent it.
func (a *Actor) refuse(b *primitives.Block, from string, err error) {
	hash := b.Hash()
	if a.o.Log.IsLevelEnabled(logrus.InfoLevel) {
		a.o.Log.WithError(err).WithFields(logrus.Fields{"block": hash, "peer": from}).Info("block of a peer rejected")
	}
	if a.o.Out.Refused != nil {
		a.o.Out.Refused(messages.BlockRefused{Hash: hash, Height: b.Header.Height, From: from, Err: err})
	}
}

// dropped logs a block that is not kept. No peer is blamed for it.
func (a *Actor) dropped(hash primitives.Hash, from string, err error) {
	if a.o.Log.IsLevelEnabled(logrus.DebugLevel) {
		a.o.Log.WithError(err).WithFields(logrus.Fields{"block": hash, "peer": from}).Debug("block of a peer dropped")
	}
}

// blockImported updates the pool after an import. It prechecks again the pooled blocks that could
// not be checked before, because their epoch was unknown.
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
