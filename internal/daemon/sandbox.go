package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/actors/producer"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// sandboxControl implements the sandbox methods for one chain.
type sandboxControl struct{ *Instance }

// maxUntil is the maximum number of blocks that one call of Mine or NextEpoch produces.
const maxUntil = 1000

// Mine produces blocks, in any production mode.
func (s sandboxControl) Mine(ctx context.Context, m *view.Mine) (at view.At, err error) {
	if err := s.checkSandbox(); err != nil {
		return at, err
	}
	if m.Until == nil {
		at.Height, at.Hash, err = s.Node.Mine(ctx, m.Blocks)
		return at, sandboxError(ctx, err)
	}
	for range maxUntil {
		head := s.Engine.Head()
		at = view.At{Height: head.Height(), Hash: head.Hash}
		status, err := s.Engine.Transactions().FullStatus(*m.Until)
		switch {
		case err != nil && !errors.Is(err, engine.ErrUnknown):
			return at, err
		case err == nil && txstatus.Meets(status.Level, view.LevelExecutedOptimistic):
			return at, nil
		}
		if _, _, err := s.Node.Mine(ctx, 1); err != nil {
			return at, sandboxError(ctx, err)
		}
	}
	return at, &view.SandboxError{Reason: fmt.Sprintf("transaction %v was not executed within %d blocks", *m.Until, maxUntil)}
}

// NextEpoch advances to the first block of the next epoch.
func (s sandboxControl) NextEpoch(ctx context.Context) (at view.At, err error) {
	if err := s.checkExclusive(); err != nil {
		return at, err
	}
	epoch, _, end, err := s.epochOf(s.Engine.Head())
	if err != nil {
		return at, err
	}
	for range maxUntil {
		head := s.Engine.Head()
		if head.Header().EpochID != epoch {
			return view.At{Height: head.Height(), Hash: head.Hash}, nil
		}
		step := primitives.Height(1)
		if head.Height() < end {
			step = end - head.Height()
		}
		if _, _, err := s.Node.FastForward(ctx, uint64(step)); err != nil {
			return at, sandboxError(ctx, err)
		}
	}
	return at, &view.SandboxError{Reason: fmt.Sprintf("the epoch has not ended %d blocks after its length", maxUntil)}
}

// epochOf returns a block's epoch and the planned first and last heights of that epoch.
func (s sandboxControl) epochOf(at *engine.BlockNode) (id primitives.EpochID, first, end primitives.Height, err error) {
	err = s.Engine.Epochs(func(m *epoch.Manager) error {
		start, length, _, err := m.EpochSpan(at.Hash)
		first, end = start, start+primitives.Height(length)-1
		return err
	})
	return at.Header().EpochID, first, end, err
}

// SetClock sets the clock of future blocks.
func (s sandboxControl) SetClock(ctx context.Context, c *view.SetClock) (out view.Clock, err error) {
	if err := s.checkExclusive(); err != nil {
		return out, err
	}
	now, err := s.Node.Clock(ctx, messages.SetClock{Time: c.Time, Advance: c.Advance, Frozen: c.Frozen, Next: c.Next, Step: c.Interval})
	return view.Clock{Time: now.Time, Frozen: now.Frozen, Next: now.Next, Interval: now.Step}, sandboxError(ctx, err)
}

// SetProduction sets when blocks are produced.
func (s sandboxControl) SetProduction(ctx context.Context, p *view.SetProduction) (out view.Production, err error) {
	if err := s.checkSandbox(); err != nil {
		return out, err
	}
	m := messages.SetProduction{Quiet: p.Quiet}
	if p.Mode != nil {
		mode := byte(modes[config.Production(*p.Mode)])
		m.Mode = &mode
	}
	if p.Interval != nil {
		ns := int64(min(*p.Interval, math.MaxInt64))
		m.Interval = &ns
	}
	now, err := s.Node.Production(ctx, m)
	return view.Production{Mode: production.Mode(now.Mode).String(), Quiet: now.Quiet, Interval: uint64(now.Interval)}, sandboxError(ctx, err)
}

// PatchState writes records into the state.
func (s sandboxControl) PatchState(ctx context.Context, records []genesis.Record) error {
	if err := s.checkExclusive(); err != nil {
		return err
	}
	_, _, err := s.Node.PatchState(ctx, records)
	return sandboxError(ctx, err)
}

// FastForward advances the chain by a number of heights.
func (s sandboxControl) FastForward(ctx context.Context, heights uint64) error {
	if err := s.checkExclusive(); err != nil {
		return err
	}
	_, _, err := s.Node.FastForward(ctx, heights)
	return sandboxError(ctx, err)
}

// MockVerification sets the results of signature checks that contracts see.
func (s sandboxControl) MockVerification(ctx context.Context, m *primitives.Mocks) error {
	if err := s.checkSandbox(); err != nil {
		return err
	}
	return sandboxError(ctx, s.Node.MockVerification(ctx, m))
}

// MissChunks makes the next blocks miss new chunks of shards.
func (s sandboxControl) MissChunks(ctx context.Context, m *view.MissChunks) (view.ChunksMissed, error) {
	if err := s.checkSandbox(); err != nil {
		return nil, err
	}
	left, err := s.Node.MissChunks(ctx, m.Shards, m.Blocks)
	return left, sandboxError(ctx, err)
}

// Reorganise replaces the head and the blocks below it.
func (s sandboxControl) Reorganise(ctx context.Context, blocks uint64) (out view.Reorganised, err error) {
	if err := s.checkSandbox(); err != nil {
		return out, err
	}
	r, err := s.Node.Reorganise(ctx, blocks)
	out.At = view.At{Height: r.Height, Hash: r.Hash}
	for _, x := range r.Gone {
		out.Gone = append(out.Gone, view.At(x))
	}
	return out, sandboxError(ctx, err)
}

// checkSandbox returns an error if the chain must not be controlled. As in nearcore's sandbox, this
// applies to mainnet and testnet.
func (s sandboxControl) checkSandbox() error {
	if id := s.Engine.Chain().ID; s.fork == nil && (id == "mainnet" || id == "testnet") {
		return &view.SandboxError{Reason: fmt.Sprintf("the chain is %s, where sandbox methods are not allowed", id)}
	}
	if reason := s.Obstacle(); reason != "" {
		return &view.SandboxError{Reason: "this node produces no blocks: " + reason}
	}
	return nil
}

func sandboxError(ctx context.Context, err error) error {
	var halted *node.HaltedError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, production.ErrTooMany), errors.Is(err, engine.ErrPatch), errors.Is(err, producer.ErrForward),
		errors.Is(err, producer.ErrShared), errors.Is(err, producer.ErrMany),
		errors.Is(err, producer.ErrClock), errors.Is(err, producer.ErrProduction), errors.Is(err, producer.ErrRolledBack),
		errors.Is(err, producer.ErrMiss), errors.Is(err, producer.ErrFork), errors.Is(err, engine.ErrEnded), errors.Is(err, storage.ErrOrder),
		errors.As(err, &halted):
		return &view.SandboxError{Reason: err.Error()}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &view.LookupError{Kind: view.ErrTimeout}
	}
	return err
}
