package engine

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/headerchain"
)

// ErrPartialBody reports that a copy of a block that came without its body is wrong. The hash does
// not cover all of such a copy, so another copy may be right.
var ErrPartialBody = errors.New("engine: this copy of the block has a wrong body")

// ErrGossipCheck reports that a block fails the checks of ValidateForGossip. A node with its parent
// sees that without executing it, and no neard relays it.
var ErrGossipCheck = errors.New("engine: the block fails the checks before execution")

// Verdict says what an error of BeginImport or FinishImport means for the block.
type Verdict byte

// The verdicts. An error that is not known to be the block's fault is this node's: its disk, its
// state, its code.
const (
	VerdictLocalFault Verdict = iota // this node is at fault and cannot continue
	VerdictInvalid                   // the block is invalid, on every node and at any time
	VerdictEarly                     // ahead of the clock or the tip, or only this copy is wrong: it may be valid later
	VerdictWaiting                   // the parent, chunk bodies or contract code are missing
	VerdictStale                     // already known, or no longer a descendant of the final block: no one is at fault
)

// VerdictOf classifies an error of BeginImport, FinishImport, CheckWitness, AddHeaders or
// JumpHeaders. Errors of Precheck concern one copy and must not be treated as VerdictInvalid.
func VerdictOf(err error) Verdict {
	var invalid chain.Invalid
	switch {
	case errors.Is(err, ErrKnown),
		errors.Is(err, ErrOld),
		errors.Is(err, headerchain.ErrKnown),
		errors.Is(err, headerchain.ErrOld),
		errors.Is(err, headerchain.ErrEquivocating):
		return VerdictStale
	case errors.Is(err, ErrOrphan),
		errors.Is(err, ErrMissing),
		errors.Is(err, ErrNoCode),
		errors.Is(err, headerchain.ErrOrphan):
		return VerdictWaiting
	case errors.Is(err, ErrPartialBody),
		errors.Is(err, chain.InvalidBlockFutureTime),
		errors.Is(err, chain.ErrHeightAhead),
		errors.Is(err, headerchain.ErrFull):
		return VerdictEarly
	case errors.Is(err, ErrChunk),
		errors.Is(err, ErrWitness),
		errors.Is(err, headerchain.ErrProof),
		errors.As(err, &invalid):
		return VerdictInvalid
	}
	return VerdictLocalFault
}
