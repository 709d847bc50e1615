package rpc

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// pacer bounds the total work of connections that wait little or not at all for their replies:
// pipelined requests, floods by WebSocket, large bodies, and connections that end after a request.
//
// Problem: a goroutine whose reads never block runs until the scheduler preempts it after 10 ms.
// While any goroutine is runnable, the scheduler rarely polls the network. With 64 such
// connections, a request on another connection waits for hundreds of milliseconds. Many connections
// that end after one request have the same effect.
//
// Invariant: such connections get at most half of the cores. A connection that has worked for
// paceQuantum without waiting for its client must pay for that time. The connection pays in three
// cases: the next read does not block either; the connection is about to serve a second request
// that arrived in the same read; the client of a WebSocket sends a request before it has the
// replies to earlier requests. If the connections have lately paid for more work than half of the
// cores can do, the paying connection waits; clients take turns (fair.Queue). A connection that has
// paid holds no place in the pacer while it works. So a client that does not read its replies does
// not delay another client.
//
// A new connection pays paceQuantum before its first request. When the connection ends, it pays the
// rest of its actual work, or gets back what it did not use. Clients may open connections faster
// than the node answers their requests, so only few first requests are served at a time (lease).
// Otherwise first requests would accumulate on a node whose share of processor time is less than
// its number of cores.
//
// A connection whose client waits for each reply is never delayed after its first request, because
// its reads block.
type pacer struct {
	cores    int64
	stopping *atomic.Bool // true: the server shuts down, and no connection waits any more
	delays   atomic.Uint64

	mu       sync.Mutex
	due      int64 // value of clock() at which cores have done all admitted work
	queue    fair.Queue[*paced]
	runs     bool          // the goroutine of run is running
	first    []*lease      // leases of new connections, ordered by until
	wake     chan struct{} // signals a change of due or of a lease to the goroutine of run
	accepted int           // number of accepted connections that have not begun their first read
	fresh    int           // number of new connections that wait in the queue
	room     chan struct{} // closed when accept may accept another connection; nil: accept does not wait
}

// paced is a connection that waits for its turn.
type paced struct {
	cost  int64
	turn  chan struct{}
	lease *lease // lease that begins when the wait ends; nil: the connection is not new
}

// lease is the right of a new connection to serve its first request. The lease ends when that
// request has been served or waits for the chain. After leaseTime the lease expires, because the
// request may wait for something that the pacer does not know of.
type lease struct {
	until int64 // value of clock() at which the lease expires
	over  bool
}

const (
	// paceQuantum is the work that a connection does between two payments.
	paceQuantum = 200 * time.Microsecond
	// paceSlack is the longest unused time that the pacer saves for later work, so that a late
	// timer costs no throughput.
	paceSlack = time.Millisecond
	// paceMost plus pacePerByte for each byte of a request is the maximum that counts as the
	// request's work. There is a maximum because part of the measured time may have been spent
	// waiting.
	paceMost    = time.Millisecond
	pacePerByte = 10 * time.Nanosecond
	// leaseTime is the time after which a new connection no longer counts as serving its first
	// request (see lease).
	leaseTime = 5 * time.Millisecond
	// paceFresh is the maximum number of new connections that wait for their turn. While that many
	// wait, the server accepts no new connection: further clients wait in the system's queue, where
	// they cost nothing. paceAccepted is the maximum number of accepted connections whose goroutine
	// has not begun its first read. The scheduler must run these goroutines too, so each of them
	// delays the other goroutines.
	paceFresh    = 256
	paceAccepted = 16
	// paceConn is the least work of a connection: the work of accepting and closing the connection.
	paceConn = 50 * time.Microsecond
	// A read that takes longer than paceRead, plus a nanosecond for each byte, has waited for its
	// client.
	paceRead = 20 * time.Microsecond
)

// init prepares the pacer for at most that many connections.
func (p *pacer) init(connections uint64, stopping *atomic.Bool) {
	p.cores, p.stopping = int64(max(1, runtime.GOMAXPROCS(0)/2)), stopping
	p.queue.Limit, p.due, p.wake = int(connections), clock(), make(chan struct{}, 1)
}

// pass pays for a client's work. It blocks until the client may continue. waited is whether the
// call had to wait.
func (p *pacer) pass(who fair.Client, work int64) (waited bool) {
	return p.await(who, &paced{cost: work})
}

// begin pays for the first work of a new connection. It blocks until the connection may serve its
// first request. When that request has been served, the caller calls end.
func (p *pacer) begin(who fair.Client, work int64) (l *lease, waited bool) {
	p.mu.Lock()
	p.fresh++
	p.mu.Unlock()
	l = new(lease)
	waited = p.await(who, &paced{cost: work, lease: l})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh--
	p.makeRoom()
	return l, waited
}

// started must be called when a new connection begins its first read, or when it ends without one.
func (p *pacer) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted--
	p.makeRoom()
}

// makeRoom lets accept continue if the limits allow another new connection. The caller holds mu.
func (p *pacer) makeRoom() {
	if p.room != nil && p.fresh < paceFresh && p.accepted < paceAccepted {
		close(p.room)
		p.room = nil
	}
}

// end ends a lease.
func (p *pacer) end(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.over = true
	p.look()
}

// look notifies the goroutine of run that it must check the queue again. The caller holds mu.
func (p *pacer) look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// await blocks until the connection gets its turn. waited is whether the connection had to wait.
func (p *pacer) await(who fair.Client, t *paced) (waited bool) {
	if p.stopping.Load() {
		return false
	}
	p.mu.Lock()
	p.queue.Charge(who, t.cost)
	if now := clock(); p.queue.Len() == 0 && p.due <= now && (t.lease == nil || p.leased(now) == now) {
		p.admit(now, t)
		p.mu.Unlock()
		return false
	}
	t.turn = make(chan struct{})
	if !p.queue.Push(who, t) { // if the queue is full, the connection does not wait
		p.mu.Unlock()
		return false
	}
	if !p.runs {
		p.runs = true
		go p.run()
	}
	p.mu.Unlock()
	p.delays.Add(1)
	<-t.turn
	return true
}

// admit counts the cost of a connection that gets its turn, and begins the connection's lease.
func (p *pacer) admit(now int64, t *paced) {
	p.add(now, t.cost)
	if t.lease != nil {
		t.lease.until = now + int64(leaseTime)
		p.first = append(p.first, t.lease)
	}
}

// leased returns when, by clock, the leases allow another new connection. It returns now if they
// allow one at once.
func (p *pacer) leased(now int64) (until int64) {
	p.first = slices.DeleteFunc(p.first, func(l *lease) bool { return l.over || l.until <= now })
	if most := 2 * int(p.cores); len(p.first) >= most {
		return p.first[len(p.first)-most].until
	}
	return now
}

// accept blocks until another new connection may be accepted, and counts it. The caller must then
// call started for that connection, or at once if accepting failed.
func (p *pacer) accept() {
	for {
		p.mu.Lock()
		if p.fresh < paceFresh && p.accepted < paceAccepted || p.stopping.Load() {
			p.accepted++
			p.mu.Unlock()
			return
		}
		if p.room == nil {
			p.room = make(chan struct{})
		}
		room := p.room
		p.mu.Unlock()
		<-room
	}
}

// stop ends all waits. The caller has set stopping.
func (p *pacer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
	p.look()
}

// settle counts, without waiting, work that was done but not paid for. Negative work was paid for
// but not done.
func (p *pacer) settle(who fair.Client, work int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Charge(who, max(work, 0))
	if p.add(clock(), work); work < 0 {
		p.look()
	}
}

// add counts work. The time in which the work was done counts as unused capacity of the cores that
// did not do the work. So a client that keeps at most one core busy, on one connection, waits only
// if other clients do the same.
func (p *pacer) add(now, work int64) { p.due = max(p.due+work/p.cores, now-int64(paceSlack)) }

// run admits waiting connections as time passes. It returns when none is left.
func (p *pacer) run() {
	for {
		p.mu.Lock()
		var until int64
		now := clock()
		for p.queue.Len() > 0 {
			if until = max(p.due, p.leased(now)); until > now && !p.stopping.Load() {
				break
			}
			t, _, _ := p.queue.Pop()
			p.admit(now, t)
			close(t.turn)
		}
		if p.queue.Len() == 0 {
			p.runs = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		timer := time.NewTimer(time.Duration(until - now))
		select {
		case <-timer.C:
		case <-p.wake:
			timer.Stop()
		}
	}
}

// waiting returns how many connections wait.
func (p *pacer) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Len()
}

// pace accounts for the work of one connection. It belongs to the goroutine that reads.
//
// Work is paid for after it was done: after a read that did not block, before a request that was
// read together with the previous one, or at the end of the connection. Only at these moments does
// the node know that the client does not wait for replies. The first request usually arrives
// together with the connection, and its reply may take long, for example because a contract is
// compiled.
type pace struct {
	from   int64  // value of clock() at the end of the last read, or when work was last counted
	flows  bool   // the last read suggests that the client sends requests without waiting for replies
	served int    // number of requests served since the last read
	work   int64  // unpaid work in ns
	bytes  int64  // number of bytes that were read since work was last paid
	fresh  bool   // nothing was read from the connection yet
	unread bool   // the first read of the connection has not begun
	lease  *lease // lease of the first request; nil: the lease has ended
	ended  bool
	ahead  int64        // paid but unused work in ns; the connection paid it before its first read
	sent   atomic.Int64 // ns of unpaid work of the goroutine that sends the replies
	// unsent returns whether a reply is queued. nil: the reading goroutine sends the replies
	// itself.
	unsent func() bool
}

// enter waits until the new connection may serve its first request, and pays for it in advance. The
// caller must call enter after the connection's first read. enter returns false if the peer has
// reset the connection meanwhile.
func (p *pace) enter(c *conn) (ok bool) {
	p.fresh, p.ahead = false, int64(paceQuantum)
	var waited bool
	p.lease, waited = c.limiter.pacer.begin(c.fairClient(c.client), p.ahead)
	return !waited || !wasReset(c)
}

// start reports to the pacer that a new connection runs; only the first call for a connection has
// an effect. The caller must call start before each read and at the end.
func (p *pace) start(c *conn) {
	if p.unread {
		p.unread = false
		c.limiter.pacer.started()
	}
}

// leave ends the lease of the first request.
func (p *pace) leave(c *conn) {
	if p.lease != nil {
		c.limiter.pacer.end(p.lease)
		p.lease = nil
	}
}

// count adds the work since the last read or request to work.
func (p *pace) count(now int64) {
	p.work += min(now-p.from, int64(paceMost)+p.bytes*int64(pacePerByte))
	p.from, p.bytes = now, 0
}

// pay pays for the unpaid work if that work is at least paceQuantum. It returns false if the peer
// has reset the connection meanwhile.
func (p *pace) pay(c *conn) (ok bool) {
	paid := min(p.work, p.ahead)
	p.work, p.ahead = p.work-paid, p.ahead-paid
	if p.work >= int64(paceQuantum) {
		waited := c.limiter.pacer.pass(c.fairClient(c.client), p.work)
		p.work, p.from = 0, clock()
		return !waited || !wasReset(c)
	}
	return true
}

// before ends the lease of the first request and counts the work since the last read. The caller
// must call before when the connection is about to read. The result is the current value of
// clock().
func (p *pace) before(c *conn) (now int64) {
	p.start(c)
	p.leave(c)
	now = clock()
	if sent := p.sent.Swap(0); p.flows || p.served > 1 {
		p.count(now)
		p.work += sent
	}
	return now
}

// after must be called after n bytes have been read; start is what before returned. If the read did
// not block, after pays for the work since the previous read. It returns false if the peer has
// reset the connection meanwhile.
func (p *pace) after(c *conn, start int64, n int) (ok bool) {
	// A WebSocket's client does not wait for replies if it sent several requests or has unsent
	// replies.
	early := p.unsent != nil && (p.served > 1 || p.unsent())
	p.from, p.served = clock(), 0
	took := p.from - start
	if p.fresh && n > 0 {
		ok = p.enter(c)
		p.from, p.flows, p.bytes = clock(), true, int64(n)
		return ok
	}
	quick := took <= int64(paceRead)+int64(n)
	if p.flows = quick || early; !p.flows {
		p.work = max(0, p.work-took)
		p.bytes = int64(n)
		return true
	}
	if quick {
		p.work += took
	}
	p.bytes += int64(n)
	return p.pay(c)
}

// request must be called before a request is served. If one read returned this request and the
// previous one, method request pays for the previous one. It returns false if the peer has reset
// the connection meanwhile.
func (p *pace) request(c *conn) (ok bool) {
	ok = true
	if p.served > 0 {
		p.leave(c)
		p.count(clock())
		ok = p.pay(c)
	}
	p.served++
	return ok
}

// waited excludes a wait for the chain of d ns from the connection's work.
func (p *pace) waited(d int64) { p.from = min(p.from+d, clock()) }

// end must be called when the connection ends. end charges the work that the connection has not
// paid for, or refunds the time that the connection paid in advance and did not use.
func (p *pace) end(c *conn) {
	p.start(c)
	if p.ended || p.fresh {
		return
	}
	p.ended = true
	p.leave(c)
	if p.flows || p.served > 0 {
		p.count(clock())
	}
	if p.ahead > 0 {
		p.work = max(p.work, int64(paceConn))
	}
	if rest := p.work - p.ahead; rest != 0 {
		c.limiter.pacer.settle(c.fairClient(c.client), rest)
	}
}
