package host

import (
	"context"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/storage"
)

// verifyStep is how many subtrees are checked at once after a start, and verifyPause the pause that lets others work.
const (
	verifyStep  = 64
	verifyPause = 2 * time.Millisecond
)

// maintain checks the states once, and collects garbage until ctx ends.
func (h *Host) maintain(ctx context.Context, c *config.Config) {
	defer close(h.upkeep)
	h.verify(ctx)
	if c.Archive {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(max(c.GCStepPeriod, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for more := true; more && ctx.Err() == nil; { // blocks made on demand may come faster than the ticks
			done, err := h.store.Collect(storage.CollectOptions{
				KeepEpochs: int(c.GCEpochsToKeep), Before: uint64(time.Now().Add(-c.GCMinAge).UnixNano()),
				MaxHeights: int(max(c.GCBlocksLimit, 1)),
			})
			if err != nil {
				h.log.WithError(err).Error("garbage collection failed; old blocks stay")
			}
			more = err == nil && done.More
		}
	}
}

// verify reads all states once and compares their hashes, while the node already works.
func (h *Host) verify(ctx context.Context) {
	begin := time.Now()
	v := h.Engine.Verify()
	defer v.Stop()
	for {
		done, err := v.Step(verifyStep)
		if err != nil {
			h.log.WithError(err).Error("the stored state is damaged: what this node answers and makes can't be trusted; stop it and restore the data folder")
			return
		}
		if done {
			h.log.WithField("ms", time.Since(begin).Milliseconds()).Debug("stored states agree with their hashes")
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(verifyPause):
		}
	}
}
