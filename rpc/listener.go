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

// The limits of the RPC.
//
// Problem: nearcore bounds only the size of a body. Clients may be slow or many, or may send short
// requests whose replies are long or expensive. No client may use up the memory of the node or delay
// the requests of other clients.
//
// Invariants: bodies and replies together take at most max_bytes_in_flight, plus smallReply for each
// connection. Memory is counted before it is allocated. Requests and replies of at most smallReply
// bytes never count as work. A request holds a turn of the heavy limit only while it computes. A
// limit by address rejects requests; a turn only delays them.
//
// Outline, in the order in which the limits apply to a request:
//
//	limit                bounds                                  if it is exceeded
//	connLimiter.admit    connections, in all and by address      an idle one is closed, or 503
//	pacer                cores for connections without pauses    the read or request waits
//	exchange.read        size of a body and time to send it      413, or closed
//	connLimiter.lacks    memory of bodies and replies, in all    slow transfers are closed, then
//	                     and by address                          503
//	exchange.mayWork     heavy work of an address                the body is not read
//	heavyLimiter         cores that parse large bodies           waits for a turn
//	document.parse       values of a body, requests of a batch   error reply
//	exchange.checkRates  requests a second, by address and key   429
//	countSimulation      simulations and traces                  503
//	parking              requests that wait for the chain        503 for the latest wait of the
//	                                                             client with most waits
//	wakeTurns            replies made at once after a block      waits for a turn
//	call.reserve         size of a reply, memory of replies      413, or 503; after a wait for
//	                                                             the chain: waits in replyQueue
//	heavyLimiter         cores that write or pack large replies  waits for a turn
//	conn.Write           time to read a reply                    closed
//
// WebSockets are connections of the same listener. In place of the last row they have a bounded
// queue (ws_outbox.go). The memory of a reply is released when the reply has been sent.
//
// Rejected: one limit of requests a second. It slows down clients that send many small requests,
// and does not stop one request that was made to be expensive.

// connLimiter admits connections and accounts for what they hold. If max_connections are open, a
// new connection evicts an idle one: of the idle connections of the address with most connections,
// the one that has been idle longest.
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
	most    int // largest number of connections since the last release of their memory

	inFlight atomic.Int64 // bytes of request bodies and replies in memory
	opened   atomic.Uint64
	evicted  atomic.Uint64
	refused  [limits.Count]atomic.Uint64
	refusing atomic.Int64
	failed   atomic.Uint64 // number of failed accept system calls
	loggedAt time.Time     // when a failed accept was last logged
	log      logrus.FieldLogger
	stopping atomic.Bool
	large    atomic.Int64 // total bytes of large bodies and replies since the last release of memory
	tidying  atomic.Bool
	sizes    replySizes
	parking  parking
	replies  replyQueue
	tls      *tls.Config // nil: no TLS
}

// The states of a connection: the connection is idle, it receives a request, or the node makes and
// sends the reply to its request.
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
		o.Log.Infof("%d files may be open at a time, so at most %d connections (troupe.rpc.max_connections: %d)",
			openFiles(), most, o.Limits.Connections)
		o.Limits.Connections = most
	}
	d := &connLimiter{replies: replyQueue{freed: make(chan struct{}, 1)}, limits: o.Limits, log: o.Log, cors: cors,
		proxies: proxies, conns: map[*conn]struct{}{}, clients: map[netip.Addr]*client{}}
	l, err := newLive(o)
	if err != nil {
		return nil, err
	}
	d.live.Store(l)
	d.heavy.init(d.limits.HeavyWaiting)
	d.pacer.init(d.limits.Connections, &d.stopping)
	return d, nil
}

// conn is an admitted connection. Fields that are neither atomic nor guarded by a lock named here
// belong to the connection's goroutine.
type conn struct {
	net.Conn
	limiter *connLimiter
	id      uint64
	client  *client // client with the connection's address
	proxy   bool    // the connection comes from a trusted proxy
	// via is the client for which the proxy sent the current request. nil: none is known, and the
	// request counts as one of the field client.
	via           *client
	state         atomic.Int32
	since         atomic.Int64 // value of clock() when the connection became idle
	received      bool         // bytes have arrived since the last request
	reused        bool         // at least one request of the connection was served
	deadlineSetAt time.Time    // when the write deadline was last set
	gone          bool         // true: removed from connLimiter.conns; guarded by limiter.mu
	closed        func()       // Close calls this function once; nil: none; guarded by limiter.mu
	pace          pace
	cork          cork
	*transfer

	mu     sync.Mutex // guards the fields below, which concurrent requests of a batch share
	held   int64      // bytes of bodies and replies of this connection in memory
	holder *client    // client whose limit the held bytes count toward
}

// started is when the process began. Durations since then are monotonic: a change of the wall clock
// does not affect them.
var started = time.Now()

// clock returns the time since started in ns. The result is never 0.
func clock() int64 { return int64(time.Since(started)) + 1 }

// listener wraps a listener and admits its connections.
type listener struct {
	net.Listener
	limiter *connLimiter
}

// Accept returns the next admitted connection. Accept fails only if the listener is closed. After
// any error except that, such as too many open files, Accept tries again.
func (l *listener) Accept() (net.Conn, error) {
	for pause := time.Duration(0); ; {
		l.limiter.pacer.accept()
		c, err := l.Listener.Accept()
		if err != nil {
			l.limiter.pacer.started()
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
		l.limiter.pacer.started()
	}
}

// maxPause is the longest pause after a failed accept.
const maxPause = 100 * time.Millisecond

// onAcceptError closes an idle connection if the system could not open a new connection.
// onAcceptError logs the error at most once a minute.
func (d *connLimiter) onAcceptError(err error) {
	d.failed.Add(1)
	d.mu.Lock()
	d.evict(time.Second) // a connection that became idle more recently may be about to send a request
	say := time.Since(d.loggedAt) > time.Minute
	if say {
		d.loggedAt = time.Now()
	}
	d.mu.Unlock()
	if say {
		d.log.WithError(err).Warn("a connection could not be taken; those that wait for requests are closed one by one")
	}
}

// reservedFiles is the number of the process's files that connections must not use. The store, the
// compiler processes, the second listener and rejected connections need them.
const reservedFiles = 512

// maxConns returns the number of connections for which files are left.
func maxConns(files uint64) uint64 { return max(1, files-min(reservedFiles, files/2)) }

// admit returns the admitted connection. If no place is free, admit sends an error reply and
// returns nil.
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
	in.pace.fresh, in.pace.unread = true, true
	in.since.Store(clock())
	cl.conns++
	d.conns[in] = struct{}{}
	d.most = max(d.most, len(d.conns))
	d.mu.Unlock()
	d.opened.Add(1)
	return in
}

// evict closes the idle connection that a new connection replaces. It returns false if no
// connection has been idle for at least the duration idle. The caller holds mu.
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

// remove removes a connection from conns. The caller holds mu.
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

// Close closes the connection and releases the memory and the counts that the connection holds.
func (c *conn) Close() error {
	// While the server stops, fasthttp closes connections that goroutines still serve. c.pace
	// belongs to these goroutines.
	if !c.limiter.stopping.Load() {
		c.pace.end(c)
	}
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

// hangUp closes a connection without TLS's close message, so it does not wait for a client that
// does not read. It may be called under a lock.
func hangUp(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.Close()
}

// leaveProxied releases the client behind the proxy that sent the request.
func (c *conn) leaveProxied() {
	if c.via != nil {
		c.limiter.mu.Lock()
		c.limiter.forget(c.via)
		c.limiter.mu.Unlock()
		c.via = nil
	}
}

// SyscallConn returns the SyscallConn of the wrapped connection.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errNoSystem
}

var errNoSystem = fmt.Errorf("rpc: the connection has no system socket")

// writeStep is how long a write deadline is kept. Setting one takes a tenth of the time of a reply.
const writeStep = time.Second

// Write sends b. Write fails if the client does not read b within write_timeout.
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

// writeChunk is the number of bytes that one system call sends. The progress of a slow client is
// visible only between calls, so a smaller chunk makes slow progress visible earlier.
const writeChunk = 256 << 10

// Read reads from the connection and counts timeouts. Each read is paced: Read delays a client that
// sends requests without waiting for the replies.
func (c *conn) Read(b []byte) (int, error) {
	start := c.pace.before(c)
	n, err := c.Conn.Read(b)
	if !c.pace.after(c, start, n) {
		return 0, syscall.ECONNRESET
	}
	if n > 0 {
		c.received = true
	} else if c.reused && !c.received && timedOut(err) && !c.limiter.stopping.Load() {
		c.limiter.refused[limits.IdleTime].Add(1)
	}
	return n, err
}

// fasthttp calls SetReadDeadline. During shutdown, SetReadDeadline makes every read time out at
// once.
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

// take counts n bytes that a connection will hold until its reply has been sent. full is the limit
// that has no space, or limits.Count if the bytes were counted. If memory is short, take first
// closes slow transfers. Up to smallReply bytes always succeed, because the number of connections
// bounds the sum of these bytes. c may be nil.
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

// lacks returns the limit that has no space for n more bytes; limits.Count if there is space.
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

// full returns whether there is no memory for anything large.
func (d *connLimiter) full() bool {
	return d.inFlight.Load()+smallReply >= int64(min(d.limits.InFlight, 1<<62))
}

// book counts n bytes without checking a limit.
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

// holds returns whether the connection has bytes in flight.
func (c *conn) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held > 0
}

// smallReply is the size in bytes up to which the limits of memory do not apply to a body or a
// reply.
const smallReply = 64 << 10

// drop releases all bytes that the connection holds.
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

// Memory of large requests is released to the system when no large request is left. The garbage
// collector alone would keep that memory until the heap has grown again, which takes minutes on a
// quiet node.
const (
	idleBytes    = 1 << 20         // the server counts as idle if at most this number of bytes is in memory
	releaseDelay = 5 * time.Second // time for which the server must be idle before the release
	largeBytes   = 64 << 20        // minimum total of large bodies and replies for a release, in bytes
	manyConns    = 1000            // number of connections from which closing most of them causes a release
)

// releaseMemory schedules a release to the system, if one is worthwhile.
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

// follow is fasthttp's hook for changes of a connection's state.
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

// maxRefusing is the maximum number of connections that get an error reply at a time. Further
// connections are closed without a reply.
const maxRefusing = 64

// refuseConn sends an error reply to a connection that is not admitted, and closes it.
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
		// The request must be read first: closing a connection with unread data discards the reply.
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

// refusal returns the HTTP reply to a connection that is not admitted.
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

// headerOf returns the value of a header in the beginning of a request; nil if the beginning does
// not have the header.
func headerOf(head []byte, name string) []byte {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(key, []byte(name)) {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}

// busy returns the failure for a limit that is full now and may have space later.
func busy(why limits.ID) *failure {
	f := internal(reachedLimits, fmt.Errorf("%w: troupe.rpc.%s", errBusy, limits.Table[why].Key)).(*failure)
	f.refusal = http.StatusServiceUnavailable
	return f
}

// tooLarge returns the failure of a reply that exceeds max_reply_bytes.
func (d *connLimiter) tooLarge() *failure {
	d.refused[limits.MaxReply].Add(1)
	f := internal(reachedLimits, fmt.Errorf("the reply would have more than %d bytes (troupe.rpc.max_reply_bytes)", d.limits.Reply)).(*failure)
	f.refusal = http.StatusRequestEntityTooLarge
	return f
}

// stop prevents clients from delaying the shutdown. stop drops requests that have not arrived
// completely, and cuts off replies that clients do not read within grace.
func (d *connLimiter) stop(grace time.Duration) {
	d.stopping.Store(true)
	d.pacer.stop()
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
