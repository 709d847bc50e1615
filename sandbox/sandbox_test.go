package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

func start(t testing.TB) *Sandbox {
	t.Helper()
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// oneTest is a typical test of a suite: it creates a world and two accounts, deploys a token,
// registers an account, makes a transfer and checks the result. amount differs from test to test.
func oneTest(ctx context.Context, of *World, amount int) error {
	w, err := of.New(ctx)
	if err != nil {
		return err
	}
	token, err := w.Create(ctx, "token.near", primitives.NEAR(100))
	if err != nil {
		return err
	}
	alice, err := w.Create(ctx, "alice.near", primitives.NEAR(10))
	if err != nil {
		return err
	}
	supply := map[string]any{"owner_id": "token.near", "total_supply": "1000000",
		"metadata": map[string]any{"spec": "ft-1.0.0", "name": "Suite", "symbol": "S", "decimals": 0}}
	if _, err := w.Deploy(ctx, token, contracts.C("ft"), "new", supply); err != nil {
		return err
	}
	if _, err := w.Call(ctx, alice, "token.near", "storage_deposit", map[string]any{}, primitives.NEAR(1)); err != nil {
		return err
	}
	if _, err := w.Call(ctx, token, "token.near", "ft_transfer", map[string]any{"receiver_id": "alice.near", "amount": fmt.Sprint(amount)}, primitives.Yocto(1)); err != nil {
		return err
	}
	var hers, rest string
	if err := w.View("token.near", "ft_balance_of", map[string]any{"account_id": "alice.near"}, &hers); err != nil {
		return err
	}
	if err := w.View("token.near", "ft_balance_of", map[string]any{"account_id": "token.near"}, &rest); err != nil {
		return err
	}
	if hers != fmt.Sprint(amount) || rest != fmt.Sprint(1_000_000-amount) {
		return fmt.Errorf("after a transfer of %d: %s and %s", amount, hers, rest)
	}
	return w.End()
}

// suite runs so many tests, some at a time.
func suite(t testing.TB, s *Sandbox, tests int) {
	t.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range 4 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := range next {
				if err := oneTest(t.Context(), s.World, i+1); err != nil {
					t.Errorf("test %d: %v", i, err)
				}
			}
		})
	}
	for i := range tests {
		next <- i
	}
	close(next)
	all.Wait()
}

// TestConcurrentSuiteLeavesNothing: tests that each have a world succeed, whatever other tests do
// at the same time, and leave nothing behind.
func TestConcurrentSuiteLeavesNothing(t *testing.T) {
	s := start(t)
	n := 275
	if testing.Short() || testutil.Racing {
		n = 40
	}
	suite(t, s, n)
	if _, err := s.Balance("token.near"); err == nil {
		t.Error("a test has been seen outside of its world")
	}
}

// processor is the processor time that this process has taken.
func processor(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSuite runs a suite of 275 tests and reports its wall time and processor time.
func BenchmarkSuite(b *testing.B) {
	s := start(b)
	begun := processor(b)
	for b.Loop() {
		suite(b, s, 275)
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/suite")
	b.ReportMetric((processor(b)-begun).Seconds()/float64(b.N), "cpu-s/suite")
}

// BenchmarkWorlds creates 1,000 worlds, executes a transaction in each, and drops them.
func BenchmarkWorlds(b *testing.B) {
	s := start(b)
	const n = 1000
	var most uint64
	begun := processor(b)
	for b.Loop() {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		worlds := make([]*World, n)
		var all sync.WaitGroup
		workers := 4 * runtime.GOMAXPROCS(0)
		for k := range workers {
			all.Go(func() {
				for i := k; i < n; i += workers {
					w, err := s.New(b.Context())
					if err == nil {
						_, err = w.Transfer(b.Context(), Near(), "test.near", primitives.Yocto(uint64(i)+1))
					}
					if worlds[i] = w; err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		runtime.ReadMemStats(&after)
		most = max(most, after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)
		for k := range workers {
			all.Go(func() {
				for i := k; i < n; i += workers {
					if err := worlds[i].End(); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/1000")
	b.ReportMetric((processor(b)-begun).Seconds()/float64(b.N), "cpu-s/1000")
	b.ReportMetric(float64(most)/n/1024, "KiB/world")
}

// TestWorldClockIsIndependent: the clock of a world continues from its parent's and then advances
// independently. Snapshots restore the clock, and worlds can start from them.
func TestWorldClockIsIndependent(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Freeze(ctx, true))
	must(s.Advance(ctx, 1000*time.Hour))
	then, err := s.Now(ctx)
	must(err)
	must(s.Snapshot(ctx, "then"))
	must(s.Advance(ctx, time.Hour))
	_, err = s.Mine(ctx, 3)
	must(err)
	w, err := s.NewAt(ctx, "then")
	must(err)
	at, err := w.Now(ctx)
	must(err)
	if !at.Equal(then) {
		t.Errorf("the clock of a world from a snapshot shows %v, want %v", at, then)
	}
	if w.Head().Height >= s.Head().Height {
		t.Errorf("a world from a snapshot begins at %d", w.Head().Height)
	}
	begin := w.Head()
	must(w.Snapshot(ctx, "begin"))
	_, err = w.Create(ctx, "alice.near", primitives.NEAR(1))
	must(err)
	must(w.FastForward(ctx, 1000))
	_, err = w.NextEpoch(ctx)
	must(err)
	if _, err := w.Balance("alice.near"); err != nil {
		t.Error(err)
	}
	must(w.Revert(ctx, "begin"))
	if _, err := w.Balance("alice.near"); err == nil || w.Head() != begin {
		t.Errorf("back in a world: %v, at %v, want %v", err, w.Head(), begin)
	}
	must(s.Revert(ctx, "then")) // where the world begins: it stays
	if _, err := w.Mine(ctx, 1); err != nil {
		t.Errorf("a world after its parent was reverted to the world's first block: %v", err)
	}
	must(w.End())
	if _, err := w.Mine(ctx, 1); err == nil {
		t.Error("a world that has ended makes blocks")
	}
}

// TestChainInFolderContinues: a chain in a folder continues where it ended, without its worlds.
func TestChainInFolderContinues(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), "alice.near", primitives.NEAR(1)); err != nil {
		t.Fatal(err)
	}
	w, err := s.New(t.Context())
	if err == nil {
		_, err = w.Create(t.Context(), "bob.near", primitives.NEAR(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Start(t.Context(), Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Balance("alice.near"); err != nil {
		t.Error(err)
	}
	if _, err := s.Balance("bob.near"); err == nil {
		t.Error("what a world had is in the folder")
	}
}

func TestFolderWithoutRPCWorks(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	all["rpc"] = json.RawMessage("null")
	if raw, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = Start(t.Context(), Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Create(t.Context(), "alice.near", primitives.NEAR(1)); err != nil {
		t.Error(err)
	}
}

// TestBalancesAreFinalAfterCall: when Call returns, the balances are final: refunded gas is
// included, and so is the deposit of a failed call. Later blocks change nothing.
func TestBalancesAreFinalAfterCall(t *testing.T) {
	s := start(t)
	w, err := s.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := w.Create(t.Context(), "token.near", primitives.NEAR(100))
	if err != nil {
		t.Fatal(err)
	}
	alice, err := w.Create(t.Context(), "alice.near", primitives.NEAR(10))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Deploy(t.Context(), token, contracts.C("ft"), "new", map[string]any{"owner_id": "token.near", "total_supply": "1000000",
		"metadata": map[string]any{"spec": "ft-1.0.0", "name": "Suite", "symbol": "S", "decimals": 0}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method string
		args   map[string]any
		fails  bool
	}{
		{"storage_deposit", map[string]any{}, false},
		{"ft_transfer", map[string]any{"receiver_id": "token.near", "amount": "77"}, true},
	} {
		out, err := w.Call(t.Context(), alice, "token.near", c.method, c.args, primitives.NEAR(1))
		if failed := new(CallError); err != nil && !(c.fails && errors.As(err, &failed)) || err == nil && c.fails {
			t.Fatalf("%s: error %v", c.method, err)
		}
		refunds := 0
		for _, o := range out.Whole.Outcomes {
			if o.ExecutorID == "alice.near" {
				refunds++
			}
		}
		if refunds == 0 {
			t.Errorf("%s: no refund is among its outcomes", c.method)
		}
		left, err := w.Balance("alice.near")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Mine(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if later, err := w.Balance("alice.near"); err != nil || later != left {
			t.Errorf("%s: %v when it had returned, %v five blocks later, %v", c.method, left, later, err)
		}
	}
}
