package rpc

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// parking holds the requests that wait for a transaction, by client. If max_parked_requests wait, a
// request of a client with fewer waits replaces the latest wait of the client with most waits.
type parking struct {
	mu sync.Mutex
	of map[*client]*list.List // the waiting requests (*parked) of each client, oldest first
}

// parked is a request that waits for a transaction.
type parked struct {
	x      *exchange
	at     *list.Element // element of the list in parking.of; nil: the request does not wait any more
	gave   bool          // a request of another client has ended this request's wait
	cancel context.CancelCauseFunc
}

// errGaveWay is the cause with which a wait ends if the wait of another client's request replaces
// it.
var errGaveWay = errors.New("the wait was ended to make room for another client")

// park counts a waiting request, in total and for its client. If no place is free, park ends a wait
// of a client that has more waits than this client.
func (x *exchange) park() (*parked, error) {
	l := &x.limiter.parking
	l.mu.Lock()
	defer l.mu.Unlock()
	most, holds := x.client.most(x.limiter.live.Load().AddressParked)
	if holds && x.client.parked.Load() >= most {
		return nil, x.unparked(limits.MaxAddressParked)
	}
	if x.metrics.waiting.Load() >= int64(x.opts.Limits.Parked) && !l.giveWay(x.client.parked.Load()+1) {
		return nil, x.unparked(limits.MaxParked)
	}
	x.metrics.waiting.Add(1)
	x.client.parked.Add(1)
	if l.of == nil {
		l.of = map[*client]*list.List{}
	}
	mine := l.of[x.client]
	if mine == nil {
		mine = list.New()
		l.of[x.client] = mine
	}
	p := &parked{x: x}
	p.at = mine.PushBack(p)
	return p, nil
}

// unparked returns the failure of a request that cannot wait, or whose wait was replaced.
func (x *exchange) unparked(why limits.ID) *failure {
	x.metrics.refused.Add(1)
	x.limiter.refused[why].Add(1)
	return busy(why)
}

// giveWay ends the latest wait of the client with most waits, if that client has more than n. The
// caller holds mu.
func (l *parking) giveWay(n int64) bool {
	var last *list.Element
	for c, waits := range l.of {
		if has := c.parked.Load(); has > n {
			n, last = has, waits.Back()
		}
	}
	if last == nil {
		return false
	}
	p := last.Value.(*parked)
	p.gave = true
	p.x.limiter.refused[limits.MaxParked].Add(1)
	l.remove(p)
	if p.cancel != nil {
		p.cancel(errGaveWay)
	}
	return true
}

func (l *parking) remove(p *parked) {
	if p.at == nil {
		return
	}
	waits := l.of[p.x.client]
	waits.Remove(p.at)
	if p.at = nil; waits.Len() == 0 {
		delete(l.of, p.x.client)
	}
	p.x.client.parked.Add(-1)
	p.x.metrics.waiting.Add(-1)
}

// ends sets cancel, which ends the wait if another request takes its place.
func (p *parked) ends(cancel context.CancelCauseFunc) {
	l := &p.x.limiter.parking
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.cancel = cancel; p.gave {
		cancel(errGaveWay)
	}
}

// leave ends the wait. The result is whether another request has taken its place.
func (p *parked) leave() bool {
	l := &p.x.limiter.parking
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(p)
	return p.gave
}
