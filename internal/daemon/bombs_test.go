package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts/compilebombs"
	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
)

// bombSpan is the shortest time for which bombs are deployed; transactions in flight are then
// waited for. bombsAway is the time after which the node must have freed memory.
const (
	bombSpan  = 40 * time.Second
	bombsAway = time.Minute
)

// worstBombs returns the contracts with the longest compilation, the most memory, and the largest
// artifacts, and those that were found first.
func worstBombs(b *testing.B) (list []compilebombs.Shape) {
	all := append(compilebombs.Known(), compilebombs.Listed()...)
	for _, name := range []string{
		"much f64-trunc", "10,000 elements", "f64-trunc alone", "9990 functions of 5 parameters", // time, memory, artifact, memory within 400 KB
		"operands under ifs", "operands under loads", "operands under calls", "square roots", "two far bytes of data",
		"much call", "much table.get", "call alone",
	} {
		i := slices.IndexFunc(all, func(s compilebombs.Shape) bool { return s.Name == name })
		if i < 0 {
			b.Fatalf("no bomb %q", name)
		}
		list = append(list, all[i])
	}
	return list
}

// BenchmarkBombs measures a node with timed blocks while contracts arrive that are hard to compile.
// Four accounts each deploy one, call it once it is deployed, and continue with the next, which
// differs a little from all before. Another client sends one transfer after the other, each when
// the previous one is final. Memory is that of this process, which contains node and clients, and
// of the compilers.
func BenchmarkBombs(b *testing.B) {
	var codes [][]byte
	for _, s := range worstBombs(b) {
		codes = append(codes, s.Encode())
	}
	for _, interval := range []time.Duration{600 * time.Millisecond, 100 * time.Millisecond} {
		b.Run("interval="+interval.String(), func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(GCPercent))
			h, key := startBombed(b, interval)
			defer stop(b, h)
			first := &bomber{h: h, key: key}
			honest := newBomber(b, h, first, "honest")
			var evil []*bomber
			for i := range 4 {
				evil = append(evil, newBomber(b, h, first, fmt.Sprintf("evil%d", i)))
			}
			for b.Loop() {
				bombed(b, h, honest, evil, codes).report(b)
			}
		})
	}
}

// startBombed starts a node that compiles in processes of their own, as an installed one.
func startBombed(b *testing.B, interval time.Duration) (*Daemon, *primitives.KeyFile) {
	dir := made(b)
	return openBombed(b, dir, interval)
}

// openBombed starts it on the folder of a chain.
func openBombed(b *testing.B, dir string, interval time.Duration) (*Daemon, *primitives.KeyFile) {
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		b.Fatal(err)
	}
	consensus, _ := c["consensus"].(map[string]any)
	for name, d := range map[string]time.Duration{
		"min_block_production_delay": interval, "max_block_production_delay": 3 * interval, "max_block_wait_delay": 6 * interval,
	} {
		consensus[name] = map[string]any{"secs": d / time.Second, "nanos": d % time.Second}
	}
	c["troupe"] = map[string]any{"block_production": "interval"}
	if text, err = json.Marshal(c); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	hm, err := home.Load(dir)
	if err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Compiler: compiler.Command{Path: self, Env: []string{compilerEnv + "=none"}}})
	if err != nil {
		b.Fatal(err)
	}
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		b.Fatal(err)
	}
	return h, key
}

// bomber is an account that sends transactions.
type bomber struct {
	h     *Daemon
	key   *primitives.KeyFile
	nonce primitives.Nonce
}

// newBomber creates an account.
func newBomber(b *testing.B, h *Daemon, from *bomber, name string) *bomber {
	id := primitives.AccountID(name + "." + string(from.key.AccountID))
	x := &bomber{h: h, key: &primitives.KeyFile{AccountID: id, SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, name)}}
	if cause := from.send(b, "FINAL", id, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(10_000)}, &primitives.AddKey{PublicKey: x.key.PublicKey()}); cause != "" {
		b.Fatal(cause)
	}
	var view struct{ Nonce primitives.Nonce }
	ask(b, h, "query", map[string]any{"request_type": "view_access_key", "finality": "optimistic", "account_id": id, "public_key": x.key.PublicKey().String()}, &view)
	x.nonce = view.Nonce
	return x
}

// send sends a transaction and returns when it has reached the level, without a time limit. It
// returns the cause if the transaction is refused.
func (x *bomber) send(b *testing.B, level string, to primitives.AccountID, actions ...primitives.Action) (cause string) {
	x.nonce++
	signed, hash := encode(draft(x.h, x.key, x.nonce, to, actions...), x.key)
	var status txStatus
	cause = ask(b, x.h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": level}, &status)
	for cause == "TIMEOUT_ERROR" {
		cause = ask(b, x.h, "tx", map[string]any{"tx_hash": hash.String(), "sender_account_id": x.key.AccountID, "wait_until": level}, &status)
	}
	if cause == "" && !strings.HasPrefix(string(status.Status), `{"SuccessValue"`) {
		b.Errorf("a transaction failed: %s", status.Status)
	}
	return cause
}

// bombing is the result of a run.
type bombing struct {
	calm, disturbed   pace
	calmFinal, final  []time.Duration // of the honest transfers
	before, peak, now int64           // bytes
	alone             int64           // of the node without compilers, at the most
	// at the peak: memory of the compilers; files mapped by this process, which are artifacts and the
	// binary
	compilers, mapped int64
	children          int // at the most
	deployed, refused atomic.Int64
	deploy            []time.Duration // until it was executed
	call              []time.Duration
	back              time.Duration // until memory was back
}

func bombed(b *testing.B, h *Daemon, honest *bomber, evil []*bomber, codes [][]byte) *bombing {
	r := &bombing{}
	end, ended := make(chan struct{}), new(sync.WaitGroup)
	var bombsFall atomic.Bool
	ended.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			disturbed, start := bombsFall.Load(), time.Now()
			if cause := honest.send(b, "FINAL", honest.key.AccountID, &primitives.Transfer{Deposit: primitives.Yocto(1)}); cause != "" {
				b.Errorf("a transfer was refused: %s", cause)
			}
			if took := time.Since(start); disturbed {
				r.final = append(r.final, took)
			} else {
				r.calmFinal = append(r.calmFinal, took)
			}
		}
	})
	r.calm = paceOf(b, h, paceSpan)
	debug.FreeOSMemory()
	r.before, _, _ = memoryOf(h)
	watching, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-watching:
				return
			case <-tick.C:
				all, node, children := memoryOf(h)
				r.alone, r.children = max(r.alone, node), max(r.children, children)
				if all > r.peak {
					r.peak, r.compilers, r.mapped = all, all-node, resident(os.Getpid(), "RssFile:")
				}
			}
		}
	}()
	bombsFall.Store(true)
	first := h.Engine.Head().Height()
	over := time.Now().Add(bombSpan)
	var attack sync.WaitGroup
	var mu sync.Mutex
	for i, x := range evil {
		attack.Go(func() {
			for n := i; time.Now().Before(over); n += len(evil) {
				code := vary(codes[n%len(codes)], n)
				begun := time.Now()
				if cause := x.send(b, "EXECUTED_OPTIMISTIC", x.key.AccountID, &primitives.DeployContract{Code: code}); cause != "" {
					r.refused.Add(1)
					continue
				}
				r.deployed.Add(1)
				there := time.Now()
				if cause := x.send(b, "EXECUTED_OPTIMISTIC", x.key.AccountID, &primitives.FunctionCall{Method: "run", Gas: 300e12}); cause != "" {
					b.Errorf("a call was refused: %s", cause)
				}
				mu.Lock()
				r.deploy, r.call = append(r.deploy, there.Sub(begun)), append(r.call, time.Since(there))
				mu.Unlock()
			}
		})
	}
	attack.Wait()
	close(end)
	ended.Wait() // with its blocks, so that one that waits for the last call counts
	r.disturbed = paceSince(b, h, first)
	close(watching)
	<-watched
	begun := time.Now()
	for r.now = r.peak; time.Since(begun) < bombsAway; time.Sleep(time.Second) {
		if all, _, _ := memoryOf(h); all < r.now {
			r.now, r.back = all, time.Since(begun)
		}
	}
	return r
}

// vary returns a contract with the same code but another hash: it adds a custom section, which is
// discarded.
func vary(code []byte, n int) []byte {
	note := fmt.Appendf(nil, "bomb %d", n)
	section := append(wasmasm.AppendU32(nil, uint32(len(note))), note...)
	return append(append(append(slices.Clip(code), 0), wasmasm.AppendU32(nil, uint32(len(section)))...), section...)
}

// memoryOf returns the memory of this process and the compilers without the binary, which they
// share; that of this process alone; and the number of compilers.
func memoryOf(h *Daemon) (all, node int64, children int) {
	node = resident(os.Getpid(), "VmRSS:")
	all = node
	for _, pid := range h.vm.Compilers() {
		all += resident(pid, "RssAnon:") + resident(pid, "RssShmem:")
		children++
	}
	return all, node, children
}

// resident reads a line of the system's account of a process: bytes.
func resident(pid int, line string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // it has ended
	}
	_, text, _ = bytes.Cut(text, []byte(line))
	fields := bytes.Fields(text)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kb << 10
}

func (r *bombing) report(b *testing.B) {
	report(b, r.calm, r.disturbed)
	ms := func(list []time.Duration, part float64) float64 {
		if len(list) == 0 {
			return 0
		}
		slices.Sort(list)
		return float64(list[int(part*float64(len(list)-1))].Microseconds()) / 1000
	}
	const mib = 1 << 20
	for name, v := range map[string]float64{
		"ms-final-p50-calm": ms(r.calmFinal, .5), "ms-final-worst-calm": ms(r.calmFinal, 1),
		"ms-final-p50": ms(r.final, .5), "ms-final-worst": ms(r.final, 1),
		"MiB-before": float64(r.before / mib), "MiB-peak": float64(r.peak / mib), "MiB-after": float64(r.now / mib), "MiB-node-peak": float64(r.alone / mib),
		"MiB-peak-compilers": float64(r.compilers / mib), "MiB-peak-mapped": float64(r.mapped / mib),
		"s-back": r.back.Seconds(), "compilers": float64(r.children), "deployed": float64(r.deployed.Load()), "refused": float64(r.refused.Load()),
		"s-deploy-p50": ms(r.deploy, .5) / 1000, "s-deploy-worst": ms(r.deploy, 1) / 1000, "s-call-worst": ms(r.call, 1) / 1000,
	} {
		b.ReportMetric(v, name)
	}
}
