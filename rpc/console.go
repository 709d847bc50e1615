package rpc

import (
	"bytes"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/rpc/console"
	"github.com/valyala/fasthttp"
)

// The page at /console, enabled by troupe.rpc.console. The server serves the page's files, GET
// /console/api/actors and GET /console/api/history. The page reads all other data through the RPC.

// consolePath is the path of the page. An API key and a world may precede it.
const consolePath = "/console"

const (
	// mostActors is the maximum length of the list of actors. If there are more, actors with queued
	// work come first.
	mostActors = 10_000
	// liveFor is the time for which actorList is served to all clients before actorList is made
	// anew.
	liveFor = 250 * time.Millisecond
)

// actorList caches the last list of actors.
type actorList struct {
	mu   sync.Mutex
	at   time.Time
	list []byte // must not change once stored
}

func isConsole(path []byte) bool {
	rest, ok := bytes.CutPrefix(path, []byte(consolePath))
	return ok && (len(rest) == 0 || rest[0] == '/')
}

// consoleOff is the reply for the page if the page is switched off.
const consoleOff = "the console is off on this node: set troupe.rpc.console to true in config.json and start the node again\n"

// toConsole answers two requests of a browser. toConsole redirects a request for the root to the
// page. It answers a request for the page if the page is switched off. For every request that is
// not one of these two, toConsole returns false. A client that does not prefer HTML gets nearcore's
// reply to GET /: 405 (chain/jsonrpc/src/lib.rs, create_jsonrpc_app).
func (s *Server) toConsole(ctx *fasthttp.RequestCtx, path []byte) bool {
	h := &ctx.Response.Header
	switch {
	case !s.opts.Console && isConsole(path):
		ctx.SetConnectionClose()
		h.Set("X-Content-Type-Options", "nosniff")
		ctx.SetContentType(textType)
		ctx.SetStatusCode(http.StatusNotFound)
		ctx.SetBodyString(consoleOff)
		return true
	case s.opts.Console && len(path) == 1 && wantsHTML(ctx.Request.Header.Peek("Accept")):
		to := "." + consolePath + "/"
		if whole := ctx.Path(); whole[len(whole)-1] != '/' { // the path of an API key or a world lacks the final slash
			to = "./" + string(whole[bytes.LastIndexByte(whole, '/')+1:]) + consolePath + "/"
		}
		h.Set("Location", to)
		h.Set("Vary", "Accept")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		ctx.SetStatusCode(http.StatusTemporaryRedirect)
		return true
	}
	return false
}

// wantsHTML returns whether an Accept header names HTML, as the header of a browser does. Ranges
// such as */*, which other programs send, do not count.
func wantsHTML(accept []byte) bool {
	for item := range bytes.SplitSeq(accept, []byte{','}) {
		kind, params, _ := bytes.Cut(item, []byte{';'})
		if !bytes.EqualFold(bytes.TrimSpace(kind), []byte("text/html")) {
			continue
		}
		q := bytes.ReplaceAll(params, []byte{' '}, nil)
		return !bytes.HasPrefix(q, []byte("q=0")) || bytes.ContainsAny(q[3:], "123456789")
	}
	return false
}

// console serves the page's files. rest is the path after consolePath.
func (s *Server) console(ctx *fasthttp.RequestCtx, rest string) {
	h := &ctx.Response.Header
	h.Set("Content-Security-Policy", console.Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer") // the path may contain an API key
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if rest == "" { // relative names in the page require the final slash
		h.Set("Location", "."+consolePath+"/")
		ctx.SetStatusCode(http.StatusTemporaryRedirect)
		return
	}
	if rest == "/api/actors" && s.opts.Actors != nil {
		h.Set("Cache-Control", "no-store")
		s.consoleBody(ctx, s.actors(), nil, jsonType)
		return
	}
	if rest == "/api/history" { // a world has no counters, so its history has no samples
		h.Set("Cache-Control", "no-store")
		s.consoleBody(ctx, s.history.appendJSON(nil), nil, jsonType)
		return
	}
	f := console.Get(rest[1:])
	if f == nil {
		ctx.SetConnectionClose()
		ctx.SetStatusCode(http.StatusNotFound)
		return
	}
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.Tag)
	if string(ctx.Request.Header.Peek("If-None-Match")) == f.Tag {
		ctx.SetStatusCode(http.StatusNotModified)
		return
	}
	s.consoleBody(ctx, f.Body, f.Packed, f.Type)
}

// consoleBody sends body, or packed, the gzip form of body. Several requests share body, so it must
// not be changed. If packed is nil, a large body is compressed for this request, as replies of the
// RPC are compressed.
func (s *Server) consoleBody(ctx *fasthttp.RequestCtx, body, packed []byte, kind string) {
	ctx.SetContentType(kind)
	switch {
	case packed == nil:
		body = s.newExchange(ctx).pack(ctx, body)
	case acceptsGzip(ctx.Request.Header.Peek("Accept-Encoding")):
		ctx.Response.Header.SetContentEncoding("gzip")
		ctx.Response.Header.SetCanonical(varyName, packedVary)
		body = packed
	}
	ctx.Response.SetBodyRaw(body)
}

// actors returns the list of actors, which is at most liveFor old.
func (s *Server) actors() []byte {
	s.listed.mu.Lock()
	defer s.listed.mu.Unlock()
	if now := time.Now(); s.listed.list == nil || now.Sub(s.listed.at) > liveFor {
		s.listed.list = s.opts.Actors(make([]byte, 0, len(s.listed.list)+1024), mostActors)
		s.listed.at = now
	}
	return s.listed.list
}
