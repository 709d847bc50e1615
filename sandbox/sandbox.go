package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Options configure a sandbox. The zero value suits most tests.
type Options struct {
	// Dir is the folder of the first chain. If it contains a chain, that is continued. Empty: a
	// temporary folder, which Close removes.
	Dir string
	// Log receives the node's log; nil: nothing is logged.
	Log *logrus.Logger
}

// Sandbox is a chain and the worlds that continue from it. The chain itself is a World too.
type Sandbox struct {
	*World
	host    *daemon.Daemon
	removes string // folder to remove in Close; empty: none
}

// stopLimit is the time limit of Close.
const stopLimit = 30 * time.Second

// Start creates a chain, or continues the one in Options.Dir. It produces blocks only when there is
// something to execute.
func Start(ctx context.Context, o Options) (_ *Sandbox, err error) {
	s := &Sandbox{}
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "troupe-sandbox-"); err != nil {
			return nil, err
		}
		s.removes = dir
	}
	defer func() {
		if err != nil && s.removes != "" {
			_ = os.RemoveAll(s.removes) // err is more informative
		}
	}()
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetLevel(logrus.PanicLevel)
	}
	hm, err := home.Load(dir)
	if errors.Is(err, os.ErrNotExist) {
		if _, err = home.Init(ctx, home.InitOptions{Dir: dir, ChainID: "sandbox", Random: rand.Reader, Downloader: home.NewDownloader(), Now: time.Now}); err == nil {
			hm, err = home.Load(dir)
		}
	}
	if err != nil {
		return nil, err
	}
	if hm.Config.RPC == nil { // its limits apply to calls in this process too; nothing listens
		if err = hm.Config.AddRPC(); err != nil {
			return nil, err
		}
	}
	hm.Config.Consensus.ProduceEmptyBlocks = false
	if s.host, err = daemon.Start(daemon.Options{Home: hm, Log: o.Log, NoRPC: true, InProcess: true}); err != nil {
		return nil, err
	}
	s.World = newWorld(&s.host.Instance)
	return s, nil
}

// Close ends all worlds and stops the node.
func (s *Sandbox) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := s.host.Stop(ctx)
	if s.removes != "" {
		err = errors.Join(err, os.RemoveAll(s.removes))
	}
	return err
}

// World is one chain. Safe for concurrent use.
type World struct {
	realm *daemon.Instance

	mu     sync.Mutex
	nonces map[signer]primitives.Nonce // last used nonces
}

type signer struct {
	account primitives.AccountID
	key     primitives.PublicKey
}

func newWorld(r *daemon.Instance) *World {
	return &World{realm: r, nonces: map[signer]primitives.Nonce{}}
}

// New creates a world that continues from the head of this one, with its accounts, contracts and
// clock. Transactions that are submitted here and in no block yet are not included.
func (w *World) New(ctx context.Context) (*World, error) { return w.from(ctx, "") }

// NewAt creates a world that continues from a snapshot of this one.
func (w *World) NewAt(ctx context.Context, snapshot string) (*World, error) {
	return w.from(ctx, snapshot)
}

func (w *World) from(ctx context.Context, snapshot string) (*World, error) {
	r, err := w.realm.World(ctx, &view.NewWorld{Snapshot: snapshot})
	if err != nil {
		return nil, err
	}
	return newWorld(r), nil
}

// End ends a world and all worlds that continue from it, and frees their memory. The first chain
// ends with Sandbox.Close instead.
func (w *World) End() error { return w.realm.End() }

// Head returns the last block.
func (w *World) Head() view.At { return w.realm.Backend().Head() }
