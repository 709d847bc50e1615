package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Options configure a sandbox. The zero value suits most tests.
type Options struct {
	// Dir is the folder of the first chain. If it contains a chain, the sandbox continues that
	// chain. If Dir is empty, the chain is in memory only, and Close discards it.
	Dir string
	// Log receives the node's log; nil: nothing is logged.
	Log *logrus.Logger

	// A new chain.

	// Shards is how many shards a new chain has. 0: one.
	Shards int
	// EpochLength is the number of blocks in an epoch of a new chain. 0: 43,200. A block must
	// include a transaction within two epochs after the block that the transaction names.
	EpochLength uint64
	// Accounts are created with these balances and the keys of Named. On a fork, an account that
	// exists already is changed to this balance and also gets the key.
	Accounts map[primitives.AccountID]primitives.Balance

	// A fork.

	// Fork names the block of a foreign chain from which the sandbox's chain continues: URL,
	// URL@HEIGHT, URL@HASH or URL@tx:HASH, where URL is the JSON-RPC of a node. Shards and
	// EpochLength must not be set together with Fork.
	Fork string
	// ForkTimeout limits each request to that node; a request is tried four times. 0: 10 s.
	ForkTimeout time.Duration
	// ForkCache is a folder that stores the replies of that node for later runs. If ForkCache is
	// empty, the replies are stored with the chain in Dir; without Dir, the replies are not stored.
	ForkCache string
}

// check returns an error if two options contradict each other.
func (o *Options) check() (spec fork.Spec, err error) {
	switch {
	case o.Shards < 0 || o.Shards > home.MaxShards:
		return spec, fmt.Errorf("sandbox: Options.Shards is %d, must be from 1 to %d; 0: one", o.Shards, home.MaxShards)
	case o.Fork == "" && (o.ForkTimeout != 0 || o.ForkCache != ""):
		return spec, errors.New("sandbox: Options.ForkTimeout and ForkCache need Fork")
	case o.Fork == "":
		return spec, nil
	case o.Shards != 0 || o.EpochLength != 0:
		return spec, errors.New("sandbox: Options.Fork excludes Shards and EpochLength: a fork has one shard and long epochs")
	}
	if spec, err = fork.ParseSpec(o.Fork); err != nil {
		return spec, fmt.Errorf("sandbox: Options.Fork: %w", err)
	}
	return spec, nil
}

// Sandbox is a chain and the worlds that continue from that chain. The chain itself is a World too.
type Sandbox struct {
	*World
	host  *daemon.Daemon
	close func() error // runs once
}

// Time limits of Close, and of the start in New.
const (
	stopLimit  = 30 * time.Second
	startLimit = time.Minute
)

// TB is the part of testing.TB that New and ForTest use.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// New starts a sandbox for a test, or ends the test. The sandbox is closed after the test and all
// its subtests, including those that call t.Parallel. A deferred Close would be too early for
// these. At most one Options is allowed.
func New(t TB, options ...Options) *Sandbox {
	t.Helper()
	var o Options
	switch len(options) {
	case 0:
	case 1:
		o = options[0]
	default:
		t.Fatalf("sandbox.New: %d Options, at most one is allowed", len(options))
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	s, err := Start(ctx, o)
	if err != nil {
		t.Fatalf("start a sandbox: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the sandbox: %v", err)
		}
	})
	return s
}

// Start creates a chain, or continues the chain in Options.Dir. The sandbox produces blocks only
// when there is something to execute. ctx limits the start, not the sandbox. The caller must call
// Close.
func Start(ctx context.Context, o Options) (s *Sandbox, err error) {
	spec, err := o.check()
	if err != nil {
		return nil, err
	}
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "troupe-sandbox-"); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
		defer func() { // the node reads these files only at its start
			gone := os.RemoveAll(dir)
			if gone != nil && err == nil {
				gone = errors.Join(gone, s.Close())
			}
			if err = errors.Join(err, gone); err != nil {
				s = nil
			}
		}()
	}
	hm, err := makeHome(ctx, dir, &o, spec)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetLevel(logrus.PanicLevel)
	}
	host, err := startNode(ctx, daemon.Options{Home: hm, Log: o.Log, NoRPC: true, InProcess: true, Servable: true,
		Memory: o.Dir == "", Trust: o.Dir == ""})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	s = &Sandbox{World: newWorld(&host.Instance, nil), host: host}
	s.close = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		return host.Stop(ctx)
	})
	for _, id := range slices.Sorted(maps.Keys(o.Accounts)) {
		if _, err := s.Create(ctx, id, o.Accounts[id]); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// makeHome creates the files of a chain, unless the files exist, and reads them.
func makeHome(ctx context.Context, dir string, o *Options, spec fork.Spec) (*home.Home, error) {
	hm, err := home.Load(dir)
	old := err == nil
	switch {
	case old && (o.Shards != 0 || o.EpochLength != 0):
		return nil, fmt.Errorf("sandbox: %s has a chain already: Options.Shards and EpochLength are for a new one", dir)
	case spec.URL != "":
		if _, err = fork.Make(ctx, dir, spec, fork.Options{URL: spec.URL, Timeout: o.ForkTimeout}); err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrFork, context.Cause(ctx))
		}
		if err != nil {
			return nil, fmt.Errorf("sandbox: fork of %s: %w", spec.URL, err)
		}
		hm, err = home.Load(dir)
	case errors.Is(err, os.ErrNotExist):
		if _, err = home.Init(ctx, home.InitOptions{Dir: dir, ChainID: "sandbox", NumShards: o.Shards, EpochLength: o.EpochLength,
			Random: rand.Reader, Downloader: home.NewDownloader(), Now: time.Now}); err == nil {
			hm, err = home.Load(dir)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	c := hm.Config
	if c.RPC == nil { // the limits of the RPC apply to calls in this process too; no socket listens
		if err = c.AddRPC(); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	on := true
	c.RPC.Sandbox, c.RPC.Console = &on, &on
	c.Consensus.ProduceEmptyBlocks = false
	if o.ForkTimeout != 0 {
		c.Fork.Timeout = o.ForkTimeout
	}
	if o.ForkCache != "" {
		c.Fork.Cache = o.ForkCache
	}
	return hm, nil
}

// startNode starts a node. If ctx ends during the start, the node is stopped once it has started.
func startNode(ctx context.Context, o daemon.Options) (*daemon.Daemon, error) {
	type result struct {
		host *daemon.Daemon
		err  error
	}
	started := make(chan result, 1)
	go func() {
		host, err := daemon.Start(o)
		started <- result{host, err}
	}()
	select {
	case r := <-started:
		return r.host, r.err
	case <-ctx.Done():
	}
	go func() {
		if r := <-started; r.err == nil {
			stop, cancel := context.WithTimeout(context.Background(), stopLimit)
			defer cancel()
			_ = r.host.Stop(stop) // the caller no longer waits
		}
	}()
	return nil, fmt.Errorf("the node has not started in time: %w", context.Cause(ctx))
}

// Close ends all worlds and stops the node. Further calls return the same result.
func (s *Sandbox) Close() error { return s.close() }

// World is one chain: the sandbox's first chain, or a chain that continues from a block of another
// world. Safe for concurrent use.
type World struct {
	chain *daemon.Instance

	mu     sync.Mutex
	nonces map[signer]primitives.Nonce // last used nonce of each account and key
	actFor []primitives.AccountID      // accounts whose transactions need no signature
}

type signer struct {
	account primitives.AccountID
	key     primitives.PublicKey
}

func newWorld(r *daemon.Instance, actFor []primitives.AccountID) *World {
	return &World{chain: r, nonces: map[signer]primitives.Nonce{}, actFor: actFor}
}

// New creates a world that continues from the head of w, with the accounts, contracts and clock of
// w. The new world does not get transactions that no block of this world includes yet.
func (w *World) New(ctx context.Context) (*World, error) { return w.from(ctx, "") }

// NewAt creates a world that continues from a snapshot of this one.
func (w *World) NewAt(ctx context.Context, snapshot string) (*World, error) {
	return w.from(ctx, snapshot)
}

// ForTest creates a world as New does. The world ends after the test and its subtests. If ForTest
// cannot create the world, the test fails at once.
func (w *World) ForTest(t TB) *World {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	x, err := w.New(ctx)
	if err != nil {
		t.Fatalf("create a world: %v", err)
	}
	t.Cleanup(func() {
		if err := x.End(); err != nil {
			t.Errorf("end the world: %v", err)
		}
	})
	return x
}

func (w *World) from(ctx context.Context, snapshot string) (*World, error) {
	r, err := w.chain.World(ctx, &view.NewWorld{Snapshot: snapshot})
	if err != nil {
		return nil, w.wrap(err, "create a world")
	}
	w.mu.Lock()
	actFor := slices.Clone(w.actFor)
	w.mu.Unlock()
	x := newWorld(r, actFor)
	if len(actFor) > 0 {
		if err := r.Backend().Impersonate(actFor, false); err != nil {
			return nil, errors.Join(w.wrap(err, "create a world"), x.End())
		}
	}
	return x, nil
}

// End ends a world and all worlds that continue from that world, and frees the memory of all of
// them. The first chain ends with Sandbox.Close instead.
func (w *World) End() error { return w.chain.End() }

// Head returns the last block.
func (w *World) Head() view.At { return w.chain.Backend().Head() }

// Serve makes the world reachable for other programs. The result is the URL of the world's
// JSON-RPC; the console is at /console below that URL. The first call for any world opens the
// listener at addr (empty: a free port of 127.0.0.1), which serves all worlds until the sandbox is
// closed.
func (w *World) Serve(addr string) (url string, err error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	url, err = w.chain.Serve(addr)
	return url, w.wrap(err, "serve JSON-RPC on %s", addr)
}
