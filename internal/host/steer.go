package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/actors/producer"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// steerer makes the chain of a sandbox do what it is asked to.
type steerer struct{ *Host }

// Mine makes blocks, where that is how blocks are made.
func (s steerer) Mine(ctx context.Context, blocks uint64) (at view.At, err error) {
	if p := s.home.Config.Production; p != config.Manual {
		return at, &view.SteerError{Reason: fmt.Sprintf(`blocks are made by themselves: troupe.block_production is %q, and not "manual"`, p)}
	}
	if err := s.may(); err != nil {
		return at, err
	}
	at.Height, at.Hash, err = s.Node.Mine(ctx, blocks)
	return at, steerError(ctx, err)
}

// PatchState writes records into the state.
func (s steerer) PatchState(ctx context.Context, records []genesis.Record) error {
	if err := s.may(); err != nil {
		return err
	}
	_, _, err := s.Node.PatchState(ctx, records)
	return steerError(ctx, err)
}

// FastForward goes so many heights on.
func (s steerer) FastForward(ctx context.Context, heights uint64) error {
	if err := s.may(); err != nil {
		return err
	}
	_, _, err := s.Node.FastForward(ctx, heights)
	return steerError(ctx, err)
}

// may tells why this node does nothing of it; nil: it does. nearcore's sandbox does not run chains of these names either.
func (s steerer) may() error {
	if id := s.Engine.Chain().ID; id == "mainnet" || id == "testnet" {
		return &view.SteerError{Reason: fmt.Sprintf("%s is no sandbox", id)}
	}
	if reason := s.Obstacle(); reason != "" {
		return &view.SteerError{Reason: "this node makes no blocks: " + reason}
	}
	return nil
}

func steerError(ctx context.Context, err error) error {
	var halted *node.HaltedError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, production.ErrTooMany), errors.Is(err, engine.ErrPatch), errors.Is(err, producer.ErrForward), errors.Is(err, producer.ErrShared), errors.Is(err, producer.ErrMany),
		errors.As(err, &halted):
		return &view.SteerError{Reason: err.Error()}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &view.LookupError{Kind: view.ErrTimeout}
	}
	return err
}
