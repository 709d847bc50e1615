package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// workQuota is the heavy work of one address.
//
// Problem: a body of 10 MiB costs a hundred times more to answer than to send; a batch of 11 KB can
// make 187 MB of replies. A limit of requests per second would slow honest clients down and not
// stop one prepared request.
//
// Invariants: an address gets max_work_per_address of work a second, with a burst of one second's
// worth. Small requests are neither counted nor delayed, so a client that is held back can still
// look at the chain. Work is charged after it was done, so its debt may exceed the quota once.
//
// Outline: time in the heavy limit, simulations and each byte of a large body are charged. Before
// its next heavy work a request waits until the debt is paid off by time. Meanwhile its body is not
// read, so the backlog stays at the client. If the debt outlasts the request's deadline, the
// request is refused at once.
type workQuota struct {
	mu   sync.Mutex
	debt time.Duration // work that time has not paid off
	at   time.Time     // when debt was last updated
}

// perByte is the cost of a byte of a large body: some 2 ms for a MiB. It covers reading the byte,
// including the kernel's part.
const perByte = 2 * time.Nanosecond

// charge counts work.
func (w *workQuota) charge(now time.Time, took time.Duration, perSecond time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pay(now, perSecond)
	w.debt += took
}

// wait returns how long the client has to wait before it may have more work done.
func (w *workQuota) wait(now time.Time, perSecond time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pay(now, perSecond)
	if w.debt <= perSecond {
		return 0
	}
	return time.Duration(float64(w.debt-perSecond) / perSecond.Seconds())
}

// inDebt returns whether there is debt that should be remembered.
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

// share returns how much work the client may have a second; false: it is not limited.
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

// mayWork waits until the client may have heavy work done. If that is after ctx's deadline, it
// returns errBusy at once.
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
