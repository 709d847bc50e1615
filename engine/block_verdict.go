package engine

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/headerchain"
)

// ErrPartialBody means that this copy of a block with a partial body is wrong. The block's hash
// does not cover the whole body, so another copy may be right.
var ErrPartialBody = errors.New("engine: this copy of the block has a body that does not match its header")

// ErrGossipCheck means that a block fails chain.ValidateBlock, or lacks approvals by two thirds of
// the stake. BeginImport, ValidateForGossip and Precheck return it (Precheck only for the
// approvals). Every node that has the parent can run these checks without executing the block, and
// neard does not relay a block that fails them. So the peer that sent the block is at fault.
var ErrGossipCheck = errors.New("engine: the block fails the checks before execution")

// Verdict classifies an error of importing a block: what is at fault, and whether the error is
// permanent.
type Verdict byte

// The verdicts. VerdictLocalFault is the default: an error that does not show the block's fault
// comes from this node's disk, state or code.
const (
	VerdictLocalFault Verdict = iota // this node is at fault and cannot continue
	VerdictInvalid                   // the block is invalid, on every node and at any time
	// VerdictEarly: the block is too far ahead of the clock or tip, or this copy is bad. The block
	// may still be imported later.
	VerdictEarly
	VerdictWaiting // the parent, chunk bodies, contract code or a state are missing
	// VerdictStale: this node already has the block, or the block does not descend from the final
	// block. Nothing is at fault.
	VerdictStale
)

// VerdictOf classifies an error of BeginImport, FinishImport, CheckWitness, HeaderChain.Add or
// HeaderChain.Jump. Do not use it for errors of Precheck, which concern only one copy of a block.
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
		errors.Is(err, ErrGenesisOnly),
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
