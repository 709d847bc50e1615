package rpc

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// heavy lets work that takes long (large bodies to parse, large replies to write out) be done on
// half of the cores, clients taking turns: what is small goes past it, and finds the other half.
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

// enter waits for a turn; done gives it back. An error is errBusy, or the context's.
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
		go func() { // the turn comes all the same
			<-t.turn
			g.leave()
		}()
		return nil, ctx.Err()
	}
}

// try is enter for what need not be done: false if there is no turn at once.
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

// waiting is how many wait for their turn.
func (g *heavyLimiter) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queue.Len()
}
