package sandbox

import (
	"context"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Now is what the clock shows that blocks have.
func (w *World) Now(ctx context.Context) (time.Time, error) { return w.clock(ctx, &view.SetClock{}) }

// Advance lets time pass: the next block has it.
func (w *World) Advance(ctx context.Context, d time.Duration) error {
	_, err := w.clock(ctx, &view.SetClock{Advance: uint64(max(d, 0))})
	return err
}

// SetTime has the clock show a time, which is behind the head's.
func (w *World) SetTime(ctx context.Context, t time.Time) error {
	ns := uint64(t.UnixNano())
	_, err := w.clock(ctx, &view.SetClock{Time: &ns})
	return err
}

// Freeze has the clock stand still, or go on.
func (w *World) Freeze(ctx context.Context, still bool) error {
	_, err := w.clock(ctx, &view.SetClock{Frozen: &still})
	return err
}

func (w *World) clock(ctx context.Context, set *view.SetClock) (time.Time, error) {
	c, err := w.realm.Backend().SetClock(ctx, set)
	return time.Unix(0, int64(c.Time)), err
}

// Mine makes so many blocks, and returns the last.
func (w *World) Mine(ctx context.Context, blocks uint64) (view.At, error) {
	return w.realm.Backend().Mine(ctx, &view.Mine{Blocks: blocks})
}

// FastForward goes so many heights on, with the time that they take.
func (w *World) FastForward(ctx context.Context, heights uint64) error {
	return w.realm.Backend().FastForward(ctx, heights)
}

// NextEpoch goes to the first block of the next epoch.
func (w *World) NextEpoch(ctx context.Context) (view.At, error) {
	return w.realm.Backend().NextEpoch(ctx)
}

// Snapshot keeps the way back to the head under a name. A snapshot of that name is replaced.
func (w *World) Snapshot(ctx context.Context, name string) error {
	_, err := w.realm.Backend().TakeSnapshot(ctx, name)
	return err
}

// Revert goes back to a snapshot, which stays. Worlds that began behind it end.
func (w *World) Revert(ctx context.Context, name string) error {
	_, err := w.realm.Backend().Revert(ctx, name)
	if err == nil {
		w.mu.Lock()
		clear(w.nonces)
		w.mu.Unlock()
	}
	return err
}

// Patch writes records into the state, as sandbox_patch_state does.
func (w *World) Patch(ctx context.Context, records ...genesis.Record) error {
	return w.realm.Backend().PatchState(ctx, records)
}

// Deal sets what an account has of a NEP-141 token.
func (w *World) Deal(ctx context.Context, token, account primitives.AccountID, amount primitives.Balance) error {
	return w.realm.Backend().Deal(ctx, token, account, amount)
}
