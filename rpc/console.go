package rpc

import (
	"bytes"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/rpc/console"
	"github.com/valyala/fasthttp"
)

// The page at /console, where troupe.rpc.console is: its files, and GET /console/api/actors, which
// is all that it asks beside the RPC.

// consolePath is where the page is, also below a key and a world.
const consolePath = "/console"

const (
	// mostActors is how many actors a list has; of more those that have something to do come first.
	mostActors = 10_000
	// liveFor is how old a list may be: so often one is made, however many look.
	liveFor = 250 * time.Millisecond
)

// actorList is the last list of actors.
type actorList struct {
	mu   sync.Mutex
	at   time.Time
	list []byte // never written to again
}

func isConsole(path []byte) bool {
	rest, ok := bytes.CutPrefix(path, []byte(consolePath))
	return ok && (len(rest) == 0 || rest[0] == '/')
}

// console answers a request for the page; rest is the path behind /console.
func (s *Server) console(ctx *fasthttp.RequestCtx, rest string) {
	h := &ctx.Response.Header
	h.Set("Content-Security-Policy", console.Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer") // the path may have a key in it
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if rest == "" { // its files have names beside it
		h.Set("Location", "."+consolePath+"/")
		ctx.SetStatusCode(http.StatusTemporaryRedirect)
		return
	}
	if rest == "/api/actors" && s.opts.Actors != nil {
		h.Set("Cache-Control", "no-store")
		s.consoleBody(ctx, s.actors(), nil, jsonType)
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

// consoleBody answers with a body that others read too, or with its compressed form; where there is
// none a large one is compressed as a reply is.
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
