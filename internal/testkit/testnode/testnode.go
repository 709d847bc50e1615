// Package testnode builds the chains, engines and home folders of tests: a sandbox, a chain with
// several validators, or any genesis, with an engine on a disk in memory. The node packages (actors/node,
// internal/daemon) build their own tests' nodes on such an engine.
//
//	in      what differs from the default: shards, accounts, the genesis, engine options
//	out     *engine.ChainSpec, *engine.Engine, keys
//	state   none
//	units   as in package engine
//	bound   none
//	errors  end the test
//	source  our own
package testnode

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// Validator is the only validator of a Sandbox.
const Validator primitives.AccountID = "test.near"

// SandboxTime is the time of the genesis of a Sandbox.
var SandboxTime = time.Unix(1_700_000_000, 0)

// Sandbox returns the chain that `troupe init` makes, and the key of Validator, which may sign
// everything. It is the same chain in each call with the same number of shards. change may change
// how the chain is made. nil: no change.
func Sandbox(t testing.TB, shards int, change func(*home.InitOptions)) (*engine.ChainSpec, primitives.SecretKey) {
	t.Helper()
	dir, seed := t.TempDir(), "alice"
	o := home.InitOptions{
		Dir: dir, ChainID: "sandbox", AccountID: Validator, TestSeed: &seed, NumShards: shards,
		Now: func() time.Time { return SandboxTime }, Random: bytes.NewReader(bytes.Repeat([]byte{7}, 4096)),
	}
	if change != nil {
		change(&o)
	}
	if _, err := home.Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	h, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := engine.NewChain(h.Genesis, h.Numbering, h.EpochConfigFiles, func() (io.ReadCloser, error) { return os.Open(h.Paths.Genesis) })
	if err != nil {
		t.Fatal(err)
	}
	return c, h.ValidatorKey.SecretKey
}

// Home makes a home folder as `troupe init` does, with new keys, and returns it. Home sets Dir,
// Random, Downloader and Now of o.
func Home(t testing.TB, o home.InitOptions) (dir string) {
	t.Helper()
	o.Dir, o.Random, o.Downloader, o.Now = t.TempDir(), rand.Reader, home.NewDownloader(), time.Now
	if _, err := home.Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o.Dir
}

// Localnet returns the chain of `neard localnet`. The keys of the accounts are those of Key. If
// o.Protocol is 0, the chain has the newest version. change may change the genesis and return epoch
// configs, as engine.NewChain takes them. nil: no change.
func Localnet(t testing.TB, o genesis.LocalnetOptions, change func(*genesis.Config) map[string][]byte) *engine.ChainSpec {
	t.Helper()
	if o.Protocol == 0 {
		o.Protocol = parameters.Newest(primitives.NumberingRelease)
	}
	g, err := genesis.Localnet(o)
	if err != nil {
		t.Fatal(err)
	}
	var files map[string][]byte
	if change != nil {
		files = change(&g.Config)
	}
	c, err := Spec(&g.Config, primitives.NumberingRelease, files, g.Records)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Key returns the key of an account of a Localnet.
func Key(id primitives.AccountID) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, string(id))
}

// Spec returns the chain of a genesis with the given records. Errors: those of engine.NewChain.
func Spec(c *genesis.Config, n primitives.Numbering, files map[string][]byte, records []genesis.Record) (*engine.ChainSpec, error) {
	list := []byte{'['}
	for i, r := range records {
		if i > 0 {
			list = append(list, ',')
		}
		list = genesis.AppendRecord(list, r)
	}
	list = append(list, ']')
	return engine.NewChain(c, n, files, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(list)), nil })
}

// Options are the options of Open. Chain is required.
type Options struct {
	Chain *engine.ChainSpec
	Disk  *storage.MemDisk // nil: an empty one
	Store storage.Options  // Open sets Identity
	// Engine changes the options of the engine. nil: no change.
	Engine func(*engine.Options)
}

// Open opens an engine on a store in memory. The caller closes both, see Close.
func Open(t testing.TB, o Options) *engine.Engine {
	t.Helper()
	e, err := TryOpen(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TryOpen does the same as Open, but returns the error.
func TryOpen(o Options) (*engine.Engine, error) {
	if o.Disk == nil {
		o.Disk = storage.NewMemDisk()
	}
	o.Store.Identity = storage.Identity{ChainID: o.Chain.ID, Numbering: o.Chain.Version.Numbering}
	store, err := storage.OpenMemory(o.Disk, o.Store)
	if err != nil {
		return nil, err
	}
	eo := engine.Options{Chain: o.Chain, Store: store}
	if o.Engine != nil {
		o.Engine(&eo)
	}
	e, err := engine.Open(eo)
	if err != nil {
		_ = store.Close()
	}
	return e, err
}

// Close closes an engine and its store. An error fails the test.
func Close(t testing.TB, e *engine.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Errorf("close the engine: %v", err)
	}
	if err := e.Store().Close(); err != nil {
		t.Errorf("close the store: %v", err)
	}
}
