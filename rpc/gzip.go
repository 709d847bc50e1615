package rpc

import (
	"bytes"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// packers has gzip writers to be reused, because each has tables of some hundred KiB.
var packers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // cannot fail: the level is valid
	return w
}}

// packed is the destination of a gzip writer.
type packed struct{ b []byte }

func (p *packed) Write(b []byte) (int, error) {
	p.b = append(p.b, b...)
	return len(b), nil
}

// pack compresses a reply if the client accepts gzip and the reply is large enough. It never waits.
// If pack would have to wait for a turn of the heavy limit, for the client's share of work, or for
// memory for the plain and the compressed form, it returns the reply unchanged.
func (x *exchange) pack(ctx *fasthttp.RequestCtx, b []byte) []byte {
	least := x.opts.Limits.GzipMin
	if least == 0 || uint64(len(b)) < least || !acceptsGzip(ctx.Request.Header.Peek("Accept-Encoding")) {
		return b
	}
	if perSecond, holds := x.share(); holds && x.client.quota.wait(time.Now(), perSecond) > 0 {
		return b
	}
	leave, ok := x.limiter.heavy.try(x.fairClient())
	if !ok {
		return b
	}
	defer leave()
	room := len(b) / 4 // initial capacity; most JSON compresses to less
	if full := x.peer.take(x.client, int64(room)); full != limits.Count {
		return b
	}
	began := time.Now()
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	out := &packed{make([]byte, 0, room)}
	w.Reset(out)
	_, err := w.Write(b)
	if err == nil {
		err = w.Close()
	}
	x.worked(time.Since(began))
	if err != nil || len(out.b) > len(b)/2 { // incompressible, such as base64 of random bytes
		return b
	}
	h := &ctx.Response.Header
	h.SetContentEncoding("gzip")
	h.SetCanonical(varyName, packedVary)
	return out.b
}

// acceptsGzip returns whether Accept-Encoding allows gzip.
func acceptsGzip(header []byte) bool {
	for part := range bytes.SplitSeq(header, []byte(",")) {
		name, q, _ := bytes.Cut(part, []byte(";"))
		if !bytes.EqualFold(bytes.TrimSpace(name), []byte("gzip")) {
			continue
		}
		q = bytes.TrimSpace(q)
		return len(bytes.Trim(bytes.TrimPrefix(q, []byte("q=")), "0.")) > 0 || len(q) == 0
	}
	return false
}

var packedVary = append([]byte("accept-encoding, "), varyValue...)
