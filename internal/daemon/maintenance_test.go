package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
)

// TestIdleCollectionIsDelayed: after a collection without garbage the next one is later, unless the
// configured period is long already.
func TestIdleCollectionIsDelayed(t *testing.T) {
	for _, c := range []struct {
		period time.Duration
		found  bool
		want   time.Duration
	}{
		{500 * time.Millisecond, true, 500 * time.Millisecond}, {500 * time.Millisecond, false, 5 * time.Second},
		{10 * time.Millisecond, false, 100 * time.Millisecond}, {time.Minute, false, time.Minute}, {time.Minute, true, time.Minute},
	} {
		if got := collectAgain(c.period, c.found); got != c.want {
			t.Errorf("period %v, found %v: %v, want %v", c.period, c.found, got, c.want)
		}
	}
}

// TestGarbageIsCollectedDuringVerification: the check of large states takes hours. Old blocks are removed meanwhile.
func TestGarbageIsCollectedDuringVerification(t *testing.T) {
	hm := loaded(t, testnode.Home(t, home.InitOptions{ChainID: "sandbox"}))
	hm.Genesis.EpochLength, hm.Genesis.TransactionValidityPeriod = 10, 20
	hm.Config.Archive, hm.Config.GCMinAge = true, 0 // the node's own maintenance removes nothing
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Trust: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	must(t, h, "sandbox_mine", `[100]`)
	c := *hm.Config
	c.Archive, c.GCStepPeriod = false, time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.maintain(ctx, &c, "", func(ctx context.Context) { <-ctx.Done() })
	}()
	// The deadline of go test ends a wait for nothing.
	for h.gcStop.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	if _, ok := scrape(t, h).Sum("near_gc_time_count"); !ok || h.measured.Count(gcTime) == 0 {
		t.Error("the time of garbage collection was not measured")
	}
}
