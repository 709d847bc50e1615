package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// watched is a writer that calls seen once its text contains a word.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	word string
	seen func()
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if strings.Contains(w.text.String(), w.word) {
		w.seen()
	}
	return len(p), nil
}

// runUntil runs a command line until its stderr contains a word, or for some time, and then ends it
// as a signal would.
func runUntil(t *testing.T, word string, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	w := &watched{word: word, seen: cancel}
	root := newRoot(new(app))
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(w)
	if err := root.ExecuteContext(ctx); err != nil {
		t.Errorf("%v: error %v", args, err)
	}
	return out.String(), w.text.String()
}

// newHome returns a home folder made by init with changes of config.json.
func newHome(t testing.TB, conf string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	if got := runLine([]string{"--home", dir, "init", "--chain-id", "test"}); strings.Contains(got, "exit ") {
		t.Fatal(got)
	}
	if conf != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSignalEndsALongStart: a long start ends soon after a signal.
func TestSignalEndsALongStart(t *testing.T) {
	dir := newHome(t, `{"genesis_records_file":"slow","rpc":null}`)
	if err := syscall.Mkfifo(filepath.Join(dir, "slow"), 0o600); err != nil { // a read of it waits for a writer
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	var said bytes.Buffer
	root := newRoot(new(app))
	root.SetArgs([]string{"--home", dir, "run"})
	root.SetErr(&said)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	select {
	case err := <-ended:
		if err != nil || !strings.Contains(said.String(), "received a signal to stop during the start") {
			t.Errorf("%v, output %s", err, said.String())
		}
	case <-time.After(startGrace + 30*time.Second):
		t.Error("the start did not stop")
	}
	// let the abandoned start end
	w, err := os.OpenFile(filepath.Join(dir, "slow"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		_ = w.Close()
	}
}

// TestRunReportsUselessFlagsOnStderr: at the start, stderr names flags and keys without effect and
// says why there are no blocks or no RPC; stdout, which is not a terminal, stays empty.
func TestRunReportsUselessFlagsOnStderr(t *testing.T) {
	const local = "127.0.0.1:0"
	for _, c := range []struct {
		name, config, drop string
		args               []string
		says, never        []string
	}{
		{"nothing special", "", "", []string{"--rpc-addr", local}, []string{"chain test, JSON-RPC on http://127.0.0.1:"}, []string{"no effect", "no blocks", "warning", "debug"}},
		{"flags without effect", "", "", []string{"--rpc-addr", local, "--network-addr", local, "--min-peers", "3", "--telemetry-url", "http://x"},
			[]string{"--min-peers: no effect: the node dials peers until it has enough, and does not wait for them", "--telemetry-url: no effect: this node sends no telemetry", "peers may connect to ed25519:"}, nil},
		{"keys without effect", `{"tracked_shards_config":"NoShards","store":{"max_open_files":3000},"rpc":{"experimental_debug_pages_src_path":"x"}}`, "", []string{"--rpc-addr", local},
			[]string{"all shards are tracked: test.near of validator_key.json produces their chunks", "store.max_open_files: no effect", "rpc.experimental_debug_pages_src_path: no effect"}, nil},
		{"no key", "", "validator_key.json", []string{"--rpc-addr", local}, []string{"this node produces no blocks: there is no "}, nil},
		{"rpc is null", `{"rpc":null}`, "", nil, []string{"no JSON-RPC: ", "is null in config.json; use --rpc-addr to listen"}, []string{"JSON-RPC on"}},
		{"rpc is null, and asked for", `{"rpc":null}`, "", []string{"--rpc-addr", local}, []string{"JSON-RPC on http://127.0.0.1:"}, nil},
		{"no rpc", "", "", []string{"--disable-rpc"}, []string{"no JSON-RPC: --disable-rpc"}, []string{"JSON-RPC on"}},
		{"no rpc, and an address", "", "", []string{"--disable-rpc", "--rpc-addr", local}, []string{"--disable-rpc overrides --rpc-addr and --rpc-prometheus-addr"}, nil},
		{"manual", "", "", []string{"--rpc-addr", local, "--block-production", "manual"}, []string{"blocks are produced by sandbox_mine only"}, nil},
		{"every address", "", "", []string{"--rpc-addr", "0.0.0.0:0"}, []string{"JSON-RPC on http://127.0.0.1:", "JSON-RPC on [::]:", "any origin"}, nil},
		{"verbose", "", "", []string{"--rpc-addr", local, "--verbose=host"}, []string{"level=debug"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newHome(t, c.config)
			if c.drop != "" {
				if err := os.Remove(filepath.Join(dir, c.drop)); err != nil {
					t.Fatal(err)
				}
			}
			last := c.says[len(c.says)-1]
			stdout, stderr := runUntil(t, last, append([]string{"--home", dir, "run"}, c.args...)...)
			if stdout != "" {
				t.Errorf("stdout: %s", stdout)
			}
			for _, want := range c.says {
				if !strings.Contains(stderr, want) {
					t.Errorf("lacks %q:\n%s", want, stderr)
				}
			}
			for _, word := range c.never {
				if strings.Contains(stderr, word) {
					t.Errorf("says %q:\n%s", word, stderr)
				}
			}
		})
	}
}

// TestTrustedProxiesFlagNamesClients: with --trusted-proxies, limits per address count the clients of
// X-Forwarded-For.
func TestTrustedProxiesFlagNamesClients(t *testing.T) {
	if got := runLine([]string{"--home", newHome(t, ""), "run", "--trusted-proxies", "127.0.0.1,proxy.example"}); !strings.Contains(got, `--trusted-proxies has "proxy.example"`) {
		t.Errorf("output %s", got)
	}
	const conf = `{"rpc":{"polling_config":{"polling_interval":{"secs":0,"nanos":100000000},"polling_timeout":{"secs":3,"nanos":0}}},"troupe":{"rpc":{"max_parked_per_address":1}}}`
	for _, c := range []struct {
		name, second string
		args         []string
		refused      bool
	}{
		{"another client", "8.8.8.8", []string{"--trusted-proxies", "127.0.0.0/8"}, false},
		{"the same client", "7.7.7.7", []string{"--trusted-proxies", "127.0.0.0/8"}, true},
		{"a proxy that is not trusted", "8.8.8.8", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := testutil.Addr(t)
			ctx, cancel := context.WithCancel(t.Context())
			root := newRoot(new(app))
			root.SetArgs(append([]string{"--home", newHome(t, conf), "run", "--rpc-addr", addr, "--block-production", "manual"}, c.args...))
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			ended := make(chan error, 1)
			go func() { ended <- root.ExecuteContext(ctx) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			wait := func(client string) string { // for a transaction that does not come
				body := `{"jsonrpc":"2.0","id":1,"method":"tx","params":{"tx_hash":"` + strings.Repeat("1", 32) + `","sender_account_id":"test.near","wait_until":"FINAL"}}`
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr, strings.NewReader(body))
				if err != nil {
					return err.Error()
				}
				r.Header.Set("X-Forwarded-For", client)
				reply, err := http.DefaultClient.Do(r)
				if err != nil {
					return err.Error()
				}
				defer reply.Body.Close()
				text, _ := io.ReadAll(reply.Body)
				return string(text)
			}
			for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				r, err := http.Get("http://" + addr + "/status")
				if err == nil {
					_ = r.Body.Close()
					break
				}
				if time.Now().After(limit) {
					t.Fatal(err)
				}
			}
			first := make(chan string, 1)
			go func() { first <- wait("7.7.7.7") }()
			for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // until it waits
				r, err := http.Get("http://" + addr + "/metrics")
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if strings.Contains(string(text), "\ntroupe_rpc_waiting_requests 1\n") {
					break
				}
				if time.Now().After(limit) {
					t.Fatal("the first request does not wait")
				}
			}
			if got := wait(c.second); strings.Contains(got, "max_parked_per_address") != c.refused {
				t.Errorf("reply %s", got)
			}
			if got := <-first; strings.Contains(got, "max_parked_per_address") {
				t.Errorf("the first reply: %s", got)
			}
		})
	}
}

// TestRunLogsOnlyErrorsIfAskedTo: with RUST_LOG as near-sandbox-rs sets it, only errors are logged.
func TestRunLogsOnlyErrorsIfAskedTo(t *testing.T) {
	t.Setenv("RUST_LOG", "near=error,stats=error,network=error")
	dir := newHome(t, `{"tracked_shards_config":"NoShards"}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, port, err := net.SplitHostPort(testutil.Addr(t))
	if err != nil {
		t.Fatal(err)
	}
	go func() { // a moment longer than the start takes
		for ctx.Err() == nil {
			if r, err := http.Get("http://127.0.0.1:" + port + "/status"); err == nil {
				_ = r.Body.Close()
				time.Sleep(500 * time.Millisecond)
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	var out bytes.Buffer
	root := newRoot(new(app))
	root.SetArgs([]string{"--home", dir, "run", "--rpc-addr", "0.0.0.0:" + port, "--network-addr", "0.0.0.0:0"})
	root.SetOut(&out)
	root.SetErr(&out)
	if err := root.ExecuteContext(ctx); err != nil || out.Len() > 0 {
		t.Errorf("%v: output %s", err, out.String())
	}
}

// TestSyncedNodeIsRestartedIfEndedCleanly: a node that has synced a state is restarted if it has
// ended cleanly; otherwise the error names what has not ended.
func TestSyncedNodeIsRestartedIfEndedCleanly(t *testing.T) {
	late := fmt.Errorf("fold has not ended in time: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		why, stop error
		again     bool
		says      []string
	}{
		{nil, nil, false, nil},
		{daemon.ErrStateSynced, nil, true, []string{"the node restarts"}},
		{daemon.ErrStateSynced, late, false, []string{"the node restarts", "fold has not ended in time"}},
		{nil, late, false, []string{"fold has not ended in time"}},
		{nil, daemon.ErrFlatHeadBehind, false, nil},
		{nil, errors.Join(daemon.ErrFlatHeadBehind, io.ErrUnexpectedEOF), false, []string{"not advanced", "unexpected EOF"}},
		// the folder is open still
		{daemon.ErrStateSynced, daemon.ErrFlatHeadBehind, false, []string{"the node restarts", "not advanced"}},
		{io.ErrUnexpectedEOF, nil, false, []string{"unexpected EOF"}},
	} {
		err := ended(c.why, c.stop)
		if restarts(err) != c.again || (err == nil) != (c.says == nil) {
			t.Errorf("%v, %v: %v, again %v", c.why, c.stop, err, restarts(err))
		}
		for _, what := range c.says {
			if !strings.Contains(fmt.Sprint(err), what) {
				t.Errorf("%v, %v: error %v does not contain %q", c.why, c.stop, err, what)
			}
		}
	}
}

// TestGreetingNamesOnlyExistingFiles: the greeting for terminals names only existing files, and
// says why no blocks are produced.
func TestGreetingNamesOnlyExistingFiles(t *testing.T) {
	for _, c := range []struct {
		name        string
		edit        func(*home.Home, *daemon.Options)
		says, never []string
	}{
		{"plain", func(*home.Home, *daemon.Options) {}, []string{"Chain test is running; JSON-RPC on http://127.0.0.1:", "The key of test.near is in ", "validator_key.json", "\nConsole: http://127.0.0.1:"}, []string{"no blocks", "sandbox_mine", "[::]"}},
		{"no key", func(hm *home.Home, _ *daemon.Options) { hm.ValidatorKey = nil }, []string{"It produces no blocks: there is no ", `"account_id":"near"`}, []string{"The key of"}},
		{"manual", func(hm *home.Home, _ *daemon.Options) { hm.Config.Production = config.Manual }, []string{"Blocks are produced on request:\n  curl -s http://127.0.0.1:", `"method":"sandbox_mine"`}, nil},
		{"every address", func(_ *home.Home, o *daemon.Options) { o.Listen = "0.0.0.0:0" }, []string{"JSON-RPC on http://127.0.0.1:"}, []string{"0.0.0.0", "[::]"}},
		{"no rpc", func(_ *home.Home, o *daemon.Options) { o.NoRPC = true }, []string{"Chain test is running without JSON-RPC."}, []string{"curl", "Console"}},
		{"no console", func(hm *home.Home, _ *daemon.Options) { off := false; hm.Config.RPC.Console = &off }, []string{"Chain test is running"}, []string{"Console"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			hm, err := home.Load(newHome(t, ""))
			if err != nil {
				t.Fatal(err)
			}
			log := logrus.New()
			log.SetOutput(io.Discard)
			o := daemon.Options{Home: hm, Listen: "127.0.0.1:0", Log: log}
			c.edit(hm, &o)
			h, err := daemon.Start(o)
			if err != nil {
				t.Fatal(err)
			}
			got := greeting(h, hm)
			if err := h.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			for _, want := range c.says {
				if !strings.Contains(got, want) {
					t.Errorf("lacks %q:\n%s", want, got)
				}
			}
			for _, word := range c.never {
				if strings.Contains(got, word) {
					t.Errorf("says %q:\n%s", word, got)
				}
			}
		})
	}
}

// TestLogFilterIsReadLikeNeards: RUST_LOG and --verbose as neard reads them, over the parts of this
// node.
func TestLogFilterIsReadLikeNeards(t *testing.T) {
	const (
		rpc   = module + "rpc.(*Server).Handle"
		meter = module + "actors/node.(*meter).Receive"
		node  = module + "actors/node.Start"
		peers = module + "actors/network.(*Actor).step"
		votes = module + "actors/validator.(*Actor).say"
		own   = "main.run"
	)
	for _, c := range []struct {
		env     string
		set     bool
		verbose string
		want    map[string]logrus.Level // the most that passes
	}{
		{"", false, "", map[string]logrus.Level{rpc: logrus.InfoLevel, own: logrus.InfoLevel}},
		{"", false, "all", map[string]logrus.Level{rpc: logrus.DebugLevel, meter: logrus.DebugLevel}},
		{"", false, "rpc", map[string]logrus.Level{rpc: logrus.DebugLevel, meter: logrus.InfoLevel}},
		{"", false, "network", map[string]logrus.Level{rpc: logrus.InfoLevel, peers: logrus.DebugLevel}},
		{"warn", true, "doomslug", map[string]logrus.Level{rpc: logrus.WarnLevel, votes: logrus.DebugLevel}},
		{"near=error,stats=error,network=error", true, "", map[string]logrus.Level{rpc: logrus.ErrorLevel, meter: logrus.ErrorLevel}},
		{"warn,stats=info", true, "", map[string]logrus.Level{rpc: logrus.WarnLevel, meter: logrus.InfoLevel, node: logrus.WarnLevel}},
		{"info,jsonrpc=DEBUG", true, "", map[string]logrus.Level{rpc: logrus.DebugLevel, node: logrus.InfoLevel, own: logrus.InfoLevel}},
		{"config=info", true, "", map[string]logrus.Level{own: logrus.InfoLevel, rpc: logrus.ErrorLevel}},
		{"rpc", true, "", map[string]logrus.Level{rpc: logrus.TraceLevel, own: logrus.ErrorLevel}},
		{"off", true, "", map[string]logrus.Level{rpc: logrus.ErrorLevel}},
		{"", true, "stats", map[string]logrus.Level{meter: logrus.DebugLevel, node: logrus.ErrorLevel}},
	} {
		f, unknown, err := newFilter(c.env, c.set, c.verbose)
		if err != nil || unknown != nil {
			t.Errorf("%q %q: unknown %v, error %v", c.env, c.verbose, unknown, err)
		}
		for function, level := range c.want {
			if !f.passes(function, level) || level < logrus.TraceLevel && f.passes(function, level+1) {
				t.Errorf("%q %q: of %s not just %v", c.env, c.verbose, function, level)
			}
			if f.maxLevel() < level {
				t.Errorf("%q %q: the log's level %v hides %v", c.env, c.verbose, f.maxLevel(), level)
			}
		}
	}
	if _, unknown, err := newFilter("info,rpc=loud,a b=info", true, ""); err != nil || len(unknown) != 2 {
		t.Errorf("unknown = %v, %v", unknown, err)
	}
	if _, _, err := newFilter("", false, "nonsense"); err == nil || !strings.Contains(err.Error(), "rpc") {
		t.Errorf("--verbose=nonsense: %v", err)
	}
}

// TestInvalidForksAreRefused: a URL that is not a node's, a home folder of another chain, and an
// unreachable node are refused with the reason.
func TestInvalidForksAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ home, spec, want string }{
		"no URL":      {filepath.Join(t.TempDir(), "f"), "mainnet", "optionally followed by @HEIGHT"},
		"a home":      {newHome(t, ""), "http://127.0.0.1:9", "choose another --home"},
		"nobody here": {filepath.Join(t.TempDir(), "f"), "http://127.0.0.1:9@5", "get the block to fork: block failed (tries: 4)"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runLine([]string{"--home", c.home, "run", "--fork", c.spec})
			if !strings.Contains(got, c.want) || !strings.Contains(got, "exit ") {
				t.Errorf("%s; want %q", got, c.want)
			}
		})
	}
}
