package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/storage"
)

// ErrUnfolded is what a stop comes to that has left a fold under way, and nothing else: nothing is
// lost, and the next start applies blocks again. The folder stays open until the process ends.
var ErrUnfolded = errors.New("the state was not folded in time; the next start applies its last blocks again")

// Stop ends the node cleanly: waits are answered, blocks in work are finished, the state is folded,
// the folder is closed. It takes no longer than ctx: what is not done by then is left, and what it
// stands on stays open for it, until the process ends. Accepted blocks are on disk in any case;
// where all but the fold of their state is done, ErrUnfolded says so.
func (h *Daemon) Stop(ctx context.Context) error {
	h.stop()
	h.Node.EndWaits()
	if h.fork != nil {
		h.fork.Close() // what waits for the other chain waits no longer
	}
	var edges sync.WaitGroup
	if h.metrics != nil {
		edges.Go(func() { h.metrics.stop(ctx) })
	}
	var errs []error
	done := func(what string, f func() error) bool {
		err, inTime := within(ctx, what, f)
		if err != nil {
			errs = append(errs, err)
		}
		return inTime
	}
	cut := make(chan struct{}) // who is being answered at the socket has gone
	go func() {
		defer close(cut)
		if h.control != nil {
			h.control.close()
		}
	}()
	ended := done("upkeep", func() error { <-h.upkeep; return nil })
	if h.feeds != nil {
		ended = done("feeds", func() error { <-h.feeds.ended; return nil }) && ended
	}
	if h.views != nil {
		// First: requests that wait for a long call would hold the shutdown up.
		ended = done("view calls", func() error { h.views.Close(); return nil }) && ended
	}
	if h.server != nil {
		ended = done("rpc", func() error { return h.server.Shutdown(ctx) }) && ended
	}
	edges.Wait()
	ended = done("control", func() error { <-cut; return nil }) && ended
	ended = done("worlds", func() error { return h.worlds.close(ctx) }) && ended
	ended = done("replicas", func() error { h.replica.close(); h.publishing.Load().close(); return nil }) && ended
	ended = done("node", func() error { return h.Node.Stop(ctx) }) && ended
	if h.tracing != nil {
		h.tracing.Close(ctx)
	}
	h.arrivals.stop()
	if !ended {
		return errors.Join(errs...)
	}
	err, inTime := within(ctx, "fold", func() error { return h.fold(ctx) })
	if !inTime {
		return unfolded(errs)
	}
	// nothing that was told: the next start applies what the log has
	if errors.Is(err, storage.ErrFull) && !errors.Is(err, storage.ErrFailed) {
		h.log.WithError(err).Warn("the disk is full: the state was not folded")
		err = nil
	}
	errs = append(errs, err)
	if done("store", h.store.Close) {
		h.vm.Close()
	}
	return errors.Join(errs...)
}

func (h *Daemon) foldLast(ctx context.Context) error {
	h.Engine.EndRevertPoints()
	return h.Engine.AdvanceFlatHeadWithin(ctx)
}

// unfolded is ErrUnfolded alone, or with what else has gone wrong.
func unfolded(errs []error) error {
	if len(errs) == 0 {
		return ErrUnfolded
	}
	return errors.Join(append(errs, ErrUnfolded)...)
}

// within runs f, at most until ctx ends.
func within(ctx context.Context, what string, f func() error) (err error, inTime bool) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err, true
	case <-ctx.Done():
	}
	select {
	case err := <-done: // at the same time
		return err, true
	default:
		return fmt.Errorf("%s has not ended in time: %w", what, ctx.Err()), false
	}
}
