package node

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/prom"
	peerwire "github.com/troupe-chain/troupe/net/wire"
)

// TestOptimisticBlocksReachValidators: validators that know each other's addresses send each other
// optimistic blocks, and take the results of more chunks from optimistic blocks than they send. No
// optimistic block is invalid.
func TestOptimisticBlocksReachValidators(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 1, 1000, nil, nil)
	c.change = func(i int, o *Options) {
		o.Network.Proxies = []peerwire.PeerAddr{{Addr: c.infos[i].Addr, PeerID: c.infos[i].ID}}
	}
	for i := range 3 {
		c.start(i)
	}
	c.reach(5, 120*time.Second)
	// used returns the number of results that a node took from optimistic blocks, and the number of
	// optimistic blocks that the node has sent.
	used := func(i int) (hits, sent uint64) {
		for _, u := range c.members[i].e.Times().Optimistic.Read() {
			hits += u.Hits
		}
		return hits, c.members[i].validator.Counters.Optimistic.Produced.Load()
	}
	// All nodes pay all the time, because a chunk with neither transactions nor receipts is not applied
	// ahead.
	var paying sync.WaitGroup
	var enough atomic.Bool
	for i := range c.members {
		paying.Go(func() {
			for k := 0; !enough.Load() && !t.Failed(); k++ {
				c.pay(i, payer((i+k+1)%3))
			}
		})
	}
	allUsed := func() (done bool) {
		done = true
		for i := range c.members {
			hits, sent := used(i)
			done = done && sent > 0 && hits > sent
		}
		return done
	}
	for end := time.Now().Add(4 * time.Minute); !allUsed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			for i := range c.members {
				hits, sent := used(i)
				t.Errorf("node %d took %d results and sent %d optimistic blocks", i, hits, sent)
			}
			break
		}
	}
	enough.Store(true)
	paying.Wait()
	for i, m := range c.members {
		o := &m.validator.Counters.Optimistic
		if o.Invalid.Load()+o.Failed.Load()+o.Applies.Load() > 0 {
			t.Errorf("node %d: %d invalid, %d not begun, %d chunks failed", i, o.Invalid.Load(), o.Failed.Load(), o.Applies.Load())
		}
		x, err := prom.Read(strings.NewReader(string(m.Metrics(nil))))
		if err != nil {
			t.Fatal(err)
		}
		hits, _ := used(i)
		for _, name := range []string{"near_optimistic_block_processing_time", "near_optimistic_block_readiness_gap", "near_optimistic_block_processed_gap"} {
			if n, _ := x.Sum(name + "_count"); n == 0 || name != "near_optimistic_block_processing_time" && n < float64(hits)/2 {
				t.Errorf("node %d: %v values of %s, %d results were taken", i, n, name, hits)
			}
		}
	}
	// All validators run on one machine, so their clocks agree.
	for i, m := range c.members {
		text, end := "", time.Now().Add(2*time.Minute)
		for !strings.Contains(text, "\ntroupe_network_clock_offset_seconds -") && time.Now().Before(end) {
			time.Sleep(50 * time.Millisecond)
			text = string(m.front.Metrics(nil))
		}
		if !strings.Contains(text, "clock_offset_seconds -") || !strings.Contains(text, "\ntroupe_network_clock_suspect 0\n") {
			t.Errorf("node %d: the clock is not compared, or differs: %s", i, text)
		}
	}
}
