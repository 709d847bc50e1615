package engine

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/headerchain"
)

// ErrPartialBody says that a copy of a block that came without its body is wrong. Its hash does not cover all of such a copy, so another may be right.
var ErrPartialBody = errors.New("engine: a copy that was told is wrong")

// ErrGossipCheck says that a block is wrong in what Vet looks at: who has its parent need not execute it to see that, and no neard hands it on.
var ErrGossipCheck = errors.New("engine: wrong by itself")

// Verdict is what an error of Begin or Adopt means for the block, whoever made it.
type Verdict byte

// The verdicts. What is not known to be the block's fault is this node's: its disk, its state, its code.
const (
	VerdictLocalFault Verdict = iota // this node's fault: it cannot go on
	VerdictInvalid                   // the block is bad, whoever judges it and whenever
	VerdictEarly                     // it is ahead of the clock or of the tip, or its copy alone is wrong: it may be right later
	VerdictWaiting                   // its parent or bodies of its chunks are missing
	VerdictStale                     // it is known, or does not descend from the final block any more: nobody's fault
)

// VerdictOf tells what an error of Begin, Adopt, CheckWitness, AddHeaders or JumpHeaders means. Those of Admit are about a copy and never Bad.
func VerdictOf(err error) Verdict {
	var invalid chain.Invalid
	switch {
	case errors.Is(err, ErrKnown), errors.Is(err, ErrOld), errors.Is(err, headerchain.ErrKnown), errors.Is(err, headerchain.ErrOld), errors.Is(err, headerchain.ErrTwin):
		return VerdictStale
	case errors.Is(err, ErrOrphan), errors.Is(err, ErrMissing), errors.Is(err, ErrNoCode), errors.Is(err, headerchain.ErrOrphan):
		return VerdictWaiting
	case errors.Is(err, ErrPartialBody), errors.Is(err, chain.InvalidBlockFutureTime), errors.Is(err, chain.InvalidBlockHeight), errors.Is(err, headerchain.ErrFull):
		return VerdictEarly
	case errors.Is(err, ErrChunk), errors.Is(err, ErrWitness), errors.Is(err, headerchain.ErrProof), errors.As(err, &invalid):
		return VerdictInvalid
	}
	return VerdictLocalFault
}
