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

// worldPath is in front of the paths of a world; what follows is its id. No method and no endpoint
// has that name.
const worldPath = "/world/"

// errWorldGone ends what waits in a world.
var errWorldGone = errors.New("the world has been dropped")

// WorldOptions are what a world has of its own beside its node.
type WorldOptions struct {
	// Asked is told of each request when it begins, and done when it has ended; of a WebSocket, as
	// long as it is open. false: the world is about to end, and takes none.
	Asked func() (done func(), ok bool)
	// Metrics appends the metrics of its node, and Actors its actors as Options.Actors does.
	Metrics func([]byte) []byte
	Actors  func(b []byte, most int) []byte
}

// worlds are the chains beside a server's own. Each has a Server for its node, with the same door,
// limits, keys and counters.
type worlds struct {
	mu   sync.RWMutex
	byID map[string]*world

	// sessionsIn tells in which worlds connections have sessions.
	sessionsMu sync.Mutex
	sessionsIn map[net.Conn][]*Server
}

type world struct {
	*Server
	port net.Listener     // of its own; nil: it has none
	http *fasthttp.Server // that answers there
}

// AddWorld serves a node below /world/ID until RemoveWorld.
func (s *Server) AddWorld(id string, node Node, o WorldOptions) {
	w := &Server{node: node, opts: s.opts, log: s.log.WithField("world", id), metrics: s.metrics, sockets: s.sockets,
		cors: s.cors, limiter: s.limiter, root: s, asked: o.Asked, turns: s.turns}
	w.opts.Metrics, w.opts.Actors = o.Metrics, o.Actors
	w.ctx, w.stop = context.WithCancelCause(s.ctx)
	g := &s.worlds
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID == nil {
		g.byID = map[string]*world{}
	}
	g.byID[id] = &world{Server: w}
}

// ServeWorld answers for a world on a listener of its own, until RemoveWorld.
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

// RemoveWorld ends a world's waits, WebSockets, sessions and port.
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
		if !k.droppingWorld.Load() { // else behind the reply that says so
			k.closeWith(websocket.CloseGoingAway, errWorldGone.Error())
		}
	})
	w.sessions.endAll()
	g.forget(w.Server)
	if w.port == nil {
		return
	}
	_ = w.port.Close() // nothing comes to it any more
	ctx, cancel := context.WithTimeout(context.Background(), lastWait)
	go func() {
		defer cancel()
		_ = w.http.ShutdownWithContext(ctx) // what is idle is the door's, and ends in its time
	}()
}

// onHangup tells whether a server's world has been dropped.
func (s *Server) gone() bool {
	return s.root != nil && errors.Is(context.Cause(s.ctx), errWorldGone)
}

// worldOf takes a world off the front of a path; found: the path is of one, nil: which there is
// not.
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

// enterPort answers a request that has come to a world's own port.
func (s *Server) enterPort(ctx *fasthttp.RequestCtx) {
	path, key := s.takeKey(ctx.Path())
	s.enter(ctx, path, key)
}

// enter has a world answer a request.
func (s *Server) enter(ctx *fasthttp.RequestCtx, path []byte, key *apiKey) {
	done, ok := s.asked()
	if !ok {
		s.noWorld(ctx)
		return
	}
	defer done()
	s.serveAt(ctx, path, key)
}

// noWorld answers a request for a world that is not there.
func (s *Server) noWorld(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	ctx.SetStatusCode(http.StatusNotFound)
	text := fmt.Sprintf("there is no such world as %s: it was dropped, or nobody has asked for it for long", clipTo(string(ctx.Path()), maxEcho))
	if !ctx.IsPost() {
		ctx.SetContentType(textType)
		ctx.SetBodyString(text + "\n")
		return
	}
	ctx.SetContentType(jsonType)
	f := &failure{fault: unknownWorld, data: view.AppendString(nil, text), text: text}
	ctx.SetBody(appendID(f.appendError([]byte(`{"jsonrpc":"2.0","error":`)), idOf(ctx)))
}

// unknownWorld is the fault of requests for a world that is not there.
var unknownWorld = &Fault{Name: "UNKNOWN_WORLD", Fields: true}

// maxIDBody bounds the body in which the id of a request is looked for that nothing else is read
// of, bytes.
const maxIDBody = 4 << 10

// idOf is the id of a request, as far as its body is short; of a larger one, or a batch, it is
// null.
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

// stays counts a WebSocket as asking for its world as long as it is open.
func (s *Server) holdWorld() (done func()) {
	if s.asked != nil {
		if done, ok := s.asked(); ok {
			return done
		}
	}
	return func() {}
}

// also remembers that a connection has a session in a world.
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

// forget forgets where sessions of a world that has ended were: connections may stay open for long.
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

// endSessions ends the sessions of a connection that has ended.
func (g *worlds) endSessions(conn net.Conn) {
	g.sessionsMu.Lock()
	list := g.sessionsIn[conn]
	delete(g.sessionsIn, conn)
	g.sessionsMu.Unlock()
	for _, w := range list {
		w.sessions.end(conn)
	}
}
