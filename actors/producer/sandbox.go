package producer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// Errors of requests that only a sole validator serves.
var (
	// ErrShared: validators of other nodes take part in the next block.
	ErrShared = errors.New("producer: only a chain with a single validator allows this, and this chain has other validators")
	// ErrForward: the requested height cannot be reached.
	ErrForward = errors.New("producer: the chain cannot be fast-forwarded")
	// ErrMany: too much is requested at once.
	ErrMany = errors.New("producer: too many requests at once")
)

// MaxForward bounds the heights of one FastForward. maxForwardBlocks bounds the blocks that one
// FastForward makes, because epoch boundaries need blocks.
const (
	MaxForward       = 1_000_000_000
	maxForwardBlocks = production.MaxMine
	// maxForwardTime is the largest timestamp of a block, in ns since 1970. Views show timestamps
	// as int64, whose range ends some forty years later.
	maxForwardTime = 8_000_000_000_000_000_000
)

// Bounds of pending requests, which outlive their clients' connections. maxPatchBytes bounds the
// patches that are not on disk; a single patch may be larger than maxPatchBytes. maxForwardWaits
// bounds the waiting FastForward requests.
const (
	maxPatchBytes   = 64 << 20
	maxForwardWaits = 10_000
)

// patch is a PatchState request that has not been answered yet.
type patch struct {
	records []genesis.Record
	bytes   int
	reply   func(messages.StatePatched, error)
	at      primitives.Height // height of the block that writes the patch; 0: not requested yet
}

// forward holds the FastForward requests that have not been answered yet, and their common target.
type forward struct {
	target  primitives.Height // height up to which blocks are skipped; 0: none
	replies []func(messages.Forwarded, error)
}

func (a *Actor) patchState(m system.Request[messages.PatchState, messages.StatePatched]) {
	if err := a.requireSole(); err != nil {
		m.Reply(messages.StatePatched{}, err)
		return
	}
	sum := patchBytes(m.Question.Records)
	p := patch{records: m.Question.Records, bytes: sum, reply: m.Reply}
	for i := range a.patches {
		sum += a.patches[i].bytes
	}
	if len(a.patches) > 0 && sum > maxPatchBytes {
		m.Reply(messages.StatePatched{}, fmt.Errorf("%w: %d patches with %d bytes are not on disk yet; wait for their replies", ErrMany,
			len(a.patches), sum-p.bytes))
		return
	}
	a.patches = append(a.patches, p)
	a.updateDue()
	a.advance()
}

// patchBytes estimates the memory of a patch, in bytes.
func patchBytes(records []genesis.Record) int {
	sum := 1 << 10
	for _, r := range records {
		sum += 512
		switch r := r.(type) {
		case *genesis.DataRecord:
			sum += len(r.Key) + len(r.Value)
		case *genesis.ContractRecord:
			sum += len(r.Code)
		case *genesis.ReceivedDataRecord:
			sum += len(r.Data)
		case *genesis.PostponedReceiptRecord:
			sum += len(r.Receipt.AppendBorsh(nil))
		case *genesis.DelayedReceiptRecord:
			sum += len(r.Receipt.AppendBorsh(nil))
		// The 512 bytes above cover these records.
		case *genesis.AccountRecord, *genesis.AccessKeyRecord, *genesis.GasKeyNonceRecord, *genesis.Removal, *genesis.ForkRecord:
		}
	}
	return sum
}

// otherValidators rejects pending sandbox requests with ErrShared, because validators of other
// nodes take part from the next block on.
func (a *Actor) otherValidators() {
	left := a.patches[:0]
	for _, p := range a.patches {
		if p.at > 0 {
			left = append(left, p)
			continue
		}
		p.reply(messages.StatePatched{}, ErrShared)
	}
	clear(a.patches[len(left):])
	a.patches = left
	for _, reply := range a.forward.replies {
		reply(messages.Forwarded{}, ErrShared)
	}
	a.forward = forward{}
	a.refuseReorg(ErrShared)
	if a.mocks != nil {
		a.mock(nil)
	}
}

// mock sets the mocked signature verification. nil restores the normal verification. If validators
// of other nodes take part, otherValidators calls mock(nil): those nodes do not mock, and would
// compute results that differ from this node's.
func (a *Actor) mock(m *primitives.Mocks) {
	a.mocks = m
	a.o.Out.Mocked(m)
}

// requireSole returns nil if this node alone decides on the next block, else ErrStopped or
// ErrShared.
func (a *Actor) requireSole() error {
	switch {
	case a.stopped:
		return ErrStopped
	case a.head == nil || !a.head.sole:
		return ErrShared
	}
	return nil
}

// updateDue informs the scheduler whether a request needs the next block at once.
func (a *Actor) updateDue() {
	any := a.head != nil && a.forward.target > a.head.height
	for i := range a.patches {
		any = any || a.patches[i].at == 0
	}
	a.step(production.Due{Any: any})
}

// takePatches returns the records to write into the state with the block at height, and marks the
// patches with these records as requested.
func (a *Actor) takePatches(height primitives.Height) (out []genesis.Record) {
	for i := range a.patches {
		if p := &a.patches[i]; p.at == 0 {
			p.at = height
			out = append(out, p.records...)
		}
	}
	if out != nil {
		a.updateDue()
	}
	return out
}

// fastForward advances to a height. If a fast-forward is already running, the new request gets the
// result of the running one, even if it names another number of heights (nearcore
// chain/jsonrpc/src/lib.rs:2543).
func (a *Actor) fastForward(m system.Request[messages.FastForward, messages.Forwarded]) {
	var target primitives.Height
	err := a.requireSole()
	if err == nil && a.reorg != nil {
		err = fmt.Errorf("%w: a reorganisation is in progress", ErrForward)
	}
	if err == nil {
		target, err = a.forwardTarget(m.Question.Heights)
	}
	if err != nil {
		m.Reply(messages.Forwarded{}, err)
		return
	}
	if m.Question.Heights == 0 && a.forward.target == 0 {
		m.Reply(messages.Forwarded{Height: a.head.height}, nil)
		return
	}
	if len(a.forward.replies) >= maxForwardWaits {
		m.Reply(messages.Forwarded{}, fmt.Errorf("%w: %d requests already wait for a fast-forward", ErrMany, maxForwardWaits))
		return
	}
	if a.forward.target == 0 {
		a.forward.target = target
	}
	a.forward.replies = append(a.forward.replies, m.Reply)
	a.updateDue()
	a.advance()
}

// forwardTarget returns the height n above the head. forwardTarget returns ErrForward if a
// fast-forward cannot reach that height.
func (a *Actor) forwardTarget(n uint64) (primitives.Height, error) {
	e := must(a.o.Chain.Epoch(a.head.hash))
	average := uint64(a.o.Delays.Endorsement+a.o.Delays.Skip) / 2
	switch {
	case e.Length < production.MinForward:
		return 0, fmt.Errorf("%w: an epoch has %d blocks, must have at least %d", ErrForward, e.Length,
			production.MinForward)
	case n > MaxForward, n/uint64(e.Length)*4 > maxForwardBlocks:
		return 0, fmt.Errorf("%w: %d heights in epochs of %d blocks exceed a limit: %d heights, and %d produced blocks", ErrForward, n,
			e.Length, MaxForward, maxForwardBlocks)
	case average > 0 && n > (maxForwardTime-min(a.clock.now(), maxForwardTime))/average:
		return 0, fmt.Errorf("%w: after %d heights the time is beyond the largest possible time", ErrForward, n)
	}
	return a.head.height + primitives.Height(n), nil
}

// nextHeight returns the height of the next block that this node makes.
func (a *Actor) nextHeight() primitives.Height {
	h := a.head
	if a.forward.target <= h.height || !h.sole {
		return h.height + 1
	}
	return production.Forward(h.height, a.forward.target, must(a.o.Chain.Epoch(h.hash)))
}

// patchedAt returns whether a patch was requested with the block at height.
func (a *Actor) patchedAt(height primitives.Height) bool {
	return slices.ContainsFunc(a.patches, func(p patch) bool { return p.at == height })
}

// answerAccepted answers sandbox requests whose block is on disk.
func (a *Actor) answerAccepted(m *messages.BlockAccepted) {
	left := a.patches[:0]
	for _, p := range a.patches {
		if p.at == 0 || p.at > m.Height() {
			left = append(left, p)
			continue
		}
		p.reply(messages.StatePatched{Height: m.Height(), Hash: m.Hash}, nil)
	}
	clear(a.patches[len(left):])
	a.patches = left
	if f := &a.forward; f.target > 0 && m.Height() >= f.target {
		for _, reply := range f.replies {
			reply(messages.Forwarded{Height: m.Height(), Hash: m.Hash}, nil)
		}
		*f = forward{}
	}
	if f := a.reorg; f != nil && f.at == m.Height() {
		a.reorg = nil
		f.reply(messages.Reorganised{Height: m.Height(), Hash: m.Hash, Gone: f.replaced}, nil)
	}
}

// refuseAll answers pending sandbox requests with why, because the blocks that they wait for will
// not be made.
func (a *Actor) refuseAll(why error) {
	for _, p := range a.patches {
		p.reply(messages.StatePatched{}, why)
	}
	for _, reply := range a.forward.replies {
		reply(messages.Forwarded{}, why)
	}
	a.patches, a.forward = nil, forward{}
	a.refuseReorg(why)
}
