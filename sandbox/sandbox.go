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

// Options say what a sandbox is made of. The zero value is what most tests want.
type Options struct {
	// Dir is the folder of the first chain, which begins where it ended if the folder is there;
	// empty: a temporary one, which Close removes.
	Dir string
	// Log is told what a node tells; nil: nothing.
	Log *logrus.Logger
}

// Sandbox is a chain with its worlds. The chain itself is a world, too.
type Sandbox struct {
	*World
	host    *daemon.Daemon
	removes string // a folder; empty: none
}

// stopLimit bounds Close.
const stopLimit = 30 * time.Second

// Start begins a chain, or goes on with that of a folder. Its blocks are made when something is to
// be done.
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
			_ = os.RemoveAll(s.removes) // the error says more
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
	if hm.Config.RPC == nil { // its limits hold for calls from here, too; nothing listens
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

// Close ends the chain and all worlds.
func (s *Sandbox) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := s.host.Stop(ctx)
	if s.removes != "" {
		err = errors.Join(err, os.RemoveAll(s.removes))
	}
	return err
}

// World is one chain. Its methods are safe for concurrent use.
type World struct {
	realm *daemon.Instance

	mu     sync.Mutex
	nonces map[signer]primitives.Nonce // that were used last
}

type signer struct {
	account primitives.AccountID
	key     primitives.PublicKey
}

func newWorld(r *daemon.Instance) *World {
	return &World{realm: r, nonces: map[signer]primitives.Nonce{}}
}

// New makes a world that goes on from this one's head, with its accounts, contracts and clock. What
// is submitted here and is in no block yet is not in it.
func (w *World) New(ctx context.Context) (*World, error) { return w.from(ctx, "") }

// NewAt is New from a snapshot of this world.
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

// End ends a world, with those that go on from it, and gives back what it takes. The first chain
// ends with Close of the sandbox.
func (w *World) End() error { return w.realm.End() }

// Head is the last block.
func (w *World) Head() view.At { return w.realm.Backend().Head() }
