package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// socketPath is the path at which clients open WebSockets.
const socketPath = "/ws"

// sockets are the open WebSockets of a server.
type sockets struct {
	upgrader websocket.FastHTTPUpgrader
	queued   atomic.Int64 // total size of the messages in all send queues, in bytes
	subs     atomic.Int64

	mu      sync.Mutex
	open    map[*socket]struct{}
	stopped bool
	pinging chan struct{} // closed to stop the goroutine that sends pings; nil: no pings are sent
}

func (s *Server) newSockets() *sockets {
	return &sockets{
		open: map[*socket]struct{}{},
		upgrader: websocket.FastHTTPUpgrader{
			ReadBufferSize: 2 << 10, WriteBufferSize: 4 << 10, WriteBufferPool: new(sync.Pool),
			CheckOrigin: func(*fasthttp.RequestCtx) bool { return true }, // upgrade has checked the origin
			Error: func(ctx *fasthttp.RequestCtx, status int, reason error) {
				ctx.SetConnectionClose()
				ctx.SetStatusCode(status)
				ctx.Response.Header.Set("Sec-WebSocket-Version", "13")
				ctx.SetContentType(textType)
				ctx.SetBodyString(reason.Error())
			},
		},
	}
}

// socket is one WebSocket. The server handles each received message like the body of POST /, and
// sends each reply as a message. Requests that wait for the chain run concurrently with the
// requests after them, so replies may have another order than the requests.
type socket struct {
	*Server
	ws            *websocket.Conn
	conn          *conn   // nil: the connection did not pass connLimiter, as in tests
	client        *client // client whose limits the WebSocket counts toward
	key           *apiKey // API key of the connection; nil: none
	out           *outbox
	lastReceived  atomic.Int64 // value of clock() when the last bytes of the client arrived
	droppingWorld atomic.Bool  // a request of this WebSocket is deleting a sandbox copy, perhaps its own
	waits         chan struct{}
	all           sync.WaitGroup // requests that wait for the chain

	mu      sync.Mutex
	subs    map[string]*subscription
	nextSub uint64
	ended   bool
}

// upgrade turns a connection into a WebSocket.
func (s *Server) upgrade(ctx *fasthttp.RequestCtx, key *apiKey) {
	if origin := ctx.Request.Header.Peek("Origin"); len(origin) > 0 {
		if _, ok := s.cors.allows(origin); !ok {
			ctx.SetConnectionClose()
			ctx.SetStatusCode(http.StatusForbidden)
			return
		}
	}
	if !websocket.FastHTTPIsWebSocketUpgrade(ctx) {
		ctx.SetConnectionClose()
		ctx.SetStatusCode(http.StatusUpgradeRequired)
		ctx.Response.Header.Set("Upgrade", "websocket")
		return
	}
	peer, _ := ctx.Conn().(*conn)
	k := &socket{Server: s, conn: peer, key: key, client: s.limiter.clientOf(ctx, peer), subs: map[string]*subscription{},
		waits: make(chan struct{}, s.opts.Limits.SocketWaits)}
	if why := s.countSocket(k); why != limits.Count {
		f := busy(why)
		ctx.SetConnectionClose()
		ctx.SetStatusCode(f.status())
		ctx.SetContentType(jsonType)
		ctx.SetBody(appendRefused(nil, f))
		return
	}
	if peer != nil {
		s.limiter.mu.Lock()
		peer.closed = func() { s.dropSocket(k) }
		s.limiter.mu.Unlock()
	}
	err := s.sockets.upgrader.Upgrade(ctx, func(ws *websocket.Conn) {
		k.ws = ws
		k.run()
	})
	if err != nil {
		s.dropSocket(k)
	}
}

// countSocket counts a new WebSocket. The result is limits.Count if the WebSocket was counted, else
// the limit that has no free place.
func (s *Server) countSocket(k *socket) limits.ID {
	g := s.sockets
	g.mu.Lock()
	defer g.mu.Unlock()
	most, holds := k.client.most(s.limiter.live.Load().AddressSockets)
	why := limits.Count
	switch {
	case g.stopped, uint64(len(g.open)) >= s.opts.Limits.Sockets:
		why = limits.MaxSockets
	case holds && k.client.sockets.Load() >= most:
		why = limits.MaxAddressSockets
	}
	if why != limits.Count {
		s.limiter.refused[why].Add(1)
		return why
	}
	g.open[k] = struct{}{}
	k.client.sockets.Add(1)
	if g.pinging == nil {
		g.pinging = make(chan struct{})
		go s.pings(g.pinging)
	}
	return why
}

func (s *Server) dropSocket(k *socket) {
	g := s.sockets
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.open[k]; !ok {
		return
	}
	delete(g.open, k)
	k.client.sockets.Add(-1)
	if len(g.open) == 0 {
		close(g.pinging)
		g.pinging = nil
	}
}

// each calls f for every open WebSocket.
func (g *sockets) each(f func(*socket)) {
	g.mu.Lock()
	list := make([]*socket, 0, len(g.open))
	for k := range g.open {
		list = append(list, k)
	}
	g.mu.Unlock()
	for _, k := range list {
		f(k)
	}
}

// pings sends pings to all clients. pings closes the WebSockets from which nothing was received for
// two intervals.
func (s *Server) pings(done chan struct{}) {
	every := s.opts.Limits.SocketPing
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		s.sockets.each(func(k *socket) {
			out := k.ready()
			switch {
			case out == nil: // the send queue does not exist yet
			case !out.idle(): // while replies are being sent, only write_timeout applies
				k.lastReceived.Store(clock())
			case clock()-k.lastReceived.Load() > 2*int64(every):
				s.limiter.refused[limits.SocketPing].Add(1)
				k.abort()
			default:
				out.must(frame{kind: pingFrame})
			}
		})
	}
}

// ready returns the queue of a WebSocket; nil if the queue does not exist yet.
func (k *socket) ready() *outbox {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.out
}

// abort closes the connection without a close message. Reading and writing then fail.
func (k *socket) abort() {
	if k.conn != nil {
		hangUp(k.conn.Conn) // connLimiter removes the connection when fasthttp closes it
		return
	}
	_ = k.ws.NetConn().SetDeadline(time.Now())
}

// run serves a WebSocket until it ends.
func (k *socket) run() {
	defer k.holdWorld()()
	l := &k.opts.Limits
	out := newOutbox(k.send, k.abort, &k.sockets.queued)
	out.maxMessages, out.maxBytes, out.maxQueued = int(l.QueueMessages), int(l.QueueBytes), int64(l.QueuedBytes)
	out.refused = func(why limits.ID) { k.limiter.refused[why].Add(1) }
	if k.conn != nil {
		out.pay = func(work int64) { k.limiter.pacer.pass(k.conn.fairClient(k.client), min(work, int64(paceMost))) }
		k.conn.pace.unsent = func() bool { return !out.idle() }
		out.spent = func(work int64) { k.conn.pace.sent.Add(min(work, int64(paceMost))) }
	}
	k.lastReceived.Store(clock())
	k.mu.Lock()
	k.out = out
	k.mu.Unlock()
	if k.gone() { // the sandbox copy was deleted before the queue existed, so nothing closed k
		k.closeWith(websocket.CloseGoingAway, errWorldGone.Error())
	} else if k.keyGone() {
		k.endKeyGone()
	}
	defer func() {
		if p := recover(); p != nil {
			k.metrics.panics.Add(1)
			k.log.Errorf("panic in a WebSocket: %v", p)
		}
		k.unsubscribeAll()
		out.end()
		k.abort() // close the connection first, so that no new wait begins after endWaits
		k.endWaits()
		k.all.Wait()
		out.settle()
		k.endWaits() // a request may have opened another session meanwhile
		k.dropSocket(k)
	}()
	alive := func(string) error {
		k.lastReceived.Store(clock())
		return nil
	}
	k.ws.SetPongHandler(alive)
	pings := 0
	k.ws.SetPingHandler(func(text string) error {
		if pings++; pings%manyPings == 0 {
			k.spend(manyPings * perPing)
		}
		k.lastReceived.Store(clock())
		if out.idle() { // while messages are queued, pings are not answered
			out.must(frame{kind: pongFrame, head: []byte(text)})
		}
		return nil
	})
	k.ws.SetCloseHandler(func(code int, _ string) error {
		out.must(frame{kind: closeFrame, head: websocket.FormatCloseMessage(closeCode(code), "")})
		return nil
	})
	k.ws.SetReadLimit(int64(k.opts.MaxBody))
	for k.message() {
	}
	out.flush(lastWords)
}

// closeCode returns the code of the reply to a close message: code itself, unless the protocol
// forbids to send that code.
func closeCode(code int) int {
	switch code {
	case websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure, websocket.CloseTLSHandshake:
		return websocket.CloseNormalClosure
	}
	return code
}

// send sends a message, within write_timeout. send combines consecutive small messages.
func (k *socket) send(f *frame, more bool) error {
	if k.conn != nil {
		k.conn.cork.more = more
	}
	until := time.Now().Add(k.opts.Limits.WriteTimeout)
	switch f.kind {
	case pingFrame:
		return k.ws.WriteControl(websocket.PingMessage, nil, until)
	case pongFrame:
		return k.ws.WriteControl(websocket.PongMessage, f.head, until)
	case closeFrame:
		return k.ws.WriteControl(websocket.CloseMessage, f.head, until)
	}
	_ = k.ws.SetWriteDeadline(until) // the error is always nil
	w, err := k.ws.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	for _, part := range [][]byte{f.head, f.body, f.tail} {
		if len(part) > 0 {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

// exchange returns the exchange of one message.
func (k *socket) exchange() *exchange {
	x := &exchange{Server: k.Server, client: k.client, max: int(k.opts.Limits.Reply), socket: k, key: k.key}
	if c := k.conn; c != nil {
		// Bytes in memory are counted for each message, because several messages may be answered at
		// a time.
		x.conn, x.peer = c, &conn{Conn: c.Conn, limiter: c.limiter, id: c.id, client: c.client, transfer: c.transfer}
	}
	return x
}

// release frees the memory budget of a WebSocket's message and of the reply to it.
func (x *exchange) release() {
	if x.peer != nil {
		x.peer.drop()
	}
}

// endWaits closes the sessions of the connection, which ends its waits.
func (k *socket) endWaits() {
	if k.conn != nil {
		k.follow(k.conn, fasthttp.StateClosed)
	}
}

// message reads and answers one message. It returns false if no further message can be read.
func (k *socket) message() bool {
	k.markIdle()
	if !k.awaitRead() {
		return false
	}
	_ = k.ws.SetReadDeadline(time.Time{})
	kind, stream, err := k.ws.NextReader()
	if err != nil {
		k.closeBad(err)
		return false
	}
	k.lastReceived.Store(clock())
	if k.conn != nil {
		k.conn.state.Store(connServed)
		k.conn.pace.served++
	}
	_ = k.ws.SetReadDeadline(time.Now().Add(k.opts.Limits.ReadTimeout))
	x := k.exchange()
	stream = &metered{k: k, in: stream}
	body, free, err := x.read(stream, -1)
	if err == nil && kind != websocket.TextMessage {
		err = errBinary
	}
	if err != nil {
		x.release()
		return k.unread(x, stream, err)
	}
	doc := documents.Get().(*document)
	doc.limit = bounds{nodes: int(k.opts.Limits.JSONNodes), items: int(k.opts.Limits.Batch)}
	done := func() {
		x.leaveTurn()
		free()
		if doc.text = nil; cap(doc.nodes) <= maxKept {
			documents.Put(doc)
		}
	}
	bad, refused := x.parse(doc, body)
	switch {
	case refused != nil:
		k.reply(x, appendRefused(nil, refused))
		done()
		return true
	case bad != nil:
		k.reply(x, x.appendBad(nil, bad, body))
		done()
		return true
	}
	root := val{doc, 0}
	answer := func() {
		defer func() {
			if p := recover(); p != nil { // for panics outside of methods; methods recover from their own panics
				k.metrics.panics.Add(1)
				k.log.Errorf("panic in a WebSocket: %v\n%s", p, debug.Stack())
				x.release()
				k.abort()
			}
		}()
		b, _ := x.parsed(nil, root, "")
		done()
		k.reply(x, b)
	}
	if !waits(root) {
		answer()
		return true
	}
	select {
	case k.waits <- struct{}{}:
	default:
		x.leaveTurn() // other requests need the turn while this request waits for a place in k.waits
		k.limiter.refused[limits.MaxSocketWaits].Add(1)
		k.waits <- struct{}{}
	}
	k.all.Go(func() {
		defer func() { <-k.waits }()
		answer()
	})
	return true
}

// waits returns whether a body contains a request that waits for the chain.
func waits(root val) bool {
	if root.kind() != kArray {
		var r request
		if r.read(root) != "" {
			return false
		}
		route := byName[r.method]
		return route != nil && route.waits
	}
	found := false
	root.each(func(v val) bool {
		found = v.kind() == kObject && waits(v)
		return !found
	})
	return found
}

// reply queues the reply to a message, then calls the exchange's after functions. From the call of
// reply on, a large reply counts as a transfer, even while it is queued.
func (k *socket) reply(x *exchange, b []byte) {
	sent := x.release
	if x.peer != nil && len(b) > smallReply {
		x.peer.transfer.begin()
		sent = func() {
			x.peer.transfer.end()
			x.release()
		}
	}
	if !k.out.put(frame{head: b, sent: sent}) {
		sent()
	}
	if k.droppingWorld.Swap(false) && k.gone() {
		k.closeWith(websocket.CloseGoingAway, errWorldGone.Error())
	}
	for _, f := range x.after {
		f()
	}
}

// The cost of a client's frames in addition to their content. This cost matters for fragments that
// are hardly larger than their headers, and for pings, which must be answered. Groups of frames are
// charged together. If a client has used its share of work, the server reads nothing from that
// client until its debt is paid off.
const (
	perPiece   = 300 * time.Nanosecond
	manyPieces = 1 << 10
	smallPiece = 64 // maximum size in bytes of a fragment that counts as small
	perPing    = 5 * time.Microsecond
	manyPings  = 64
	manyBytes  = 256 << 10
)

// spend charges the client for work. After that, spend waits until the client may do more work.
func (k *socket) spend(took time.Duration) {
	x := exchange{Server: k.Server, client: k.client}
	x.worked(took)
	_ = x.mayWork(k.Server.ctx) // mayWork fails only when the server stops
}

// metered is the stream of a message. It charges the client for reading the message, even if the
// server skips the rest of the message.
type metered struct {
	k             *socket
	in            io.Reader
	pieces, bytes int
}

// Read implements io.Reader.
func (m *metered) Read(b []byte) (int, error) {
	n, err := m.in.Read(b)
	if m.bytes += n; m.bytes >= manyBytes {
		m.k.spend(time.Duration(m.bytes) * perByte)
		m.bytes = 0
	}
	if n < smallPiece {
		if m.pieces++; m.pieces == manyPieces {
			m.k.spend(manyPieces * perPiece)
			m.pieces = 0
		}
	}
	return n, err
}

// markIdle marks a WebSocket as idle if no request waits on it. connLimiter may evict an idle
// WebSocket for a new connection.
func (k *socket) markIdle() {
	if k.conn == nil {
		return
	}
	k.mu.Lock()
	used := len(k.subs) > 0 || len(k.waits) > 0
	k.mu.Unlock()
	if !used {
		k.conn.since.Store(clock())
		k.conn.state.Store(connWaits)
	}
}

// awaitRead waits until the client has read enough of its replies. awaitRead returns false if the
// connection is closed.
func (k *socket) awaitRead() bool {
	o := k.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.ended && o.count > 0 && (o.bytes > smallReply || o.count >= o.maxMessages) {
		o.room.Wait()
	}
	return !o.ended
}

var errBinary = errors.New("a message must be text")

// unread answers a message that is not valid or was not read to its end.
func (k *socket) unread(x *exchange, stream io.Reader, err error) bool {
	var f *failure
	switch {
	case errors.As(err, &f):
		if _, err := io.Copy(io.Discard, io.LimitReader(stream, int64(k.opts.MaxBody))); err != nil {
			k.closeBad(err)
			return false
		}
		k.reply(x, appendRefused(nil, f))
		return true
	case errors.Is(err, errBinary):
		k.closeWith(websocket.CloseUnsupportedData, err.Error())
	case errors.Is(err, errBodyLarge):
		k.closeWith(websocket.CloseMessageTooBig, "")
	default:
		k.closeBad(err)
	}
	return false
}

// closeBad closes a WebSocket after a read error: the client has disconnected or violated the
// protocol.
func (k *socket) closeBad(err error) {
	switch {
	case timedOut(err):
		k.limiter.refused[limits.ReadTime].Add(1)
		k.closeWith(websocket.ClosePolicyViolation, "the message did not arrive in time")
	case errors.Is(err, websocket.ErrReadLimit):
		k.log.Debug("a message of a WebSocket was too large")
	}
}

// closeWith closes a WebSocket with a reason.
func (k *socket) closeWith(code int, why string) {
	k.out.must(frame{kind: closeFrame, head: websocket.FormatCloseMessage(code, why)})
}

// stop ends all WebSockets of a server that shuts down. stop sends each subscriber the cursor from
// which the subscriber can resume, and each client a close message.
func (g *sockets) stop() {
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	g.each(func(k *socket) {
		if k.ready() != nil {
			for _, s := range k.subscriptions() {
				s.of.Stop()
			}
			k.closeWith(websocket.CloseGoingAway, "the node is stopping")
		}
	})
}

// drain waits until all WebSockets have ended. When the context ends, drain aborts the remaining
// WebSockets.
func (g *sockets) drain(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		waiting := false
		g.each(func(k *socket) {
			if out := k.ready(); out == nil || !out.idle() {
				waiting = true
			} else {
				k.abort()
			}
		})
		if !waiting {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	g.each((*socket).abort)
}
