package chain

import (
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/consensus/importer"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// received handles a block from a peer.
func (a *Actor) received(m *messages.BlockReceived) {
	if m.Taken != nil {
		m.Taken()
	}
	if a.isClosing() {
		return
	}
	// The importer emits the result as an effect.
	_, _ = a.blocks.Take(blockpool.Block{Block: m.Block, Chunks: m.Chunks, From: m.From}, a.o.Clock())
	a.next()
}

// receivedChunk handles a chunk body that arrived without its block.
func (a *Actor) receivedChunk(m *messages.ChunkReceivedAlone) {
	if !a.isClosing() {
		_ = a.blocks.TakeBody(m.Chunk, m.From) // a body that is not needed is dropped
		a.next()
	}
}

// emit carries out an effect of the importer.
func (a *Actor) emit(e importer.Effect) {
	switch e := e.(type) {
	case importer.Missing:
		a.requestMissing(&e)
	case importer.Rejected:
		a.rejected(&e)
	case importer.BadBody:
		if a.o.Out.NetworkSender != nil {
			a.o.Out.ChunkRefused(messages.ChunkRefused{Hash: e.Chunk, From: e.From, Err: e.Err})
		}
	case importer.Dropped:
		if a.o.Log.IsLevelEnabled(logrus.DebugLevel) {
			a.o.Log.WithError(e.Err).WithFields(logrus.Fields{"block": e.Block.Hash(), "peer": e.From}).Debug("block of a peer dropped")
		}
	case importer.Ahead: // package blocksync requests the headers up to a block far ahead
	case importer.Imported:
		m := Accepted(e.Imported)
		a.inFlight = append(a.inFlight, &m)
		a.o.Out.Imported(messages.BlockImported{BlockAccepted: &m})
	case importer.OwnFailed:
		a.ownBlockFailed(e.Height, e.Err)
	case importer.Failed:
		a.importerFailed(&e)
	}
}

// requestMissing asks peers for a block's parent and for chunk bodies.
func (a *Actor) requestMissing(e *importer.Missing) {
	if !e.Parent.IsZero() && a.o.Out.NetworkSender != nil {
		a.o.Out.Wanted(messages.BlockWanted{Hash: e.Parent, From: e.From})
	}
	if len(e.Chunks) > 0 && a.o.Out.NetworkSender != nil {
		a.o.Out.ChunksWanted(messages.ChunksWanted{Block: e.Block, Chunks: e.Chunks, From: e.From})
	}
}

// rejected logs and reports an invalid block whose sender is at fault.
func (a *Actor) rejected(e *importer.Rejected) {
	hash := e.Block.Hash()
	if a.o.Log.IsLevelEnabled(logrus.InfoLevel) {
		a.o.Log.WithError(e.Err).WithFields(logrus.Fields{"block": hash, "peer": e.From}).Info("block of a peer rejected")
	}
	if a.o.Out.NetworkSender != nil {
		a.o.Out.Refused(messages.BlockRefused{Hash: hash, Height: e.Block.Header.Height, From: e.From, Err: e.Err})
	}
}

// importerFailed halts the chain after a fault of this node. importerFailed panics if the engine
// may be half changed.
func (a *Actor) importerFailed(e *importer.Failed) {
	switch {
	case e.Run == nil:
		a.fail(e.Err)
	case errors.As(e.Err, new(*engine.ApplyFailure)):
		a.halt()
		a.o.Out.Halted(messages.ChainHalted{Height: e.Run.Block.Header.Height, Block: e.Run.Hash, Err: e.Err, Drop: e.Run.Import.Drop})
	default:
		panic(fmt.Errorf("chain: import block %d: %w", e.Run.Block.Header.Height, e.Err))
	}
}

// applyChunks applies the trivial chunks of a block at once. It sends each chunk that is not
// trivial to the actor of its shard.
func (a *Actor) applyChunks(r *importer.Run) {
	if r.Start(func(j *engine.Job) {
		a.o.Out.Apply(j.ID, messages.ApplyChunk{Block: r.Hash, Height: r.Block.Header.Height, Job: j})
	}) {
		a.finishImport()
	}
}

func (a *Actor) applied(block primitives.Hash) {
	if a.halted {
		return
	}
	r := a.blocks.Running()
	if r == nil || r.Hash != block {
		panic(fmt.Sprintf("chain actor: a chunk of %v was applied, which is not in work", block))
	}
	if r.Done() {
		a.finishImport()
	}
}

// finishImport imports the block whose jobs have all run.
func (a *Actor) finishImport() {
	a.blocks.Finish(func() { a.disk(stored{}) }, a.o.Clock())
	a.drained()
	if blocks, _ := a.blocks.Pool().Len(); len(a.proposals) > 0 || blocks > 0 {
		a.self(next{}) // handle queued messages first, as most are chunks for the new tip
	}
}
