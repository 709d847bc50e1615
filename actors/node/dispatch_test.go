package node

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestFewGoroutinesHandleWokenWaits: a block may wake any number of waits; only a few goroutines
// handle them, so that they do not delay the next block.
func TestFewGoroutinesHandleWokenWaits(t *testing.T) {
	var now, peak atomic.Int64
	s := start(t, 1, func(o *Options) {
		o.Mode = production.Manual
		o.hooks.trip = func(kind string, m any, after bool) {
			if kind != "waiter" && kind != "session" {
				return
			}
			if after {
				now.Add(-1)
				return
			}
			if x := now.Add(1); x > peak.Load() {
				peak.Store(x)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	txs := make([]*primitives.SignedTransaction, 200)
	for i := range txs {
		txs[i] = s.tx("near", transfer(uint64(i+1)))
	}
	var all sync.WaitGroup
	for _, tx := range txs {
		all.Go(func() {
			if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic}); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, func() bool { return s.Stats().Pooled == len(txs) })
	peak.Store(0)
	for s.Stats().Parked > 0 {
		if _, _, err := s.Mine(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	if p := peak.Load(); p < 1 || p > int64(2*runtime.GOMAXPROCS(0)) {
		t.Errorf("%d at a time", p)
	}
}
