package workload

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// Environment of the processes that are killed, and of a run by hand with more accounts or rounds:
//
//	export TROUPE_KILL_ACCOUNTS=1000000 TROUPE_KILL_ROUNDS=200
//	go test ./internal/testkit/workload -run TestKilledProducerLosesNoBlock -v -timeout 1h
const (
	killChild    = "TROUPE_KILL_CHILD" // the folder; set: this process is one that is killed
	killSeed     = "TROUPE_KILL_SEED"
	killAccounts = "TROUPE_KILL_ACCOUNTS"
	killRounds   = "TROUPE_KILL_ROUNDS"
)

func TestMain(m *testing.M) {
	if os.Getenv(compilerEnv) != "" {
		os.Exit(vm.ServeCompiler(nil))
	}
	if os.Getenv(killChild) != "" {
		if err := beKilled(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func envNumber(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// killOptions are those of the chain that is killed. Signatures count as checked: more blocks in
// less time.
func killOptions(dir string, accounts, seed int) ChainOptions {
	o := ChainOptions{Folder: dir, Signature: verify.Checked, Par: Goroutines, Options: Options{
		Seed: uint64(seed), Accounts: accounts, Shards: 4, Skew: 1, OneKey: true,
	}}
	o.EpochLength, o.Validity = 60, 120
	return o
}

// beKilled produces blocks with transactions until it is killed, and prints what it has stored.
func beKilled() error {
	o := killOptions(os.Getenv(killChild), envNumber(killAccounts, 0), envNumber(killSeed, 0))
	c, err := OpenChain(o)
	if err != nil {
		return err
	}
	gen := NewGenerator(o.Options)
	if _, err := os.Stdout.WriteString("open\n"); err != nil {
		return err
	}
	var line []byte
	for {
		at := c.Base()
		var txs []*primitives.SignedTransaction
		for i := range 60 {
			if i%4 == 0 {
				txs = append(txs, gen.Transaction(at))
			} else {
				txs = append(txs, gen.Transfer(at))
			}
		}
		a, err := c.Next(txs)
		if err != nil {
			return err
		}
		line = fmt.Appendf(line[:0], "block %d %v", a.Entry.Height(), a.Entry.Hash)
		for _, tx := range chunkTxs(a.Entry) {
			line = fmt.Appendf(line, " %v", tx.Hash())
		}
		if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}

// killedOutput is the output of a killed process: its last block, and the transactions in its blocks.
type killedOutput struct {
	opened bool
	height primitives.Height
	hash   primitives.Hash
	txs    []primitives.Hash
}

func readKilledOutput(t *testing.T, r io.Reader) (out killedOutput) {
	t.Helper()
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return out // a line without a line feed is incomplete
		}
		f := strings.Fields(line)
		if f[0] == "open" {
			out.opened = true
			continue
		}
		height, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		out.height = primitives.Height(height)
		for i, text := range f[2:] {
			var h primitives.Hash
			if err := h.UnmarshalText([]byte(text)); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			if i == 0 {
				out.hash = h
			} else {
				out.txs = append(out.txs, h)
			}
		}
	}
}

// TestKilledProducerLosesNoBlock: a process that produces blocks is killed at random moments, also
// while it creates or opens its chain. Each time the folder opens soon, at the last printed block
// or a later one, with every printed transaction, and with states that match their roots.
func TestKilledProducerLosesNoBlock(t *testing.T) {
	rounds, accounts := 5, 2000
	if full() && !testutil.Racing {
		rounds = 200
	}
	rounds, accounts = envNumber(killRounds, rounds), envNumber(killAccounts, accounts)
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(uint64(rounds), 9))
	var opens []time.Duration
	included, first := 0, true
	for round := range rounds {
		// Storing a large genesis takes seconds. The first process may finish that, otherwise the test
		// would never reach blocks.
		wait := time.Duration(rng.IntN(700)) * time.Millisecond
		got := killOne(t, dir, accounts, round, wait, first && accounts > 100_000 || round%2 == 1)
		included += len(got.txs)
		start := time.Now()
		c, err := OpenChain(killOptions(dir, accounts, 0))
		if err != nil {
			t.Fatalf("round %d: opening after a kill: %v", round, err)
		}
		took := time.Since(start)
		if !first {
			opens = append(opens, took)
		}
		first = false
		head := c.Engine.Head()
		if head.Height() < got.height {
			t.Fatalf("round %d: head %d, but block %d was printed", round, head.Height(), got.height)
		}
		if got.height > 0 {
			if rec, err := c.Store.BlockAt(got.height); err != nil || rec.Ref().Hash != got.hash {
				t.Fatalf("round %d: block %d is not the printed one: %v", round, got.height, err)
			}
		}
		for _, tx := range got.txs {
			if _, _, err := c.Engine.Transactions().Transaction(tx); err != nil {
				t.Fatalf("round %d: a transaction that was printed as included: %v", round, err)
			}
		}
		if round == rounds-1 || round%max(1, rounds/10) == 0 || accounts < 100_000 {
			checkRoots(t, c)
		}
		if got := head.Header().PrevHash; !got.IsZero() && round%max(1, rounds/5) == 0 {
			checkSupply(t, c, head, c.Engine.BlockNode)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if round == rounds-1 {
			t.Logf("%d kills with %d accounts, head at %d, %d transactions told", rounds, accounts, head.Height(), included)
		}
	}
	if len(opens) > 0 {
		slices.Sort(opens)
		t.Logf("opened in %v (median), %v (longest)", opens[len(opens)/2], opens[len(opens)-1])
		if worst := opens[len(opens)-1]; worst > time.Second && !underLoad() {
			t.Errorf("opening took %v, want at most a second", worst)
		}
	}
}

// underLoad returns whether the machine is overloaded, so that times mean nothing.
func underLoad() bool {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return true
	}
	load, _, _ := bytes.Cut(b, []byte(" "))
	v, err := strconv.ParseFloat(string(load), 64)
	return err != nil || v > 2
}

// killOne starts a process, kills it a while after its start or after it has opened its chain, and
// returns its output.
func killOne(t *testing.T, dir string, accounts, round int, wait time.Duration, afterOpen bool) killedOutput {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killChild+"="+dir, fmt.Sprintf("%s=%d", killAccounts, accounts), fmt.Sprintf("%s=%d", killSeed, round+1))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{}, 1)
	done := make(chan killedOutput, 1)
	go func() {
		in := bufio.NewReader(out)
		if b, err := in.Peek(5); err == nil && string(b) == "open\n" {
			opened <- struct{}{}
		}
		done <- readKilledOutput(t, in)
	}()
	if afterOpen {
		select {
		case <-opened:
		case <-time.After(3 * time.Minute):
		}
	}
	time.Sleep(wait) // the random moment that this test is about
	if err := cmd.Process.Kill(); err != nil {
		t.Fatalf("round %d: the process ended by itself: %v", round, err)
	}
	got := <-done
	err = cmd.Wait()
	if complaint.Len() > 0 {
		t.Fatalf("round %d: %v: %s", round, err, complaint.String())
	}
	return got
}

// checkRoots loads the whole states and compares their roots.
func checkRoots(t *testing.T, c *Chain) {
	t.Helper()
	v := c.Engine.Verify()
	defer v.Stop()
	for {
		done, err := v.Step(1000)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			return
		}
	}
}
