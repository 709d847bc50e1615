package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// BenchmarkSnapshot measures taking a snapshot and reverting to it, by number of accounts and of
// later blocks, each of which wrote ten values. Waits for the disk are those of the machine.
func BenchmarkSnapshot(b *testing.B) {
	for _, accounts := range []int{1_000, 1_000_000} {
		hm := loaded(b, made(b))
		hm.Config.Production = config.Manual
		account := primitives.Account{Version: primitives.AccountV1, Amount: primitives.NEAR(1), StorageUsage: 182}
		value := account.AppendBorsh(nil)
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true, Grow: func(s *engine.GenesisState) {
			s.Add(0, func(yield func(k, v []byte) bool) {
				for i := range accounts {
					if !yield(fmt.Appendf([]byte{0}, "u%09d.near", i), value) {
						return
					}
				}
			})
		}})
		if err != nil {
			b.Fatal(err)
		}
		s := sandboxControl{&h.Instance}
		for _, blocks := range []int{1, 1000} {
			b.Run(fmt.Sprintf("accounts=%d/blocks=%d", accounts, blocks), func(b *testing.B) {
				var take, back time.Duration
				n := 0
				for b.Loop() {
					b.StopTimer()
					begun := time.Now()
					at, err := s.TakeSnapshot(b.Context(), "bench")
					take += time.Since(begun)
					if err != nil {
						b.Fatal(err)
					}
					for i := range blocks {
						var patch []genesis.Record
						for k := range 10 {
							patch = append(patch, &genesis.DataRecord{AccountID: "near", Key: fmt.Append(nil, i, k), Value: fmt.Append(nil, n)})
						}
						if err := s.PatchState(b.Context(), patch); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
					begun = time.Now()
					if _, err := s.Revert(b.Context(), at.ID); err != nil {
						b.Fatal(err)
					}
					back += time.Since(begun)
					n++
				}
				b.ReportMetric(float64(take.Microseconds())/float64(n), "us/snapshot")
				b.ReportMetric(float64(back.Microseconds())/float64(n), "us/revert")
			})
		}
		ctx := b.Context()
		if err := h.Stop(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
