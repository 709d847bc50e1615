package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/fasthttp/websocket"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/valyala/fasthttp"
)

// worldPath precedes the paths of a world; the world's id follows worldPath. No method or endpoint
// has the name "world".
const worldPath = "/world/"

// errWorldGone is the cause with which waits in a world end when the world is dropped.
var errWorldGone = errors.New("the world has been dropped")

// WorldOptions are the options of a world, in addition to its node.
type WorldOptions struct {
	// The server calls Asked when a request begins, and done when that request has ended. For a
	// WebSocket, done is called when the WebSocket is closed. ok is false if the world is about to
	// end and accepts no requests.
	Asked func() (done func(), ok bool)
	// Metrics appends the metrics of the world's node. Required.
	Metrics func([]byte) []byte
	// Actors appends the actors of the world's node, as Options.Actors does. Required.
	Actors func(b []byte, most int) []byte
}

// worlds are the worlds that the server serves in addition to its own chain. Each world has a
// Server for its node. That Server shares connLimiter, limits, API keys and counters with the
// Server of the node's own chain.
type worlds struct {
	mu   sync.RWMutex
	byID map[string]*world

	// sessionsIn records the worlds in which each connection has a session.
	sessionsMu sync.Mutex
	sessionsIn map[net.Conn][]*Server
}

type world struct {
	*Server
	port net.Listener     // listener on a port for this copy alone; nil: none
	http *fasthttp.Server // HTTP server that serves port
}

// AddWorld serves a node below /world/ID until RemoveWorld.
func (s *Server) AddWorld(id string, node Node, o WorldOptions) {
	w := &Server{node: node, opts: s.opts, log: s.log.WithField("world", id), metrics: s.metrics, sockets: s.sockets,
		cors: s.cors, limiter: s.limiter, root: s, asked: o.Asked, turns: s.turns}
	w.opts.Metrics, w.opts.Actors, w.opts.Included = o.Metrics, o.Actors, nil
	w.ctx, w.stop = context.WithCancelCause(s.ctx)
	g := &s.worlds
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID == nil {
		g.byID = map[string]*world{}
	}
	g.byID[id] = &world{Server: w}
}

// ServeWorld serves a world on its own listener, until RemoveWorld.
func (s *Server) ServeWorld(id string, l net.Listener) error {
	g := &s.worlds
	g.mu.Lock()
	w := g.byID[id]
	if w == nil {
		g.mu.Unlock()
		return l.Close()
	}
	w.port = l
	w.http = s.newHTTP(func(ctx *fasthttp.RequestCtx) { w.handle(ctx, w.enterPort) })
	g.mu.Unlock()
	return w.http.Serve(&listener{l, s.limiter})
}

// RemoveWorld ends a world's waits, WebSockets, sessions and listener.
func (s *Server) RemoveWorld(id string) {
	g := &s.worlds
	g.mu.Lock()
	w := g.byID[id]
	delete(g.byID, id)
	g.mu.Unlock()
	if w == nil {
		return
	}
	w.stop(errWorldGone)
	s.sockets.each(func(k *socket) {
		if k.Server != w.Server || k.ready() == nil {
			return
		}
		for _, x := range k.subscriptions() {
			x.of.Stop()
		}
		// A WebSocket that requested the deletion is closed after the reply.
		if !k.droppingWorld.Load() {
			k.closeWith(websocket.CloseGoingAway, errWorldGone.Error())
		}
	})
	w.sessions.endAll()
	g.forget(w.Server)
	if w.port == nil {
		return
	}
	_ = w.port.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lastWait)
	go func() {
		defer cancel()
		_ = w.http.ShutdownWithContext(ctx) // connLimiter closes the idle connections after the idle timeout
	}()
}

// gone returns whether the server serves a world that has been dropped.
func (s *Server) gone() bool {
	return s.root != nil && errors.Is(context.Cause(s.ctx), errWorldGone)
}

// worldOf removes a world from the front of a path. found is whether the path names a world. w is
// nil if that world does not exist.
func (s *Server) worldOf(path []byte) (w *Server, rest []byte, found bool) {
	if s.root != nil || !bytes.HasPrefix(path, []byte(worldPath)) {
		return nil, path, false
	}
	id, rest, _ := bytes.Cut(path[len(worldPath):], []byte{'/'})
	s.worlds.mu.RLock()
	defer s.worlds.mu.RUnlock()
	if x := s.worlds.byID[string(id)]; x != nil {
		w = x.Server
	}
	return w, slices.Concat([]byte{'/'}, rest), true
}

// enterPort answers a request at a world's own listener.
func (s *Server) enterPort(ctx *fasthttp.RequestCtx) {
	path, key := s.takeKey(ctx.Path())
	s.enter(ctx, path, key)
}

// enter answers a request in a world, unless the world is ending.
func (s *Server) enter(ctx *fasthttp.RequestCtx, path []byte, key *apiKey) {
	done, ok := s.asked()
	if !ok {
		s.noWorld(ctx)
		return
	}
	defer done()
	s.serveAt(ctx, path, key)
}

// noWorld answers a request for a world that does not exist.
func (s *Server) noWorld(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	ctx.SetStatusCode(http.StatusNotFound)
	text := fmt.Sprintf(
		"there is no such world as %s: it was dropped, or has ended because no request came for long",
		clipTo(string(ctx.Path()), maxEcho),
	)
	if !ctx.IsPost() {
		ctx.SetContentType(textType)
		ctx.SetBodyString(text + "\n")
		return
	}
	ctx.SetContentType(jsonType)
	f := &failure{fault: unknownWorld, data: view.AppendString(nil, text), text: text}
	ctx.SetBody(appendID(f.appendError([]byte(`{"jsonrpc":"2.0","error":`)), idOf(ctx)))
}

// unknownWorld is the fault of requests for a world that does not exist.
var unknownWorld = &Fault{Name: "UNKNOWN_WORLD", Fields: true}

// maxIDBody is the maximum length of the body of a request to an unknown world, in bytes. Only the
// request's id is read from the body.
const maxIDBody = 4 << 10

// idOf returns a request that has only the id. The id is null if the body is too large or a batch.
func idOf(ctx *fasthttp.RequestCtx) *request {
	r := &request{hasID: true}
	n := ctx.Request.Header.ContentLength()
	if n <= 0 || n > maxIDBody {
		return r
	}
	body := []byte(nil)
	if !ctx.Request.IsBodyStream() {
		body = ctx.PostBody()
	} else if read, err := io.ReadAll(io.LimitReader(ctx.RequestBodyStream(), maxIDBody)); err == nil {
		body = read
	}
	var d document
	if d.parse(body) == nil {
		r.id, _ = val{&d, 0}.get("id")
	}
	return r
}

// holdWorld counts a WebSocket as a request of its world while the WebSocket is open.
func (s *Server) holdWorld() (done func()) {
	if s.asked != nil {
		if done, ok := s.asked(); ok {
			return done
		}
	}
	return func() {}
}

// addSession records that a connection has a session in a world.
func (g *worlds) addSession(conn net.Conn, w *Server) {
	g.sessionsMu.Lock()
	defer g.sessionsMu.Unlock()
	if g.sessionsIn == nil {
		g.sessionsIn = map[net.Conn][]*Server{}
	}
	if !slices.Contains(g.sessionsIn[conn], w) {
		g.sessionsIn[conn] = append(g.sessionsIn[conn], w)
	}
}

// forget drops the records of a world that has ended, because connections may stay open for long.
func (g *worlds) forget(w *Server) {
	g.sessionsMu.Lock()
	defer g.sessionsMu.Unlock()
	for conn, list := range g.sessionsIn {
		if list = slices.DeleteFunc(list, func(x *Server) bool { return x == w }); len(list) == 0 {
			delete(g.sessionsIn, conn)
		} else {
			g.sessionsIn[conn] = list
		}
	}
}

// endSessions ends the sessions of a connection that has closed, in all worlds.
func (g *worlds) endSessions(conn net.Conn) {
	g.sessionsMu.Lock()
	list := g.sessionsIn[conn]
	delete(g.sessionsIn, conn)
	g.sessionsMu.Unlock()
	for _, w := range list {
		w.sessions.end(conn)
	}
}
