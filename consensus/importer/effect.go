package importer

import (
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// Effect is an effect that the owner of an Importer carries out. An error of the engine leads to an
// effect that depends on the error's verdict and on where the error occurs:
//
//	verdict      Precheck               importing a peer's block         importing an own block
//	invalid      Rejected               Rejected for the block and its   OwnFailed
//	                                    descendants; later copies are
//	                                    refused
//	early        Dropped; Rejected if   the same                         OwnFailed
//	             this copy is bad
//	waiting      Dropped                Missing; Dropped if nothing can  OwnFailed
//	                                    be requested
//	stale        Dropped                Dropped                          OwnFailed
//	local fault  Failed                 Failed                           Failed
//
// The sender is not at fault for a block ahead of the clock (nearcore chain/client/src/client.rs:
// process_block_processing_artifact bans no peer for InvalidBlockFutureTime).
//
//sumtype:decl
type Effect interface{ effect() }

type (
	// Rejected reports that a block is invalid, or that only the received copy of the block is bad.
	Rejected struct {
		Block *primitives.Block
		From  string // peer that sent the block; empty: this node
		Err   error
	}
	// Dropped reports a block that is not kept although nothing is at fault.
	Dropped struct {
		Block *primitives.Block
		From  string
		Err   error
	}
	// Ahead reports that headers are missing, because a block is far ahead. Either the block's
	// epoch and its producer are unknown, or the pool does not keep blocks of its height. The block
	// may be kept.
	Ahead struct {
		Block *primitives.Block
		From  string
	}
	// Missing reports that a block is kept in the pool, and what is missing to import it.
	Missing struct {
		Block  *primitives.Block
		From   string            // peer that sent the block
		Parent primitives.Hash   // hash of the unknown parent; zero: the parent is known
		Chunks []primitives.Hash // hashes of the chunks whose bodies are missing
	}
	// BadBody reports a chunk body that contradicts its header.
	BadBody struct {
		Chunk primitives.Hash // zero: the body came with its block
		From  string
		Err   error
	}
	// Imported reports a block that has been added to the chain.
	Imported struct {
		Imported *engine.Imported
		Run      *Run
	}
	// OwnFailed reports a block of the engine that cannot be imported.
	OwnFailed struct {
		Height primitives.Height
		Err    error
	}
	// Failed reports a fault of this node. Nothing more may be imported afterwards.
	Failed struct {
		Err error
		// Run is the import whose Finish failed. The owner must call Run.Import.Drop after the last
		// reader of its states. Run is nil if the fault occurred elsewhere; the engine is then
		// unchanged.
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
