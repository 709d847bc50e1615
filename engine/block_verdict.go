package engine

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/headerchain"
)

// ErrPartialBody means that this copy of a block without chunk bodies is wrong. The block's hash
// does not cover everything in such a copy, so another copy may be right.
var ErrPartialBody = errors.New("engine: this copy of the block has a body that does not match its header")

// ErrGossipCheck means that a block fails the checks of ValidateForGossip. Every node that has the
// parent can detect this without executing the block, and neard does not relay such a block, so the
// peer that sent it is at fault.
var ErrGossipCheck = errors.New("engine: the block fails the checks before execution")

// Verdict is what an error of importing a block means for the block.
type Verdict byte

// The verdicts. An error that does not name a fault of the block is a fault of this node: its disk,
// its state or its code.
const (
	VerdictLocalFault Verdict = iota // this node is at fault and cannot continue
	VerdictInvalid                   // the block is invalid, on every node and at any time
	VerdictEarly                     // ahead of the clock or tip, or a bad copy: may be valid later
	VerdictWaiting                   // the parent, chunk bodies or contract code are missing
	VerdictStale                     // already known, or not a descendant of the final block: nothing is at fault
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
