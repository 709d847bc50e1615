package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Trace is the record of a transaction's execution: its receipts, calls of contracts, host
// functions with their gas, and accessed storage. WriteText prints it as `troupe trace` does. The
// field Profile is a file for speedscope.app.
type Trace = trace.Report

// Profile is the gas that transactions burnt, summed by host function and by contract function.
type Profile = trace.Sum

// Trace traces a transaction of this world. Method Trace applies the chunks with the transaction's
// receipts again. The world does not change.
func (w *World) Trace(ctx context.Context, hash primitives.Hash) (*Trace, error) {
	if w.chain.Ended() {
		return nil, fmt.Errorf("sandbox: trace transaction %v: %w", hash, ErrEnded)
	}
	raw, err := w.chain.Backend().Trace(ctx, &view.Trace{Hash: hash, Profile: true})
	out := new(Trace)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		return nil, w.wrap(err, "trace transaction %v", hash)
	}
	return out, nil
}

// profiles counts the calls of Profile, to give each call a tag of its own.
var profiles atomic.Uint64

// Profile adds up the gas that transactions of this world burnt, by cause.
func (w *World) Profile(ctx context.Context, hashes ...primitives.Hash) (*Profile, error) {
	if len(hashes) == 0 {
		return new(Profile), nil
	}
	if w.chain.Ended() {
		return nil, fmt.Errorf("sandbox: profile: %w", ErrEnded)
	}
	back := w.chain.Backend()
	tag := fmt.Sprintf("sandbox.Profile %d", profiles.Add(1))
	if _, err := back.Tag(tag, hashes); err != nil {
		return nil, w.wrap(err, "profile")
	}
	raw, err := back.ProfileTag(ctx, tag, new(view.Simulate))
	out := new(Profile)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err = errors.Join(err, back.DropTag(tag)); err != nil {
		return nil, w.wrap(err, "profile")
	}
	return out, nil
}
