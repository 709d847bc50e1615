package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/storage"
)

// ErrFlatHeadBehind means that a stop did not finish the advance of the flat head. No data is lost:
// the next start applies these blocks again. The store stays open until the process ends.
var ErrFlatHeadBehind = errors.New("the flat head was not advanced in time; the next start applies the last blocks again")

// ErrStateSyncUnfinished means that a stop did not wait for the end of a state sync, which may compact a
// large index for minutes. No data is lost: the next start continues the state sync. The folder of the
// state sync stays open until the process ends.
var ErrStateSyncUnfinished = errors.New("the end of a state sync was interrupted; the next start continues it")

// Stop stops the node. It answers waiting requests, finishes blocks in progress, advances the flat
// head and closes the store. When ctx ends, Stop returns even if some parts have not stopped. These
// parts keep their resources open until the process ends. Accepted blocks are on disk in any case.
// If only the advance of the flat head is unfinished, the error is ErrFlatHeadBehind. If only a state
// sync is, the error is ErrStateSyncUnfinished.
func (h *Daemon) Stop(ctx context.Context) error {
	h.stop()
	h.Node.EndWaits()
	if h.fork != nil {
		h.fork.Close() // cancels requests to the remote chain
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
	cut := make(chan struct{}) // closed when the control socket has closed
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
		// Close the views first, because requests that wait for a long call would delay the
		// shutdown.
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
	synced := make(chan struct{}) // closed when the folder of a state sync is closed
	go func() {
		defer close(synced)
		h.bootstrap.stop()
	}()
	if !ended {
		return errors.Join(errs...)
	}
	if h.history != nil {
		done("history", h.history.Close)
	}
	err, inTime := within(ctx, "fold", func() error { return h.lastAdvance(ctx) })
	if !inTime {
		return unfinished(errs, ErrFlatHeadBehind)
	}
	// No accepted block is lost, because the next start applies the blocks in the log.
	if errors.Is(err, storage.ErrFull) && !errors.Is(err, storage.ErrFailed) {
		h.log.WithError(err).Warn("the disk is full: the flat head was not advanced")
		err = nil
	}
	errs = append(errs, err)
	closed := done("store", h.store.Close)
	if _, inTime := within(ctx, "state sync", func() error { <-synced; return nil }); !inTime {
		return unfinished(errs, ErrStateSyncUnfinished) // the state sync may still use h.vm
	}
	if closed {
		h.vm.Close()
	}
	return errors.Join(errs...)
}

func (h *Daemon) advanceFlatHead(ctx context.Context) error {
	h.Engine.EndRevertPoints()
	return h.Engine.AdvanceFlatHeadWithin(ctx)
}

// unfinished returns why, joined with those of errs that are not nil. Without such errors it returns why
// itself.
func unfinished(errs []error, why error) error {
	if errors.Join(errs...) == nil {
		return why
	}
	return errors.Join(append(errs, why)...)
}

// within runs f and waits until f returns or ctx ends.
func within(ctx context.Context, what string, f func() error) (err error, inTime bool) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err, true
	case <-ctx.Done():
	}
	select {
	case err := <-done: // f finished just before the time limit
		return err, true
	default:
		return fmt.Errorf("stopping: %s did not end in time: %w", what, ctx.Err()), false
	}
}
