package rpc

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// endpoint returns the reply to GET and HEAD of a path. If ok is false, the reply is HTTP 503
// without a body.
type endpoint func(s *Server, b []byte) (body []byte, contentType string, ok bool)

const (
	jsonType = "application/json"
	textType = "text/plain"
)

// endpoints are the paths of GET and HEAD that are not calls of a method. The members of the
// reply's objects have the order of nearcore's structs.
var endpoints = map[string]endpoint{
	"/status": func(s *Server, b []byte) ([]byte, string, bool) {
		s.metrics.status.Add(1)
		status, err := s.node.Status()
		if err != nil {
			return b, "", false
		}
		return s.statuses.append(b, status, view.StructOrder), jsonType, true
	},
	"/health": func(s *Server, b []byte) ([]byte, string, bool) {
		return append(b, "null"...), jsonType, s.node.Health() == nil
	},
	"/network_info": func(s *Server, b []byte) ([]byte, string, bool) {
		info, err := s.node.NetworkInfo()
		if err != nil {
			return b, "", false
		}
		return view.AppendNetworkInfo(b, info, view.StructOrder), jsonType, true
	},
	documentPath: serveDocument,
	"/metrics":   func(s *Server, b []byte) ([]byte, string, bool) { return s.AppendMetrics(b), textType, true },
}

// Handle answers one HTTP request. POST / and POST /<method> are calls, GET and HEAD read the
// endpoints, and any OPTIONS is a CORS preflight. Handle is exported for tests and for servers with
// their own listeners.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {
	s.handle(ctx, func(ctx *fasthttp.RequestCtx) { s.serve(ctx, ctx.Path()) })
}

// handle makes the checks that all requests need, then calls serve.
func (s *Server) handle(ctx *fasthttp.RequestCtx, serve func(*fasthttp.RequestCtx)) {
	defer func() {
		if p := recover(); p != nil { // for panics outside of methods; methods recover from their own panics
			s.metrics.panics.Add(1)
			s.log.Errorf("panic in %s %s: %v", ctx.Method(), ctx.Path(), p)
			ctx.ResetBody()
			ctx.SetStatusCode(http.StatusInternalServerError)
		}
	}()
	if c, ok := ctx.Conn().(*conn); ok && !c.pace.request(c) {
		ctx.SetConnectionClose() // the client has reset the connection, so no reply can be sent
		return
	}
	if !ctx.IsPost() && ctx.Request.Header.ContentLength() != 0 && ctx.Request.IsBodyStream() {
		ctx.SetConnectionClose() // otherwise the unread body would be parsed as the next request
	}
	if ctx.Request.Header.ContentLength() < 0 && headerOf(ctx.Request.Header.RawHeaders(), "content-length") != nil {
		// The request has two lengths. A proxy in front of this server may have used one length,
		// and this server the other one. The proxy would then take the rest of the body for a
		// second request.
		ctx.SetConnectionClose()
	}
	if ctx.IsOptions() {
		s.cors.preflight(ctx)
		ctx.Response.Header.Set("Allow", allowed(string(ctx.Path())))
		return
	}
	s.cors.set(ctx)
	serve(ctx)
}

// serve answers a request for a path. Before that, serve removes the API key and the world from the
// path.
func (s *Server) serve(ctx *fasthttp.RequestCtx, path []byte) {
	path, key := s.takeKey(path)
	w, rest, found := s.worldOf(path)
	switch {
	case !found:
		s.serveAt(ctx, path, key)
	case w == nil:
		s.noWorld(ctx)
	default:
		w.enter(ctx, rest, key)
	}
}

// serveAt answers a request for a path of this node or world.
func (s *Server) serveAt(ctx *fasthttp.RequestCtx, path []byte, key *apiKey) {
	console := s.opts.Console && isConsole(path)
	debug := s.opts.Debug && bytes.HasPrefix(path, debugPrefix)
	if key == nil && s.opts.RequireAPIKey && (ctx.IsPost() || string(path) == socketPath || console || debug) {
		s.unauthorized(ctx)
		return
	}
	if ctx.IsPost() && len(path) == 1 {
		s.call(ctx, "", key)
		return
	}
	if string(path) == socketPath && ctx.IsGet() {
		s.upgrade(ctx, key)
		return
	}
	if (ctx.IsGet() || ctx.IsHead()) && bytes.HasPrefix(path, []byte(documents0)) {
		s.document(ctx, string(path), key)
		return
	}
	if console && (ctx.IsGet() || ctx.IsHead()) {
		s.console(ctx, string(path[len(consolePath):]))
		return
	}
	if (ctx.IsGet() || ctx.IsHead()) && s.toConsole(ctx, path) {
		return
	}
	if debug && (ctx.IsGet() || ctx.IsHead()) {
		s.serveGet(ctx, key, false, func() { s.debug(ctx, string(path[len(debugPrefix):])) })
		return
	}
	read := endpoints[string(path)]
	_, isMethod := byName[strings.TrimPrefix(string(path), "/")]
	isRead := ctx.IsGet() || ctx.IsHead()
	switch {
	case read != nil && isRead && probes[string(path)]:
		s.probe(ctx, read)
	case read != nil && isRead:
		s.read(ctx, string(path), key)
	case isMethod && ctx.IsPost():
		s.call(ctx, string(path[1:]), key)
	case read == nil && !isMethod && len(path) != 1, isMethod && read == nil && isRead:
		ctx.SetConnectionClose()
		ctx.SetStatusCode(http.StatusNotFound)
	default:
		ctx.SetConnectionClose()
		ctx.SetStatusCode(http.StatusMethodNotAllowed)
		ctx.Response.Header.Set("Allow", allowed(string(path)))
	}
}

// allowed returns the value of the Allow header for a path.
func allowed(path string) string {
	if strings.HasPrefix(path, documents0) {
		return "GET,HEAD"
	}
	if path == socketPath {
		return "GET"
	}
	if endpoints[path] == nil {
		return "POST"
	}
	if byName[path[1:]] != nil {
		return "GET,HEAD,POST"
	}
	return "GET,HEAD"
}

// call answers a call of a method. A small reply is written into the response's own buffer, which
// the responses to the next requests reuse.
func (s *Server) call(ctx *fasthttp.RequestCtx, method string, key *apiKey) {
	x := s.newExchange(ctx)
	x.key = key
	body, free, err := x.body(ctx)
	if err != nil {
		s.unread(ctx, err)
		return
	}
	if free != nil {
		defer free()
	}
	if x.peer != nil {
		x.peer.state.Store(connServed)
	}
	b, status := x.answer(ctx.Response.SwapBody(nil)[:0], body, method)
	if n := len(b) - x.taken; n > 0 {
		if full := x.peer.take(x.client, int64(n)); full != limits.Count {
			f := busy(full)
			b, status = appendRefused(nil, f), f.status()
		}
	}
	if small := x.pack(ctx, b); len(small) < len(b) {
		ctx.Response.SwapBody(nil)
		ctx.Response.SetBodyRaw(small)
	} else if len(b) > smallReply {
		ctx.Response.SwapBody(nil)
		ctx.Response.SetBodyRaw(b)
	} else {
		ctx.Response.SwapBody(b)
	}
	ctx.SetContentType(jsonType)
	ctx.SetStatusCode(status)
}

// unread answers a request whose body was not read to its end. unread closes the connection.
func (s *Server) unread(ctx *fasthttp.RequestCtx, err error) {
	ctx.SetConnectionClose()
	var f *failure
	if !errors.As(err, &f) {
		s.badRequest(ctx, err)
		return
	}
	drain(ctx.Conn(), int64(s.opts.MaxBody))
	ctx.SetContentType(jsonType)
	ctx.SetStatusCode(s.httpStatus(nil, f.status()))
	ctx.Response.SetBodyRaw(appendRefused(nil, f))
}

// read answers GET and HEAD of an endpoint.
func (s *Server) read(ctx *fasthttp.RequestCtx, path string, key *apiKey) {
	read := endpoints[path]
	s.serveGet(ctx, key, path == documentPath, func() {
		b, contentType, ok := read(s, nil)
		if !ok {
			ctx.SetStatusCode(http.StatusServiceUnavailable)
			return
		}
		ctx.SetContentType(contentType)
		ctx.Response.SetBodyRaw(b)
	})
}

// probes are the endpoints that monitoring polls. A probe costs next to nothing, so no limits apply
// to probes.
var probes = map[string]bool{"/health": true, "/status": true}

// serveGet answers a GET that is not a call. The limits of a call apply: rates, a turn of the heavy
// limit, and bytes in flight. If shared is set, the bytes are not counted, because all requests
// send the same memory.
func (s *Server) serveGet(ctx *fasthttp.RequestCtx, key *apiKey, shared bool, answer func()) {
	x := s.newExchange(ctx)
	x.key = key
	full := x.checkRates()
	if full == nil {
		var leave func()
		if leave, full = x.enter(); full == nil {
			func() {
				defer leave() // even after a panic
				answer()
			}()
			if n := len(ctx.Response.Body()); n > smallReply && !shared {
				if which := x.peer.take(x.client, int64(n)); which != limits.Count {
					full = busy(which)
				}
			}
		}
	}
	if full != nil {
		ctx.ResetBody()
		ctx.SetContentType(jsonType)
		ctx.SetStatusCode(full.status())
		ctx.Response.SetBodyRaw(appendRefused(nil, full))
	}
}

// probe answers GET and HEAD of a probe.
func (s *Server) probe(ctx *fasthttp.RequestCtx, read endpoint) {
	b, contentType, ok := read(s, nil)
	if !ok {
		ctx.SetStatusCode(http.StatusServiceUnavailable)
		return
	}
	ctx.SetContentType(contentType)
	ctx.SetBody(b)
}

// cors makes the CORS headers (nearcore chain/jsonrpc/src/lib.rs:2907).
type cors struct {
	any     bool
	origins map[string]bool
}

func newCORS(origins []string) cors {
	c := cors{origins: map[string]bool{}}
	for _, o := range origins {
		c.any = c.any || o == "*"
		c.origins[o] = true
	}
	return c
}

// Names and values of headers, converted once.
var (
	varyName         = []byte("Vary")
	varyValue        = []byte("origin, access-control-request-method, access-control-request-headers")
	allowOriginName  = []byte("Access-Control-Allow-Origin")
	exposeHeaderName = []byte("Access-Control-Expose-Headers")
	star             = []byte("*")
)

// origin sets the CORS headers that all replies have. origin returns false if the configuration
// does not allow the request's origin.
func (c *cors) origin(ctx *fasthttp.RequestCtx) bool {
	h := &ctx.Response.Header
	h.SetCanonical(varyName, varyValue)
	if c.any {
		h.SetCanonical(allowOriginName, star)
		return true
	}
	origin := ctx.Request.Header.Peek("Origin")
	if !c.origins[string(origin)] {
		return false
	}
	h.SetBytesV("Access-Control-Allow-Origin", origin)
	return true
}

// allows returns the value of Access-Control-Allow-Origin for an origin, and false if the origin is
// not allowed.
func (c *cors) allows(origin []byte) ([]byte, bool) {
	if c.any {
		return star, true
	}
	return origin, c.origins[string(origin)]
}

// set sets the CORS headers of a reply.
func (c *cors) set(ctx *fasthttp.RequestCtx) {
	if c.origin(ctx) && c.any {
		ctx.Response.Header.SetCanonical(exposeHeaderName, star)
	}
}

// preflight answers a browser's CORS preflight.
func (c *cors) preflight(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	ok := c.origin(ctx)
	switch {
	case c.any:
		h.Set("Access-Control-Allow-Methods", "*")
		h.Set("Access-Control-Allow-Headers", "*")
	case ok:
		h.Set("Access-Control-Allow-Methods", "GET,POST")
		h.Set("Access-Control-Allow-Headers", "authorization,accept,content-type")
		h.Set("Access-Control-Max-Age", "3600")
	}
}
