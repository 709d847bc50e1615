package importer

import (
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// Effect is what the owner of an Importer carries out. What an error of the engine causes depends on
// its verdict and on where it occurs:
//
//	verdict     Precheck               import of a peer's block         import of an own block
//	invalid     Rejected               Rejected, also its descendants;  OwnFailed
//	                                   remembered
//	early       Dropped; Rejected if   the same                         OwnFailed
//	            this copy is bad
//	waiting     Dropped                Missing; Dropped if nothing can  OwnFailed
//	                                   be requested
//	stale       Dropped                Dropped                          OwnFailed
//	local fault Failed                 Failed                           Failed
//
// A block ahead of the clock is not the fault of its sender (nearcore chain/client/src/client.rs:
// process_block_processing_artifact bans no peer for InvalidBlockFutureTime).
//
//sumtype:decl
type Effect interface{ effect() }

type (
	// Rejected reports a block that is invalid, or a copy of a block that is bad although the block
	// may be valid. From sent it.
	Rejected struct {
		Block *primitives.Block
		From  string // "": this node
		Err   error
	}
	// Dropped reports a block that is not kept. Nothing is at fault.
	Dropped struct {
		Block *primitives.Block
		From  string
		Err   error
	}
	// Ahead reports a block so far ahead that headers are missing. Either its epoch is unknown, and
	// with it the producer, or the pool does not keep blocks of its height. It may be kept.
	Ahead struct {
		Block *primitives.Block
		From  string
	}
	// Missing reports a block that is kept in the pool, and what is missing to import it.
	Missing struct {
		Block  *primitives.Block
		From   string            // the peer that sent the block
		Parent primitives.Hash   // the unknown parent; zero: it is known
		Chunks []primitives.Hash // chunks whose bodies are missing
	}
	// BadBody reports a chunk body that contradicts its header.
	BadBody struct {
		Chunk primitives.Hash // zero: the body came with a block
		From  string
		Err   error
	}
	// Imported reports a block that is part of the chain.
	Imported struct {
		Accepted *engine.Accepted
		Run      *Run
	}
	// OwnFailed reports a block that the engine produced and that cannot be imported.
	OwnFailed struct {
		Height primitives.Height
		Err    error
	}
	// Failed reports a fault of this node, after which nothing more may be imported.
	Failed struct {
		Err error
		// Run is the import whose Finish failed, or nil if the fault occurred elsewhere, in which
		// case the engine is unchanged. The owner must drop it once nothing reads its states any
		// more.
		Run *Run
	}
)

func (Rejected) effect()  {}
func (Dropped) effect()   {}
func (Ahead) effect()     {}
func (Missing) effect()   {}
func (BadBody) effect()   {}
func (Imported) effect()  {}
func (OwnFailed) effect() {}
func (Failed) effect()    {}
