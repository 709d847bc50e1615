package rpc

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// heavyLimiter runs heavy work on half of the cores: parsing large bodies, writing large replies,
// heavy methods. Clients take turns (fair.Queue). Small requests bypass it, so half of the cores is
// always free for small requests. A request holds its turn only while it computes: it must not wait
// for its client, for the chain or for memory.
type heavyLimiter struct {
	mu    sync.Mutex
	free  int
	queue fair.Queue[*ticket]
}

type ticket struct{ turn chan struct{} }

func (g *heavyLimiter) init(waiting uint64) {
	g.free = max(1, runtime.GOMAXPROCS(0)/2)
	g.queue.Limit = int(waiting)
}

// enter waits for a turn. done gives the turn back and charges the client for the time of the turn.
// err is errBusy if the queue is full, or the context's error if the context ends first. Safe for
// concurrent use.
func (g *heavyLimiter) enter(ctx context.Context, who fair.Client) (done func(), err error) {
	g.mu.Lock()
	if g.free > 0 && g.queue.Len() == 0 {
		g.free--
		g.mu.Unlock()
		return g.leaver(who), nil
	}
	t := &ticket{make(chan struct{})}
	ok := g.queue.Push(who, t)
	g.mu.Unlock()
	if !ok {
		return nil, errBusy
	}
	select {
	case <-t.turn:
		return g.leaver(who), nil
	case <-ctx.Done():
		// The ticket cannot be removed from the queue. This goroutine waits for the turn and gives
		// it back at once.
		go func() {
			<-t.turn
			g.leave()
		}()
		return nil, ctx.Err()
	}
}

// try is enter for optional work. ok is false if no turn is free at once.
func (g *heavyLimiter) try(who fair.Client) (done func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free == 0 || g.queue.Len() > 0 {
		return nil, false
	}
	g.free--
	return g.leaver(who), true
}

func (g *heavyLimiter) leaver(who fair.Client) func() {
	start := time.Now()
	return func() {
		g.mu.Lock()
		g.queue.Charge(who, int64(time.Since(start)))
		g.mu.Unlock()
		g.leave()
	}
}

func (g *heavyLimiter) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t, _, ok := g.queue.Pop(); ok {
		close(t.turn)
		return
	}
	g.free++
}

// waiting returns how many requests wait for a turn.
func (g *heavyLimiter) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queue.Len()
}
