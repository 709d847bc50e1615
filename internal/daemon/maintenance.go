package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/storage"
)

// verifyStep is the number of subtrees that are checked in one step after a start. After each step,
// verification pauses for verifyRest times the duration of the step, but at least for verifyPause.
const (
	verifyStep  = 64
	verifyRest  = 3
	verifyPause = 2 * time.Millisecond
)

// obstaclePeriod is how often the node checks whether it can still produce blocks.
const obstaclePeriod = 2 * time.Second

// After a garbage collection that found nothing, the next one runs after collectRest periods. This
// pause is at most maxCollectRest, but at least one period.
const (
	collectRest    = 10
	maxCollectRest = 5 * time.Second
)

// logObstacle logs what prevents block production. An empty reason means that nothing prevents
// block production any more.
func (h *Daemon) logObstacle(reason string) {
	if reason == "" {
		h.log.Info("this node produces blocks again")
		return
	}
	h.log.Warnf("this node produces no blocks: %s", reason)
}

// startMaintenance runs maintain on its own goroutine until ctx ends.
func (h *Daemon) startMaintenance(ctx context.Context, c *config.Config, said string) {
	done := h.upkeep
	go func() {
		defer close(done)
		defer h.recoverMaintenance()
		h.maintain(ctx, c, said, h.verify)
	}()
}

// recoverMaintenance recovers a panic of maintenance, because the node does not depend on
// maintenance.
func (h *Daemon) recoverMaintenance() {
	if p := parallel.Recovered(recover()); p != nil {
		h.log.Errorf("maintenance failed: no garbage is collected until the node is restarted: %v\n%s", p.Reason, p.Stack)
	}
}

// maintain calls verify once. Meanwhile and afterwards it collects garbage and logs changes of the
// obstacle to block production, until ctx ends. verify may take hours, as it reads whole states.
func (h *Daemon) maintain(ctx context.Context, c *config.Config, said string, verify func(context.Context)) {
	verified := make(chan struct{})
	go func() {
		defer close(verified)
		verify(ctx)
	}()
	defer func() { <-verified }()
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
				h.logObstacle(now)
				said = now
			}
			continue
		case <-tick.C:
		}
		found := false
		for more := true; more && ctx.Err() == nil; { // repeat, because blocks may come faster than ticks
			done, err := h.collect(c)
			if err != nil && !errors.Is(err, storage.ErrFull) { // other code logs a full disk
				h.log.WithError(err).Error("garbage collection failed; old blocks stay, and it will be retried")
			}
			more, found = err == nil && done.More, found || err != nil || done.Blocks > 0
		}
		tick.Reset(collectAgain(period, found))
	}
}

// collect removes some blocks that are older than the configured age. collect keeps blocks that the
// chain or a shard's catchup still needs.
func (h *Daemon) collect(c *config.Config) (storage.GCResult, error) {
	from, err := h.Engine.KeepFrom()
	if err != nil {
		return storage.GCResult{}, err
	}
	began := time.Now()
	out, err := h.store.CollectGarbage(storage.GCOptions{
		KeepEpochs: int(c.GCEpochsToKeep), From: from, Before: uint64(time.Now().Add(-h.live.minAge()).UnixNano()),
		MaxHeights: int(max(h.live.blocksLimit(), 1)),
	})
	h.measured.Add(gcTime, int64(time.Since(began)))
	h.gcStop.Store(uint64(out.Stop))
	return out, err
}

// collectAgain returns the time until the next garbage collection. Garbage arises once per epoch,
// and an idle node should not wake up more often.
func collectAgain(period time.Duration, found bool) time.Duration {
	if found {
		return period
	}
	return max(period, min(collectRest*period, maxCollectRest))
}

// verify reads the states of all shards once and compares their hashes with the roots. The node
// works in the meantime. A panic of the check means the same as an error: what the check read
// contradicts itself. It ends the check only.
func (h *Daemon) verify(ctx context.Context) {
	err := engine.Catch(func() error { return h.verifyStates(ctx) })
	if err == nil {
		return
	}
	log := h.log.WithError(err)
	var p *engine.Panic
	if errors.As(err, &p) {
		log = log.WithField("stack", string(p.Stack))
	}
	log.Error("the stored state is damaged: do not trust this node's answers and blocks; stop it and restore the data folder")
}

func (h *Daemon) verifyStates(ctx context.Context) error {
	begin := time.Now()
	if err := h.Engine.Preload(func() bool { return ctx.Err() != nil }); err != nil {
		return err
	}
	h.log.WithField("ms", time.Since(begin).Milliseconds()).Debug("the upper trie levels of all shards are loaded")
	v := h.Engine.Verify()
	defer v.Stop()
	for {
		at := time.Now()
		done, err := v.Step(verifyStep)
		if err != nil {
			return err
		}
		if done {
			h.log.WithField("ms", time.Since(begin).Milliseconds()).Debug("stored states match their hashes")
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(verifyPause, verifyRest*time.Since(at))):
		}
	}
}
