package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// workQuota is the heavy work of one address.
//
// Problem: a body of 10 MiB costs a hundred times more to answer than to send, and a batch of 11 KB
// can make 187 MB of replies. A limit of requests per second would slow down honest clients, and
// would not stop one expensive request.
//
// Invariants: an address gets max_work_per_address of work a second. An address that was idle may
// do the work of one second at once. Small requests are neither counted nor delayed, so a client in
// debt can still read the chain. Work is charged after it was done, so a single request may exceed
// the quota.
//
// Outline: time in the heavy limit, simulations and each byte of a large body are charged as debt,
// which decreases with time. Before heavy work, a request waits until the debt is paid off.
// Meanwhile its body is not read, so the data stays at the client. If the debt lasts longer than
// the request's deadline, the request is rejected at once.
type workQuota struct {
	mu   sync.Mutex
	debt time.Duration // debt that remained at the time in field at
	at   time.Time     // when debt was last updated
}

// perByte is the cost of a byte of a large body: some 2 ms for a MiB. That cost includes the
// kernel's work to receive the byte.
const perByte = 2 * time.Nanosecond

// charge adds work to the debt.
func (w *workQuota) charge(now time.Time, took time.Duration, perSecond time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pay(now, perSecond)
	w.debt += took
}

// wait returns how long the client must wait until it may do more work.
func (w *workQuota) wait(now time.Time, perSecond time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pay(now, perSecond)
	if w.debt <= perSecond {
		return 0
	}
	return time.Duration(float64(w.debt-perSecond) / perSecond.Seconds())
}

// inDebt returns whether there is debt, so that the quota must be kept.
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

// share returns how much work the client may do a second, and false if there is no limit.
func (x *exchange) share() (time.Duration, bool) {
	most, holds := x.client.most(x.limiter.live.Load().AddressWork)
	return time.Duration(most) * time.Millisecond, holds
}

// worked charges the client for work.
func (x *exchange) worked(took time.Duration) {
	if perSecond, holds := x.share(); holds {
		x.client.quota.charge(time.Now(), took, perSecond)
	}
}

// mayWork waits until the client may do heavy work. If the client would have to wait beyond ctx's
// deadline, mayWork returns errBusy at once.
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
