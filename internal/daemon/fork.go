package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// forked is the state of a node that runs a fork of another chain.
type forked struct {
	*fork.Base
	mu   sync.Mutex
	live []primitives.AccountID // accounts that follow the remote chain, in the order of their requests
	at   view.At                // remote block up to which the accounts in live are up to date
}

// ForkOptions returns the options of the remote chain's client from config.json. Relative paths are
// relative to dir.
func ForkOptions(dir string, c *config.Config) fork.Options {
	f := &c.Fork
	o := fork.Options{Timeout: f.Timeout, Tries: int(f.Tries), PerSecond: float64(f.PerSecond), AtOnce: int(f.AtOnce),
		MaxReply: int64(f.MaxReply),
		Memory:   int64(f.Memory), Cache: f.Cache, MustProve: f.RequireProofs}
	if o.Cache == "" {
		o.Cache = "fork-cache"
	}
	if !filepath.IsAbs(o.Cache) {
		o.Cache = filepath.Join(dir, o.Cache)
	}
	return o
}

// openFork returns the remote state of a home that is a fork, or nil if the home is no fork. If
// check is set, openFork contacts the remote node. If that node serves a chain other than the
// forked one, openFork fails. If the remote node does not answer, openFork logs a warning.
func (h *Daemon) openFork(opts *Options, check bool) (*forked, error) {
	hm := opts.Home
	pin, err := fork.ReadPin(hm.Paths.Dir)
	if pin == nil || err != nil {
		return nil, err
	}
	o := ForkOptions(hm.Paths.Dir, hm.Config)
	o.URL, o.Transport = pin.URL, opts.ForkTransport
	if opts.Memory && hm.Config.Fork.Cache == "" {
		o.Cache = ""
	}
	o.Warn = func(err error) { h.log.Warn(err) }
	f := &forked{Base: fork.NewBase(fork.NewClient(o), pin)}
	if !check {
		return f, nil
	}
	err = f.Check(pin)
	switch {
	case errors.Is(err, fork.ErrChain), errors.Is(err, fork.ErrBlockGone):
		f.Close()
		return nil, fmt.Errorf("%s, the source of the fork in %s (fork.json): %w", site(pin.URL), hm.Paths.Dir, err)
	case err != nil:
		h.log.WithError(err).Warnf("%s does not answer: state that is not cached is unavailable until it does", site(pin.URL))
	}
	return f, nil
}

// site returns the part of a URL that may be logged. The rest may contain API keys.
func site(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the remote node"
	}
	return u.Scheme + "://" + u.Host
}

// chainOf returns the chain spec of a home. A fork has the remote chain's ID, but epochs of its
// own.
func chainOf(hm *home.Home, f *forked) (*engine.ChainSpec, error) {
	g := hm.Genesis
	if f != nil {
		own := *g
		own.ChainID = "fork-of-" + g.ChainID
		g = &own
	}
	chain, err := engine.NewChain(g, hm.Numbering, hm.EpochConfigFiles, recordsOf(hm))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", hm.Paths.Genesis, err)
	}
	chain.ID = hm.Genesis.ChainID
	load := chain.Load
	chain.Load = func() (*engine.GenesisState, error) {
		s, err := load()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", hm.Paths.Genesis, err)
		}
		return s, nil
	}
	return chain, nil
}

// forkClock returns the clock for a fork's blocks. The clock continues from the head's timestamp.
func forkClock(head *engine.BlockNode) func() uint64 {
	begun, from := time.Now(), head.Header().Timestamp
	return func() uint64 { return from + 1 + uint64(time.Since(begun)) }
}

// Fork applies the requested changes of accounts and returns the state of the fork.
func (s sandboxControl) Fork(ctx context.Context, q *view.ForkControl) (out view.Fork, err error) {
	if err := s.checkSandbox(); err != nil {
		return out, err
	}
	f := s.fork
	if f == nil {
		return out, &view.SandboxError{Reason: "this chain is not a fork of another one (`troupe run --fork URL` makes one)"}
	}
	if s.id != "" && len(q.Reset)+len(q.Cut)+len(q.Live) > 0 {
		return out, &view.SandboxError{Reason: "a world takes the accounts of the fork from its parent: call the parent instead"}
	}
	pinned := f.Pinned()
	var records []genesis.Record
	for _, a := range q.Reset {
		records = append(records, &genesis.ForkRecord{AccountID: a, Block: pinned})
	}
	for _, a := range q.Cut {
		records = append(records, &genesis.ForkRecord{AccountID: a, Keep: true})
	}
	if len(q.Live) > 0 {
		at := view.At{}
		if at.Hash, at.Height, err = f.Newest(); err != nil {
			return out, &view.SandboxError{Reason: err.Error()}
		}
		for _, a := range q.Live {
			records = append(records, &genesis.ForkRecord{AccountID: a, Block: at.Hash})
		}
		f.mu.Lock()
		f.at = at
		f.mu.Unlock()
	}
	if len(records) > 0 {
		if err := s.PatchState(ctx, records); err != nil {
			return out, err
		}
		f.mu.Lock()
		f.live = slices.DeleteFunc(f.live, func(a primitives.AccountID) bool { return slices.Contains(q.Reset, a) || slices.Contains(q.Cut, a) })
		for _, a := range q.Live {
			if !slices.Contains(f.live, a) {
				f.live = append(f.live, a)
			}
		}
		f.mu.Unlock()
	}
	return s.forkStatus()
}

// forkStatus returns the fork's block, statistics and changed accounts.
func (s sandboxControl) forkStatus() (view.Fork, error) {
	f, pin, n := s.fork, s.fork.Pin(), s.fork.Stats()
	out := view.Fork{URL: site(pin.URL), ChainID: pin.ChainID, At: view.At{Height: pin.Height, Hash: pin.Hash},
		Proven: n.Proven, Unproven: n.Unproven,
		Memory: n.Memory, Disk: n.Disk, Requests: n.Requests, Retries: n.Retries, Failures: n.Failures, Refused: n.Refused,
		Bytes: n.Bytes, LastError: n.LastError}
	if s.id == "" { // in worlds, no account follows the remote chain
		f.mu.Lock()
		out.Live = slices.Clone(f.live)
		if len(f.live) > 0 {
			at := f.at
			out.LiveAt = &at
		}
		f.mu.Unlock()
	}
	var err error
	out.Cut, err = s.Engine.CutOff()
	return out, err
}

// refreshLoop updates live accounts to their state on the remote chain, whenever the remote chain
// has a newer final block. refreshLoop runs until ctx ends.
func (h *Daemon) refreshLoop(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := h.refresh(ctx); err != nil && ctx.Err() == nil {
			h.log.WithError(err).Warn("live accounts of the fork are not updated; retrying")
		}
	}
}

// refresh updates live accounts once.
func (h *Daemon) refresh(ctx context.Context) error {
	f := h.fork
	f.mu.Lock()
	accounts, shown := slices.Clone(f.live), f.at
	f.mu.Unlock()
	if len(accounts) == 0 {
		return nil
	}
	hash, height, err := f.Newest()
	if err != nil || height <= shown.Height {
		return err
	}
	var patch []genesis.Record
	for _, a := range accounts {
		patch = append(patch, &genesis.ForkRecord{AccountID: a, Block: hash})
	}
	if _, _, err := h.Node.PatchState(ctx, patch); err != nil {
		return err
	}
	f.mu.Lock()
	f.at = view.At{Height: height, Hash: hash}
	f.mu.Unlock()
	return nil
}

// appendFork appends the metrics of the remote chain's client.
func (h *Daemon) appendFork(b []byte) []byte {
	if h.fork == nil {
		return b
	}
	s := h.fork.Stats()
	row := func(name, help string, n uint64) { b = appendMetric(b, "counter", name, help, float64(n)) }
	row("troupe_fork_questions", "Queries to the remote node of the forked chain", s.Questions)
	row("troupe_fork_requests", "HTTP requests with such queries, retries included", s.Requests)
	row("troupe_fork_batches", "HTTP requests that contain several queries", s.Batches)
	row("troupe_fork_retries", "Queries to the remote node that were retried", s.Retries)
	row("troupe_fork_failures", "Queries to the remote node that failed", s.Failures)
	row("troupe_fork_refused", "Answers of the remote node that failed verification", s.Refused)
	row("troupe_fork_bytes", "Bytes of the remote node's replies", s.Bytes)
	row("troupe_fork_proven", "Answers of the remote node with a verified proof", s.Proven)
	row("troupe_fork_unproven", "Answers of the remote node without a proof", s.Unproven)
	row("troupe_fork_from_memory", "Queries answered from the memory cache", s.Memory)
	row("troupe_fork_from_disk", "Queries answered from the disk cache", s.Disk)
	return b
}
