package rpc

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// TestRepliesWaitForMemoryInOrder: replies with a shared text wait for memory, first come, first
// served, but a reply whose address has no room is passed over. A reply that can never fit, that
// exceeds the queue's bound, or that waits longer than a request may, is refused and counted.
func TestRepliesWaitForMemoryInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		d, err := newConnLimiter(&Options{Limits: limited(func(l *limits.Limits) {
			l.InFlight, l.AddressInFlight.Max, l.AddressInFlight.Loopback = 10*mib, 8*mib, true
		})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		one, two := &client{addr: netip.MustParseAddr("10.0.0.1")}, &client{addr: netip.MustParseAddr("10.0.0.2")}
		shown := new(view.Shown)
		type result struct {
			name string
			full limits.ID
		}
		var mu sync.Mutex
		var got []result
		conns := map[string]*conn{}
		ask := func(name string, of *client, n int64, limit time.Duration, what *view.Shown) {
			conns[name] = &conn{limiter: d, transfer: new(transfer)}
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				full := d.awaitMemory(ctx, conns[name], of, n, what)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, result{name, full})
			}()
			synctest.Wait()
		}
		want := func(all ...result) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			// Results of one moment have no order.
			slices.SortFunc(got, func(a, b result) int { return strings.Compare(a.name, b.name) })
			if !slices.Equal(got, all) {
				t.Fatalf("%v, want %v", got, all)
			}
			got = nil
		}
		ask("a", one, 7*mib, time.Hour, shown)
		want(result{"a", limits.Count})
		ask("b", one, 2*mib, time.Hour, shown)           // its address has no room
		ask("c", two, 3*mib, time.Hour, shown)           // it has, and overtakes
		ask("d", two, 2*mib, time.Hour, shown)           // no room
		ask("e", two, 9*mib, time.Hour, shown)           // never fits
		ask("f", two, 17*mib/2, time.Hour, nil)          // no other reply shows the same
		ask("g", two, 2*mib, 5*time.Second, shown)       // waits less long
		ask("h", two, 3*mib, time.Hour, new(view.Shown)) // another text, of 6 MiB
		want(result{"c", limits.Count}, result{"e", limits.MaxAddressInFlight}, result{"f", limits.MaxAddressInFlight})
		time.Sleep(6 * time.Second)
		want(result{"g", limits.MaxInFlight})
		if d.refused[limits.MaxInFlight].Load() != 1 || d.refused[limits.MaxAddressInFlight].Load() != 2 {
			t.Errorf("refused %d and %d", d.refused[limits.MaxInFlight].Load(), d.refused[limits.MaxAddressInFlight].Load())
		}
		if n, bytes := d.replies.waiting(); n != 3 || bytes != 2*2*mib+2*3*mib { // b and d show one text
			t.Errorf("%d wait, %d bytes are kept", n, bytes)
		}
		conns["a"].drop()
		want(result{"b", limits.Count}, result{"d", limits.Count}, result{"h", limits.Count})
		for _, x := range conns {
			x.drop()
		}
		synctest.Wait()
		if n, bytes := d.replies.waiting(); n != 0 || bytes != 0 || d.inFlight.Load() != 0 {
			t.Errorf("left: %d wait, %d bytes, %d in flight", n, bytes, d.inFlight.Load())
		}
	})
}
