package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// BenchmarkColdBombs measures a load that no limit bounds: a contract calls four others by
// receipts, whose code is hard to compile and not cached. The block with these receipts waits. It
// repeats that with cached code, and with four transactions that call such code directly.
func BenchmarkColdBombs(b *testing.B) {
	const interval = 100 * time.Millisecond
	dir := made(b)
	h, key := openBombed(b, dir, interval)
	first := &bomber{h: h, key: key}
	honest, caller := newBomber(b, h, first, "honest"), newBomber(b, h, first, "caller")
	caller.send(b, "FINAL", caller.key.AccountID, &primitives.DeployContract{Code: contracts.Probe()})
	var evil []*bomber
	var p contracts.Program
	for i, s := range worstBombs(b)[:4] {
		x := newBomber(b, h, first, fmt.Sprintf("evil%d", i))
		x.send(b, "FINAL", x.key.AccountID, &primitives.DeployContract{Code: s.Encode()})
		p.Call("promise_create", string(x.key.AccountID), "run", "", contracts.Amount(primitives.Balance{}), 30_000_000_000_000)
		evil = append(evil, x)
	}
	again := func() { // without what was compiled
		stop(b, h)
		if err := os.RemoveAll(filepath.Join(dir, "data", "contract.cache")); err != nil {
			b.Fatal(err)
		}
		h, _ = openBombed(b, dir, interval)
		for _, x := range append(evil, honest, caller) {
			x.h = h
		}
	}
	defer func() { stop(b, h) }()
	promises := func() {
		caller.send(b, "FINAL", caller.key.AccountID, &primitives.FunctionCall{Method: "run", Args: p.Bytes(), Gas: 300e12})
	}
	transactions := func() {
		done := make(chan struct{})
		for _, x := range evil {
			go func() {
				x.send(b, "FINAL", x.key.AccountID, &primitives.FunctionCall{Method: "run", Gas: 300e12})
				done <- struct{}{}
			}()
		}
		for range evil {
			<-done
		}
	}
	for b.Loop() {
		for _, c := range []struct {
			name string
			cold bool
			do   func()
		}{{"promises", true, promises}, {"again", false, promises}, {"transactions", true, transactions}} {
			if c.cold {
				again()
			}
			end, worst := make(chan struct{}), make(chan time.Duration)
			go func() {
				var most time.Duration
				for {
					begun := time.Now()
					honest.send(b, "FINAL", honest.key.AccountID, &primitives.Transfer{Deposit: primitives.Yocto(1)})
					most = max(most, time.Since(begun))
					select {
					case <-end:
						worst <- most
						return
					default:
					}
				}
			}()
			time.Sleep(time.Second)
			from, begun := h.Engine.Head().Height(), time.Now()
			c.do()
			took := time.Since(begun)
			close(end)
			final := <-worst
			b.ReportMetric(paceSince(b, h, from).longest.Seconds()*1000, c.name+"-longest-ms")
			b.ReportMetric(final.Seconds()*1000, c.name+"-final-worst-ms")
			b.ReportMetric(took.Seconds(), c.name+"-s")
		}
	}
}
