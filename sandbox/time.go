package sandbox

import (
	"context"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Now returns the time of the chain's clock.
func (w *World) Now(ctx context.Context) (time.Time, error) { return w.clock(ctx, &view.SetClock{}) }

// Advance advances the clock by d. The next block has the new time.
func (w *World) Advance(ctx context.Context, d time.Duration) error {
	_, err := w.clock(ctx, &view.SetClock{Advance: uint64(max(d, 0))})
	return err
}

// SetTime sets the clock to t, which must be later than the head's timestamp.
func (w *World) SetTime(ctx context.Context, t time.Time) error {
	ns := uint64(t.UnixNano())
	_, err := w.clock(ctx, &view.SetClock{Time: &ns})
	return err
}

// Freeze stops the clock if still is true. If still is false, Freeze lets the clock run again.
func (w *World) Freeze(ctx context.Context, still bool) error {
	_, err := w.clock(ctx, &view.SetClock{Frozen: &still})
	return err
}

func (w *World) clock(ctx context.Context, set *view.SetClock) (time.Time, error) {
	c, err := w.chain.Backend().SetClock(ctx, set)
	return time.Unix(0, int64(c.Time)), w.wrap(err, "clock")
}

// Mine produces blocks and returns the last one.
func (w *World) Mine(ctx context.Context, blocks uint64) (view.At, error) {
	at, err := w.chain.Backend().Mine(ctx, &view.Mine{Blocks: blocks})
	return at, w.wrap(err, "mine %d blocks", blocks)
}

// FastForward advances the chain by a number of heights, and the clock by the time that these
// heights would take.
func (w *World) FastForward(ctx context.Context, heights uint64) error {
	return w.wrap(w.chain.Backend().FastForward(ctx, heights), "go forward %d heights", heights)
}

// NextEpoch advances to the first block of the next epoch.
func (w *World) NextEpoch(ctx context.Context) (view.At, error) {
	at, err := w.chain.Backend().NextEpoch(ctx)
	return at, w.wrap(err, "go to the next epoch")
}

// Snapshot makes the head a snapshot with the given name. The new snapshot replaces an existing
// snapshot of the same name.
func (w *World) Snapshot(ctx context.Context, name string) error {
	_, err := w.chain.Backend().TakeSnapshot(ctx, name)
	return w.wrap(err, "take snapshot %q", name)
}

// Revert rolls the chain back to a snapshot. The snapshot can be used again. Worlds that continue
// from a block above the snapshot end.
func (w *World) Revert(ctx context.Context, name string) error {
	_, err := w.chain.Backend().Revert(ctx, name)
	if err == nil {
		w.forgetNonces()
	}
	return w.wrap(err, "revert to snapshot %q", name)
}

// Patch writes records into the state, as sandbox_patch_state does.
func (w *World) Patch(ctx context.Context, records ...genesis.Record) error {
	return w.wrap(w.chain.Backend().PatchState(ctx, records), "patch")
}

// Deal sets an account's balance of a NEP-141 token.
func (w *World) Deal(ctx context.Context, token, account primitives.AccountID, amount primitives.Balance) error {
	return w.wrap(w.chain.Backend().Deal(ctx, token, account, amount), "deal")
}
