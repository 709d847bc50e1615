package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/producer"
	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

func loaded(t testing.TB, dir string) *home.Home {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return hm
}

// mineBy posts one request of sandbox_mine and returns the reply.
func mineBy(t *testing.T, h *Daemon, params string) (out struct {
	Result struct {
		Hash   string
		Height uint64
	}
	Error struct {
		Cause struct {
			Name string
			Info struct{ Reason string }
		}
	}
}) {
	t.Helper()
	r, err := http.Post("http://"+h.Addr.String(), "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"sandbox_mine","params":`+params+`}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMineProducesRequestedBlocks: with manual production no other blocks are produced. Without a
// validator key they cannot be requested.
func TestMineProducesRequestedBlocks(t *testing.T) {
	hm := loaded(t, made(t))
	hm.Config.Production = config.Manual
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	before := h.Engine.Head().Height()
	for i, n := range []uint64{1, 5, 50} {
		got := mineBy(t, h, []string{`{}`, `{"blocks":5}`, `[50]`}[i])
		before += primitives.Height(n)
		head := h.Engine.Head()
		if got.Result.Height != uint64(before) || head.Height() != before || got.Result.Hash != head.Hash.String() {
			t.Fatalf("%d blocks: %+v, head %d %v, want height %d", n, got, head.Height(), head.Hash, before)
		}
	}
	refused := func(hm *home.Home, want string) {
		t.Helper()
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, h)
		if got := mineBy(t, h, `{}`); got.Error.Cause.Name != "CANNOT_MINE" || !strings.Contains(got.Error.Cause.Info.Reason, want) {
			t.Errorf("%+v, want CANNOT_MINE: %s", got, want)
		}
	}
	hm = loaded(t, made(t))
	hm.Config.Production, hm.ValidatorKey = config.Manual, nil
	refused(hm, "there is no "+hm.Paths.ValidatorKey)
}

func TestObstacleSaysWhyNoBlockIsProduced(t *testing.T) {
	other := primitives.SecretKeyFromSeed(primitives.ED25519, "other")
	for _, c := range []struct {
		name string
		edit func(hm *home.Home)
		want string
	}{
		{"none", func(*home.Home) {}, ""},
		{"no key", func(hm *home.Home) { hm.ValidatorKey = nil }, "; restore the key of test.near, which is a validator of the genesis: "},
		{"another account", func(hm *home.Home) {
			hm.ValidatorKey = &primitives.KeyFile{AccountID: "bob.near", SecretKey: other}
		}, "bob.near of validator_key.json is not a validator of this epoch: until the account stakes"},
		{"another key", func(hm *home.Home) {
			hm.ValidatorKey = &primitives.KeyFile{AccountID: hm.ValidatorKey.AccountID, SecretKey: other}
		}, "is a validator with the key ed25519:"},
		{"too little stake", func(hm *home.Home) {
			v := hm.Genesis.Validators[0]
			v.AccountID, v.PublicKey = "near", other.PublicKey()
			hm.Genesis.Validators = append(hm.Genesis.Validators, v)
		}, "holds 50 % of the stake, and a block needs the votes of more than two thirds"},
		{"not enough stake", func(hm *home.Home) {
			v := hm.Genesis.Validators[0]
			v.AccountID, v.PublicKey, v.Amount = "near", other.PublicKey(), primitives.Yocto(1)
			hm.Genesis.Validators = append(hm.Genesis.Validators, v)
			hm.ValidatorKey = &primitives.KeyFile{AccountID: "near", SecretKey: other}
		}, "near of validator_key.json is not a validator of this epoch: until the account stakes with this key at least the price of a seat, "},
	} {
		t.Run(c.name, func(t *testing.T) {
			hm := loaded(t, made(t))
			c.edit(hm)
			h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true})
			if err != nil {
				t.Fatal(err)
			}
			defer stop(t, h)
			if got := h.Obstacle(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("Obstacle() = %q, want %q", got, c.want)
			}
		})
	}
}

// TestValidatorAmongOthersNeedsJournal: a validator among others needs nothing more to produce
// blocks with them. Configurations that contradict the others are refused. After it has signed with
// others it runs only with its signing journal.
func TestValidatorAmongOthersNeedsJournal(t *testing.T) {
	for _, c := range []struct {
		name                 string
		others, signed, want bool
	}{{"alone", false, false, false}, {"others", true, false, true}, {"alone now", false, true, true}} {
		t.Run(c.name, func(t *testing.T) {
			hm := loaded(t, made(t))
			on := true
			hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, "127.0.0.1:0"
			if c.others {
				v := hm.Genesis.Validators[0]
				v.AccountID, v.PublicKey = "near", primitives.SecretKeyFromSeed(primitives.ED25519, "other").PublicKey()
				hm.Genesis.Validators = append(hm.Genesis.Validators, v)
			}
			if c.signed {
				h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true})
				if err != nil {
					t.Fatal(err)
				}
				stop(t, h)
				f, err := validator.OpenJournal(filepath.Join(hm.Paths.Data, signedFile))
				if err != nil {
					t.Fatal(err)
				}
				f.Close()
				off := false
				hm.Config.Network.Enabled = &off
				if h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true}); err == nil || !strings.Contains(err.Error(), "with other validators") {
					t.Errorf("without the network: %v", err)
					if err == nil {
						stop(t, h)
					}
				}
				hm.Config.Network.Enabled = &on
			}
			h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true})
			if err != nil {
				t.Fatal(err)
			}
			defer stop(t, h)
			if got := h.Obstacle(); got != "" {
				t.Errorf("Obstacle() = %q", got)
			}
			_, err = h.Node.Reorganise(t.Context(), 1)
			if got := h.withOthers; got != c.want || c.want != errors.Is(err, producer.ErrShared) || c.want != (h.sharedReason() != "") {
				t.Errorf("together %v, want %v; %v", got, c.want, err)
			}
		})
	}
}

// TestPortsAreTestedBeforeAnyWrite: if a port is taken, nothing has been started or written, and
// the error names the source of the address and the setting to change.
func TestPortsAreTestedBeforeAnyWrite(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr := taken.Addr().String()
	for want, o := range map[string]Options{
		"--rpc-addr: " + addr + " is in use":            {Listen: addr},
		"rpc.addr: " + addr + " is in use":              {},
		"rpc.prometheus_addr: " + addr + " is in use":   {Listen: "127.0.0.1:0"},
		"--rpc-prometheus-addr: " + addr + " is in use": {Listen: "127.0.0.1:0", Metrics: true},
	} {
		o.Home = loaded(t, made(t))
		o.Home.Config.RPC.Addr, o.Home.Config.RPC.PrometheusAddr = addr, addr
		_, err := Start(o)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(want, "prometheus") && !strings.Contains(err.Error(), "with --rpc-prometheus-addr") {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := os.Stat(o.Home.Paths.Data); err == nil {
			t.Errorf("%s: the data folder was made", want)
		}
	}
}

// TestFailedStartClosesEverything: the same process can then start the node.
func TestFailedStartClosesEverything(t *testing.T) {
	hm := loaded(t, made(t))
	good := hm.Config.RPC.HTTPStatus
	hm.Config.RPC.HTTPStatus = "nonsense" // refused by the RPC, after other parts have started
	if _, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Fatalf("started: %v", err)
	}
	hm.Config.RPC.HTTPStatus = good
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, h)
}

// TestImplausibleGenesisNeedsFlag: a chain is not started from an implausible genesis unless a flag
// allows it.
func TestImplausibleGenesisNeedsFlag(t *testing.T) {
	dir := made(t)
	path := filepath.Join(dir, "genesis.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(`"total_supply": "2`), []byte(`"total_supply": "3`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Options{Home: loaded(t, dir), Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "wrong total supply") {
		t.Fatalf("started: %v", err)
	}
	h, err := Start(Options{Home: loaded(t, dir), Listen: "127.0.0.1:0", Trust: true})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, h)
}

// TestExposedNodeLogsWhatPeersMayDo: a node that listens to other machines logs what they may do.
func TestExposedNodeLogsWhatPeersMayDo(t *testing.T) {
	for _, c := range []struct {
		listen string
		cors   []string
		says   []string
	}{
		{"127.0.0.1:0", []string{"*"}, nil},
		{"0.0.0.0:0", []string{"*"}, []string{"is open to other machines", "web pages of any origin", "any client can sign for near, ", "--rpc-addr 127.0.0.1:"}},
		{"0.0.0.0:0", []string{"https://a.example"}, []string{"any client can sign for near, "}},
	} {
		var said bytes.Buffer
		log := logrus.New()
		log.SetOutput(&said)
		hm := loaded(t, made(t))
		hm.Config.RPC.CORS = c.cors
		h, err := Start(Options{Home: hm, Listen: c.listen, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		stop(t, h)
		if c.says == nil && strings.Contains(said.String(), "level=warning") {
			t.Errorf("%s: output %s", c.listen, said.String())
		}
		for _, want := range c.says {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: lacks %q: %s", c.listen, want, said.String())
			}
		}
		if len(c.cors) == 1 && c.cors[0] != "*" && strings.Contains(said.String(), "any origin") {
			t.Errorf("output %s", said.String())
		}
	}
}

// TestStopDoesNotWaitForSlowClients: half a request and a client that does not read, at both
// listeners, do not delay a stop. A stop that exceeds its time limit reports what has not ended
// instead of waiting for it.
func TestStopDoesNotWaitForSlowClients(t *testing.T) {
	testutil.Soon(t, "a stop", time.Second, 10, func() time.Duration { return stopBesideReaders(t) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := make(chan struct{})
	defer close(never)
	err, inTime := within(ctx, "this", func() error { <-never; return nil })
	if inTime || !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "stopping: this did not end in time") {
		t.Errorf("within: %v, %v", err, inTime)
	}
}

// stopBesideReaders returns how long a node takes to stop while clients do not read, or do not
// finish their requests.
func stopBesideReaders(t *testing.T) time.Duration {
	t.Helper()
	hm := loaded(t, made(t))
	hm.Config.RPC.PrometheusAddr = testutil.Addr(t)
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{h.Addr.String(), hm.Config.RPC.PrometheusAddr} {
		for _, text := range []string{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "GET /metr", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"} {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(20 * time.Millisecond) // so that they have arrived; if not, the test is weaker, not wrong
	begun := time.Now()
	stop(t, h)
	return time.Since(begun)
}

// TestMaintenancePanicIsLogged: a panic of the check of the states is logged with its stack as
// damage, and garbage collection begins all the same. A panic of garbage collection ends the
// maintenance loop, and the node can still be stopped.
func TestMaintenancePanicIsLogged(t *testing.T) {
	var said bytes.Buffer
	log := logrus.New()
	log.SetOutput(&said)
	h := &Daemon{Instance: Instance{log: log}, upkeep: make(chan struct{})}
	h.startMaintenance(t.Context(), &config.Config{}, "") // there is no engine, so each call of it panics
	<-h.upkeep
	for _, want := range []string{"the stored state is damaged", "Preload", "maintenance failed", "collect"} {
		if got := said.String(); !strings.Contains(got, want) {
			t.Errorf("%q is not in the log: %s", want, got)
		}
	}
}

// TestLateStopKeepsAllBlocks: a stop that exceeds its time limit while the flat head advances
// reports only the unfinished advance. The folder of a process that ends then contains all blocks.
func TestLateStopKeepsAllBlocks(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	mine(t, h, 20)
	head := h.Engine.Head().Hash
	folding, going := make(chan struct{}), make(chan struct{})
	hooks.lastAdvance = func(context.Context) error { close(folding); <-going; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-folding; cancel() }()
	err := h.Stop(ctx)
	hooks.lastAdvance = nil
	if err != ErrFlatHeadBehind {
		t.Fatalf("Stop: %v", err)
	}
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	close(going)
	if err := h.store.Close(); err != nil { // it was left open for the fold
		t.Error(err)
	}
	next := mustStart(t, killed)
	defer stop(t, next)
	if got := next.Engine.Head().Hash; got != head {
		t.Errorf("the next start is at %v, want %v", got, head)
	}
}

// TestStuckComponentDelaysStopUpToLimit: the stop reports the component and does not close the
// store, which the component may still use.
func TestStuckComponentDelaysStopUpToLimit(t *testing.T) {
	h := mustStart(t, made(t))
	stuck, ended := make(chan struct{}), h.upkeep
	h.upkeep = stuck
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := h.Stop(ctx)
	if took := time.Since(begun); took > 20*time.Second { // it never ends
		t.Errorf("stopped after %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), "upkeep did not end in time") {
		t.Errorf("Stop: %v", err)
	}
	_ = h.Node.Stop(t.Context()) // which may not have begun before
	if err := h.store.Write(new(storage.Batch)); err != nil {
		t.Errorf("the store was closed under what had not ended: %v", err)
	}
	<-ended
	if err := errors.Join(h.Engine.AdvanceFlatHead(), h.store.Close()); err != nil {
		t.Error(err)
	}
	h.vm.Close()
}
