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

// Refusals of what a sandbox may do.
var (
	// ErrShared: other validators have a say in the next block.
	ErrShared = errors.New("producer: the chain has other validators")
	// ErrForward: a height that can't be gone to.
	ErrForward = errors.New("producer: can't go on so far")
	// ErrMany: more is asked for than is done.
	ErrMany = errors.New("producer: too much is asked for at once")
)

// MaxForward bounds the heights that one FastForward passes over, and maxForwardBlocks the blocks that it makes on the way.
const (
	MaxForward       = 1_000_000_000
	maxForwardBlocks = production.MaxMine
	// maxForwardTime is what the clock of the chain gets to, ns: it is shown as an int64, in which there are some forty years left.
	maxForwardTime = 8_000_000_000_000_000_000
)

// Bounds of what waits, which those who asked may have hung up on: the bytes of patches that are not on disk, beyond one that comes when
// none waits, and who waits for a fast-forward.
const (
	maxPatchBytes = 64 << 20
	maxForwardWaits  = 10_000
)

// patch is a PatchState that is not answered.
type patch struct {
	records []genesis.Record
	bytes   int
	reply   func(messages.StatePatched, error)
	at      primitives.Height // of the block that it goes with; 0: none yet
}

// forward is where the chain is to go, for all who wait for that.
type forward struct {
	target  primitives.Height // 0: nowhere
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
		m.Reply(messages.StatePatched{}, fmt.Errorf("%w: %d patches of %d bytes are not written yet", ErrMany, len(a.patches), sum-p.bytes))
		return
	}
	a.patches = append(a.patches, p)
	a.updateDue()
	a.advance()
}

// patchBytes is about what a patch takes in memory.
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
		case *genesis.AccountRecord, *genesis.AccessKeyRecord, *genesis.GasKeyNonceRecord, *genesis.Removal, *genesis.ForkRecord: // counted
		}
	}
	return sum
}

// otherValidators refuses what waits for the next block where others have a say in it from now on.
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

// mock says what contracts are told of signatures. Others would not agree, so where others validate it is the truth.
func (a *Actor) mock(m *primitives.Mocks) {
	if a.mocks = m; a.o.Mocked != nil {
		a.o.Mocked(m)
	}
}

// requireSole tells why this node can't say by itself what the next block is; nil: it can.
func (a *Actor) requireSole() error {
	switch {
	case a.stopped:
		return ErrStopped
	case a.head == nil || !a.head.sole:
		return ErrShared
	}
	return nil
}

// updateDue says whether the next block is asked for.
func (a *Actor) updateDue() {
	any := a.head != nil && a.forward.target > a.head.height
	for i := range a.patches {
		any = any || a.patches[i].at == 0
	}
	a.step(production.Due{Any: any})
}

// takePatches returns what is to be written into the state with the block of a height.
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

// fastForward goes to a height. One who asks while another is on his way waits for that one (nearcore chain/jsonrpc/src/lib.rs:2543).
func (a *Actor) fastForward(m system.Request[messages.FastForward, messages.Forwarded]) {
	var target primitives.Height
	err := a.requireSole()
	if err == nil && a.reorg != nil {
		err = fmt.Errorf("%w: a reorganisation is under way", ErrForward)
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
		m.Reply(messages.Forwarded{}, fmt.Errorf("%w: %d wait for a fast-forward", ErrMany, maxForwardWaits))
		return
	}
	if a.forward.target == 0 {
		a.forward.target = target
	}
	a.forward.replies = append(a.forward.replies, m.Reply)
	a.updateDue()
	a.advance()
}

// forwardTarget returns the height that lies so many above the head.
func (a *Actor) forwardTarget(n uint64) (primitives.Height, error) {
	e := must(a.o.Chain.Epoch(a.head.hash))
	average := uint64(a.o.Delays.Endorsement+a.o.Delays.Skip) / 2
	switch {
	case e.Length < production.MinForward:
		return 0, fmt.Errorf("%w: epochs of %d blocks are too short, %d is the least", ErrForward, e.Length, production.MinForward)
	case n > MaxForward, n/uint64(e.Length)*4 > maxForwardBlocks:
		return 0, fmt.Errorf("%w: by %d heights, in epochs of %d; the limit is %d heights and %d blocks", ErrForward, n, e.Length, MaxForward, maxForwardBlocks)
	case average > 0 && n > (maxForwardTime-min(a.clock.now(), maxForwardTime))/average:
		return 0, fmt.Errorf("%w: by %d heights: there is no such time", ErrForward, n)
	}
	return a.head.height + primitives.Height(n), nil
}

// nextHeight returns the height of the next block, if that is to be another than the one above the head.
func (a *Actor) nextHeight() primitives.Height {
	h := a.head
	if a.forward.target <= h.height || !h.sole {
		return h.height + 1
	}
	return production.Forward(h.height, a.forward.target, must(a.o.Chain.Epoch(h.hash)))
}

// patchedAt tells whether the block of a height was to have a patch.
func (a *Actor) patchedAt(height primitives.Height) bool {
	return slices.ContainsFunc(a.patches, func(p patch) bool { return p.at == height })
}

// answerAccepted answers those whose block is on disk.
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

// refuseAll answers those who wait for a block that will not come.
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
