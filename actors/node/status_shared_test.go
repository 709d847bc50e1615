package node

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/storage"
)

// wide is a VM that sends a number of empty receipts to "near" in each call.
type wide int

func (v wide) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	out := c.Unchanged()
	for range v {
		if _, err := x.Create("near", nil); err != nil {
			return out, err
		}
	}
	return out, nil
}

// startWide starts a node in manual mode on which transactions of wideTx send that many
// receipts.
func startWide(t testing.TB, receipts int) *sandbox {
	t.Helper()
	s := startOn(t, 1, storage.NewMemDisk(), wide(receipts), func(o *Options) {
		o.Mode = production.Manual
		o.Limits = Limits{Parked: 20_000, Sessions: 20_000, Wait: 10 * time.Minute}
	})
	if _, err := s.Submit(s.tx(validator, deployCode("no code"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Mine(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWaitsForOneTransactionShareReads: many waits for one transaction with 1,300 receipts, for
// each level and method, begin before and after it is executed. Each gets byte for byte what a read
// of the store shows as of a block at which the level was reached. The status is read only a few
// times for all of them, a wait takes a few kilobytes, and nothing is left afterwards.
func TestWaitsForOneTransactionShareReads(t *testing.T) {
	const each = 20
	s := startWide(t, 1300)
	tx := s.tx(validator, call())
	hash := tx.Hash()
	var all sync.WaitGroup
	var mu sync.Mutex
	told := map[[2]any]map[string]int{} // by level and whether receipts are shown
	waits := int64(0)
	begin := func(send bool) {
		for level := view.LevelIncluded; level <= view.LevelFinal; level++ {
			for i := range 3 * each {
				ctx, done, err := s.OpenSession(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				waits++
				all.Go(func() {
					defer done()
					receipts := i%3 == 2
					var out *view.FinalOutcome
					var err error
					if send && i%3 == 0 {
						out, err = s.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: level})
					} else {
						get := &view.GetTx{Hash: hash, Sender: validator, WaitUntil: level, Receipts: receipts}
						if i%2 == 0 {
							get.Tx = tx
						}
						out, err = s.Tx(ctx, get)
					}
					if err != nil {
						t.Errorf("wait for %v: %v", level, err)
						return
					}
					text := string(view.AppendFinalOutcome(nil, out, receipts))
					mu.Lock()
					defer mu.Unlock()
					k := [2]any{level, receipts}
					if told[k] == nil {
						told[k] = map[string]int{}
					}
					told[k][text]++
				})
			}
		}
	}
	before, _ := heap()
	begin(true)
	until(t, func() bool { return s.Stats().Parked == waits && s.Stats().Pooled == 1 })
	for s.admission.pending.Load() != 0 {
		time.Sleep(time.Millisecond)
	}
	var right [2]map[string]bool
	right[0], right[1] = map[string]bool{}, map[string]bool{}
	levels := map[string]view.ExecutionLevel{}
	note := func() {
		at := s.visiblePosition()
		for i, read := range []func(primitives.Hash, primitives.Height, primitives.Height) (view.FinalOutcome,
			error){s.e.Transactions().StatusAt, s.e.Transactions().FullStatusAt} {
			if out, err := read(hash, at.Head, at.Final); err == nil {
				text := string(view.AppendFinalOutcome(nil, &out, i == 1))
				right[i][text], levels[text] = true, out.Level
			}
			alone := string(view.AppendFinalOutcome(nil, &view.FinalOutcome{Level: view.LevelIncluded}, i == 1))
			right[i][alone], levels[alone] = true, view.LevelIncluded
		}
	}
	late := false
	for range 8 {
		mineBlocks(t, s, 1)
		note()
		x, err := s.e.Transactions().Status(hash)
		if err == nil && x.Level >= view.LevelExecutedOptimistic && x.Level < view.LevelFinal && !late {
			late = true
			s.settled()
			if after, _ := heap(); after-before > 40 { // 12 with the block; 130 more if each kept its own
				t.Errorf("%d waits, and the block, take %.1f MiB", s.Stats().Parked, after-before)
			}
			if k := s.records.Stats(); k.Transactions != 1 || k.Outcomes > 1+2*1300+1 {
				t.Errorf("known: %+v", k)
			}
			waits = s.Stats().Parked
			begin(false)
			s.settled()
		}
	}
	all.Wait()
	if !late {
		t.Fatal("it was final at once")
	}
	for level := view.LevelIncluded; level <= view.LevelFinal; level++ {
		for i, receipts := range []bool{false, true} {
			sum := 0
			for text, n := range told[[2]any{level, receipts}] {
				sum += n
				if !right[i][text] || !txstatus.Meets(levels[text], level) {
					t.Errorf("wait for %v, receipts %v: %d got %v, of %d bytes, which is the status at no block", level, receipts, n,
						levels[text], len(text))
				}
			}
			if want := 2 * each * (2 - i); sum != want {
				t.Errorf("wait for %v, receipts %v: %d got an answer, want %d", level, receipts, sum, want)
			}
		}
	}
	bytes, reads, spared := s.statusGroup.stats()
	if k := s.records.Stats(); bytes != 0 || k.Transactions != 0 || k.Outcomes != 0 {
		t.Errorf("after all waits: %d bytes, %+v; want nothing", bytes, k)
	} else if reads > spared/2 || k.Lookups > 20*1300 { // a reader that is alone keeps nothing
		t.Errorf("read %d times, spared %d, %d look-ups", reads, spared, k.Lookups)
	}
}

// heap returns live memory and the stacks of goroutines, in MiB.
func heap() (alive, stacks float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20), float64(m.StackInuse) / (1 << 20)
}

// BenchmarkWaitsShared measures the memory and time that many waits take. They wait for one
// transaction with 1,300 receipts, which is sent after they begin or was executed before, or each
// for a transfer of its own. It is measured while they wait for the transaction, while they wait
// for finality, and at the peak until all are answered. Replies are made in turn, as by the RPC
// server.
//
//	TROUPE_WAITS=10000 go test ./actors/node -run - -bench WaitsShared -benchtime 1x
func BenchmarkWaitsShared(b *testing.B) {
	n := 2000
	if s := os.Getenv("TROUPE_WAITS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for _, c := range []struct {
		name string
		txs  int
		late bool
	}{{"one", 1, false}, {"executed", 1, true}, {"each", n, false}} {
		b.Run(fmt.Sprintf("transactions=%s/waits=%d", c.name, n), func(b *testing.B) {
			for b.Loop() {
				s := startWide(b, 1300)
				var txs []*primitives.SignedTransaction
				for range c.txs {
					if c.txs == 1 {
						txs = append(txs, s.tx(validator, call()))
					} else {
						txs = append(txs, s.tx("near", transfer(1)))
					}
				}
				idle, stacks := heap()
				peak := peakOf()
				var all sync.WaitGroup
				var failed atomic.Int64
				turns := make(chan struct{}, 4)
				park := func() {
					for i := range n {
						ctx, done, err := s.OpenSession(b.Context())
						if err != nil {
							b.Fatal(err)
						}
						all.Go(func() {
							defer done()
							tx := txs[i%len(txs)]
							taken := false
							ctx := messages.WithTurn(ctx, messages.Turn{Take: func() { turns <- struct{}{}; taken = true }, Leave: func() {
								if taken {
									<-turns
									taken = false
								}
							}})
							var out *view.FinalOutcome
							var err error
							if i < len(txs) && !c.late {
								out, err = s.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal})
							} else {
								out, err = s.Tx(ctx, &view.GetTx{Hash: tx.Hash(), Tx: tx, WaitUntil: view.LevelFinal})
							}
							if taken {
								<-turns
							}
							if err != nil || out.Level != view.LevelFinal {
								failed.Add(1)
							}
						})
					}
					for s.Stats().Parked != int64(n) || !c.late && s.Stats().Pooled != len(txs) {
						time.Sleep(time.Millisecond)
					}
					s.settled()
				}
				began, cpu := time.Now(), cpuTime()
				if c.late {
					if _, err := s.Submit(txs[0]); err != nil {
						b.Fatal(err)
					}
				} else {
					park()
				}
				b.ReportMetric(time.Since(began).Seconds(), "parked-s")
				b.ReportMetric((cpuTime() - cpu).Seconds(), "parked-cpu-s")
				parked, _ := heap()
				for level := view.LevelNone; level < view.LevelExecutedOptimistic; {
					if _, _, err := s.Mine(context.Background(), 1); err != nil {
						b.Fatal(err)
					}
					x, err := s.e.Transactions().Status(txs[len(txs)-1].Hash())
					if level = x.Level; err != nil {
						level = view.LevelNone
					}
				}
				if c.late {
					park()
				}
				s.settled()
				executed, grown := heap()
				if f := os.Getenv("TROUPE_PROFILE"); f != "" {
					file, err := os.Create(f + c.name)
					if err != nil {
						b.Fatal(err)
					}
					_ = pprof.WriteHeapProfile(file)
					_ = file.Close()
				}
				began, cpu = time.Now(), cpuTime()
				if _, _, err := s.Mine(context.Background(), 4); err != nil {
					b.Fatal(err)
				}
				all.Wait()
				took, work := time.Since(began), cpuTime()-cpu
				b.ReportMetric(idle, "idle-MiB")
				b.ReportMetric(parked-idle, "parked-MiB")
				b.ReportMetric(executed-idle, "executed-MiB")
				b.ReportMetric(peak()-idle, "most-MiB")
				b.ReportMetric(grown-stacks, "stacks-MiB")
				b.ReportMetric(took.Seconds(), "told-s")
				b.ReportMetric(work.Seconds(), "told-cpu-s")
				b.ReportMetric(float64(failed.Load()), "failed")
			}
		})
	}
}

// peakOf measures the heap, garbage included, until its result is called, which returns the
// peak in MiB.
func peakOf() func() float64 {
	most, end := make(chan float64), make(chan struct{})
	go func() {
		for peak := 0.0; ; {
			select {
			case <-end:
				most <- peak
				return
			case <-time.After(20 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, float64(m.HeapAlloc)/(1<<20))
			}
		}
	}()
	return func() float64 {
		close(end)
		return <-most
	}
}

// settled waits until the node is idle.
func (s *sandbox) settled() {
	for rest := time.Hour; rest > 5*time.Millisecond; {
		before := cpuTime()
		time.Sleep(100 * time.Millisecond)
		rest = cpuTime() - before
	}
}

// BenchmarkSendTx measures how long one client waits for one transfer after another, for each
// level in turn: p50 and p99.
//
//	go test ./actors/node -run - -bench SendTx -benchtime 2000x
func BenchmarkSendTx(b *testing.B) {
	for _, level := range []view.ExecutionLevel{view.LevelExecutedOptimistic, view.LevelExecuted} {
		b.Run("until="+level.String(), func(b *testing.B) {
			s := start(b, 1, func(o *Options) { o.Mode, o.Linger = production.Instant, -1 })
			var took []time.Duration
			for b.Loop() {
				tx := s.tx("near", transfer(1))
				begin := time.Now()
				if _, err := s.SendTx(b.Context(), &view.SendTx{Tx: tx, WaitUntil: level}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
