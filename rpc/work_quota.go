package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// workQuota is what an address has had of heavy work, and may have: so much in each second, and at once
// as much as in one.
type workQuota struct {
	mu   sync.Mutex
	debt time.Duration // what was had and is not paid off by time
	at   time.Time     // when it was so
}

// perByte is what a byte of a large body costs: reading it, and what the system does to bring it,
// some 2 ms for a MiB.
const perByte = 2 * time.Nanosecond

// charge counts work.
func (w *workQuota) charge(now time.Time, took time.Duration, perSecond time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pay(now, perSecond)
	w.debt += took
}

// wait is how long it takes until work may go on.
func (w *workQuota) wait(now time.Time, perSecond time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pay(now, perSecond)
	if w.debt <= perSecond {
		return 0
	}
	return time.Duration(float64(w.debt-perSecond) / perSecond.Seconds())
}

// owes tells whether there was work lately.
func (w *workQuota) inDebt(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.debt > 0 && now.Sub(w.at) < debtKept
}

func (w *workQuota) pay(now time.Time, perSecond time.Duration) {
	if gone := now.Sub(w.at); gone > 0 {
		w.debt, w.at = max(0, w.debt-time.Duration(gone.Seconds()*float64(perSecond))), now
	}
}

// share is what the client may have in a second; false: it is not limited.
func (x *exchange) share() (time.Duration, bool) {
	most, holds := x.client.most(x.limiter.live.Load().AddressWork)
	return time.Duration(most) * time.Millisecond, holds
}

// worked charges the client.
func (x *exchange) worked(took time.Duration) {
	if perSecond, holds := x.share(); holds {
		x.client.quota.charge(time.Now(), took, perSecond)
	}
}

// mayWork waits until the client may have heavy work done, as long as ctx lasts.
func (x *exchange) mayWork(ctx context.Context) error {
	perSecond, holds := x.share()
	if !holds {
		return nil
	}
	for {
		d := x.client.quota.wait(time.Now(), perSecond)
		if d == 0 {
			return nil
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
			x.limiter.refused[limits.MaxAddressWork].Add(1)
			return errBusy
		}
		t := time.NewTimer(d)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}
