package daemon

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/storage"
)

// verifyStep is how many subtrees are checked at once after a start. The pause that lets others
// work is so many times what the step took, and no less than verifyPause.
const (
	verifyStep  = 64
	verifyRest  = 3
	verifyPause = 2 * time.Millisecond
)

// obstaclePeriod is how often it is looked at whether the node can still make blocks.
const obstaclePeriod = 2 * time.Second

// Behind a look for garbage that found none the next comes after so many periods, but no later than
// maxCollectRest unless one period is longer.
const (
	collectRest    = 10
	maxCollectRest = 5 * time.Second
)

// sayObstacle logs what keeps the node from making blocks, or that nothing does any more.
func (h *Daemon) sayObstacle(reason string) {
	if reason == "" {
		h.log.Info("this node makes blocks again")
		return
	}
	h.log.Warnf("this node makes no blocks: %s", reason)
}

// keepUp begins the upkeep, which ends with ctx.
func (h *Daemon) keepUp(ctx context.Context, c *config.Config, said string) {
	done := h.upkeep
	go func() {
		defer close(done)
		defer h.survive()
		h.maintain(ctx, c, said)
	}()
}

// survive ends the upkeep where it panics, and nothing else: the chain does not rest on it.
func (h *Daemon) survive() {
	if p := recover(); p != nil {
		h.log.Errorf("upkeep has failed and ends until the node is restarted; nothing is collected any more: %v\n%s", p, debug.Stack())
	}
}

// maintain tells when the node can make no blocks any more, checks the states once, and collects
// garbage until ctx ends.
func (h *Daemon) maintain(ctx context.Context, c *config.Config, said string) {
	h.verify(ctx)
	watch := time.NewTicker(obstaclePeriod)
	defer watch.Stop()
	period := max(c.GCStepPeriod, 10*time.Millisecond)
	tick := time.NewTimer(period)
	defer tick.Stop()
	if c.Archive {
		tick.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-watch.C:
			if now := h.Obstacle(); now != said {
				h.sayObstacle(now)
				said = now
			}
			continue
		case <-tick.C:
		}
		found := false
		for more := true; more && ctx.Err() == nil; { // blocks made on demand may come faster than the ticks
			done, err := h.collect(c)
			if err != nil && !errors.Is(err, storage.ErrFull) { // that is said elsewhere
				h.log.WithError(err).Error("garbage collection failed; old blocks stay")
			}
			more, found = err == nil && done.More, found || err != nil || done.Blocks > 0
		}
		tick.Reset(collectAgain(period, found))
	}
}

// collect removes some of what is older than what is kept, but nothing that the chain, or who is to
// hold a shard, has need of.
func (h *Daemon) collect(c *config.Config) (storage.GCResult, error) {
	from, err := h.Engine.KeepFrom()
	if err != nil {
		return storage.GCResult{}, err
	}
	return h.store.CollectGarbage(storage.GCOptions{
		KeepEpochs: int(c.GCEpochsToKeep), From: from, Before: uint64(time.Now().Add(-h.live.minAge()).UnixNano()),
		MaxHeights: int(max(h.live.blocksLimit(), 1)),
	})
}

// collectAgain is how long it is to the next look for garbage. There is some once an epoch, and a
// node that has nothing to do is not to wake for the rest.
func collectAgain(period time.Duration, found bool) time.Duration {
	if found {
		return period
	}
	return max(period, min(collectRest*period, maxCollectRest))
}

// verify reads all states once and compares their hashes, while the node already works.
func (h *Daemon) verify(ctx context.Context) {
	begin := time.Now()
	if err := h.Engine.Preload(func() bool { return ctx.Err() != nil }); err != nil {
		h.log.WithError(err).Error("the stored state is damaged: what this node answers and makes can't be trusted; stop it and restore the data folder")
		return
	}
	h.log.WithField("ms", time.Since(begin).Milliseconds()).Debug("upper levels of the states are loaded")
	v := h.Engine.Verify()
	defer v.Stop()
	for {
		at := time.Now()
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
		case <-time.After(max(verifyPause, verifyRest*time.Since(at))):
		}
	}
}
