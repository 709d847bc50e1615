package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBesideWaits measures the CPU time of five blocks with 50 transfers while many waits are
// open. They wait for valid transactions that are never sent, of the key that signs the transfers,
// in one session or in one session each. Alternately, a node without waits makes the same blocks,
// because the machine may have other work. of-calm is the ratio of the medians.
//
//	go test ./actors/node -run - -bench BesideWaits -benchtime 200x
func BenchmarkBesideWaits(b *testing.B) {
	for _, c := range []struct{ waits, sessions int }{{4000, 1}, {10_000, 10_000}} {
		b.Run(fmt.Sprintf("waits=%d/sessions=%d", c.waits, c.sessions), func(b *testing.B) {
			calm, busy := manualNode(b), manualNode(b)
			end := park(b, busy, c.waits, c.sessions)
			took := map[*sandbox][]time.Duration{}
			for range 5 {
				fiveBlocks(b, calm)
				fiveBlocks(b, busy)
			}
			for b.Loop() {
				for _, s := range []*sandbox{calm, busy} {
					begin := cpuTime()
					fiveBlocks(b, s)
					took[s] = append(took[s], cpuTime()-begin)
				}
			}
			median := func(s *sandbox) float64 {
				slices.Sort(took[s])
				return took[s][len(took[s])/2].Seconds() * 1000
			}
			b.ReportMetric(median(calm), "calm-cpu-ms")
			b.ReportMetric(median(busy), "cpu-ms")
			b.ReportMetric(median(busy)/median(calm), "of-calm")
			if p := busy.Stats().Parked; p != int64(c.waits) {
				b.Errorf("%d wait still, want %d", p, c.waits)
			}
			end()
		})
	}
}

func manualNode(b *testing.B) *sandbox {
	return start(b, 1, func(o *Options) {
		o.Mode = production.Manual
		o.Limits = Limits{Parked: 20_000, Sessions: 20_000, Wait: time.Hour}
	})
}

// park starts waits and returns when all have begun. end ends them.
func park(b *testing.B, s *sandbox, waits, sessions int) (end func()) {
	var all sync.WaitGroup
	var ends []func()
	var ctx context.Context
	for i := range waits {
		if i < sessions {
			session, done, err := s.OpenSession(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			ctx, ends = session, append(ends, done)
		}
		mine := ctx
		tx := s.sign(primitives.Transaction{SignerID: validator, ReceiverID: "near",
			Nonce:     primitives.TransactionNonce{Nonce: primitives.Nonce(500_000 + i)},
			BlockHash: s.e.Head().Hash, Actions: []primitives.Action{transfer(1)}})
		all.Go(func() {
			_, _ = s.Tx(mine, &view.GetTx{Hash: tx.Hash(), Tx: tx, WaitUntil: view.LevelFinal})
		})
	}
	for s.Stats().Parked != int64(waits) {
		time.Sleep(time.Millisecond)
	}
	for rest := time.Hour; rest > 5*time.Millisecond; {
		before := cpuTime()
		time.Sleep(100 * time.Millisecond)
		rest = cpuTime() - before
	}
	return func() {
		for _, f := range ends {
			f()
		}
		all.Wait()
	}
}

func fiveBlocks(b *testing.B, s *sandbox) {
	var txs []*primitives.SignedTransaction
	for range 50 {
		txs = append(txs, s.tx("near", transfer(1)))
	}
	for _, err := range s.SubmitAll(txs) {
		if err != nil {
			b.Fatal(err)
		}
	}
	// Mine is not used, because it looks through all sessions for unchecked submissions. That is a
	// cost of Mine, not of blocks.
	if _, err := askProducer[messages.MineBlocks, messages.BlocksMined](b.Context(), s.Node,
		messages.MineBlocks{Blocks: 5}); err != nil {
		b.Fatal(err)
	}
}
