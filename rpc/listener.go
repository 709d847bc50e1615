package rpc

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// connLimiter lets connections in and keeps account of what they hold. When all places are taken, the
// connection that has waited longest for its next request gives way, of the address that has most.
type connLimiter struct {
	limits  limits.Limits
	live    atomic.Pointer[live]
	cors    *cors
	proxies []netip.Prefix
	heavy   heavyLimiter
	pacer   pacer

	mu      sync.Mutex
	conns   map[*conn]struct{}
	clients map[netip.Addr]*client
	nextID  uint64
	most    int // connections at a time, since they became few

	inFlight atomic.Int64 // bytes of bodies and replies
	opened   atomic.Uint64
	evicted  atomic.Uint64
	refused  [limits.Count]atomic.Uint64
	refusing atomic.Int64
	failed   atomic.Uint64 // connections that the system could not give
	loggedAt time.Time     // when that was logged
	log      logrus.FieldLogger
	stopping atomic.Bool
	large    atomic.Int64 // bytes of large bodies and replies since memory was given back
	tidying  atomic.Bool
	sizes    replySizes
	parking  parking
	replies  replyQueue
	tls      *tls.Config // nil: none
}

// What a connection does: it waits for a request, or for the rest of one; or one is answered and
// its reply is sent.
const (
	connWaits = int32(iota)
	connServed
)

func newConnLimiter(o *Options, cors *cors) (*connLimiter, error) {
	proxies, err := parseProxies(o.TrustedProxies)
	if err != nil {
		return nil, fmt.Errorf("troupe.rpc.trusted_proxies: %w", err)
	}
	if most := maxConns(openFiles()); o.Limits.Connections > most {
		o.Log.Infof("%d files may be open at a time, so at most %d connections (troupe.rpc.max_connections: %d)", openFiles(), most, o.Limits.Connections)
		o.Limits.Connections = most
	}
	d := &connLimiter{replies: replyQueue{freed: make(chan struct{}, 1)}, limits: o.Limits, log: o.Log, cors: cors, proxies: proxies, conns: map[*conn]struct{}{}, clients: map[netip.Addr]*client{}}
	l, err := newLive(o)
	if err != nil {
		return nil, err
	}
	d.live.Store(l)
	d.heavy.init(d.limits.HeavyWaiting)
	d.pacer.init(d.limits.Connections, &d.stopping)
	return d, nil
}

// conn is a connection that was let in. Its counts belong to its goroutine, but for the atomic
// ones.
type conn struct {
	net.Conn
	limiter       *connLimiter
	id            uint64
	client        *client // of its address
	proxy         bool
	via           *client // for whom a proxy asks; nil: for itself
	state         atomic.Int32
	since         atomic.Int64 // when it began to wait, by clock
	received      bool         // something has come since the last request
	reused        bool         // there was a request before
	deadlineSetAt time.Time    // when the write deadline was set
	gone          bool         // not in the door's books any more; under its lock
	closed        func()       // called when it is closed; nil: nobody asks; under the door's lock
	pace          pace
	cork          cork
	*transfer

	mu     sync.Mutex // requests of a batch run beside each other
	held   int64      // bytes in flight
	holder *client    // whose they are
}

// started is when the process did: what has gone by since then does not depend on what somebody
// sets the clock on the wall to.
var started = time.Now()

// clock is how long ago that was, in ns; never 0.
func clock() int64 { return int64(time.Since(started)) + 1 }

// listener admits what another one accepts.
type listener struct {
	net.Listener
	limiter *connLimiter
}

// Accept returns the next connection that is let in. It fails for a listener that is closed only:
// that there are too many open files, or that a connection was broken off before it was taken, ends
// nothing.
func (l *listener) Accept() (net.Conn, error) {
	for pause := time.Duration(0); ; {
		c, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || isClosed(err) {
				return nil, err
			}
			pause = min(max(2*pause, time.Millisecond), maxPause)
			l.limiter.onAcceptError(err)
			time.Sleep(pause)
			continue
		}
		pause = 0
		if in := l.limiter.admit(l.limiter.secured(c)); in != nil {
			return in, nil
		}
	}
}

// maxPause is how long the listener leaves connections alone when it can't take them.
const maxPause = 100 * time.Millisecond

// shortage makes place when the system had none for a connection, and says so once a minute.
func (d *connLimiter) onAcceptError(err error) {
	d.failed.Add(1)
	d.mu.Lock()
	d.evict(time.Second) // one that has just come may be about to ask
	say := time.Since(d.loggedAt) > time.Minute
	if say {
		d.loggedAt = time.Now()
	}
	d.mu.Unlock()
	if say {
		d.log.WithError(err).Warn("a connection could not be taken; those that wait for requests are closed one by one")
	}
}

// Of the files that the process may have open: what is left to the store, the compilers, the second
// listener, and those who are told that there is no place for them.
const reservedFiles = 512

// maxConns is how many connections there may be beside the node's own files.
func maxConns(files uint64) uint64 { return max(1, files-min(reservedFiles, files/2)) }

// admit lets a connection in, or answers it with a refusal and returns nil.
func (d *connLimiter) admit(c net.Conn) *conn {
	addr := clientAddr(c.RemoteAddr())
	d.mu.Lock()
	cl := d.client(addr)
	why := limits.Count
	most, holds := cl.most(d.live.Load().AddressConnections)
	proxy := d.isProxy(addr)
	if holds && !proxy && int64(cl.conns) >= most {
		why = limits.MaxAddressConnections
	} else if uint64(len(d.conns)) >= d.limits.Connections && !d.evict(0) {
		why = limits.MaxConnections
	}
	if why != limits.Count {
		d.forget(cl)
		d.mu.Unlock()
		d.refuseConn(c, why)
		return nil
	}
	d.nextID++
	in := &conn{Conn: c, limiter: d, id: d.nextID, client: cl, proxy: proxy, transfer: new(transfer)}
	in.since.Store(clock())
	cl.conns++
	d.conns[in] = struct{}{}
	d.most = max(d.most, len(d.conns))
	d.mu.Unlock()
	d.opened.Add(1)
	return in
}

// evict closes the connection that gives way to a new one; false if none has waited so long for a
// request. The lock is held.
func (d *connLimiter) evict(idle time.Duration) bool {
	var out *conn
	latest := clock() - int64(idle)
	for c := range d.conns {
		if c.state.Load() != connWaits || c.since.Load() > latest {
			continue
		}
		if out == nil || c.client.conns > out.client.conns ||
			c.client.conns == out.client.conns && c.since.Load() < out.since.Load() {
			out = c
		}
	}
	if out == nil {
		return false
	}
	d.evicted.Add(1)
	d.remove(out)
	hangUp(out.Conn)
	return true
}

// strike takes a connection out of the books. The lock is held.
func (d *connLimiter) remove(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	delete(d.conns, c)
	if d.most >= manyConns && len(d.conns) < d.most/8 {
		d.most = len(d.conns)
		d.large.Add(largeBytes)
		d.releaseMemory()
	}
	c.client.conns--
	d.forget(c.client)
}

// Close closes the connection.
func (c *conn) Close() error {
	c.drop()
	c.limiter.mu.Lock()
	closed := c.closed
	c.closed = nil
	c.limiter.mu.Unlock()
	if closed != nil {
		closed()
	}
	c.leaveProxied()
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	if c.limiter.stopping.Load() {
		hangUp(c.Conn)
		return nil
	}
	return c.Conn.Close()
}

// hangUp closes a connection without a word. TLS would say goodbye, and wait for a client who does
// not read: that is nothing to do under a lock, nor for who is in a hurry.
func hangUp(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.Close()
}

// leaveProxied ends asking for somebody else.
func (c *conn) leaveProxied() {
	if c.via != nil {
		c.limiter.mu.Lock()
		c.limiter.forget(c.via)
		c.limiter.mu.Unlock()
		c.via = nil
	}
}

// SyscallConn is that of the connection inside.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errNoSystem
}

var errNoSystem = fmt.Errorf("rpc: the connection is none of the system's")

// writeStep is how long a write deadline may be in use before it is set anew: setting one costs as
// much as a tenth of a reply.
const writeStep = time.Second

// Write sends, within the time that a client has to read.
func (c *conn) Write(b []byte) (int, error) {
	if c.cork.more || c.cork.waits != nil {
		return c.cork.write(b, c.write)
	}
	return c.write(b)
}

func (c *conn) write(b []byte) (int, error) {
	if now := time.Now(); now.Sub(c.deadlineSetAt) > writeStep && !c.limiter.stopping.Load() {
		c.deadlineSetAt = now
		if err := c.Conn.SetWriteDeadline(now.Add(c.limiter.limits.WriteTimeout + writeStep)); err != nil {
			return 0, err
		}
	}
	if len(b) > smallReply {
		c.transfer.begin()
		defer c.transfer.end()
	}
	sent := 0
	for {
		n, err := c.Conn.Write(b[sent:min(len(b), sent+writeChunk)])
		sent += n
		c.transfer.move(n)
		if timedOut(err) {
			c.limiter.refused[limits.WriteTime].Add(1)
		}
		if err != nil || sent == len(b) {
			return sent, err
		}
	}
}

// writeChunk is how much is sent in one go, bytes: so much later it is seen whether a client reads.
const writeChunk = 256 << 10

// Read counts the connections that end as nothing came for too long. A client that sends without
// waiting for replies is read at the pace of the pacer.
func (c *conn) Read(b []byte) (int, error) {
	start := c.pace.before()
	n, err := c.Conn.Read(b)
	c.pace.after(c, start, n)
	if n > 0 {
		c.received = true
	} else if c.reused && !c.received && timedOut(err) && !c.limiter.stopping.Load() {
		c.limiter.refused[limits.IdleTime].Add(1)
	}
	return n, err
}

// SetReadDeadline is fasthttp's; while the server stops none is late.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.limiter.stopping.Load() {
		t = time.Now()
	}
	return c.Conn.SetReadDeadline(t)
}

func timedOut(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// take counts bytes that a connection is about to hold, until its reply has been sent; full is the
// limit by which there is no room for them, limits.Count if there is. Small ones always have room:
// there are at most as many as connections.
func (c *conn) take(of *client, n int64) (full limits.ID) {
	if c == nil {
		return limits.Count
	}
	if full = c.limiter.lacks(of, n); full == limits.MaxInFlight && c.limiter.makeRoom(n) {
		full = limits.Count
	}
	if full != limits.Count {
		c.limiter.refused[full].Add(1)
		return full
	}
	c.book(of, n)
	return limits.Count
}

// lacks is the limit by which there is no room now for n more bytes, limits.Count if there is.
func (d *connLimiter) lacks(of *client, n int64) limits.ID {
	if n <= smallReply {
		return limits.Count
	}
	most, holds := of.most(d.live.Load().AddressInFlight)
	switch {
	case holds && of.inFlight.Load()+n > most:
		return limits.MaxAddressInFlight
	case d.inFlight.Load()+n > int64(min(d.limits.InFlight, 1<<62)):
		return limits.MaxInFlight
	}
	return limits.Count
}

// full tells whether there is no room for anything large.
func (d *connLimiter) full() bool {
	return d.inFlight.Load()+smallReply >= int64(min(d.limits.InFlight, 1<<62))
}

// book counts bytes for which there is room.
func (c *conn) book(of *client, n int64) {
	d := c.limiter
	if n > smallReply {
		d.large.Add(n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder != of {
		c.give()
		c.holder = of
	}
	d.inFlight.Add(n)
	of.inFlight.Add(n)
	c.held += n
}

// holds tells whether there are bytes of large ones already.
func (c *conn) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held > 0
}

// smallReply is what a body or a reply may have without regard to what others hold, bytes.
const smallReply = 64 << 10

// drop gives back what was taken.
func (c *conn) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.give()
}

func (c *conn) give() {
	if c.held != 0 {
		if now := c.limiter.inFlight.Add(-c.held); c.held > smallReply && now < idleBytes {
			c.limiter.releaseMemory()
		}
		c.holder.inFlight.Add(-c.held)
		if c.held > smallReply {
			c.limiter.replies.notify()
		}
		c.held = 0
	}
	c.holder = nil
}

// Memory of large requests goes back to the system once there are none: the collector alone would
// keep it until the heap has grown again, which a node that does little takes minutes for.
const (
	idleBytes    = 1 << 20         // bytes in flight
	releaseDelay = 5 * time.Second // that there are no more
	largeBytes   = 64 << 20        // bytes of large bodies and replies that are worth it
	manyConns    = 1000            // connections that are, when they have gone: each has buffers and a stack
)

// tidy counts what was large and gives memory back when it is over.
func (d *connLimiter) releaseMemory() {
	if d.large.Load() < largeBytes || !d.tidying.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(releaseDelay, func() {
		d.tidying.Store(false)
		if d.inFlight.Load() < idleBytes && !d.stopping.Load() {
			d.large.Store(0)
			debug.FreeOSMemory()
		}
	})
}

// follow is told by fasthttp what becomes of connections.
func (d *connLimiter) follow(nc net.Conn, state fasthttp.ConnState) {
	c, ok := nc.(*conn)
	if !ok || state != fasthttp.StateIdle {
		return
	}
	c.drop()
	c.leaveProxied()
	c.received, c.reused = false, true
	c.since.Store(clock())
	c.state.Store(connWaits)
}

// maxRefusing is how many are told at a time why they are not let in; others are just closed.
const maxRefusing = 64

// turnAway tells a client why it is not let in.
func (d *connLimiter) refuseConn(c net.Conn, why limits.ID) {
	d.refused[why].Add(1)
	if d.refusing.Add(1) > maxRefusing {
		d.refusing.Add(-1)
		hangUp(c)
		return
	}
	go func() {
		defer d.refusing.Add(-1)
		defer c.Close()
		// What was sent has to be read: a connection closed with something unread takes the reply
		// with it.
		_ = c.SetDeadline(time.Now().Add(time.Second))
		head := make([]byte, 4<<10)
		n, _ := c.Read(head)
		_, _ = c.Write(d.refusal(head[:n], why))
		if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			for range 16 {
				if _, err := c.Read(head); err != nil {
					return
				}
			}
		}
	}()
}

// refusal is the HTTP reply to a connection for which there is no place.
func (d *connLimiter) refusal(head []byte, why limits.ID) []byte {
	f := busy(why)
	body := append(f.appendError([]byte(`{"jsonrpc":"2.0","error":`)), `,"id":null}`...)
	out := []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 1\r\n")
	out = append(append(append(out, "Vary: "...), varyValue...), "\r\n"...)
	if origin, ok := d.cors.allows(headerOf(head, "origin")); ok {
		out = append(append(append(out, "Access-Control-Allow-Origin: "...), origin...), "\r\n"...)
	}
	out = fmt.Appendf(out, "Content-Length: %d\r\n\r\n", len(body))
	return append(out, body...)
}

// headerOf finds a header in the beginning of a request; nil: there is none.
func headerOf(head []byte, name string) []byte {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(key, []byte(name)) {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}

// busy is the refusal by a limit.
func busy(why limits.ID) *failure {
	f := internal(reachedLimits, fmt.Errorf("%w: troupe.rpc.%s", errBusy, limits.Table[why].Key)).(*failure)
	f.refusal = http.StatusServiceUnavailable
	return f
}

// tooLarge is the refusal of a reply.
func (d *connLimiter) tooLarge() *failure {
	d.refused[limits.MaxReply].Add(1)
	f := internal(reachedLimits, fmt.Errorf("the reply would have more than %d bytes (troupe.rpc.max_reply_bytes)", d.limits.Reply)).(*failure)
	f.refusal = http.StatusRequestEntityTooLarge
	return f
}

// stop lets nobody keep the server from ending: what has not arrived will not, and what is not read
// soon is not sent.
func (d *connLimiter) stop(grace time.Duration) {
	d.stopping.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for c := range d.conns {
		_ = c.Conn.SetWriteDeadline(now.Add(grace))
		if c.state.Load() == connWaits {
			_ = c.Conn.SetReadDeadline(now)
		}
	}
}

// closeAll closes every connection.
func (d *connLimiter) closeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		hangUp(c.Conn)
	}
}
