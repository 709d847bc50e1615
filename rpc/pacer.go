package rpc

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// pacer bounds the combined cost of connections that always have something to read: pipelined
// requests, floods by WebSocket, large bodies.
//
// Problem: a goroutine whose reads never block runs until the scheduler preempts it after 10 ms,
// and while any goroutine is runnable the scheduler rarely polls the network. With 64 such
// connections a request on another one waits for hundreds of milliseconds.
//
// Invariant: such connections get at most half of the cores. A connection that has worked for
// paceQuantum without waiting for its client pays for that time when its next read does not block
// either. If more has been paid lately than half of the cores can do, the connection waits, and
// clients take turns (fair.Queue). A connection holds nothing of the pacer's while it works, so a
// client that does not read its replies delays no other.
//
// A connection whose client waits for each reply is never delayed, because its reads block.
type pacer struct {
	cores    int64
	stopping *atomic.Bool // end all waits
	delays   atomic.Uint64

	mu    sync.Mutex
	due   int64 // by clock: when all admitted work is done, on so many cores
	queue fair.Queue[*paced]
	runs  bool // the goroutine runs
}

// paced is a connection that waits.
type paced struct {
	cost int64
	turn chan struct{}
}

const (
	// paceQuantum is how much work a connection does between two payments.
	paceQuantum = 200 * time.Microsecond
	// paceSlack is how much unused time is kept, so that a late timer costs no throughput.
	paceSlack = time.Millisecond
	// paceMost bounds what is counted as work between two reads, since some of the time may have
	// been spent waiting: this, and pacePerByte for each byte of the request.
	paceMost    = time.Millisecond
	pacePerByte = 10 * time.Nanosecond
	// A read that takes longer than this, and a nanosecond a byte, has waited for its client.
	paceRead = 20 * time.Microsecond
)

// init sets how many connections there may be at a time.
func (p *pacer) init(connections uint64, stopping *atomic.Bool) {
	p.cores, p.stopping = int64(max(1, runtime.GOMAXPROCS(0)/2)), stopping
	p.queue.Limit, p.due = int(connections), clock()
}

// pass pays for a client's work and returns when the client may continue.
func (p *pacer) pass(who fair.Client, work int64) {
	if p.stopping.Load() {
		return
	}
	p.mu.Lock()
	p.queue.Charge(who, work)
	if now := clock(); p.queue.Len() == 0 && p.due <= now {
		p.add(now, work)
		p.mu.Unlock()
		return
	}
	t := &paced{work, make(chan struct{})}
	if !p.queue.Push(who, t) { // the queue is full
		p.mu.Unlock()
		return
	}
	if !p.runs {
		p.runs = true
		go p.run()
	}
	p.mu.Unlock()
	p.delays.Add(1)
	<-t.turn
}

// add counts admitted work. The time that the work took counts as unused capacity, so that a client
// that keeps at most one core busy, on one connection, waits only if others do the same.
func (p *pacer) add(now, work int64) { p.due = max(p.due+work/p.cores, now-int64(paceSlack)) }

// run admits waiting connections as time passes, until none is left.
func (p *pacer) run() {
	for {
		p.mu.Lock()
		now := clock()
		for (p.due <= now || p.stopping.Load()) && p.queue.Len() > 0 {
			t, _, _ := p.queue.Pop()
			p.add(now, t.cost)
			close(t.turn)
		}
		if p.queue.Len() == 0 {
			p.runs = false
			p.mu.Unlock()
			return
		}
		wait := p.due - now
		p.mu.Unlock()
		time.Sleep(time.Duration(wait))
	}
}

// waiting returns how many connections wait.
func (p *pacer) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Len()
}

// pace accounts for one connection's work. It belongs to the goroutine that reads.
//
// Work is paid for after a read that did not block, never before a read: only then is it known that
// the client does not wait for replies. The first request is there when the connection is accepted,
// and its reply may take long, for example because a contract is compiled.
type pace struct {
	from  int64 // by clock: when the last read returned, or had paid
	flows bool  // the last read did not block
	work  int64 // unpaid, ns
	bytes int64 // read with that work
}

// before is called before the connection reads.
func (p *pace) before() (now int64) {
	now = clock()
	if p.flows {
		p.work += min(now-p.from, int64(paceMost)+p.bytes*int64(pacePerByte))
		p.bytes = 0
	}
	return now
}

// after is called after n bytes have been read, since start. It pays for the work before them.
func (p *pace) after(c *conn, start int64, n int) {
	p.from = clock()
	took := p.from - start
	if p.flows = took <= int64(paceRead)+int64(n); !p.flows {
		p.work = max(0, p.work-took)
		p.bytes = int64(n)
		return
	}
	p.work += took
	p.bytes += int64(n)
	if p.work >= int64(paceQuantum) {
		c.limiter.pacer.pass(c.fairClient(c.client), p.work)
		p.work, p.from = 0, clock()
	}
}
