package workload

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
)

// compilerEnv makes this binary a process that compiles contracts.
const compilerEnv = "TROUPE_TEST_COMPILER"

// TestKilledCompilersChangeNoOutcome: while chains of contract calls and deployments are made, the
// compiler processes are killed at random moments. Blocks and outcomes are those of a run without
// kills. The cache of compiled contracts is tiny, so that there is always something to compile.
//
//	TROUPE_WORKLOADS=all go test ./internal/testkit/workload -run TestKilledCompilersChangeNoOutcome -v
func TestKilledCompilersChangeNoOutcome(t *testing.T) {
	want := 15
	if full() {
		want = 200
	}
	if testing.Short() || testutil.Racing {
		want = 3
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	calm, err := theVM()
	if err != nil {
		t.Fatal(err)
	}
	const blocks = 20
	retries, calls := 0, 0
	for seed := uint64(2000); retries < want; seed++ {
		if seed > 2400 {
			t.Fatalf("%d compilations were hit in 400 chains, want %d", retries, want)
		}
		hit, err := vm.New(vm.Options{
			Memory: 1, Compiler: compiler.Command{Path: self, Env: []string{compilerEnv + "=1"}},
			Alarm: func(err error) { t.Errorf("seed %d: %v", seed, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		o, course := RandomChain(seed, blocks)
		o.Contracts, o.VM = true, calm
		reference, err := OpenChain(o)
		if err != nil {
			t.Fatal(err)
		}
		o.VM = hit
		other, err := OpenChain(o)
		if err != nil {
			t.Fatal(err)
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			kill(hit, rand.New(rand.NewPCG(seed, 1)), stop)
		}()
		a, b := NewScript(reference, course), NewScript(other, course)
		for i := range course.Blocks {
			x, err := a.Step()
			if err != nil {
				t.Fatalf("seed %d block %d: %v", seed, i, err)
			}
			y, err := b.Step()
			if err != nil {
				t.Fatalf("seed %d block %d, with compilers killed: %v", seed, i, err)
			}
			if x.Block.Hash() != y.Block.Hash() || (x.Accepted == nil) != (y.Accepted == nil) {
				t.Fatalf("seed %d block %d: %v, with compilers killed %v", seed, i, x.Block.Hash(), y.Block.Hash())
			}
			if x.Accepted != nil && Fingerprint(x.Accepted.Entry) != Fingerprint(y.Accepted.Entry) {
				t.Fatalf("seed %d block %d: other states or outcomes", seed, i)
			}
		}
		close(stop)
		<-stopped
		s := hit.Stats()
		retries += int(s.Compiler.Retries)
		calls += int(s.Builds)
		if s.Compiler.InProcess != 0 || s.Failures != s.Compiler.Cancelled {
			t.Errorf("seed %d: %+v", seed, s)
		}
		hit.Close()
		for _, c := range []*Chain{reference, other} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d compilations, of which %d attempts were killed", calls, retries)
}

// kill kills compilers at random moments, about one in four of those that have begun to compile.
// While no compilation ends, the pauses between its kills grow, since the machine may have become
// slow.
func kill(v *vm.VM, rng *rand.Rand, stop <-chan struct{}) {
	var builds uint64
	since := time.Duration(1)
	for {
		took := 100 * time.Millisecond
		s := v.Stats()
		if s.Builds > 0 {
			took = max(s.BuildTime/time.Duration(s.Builds), time.Millisecond)
		}
		if s.Builds != builds {
			builds, since = s.Builds, 1
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.Int64N(int64(4 * since * took)))):
		}
		if all := v.Compilers(); len(all) > 0 {
			_ = syscall.Kill(all[rng.IntN(len(all))], syscall.SIGKILL) // it may have ended
			since++
		}
	}
}
