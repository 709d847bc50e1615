package rpc

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// dontCare is the id of replies to requests without one (node-interface.md).
const dontCare = `"dontcare"`

// notRequest is the refusal of JSON that is no request; its reply has no id.
const notRequest = "JSON RPC Request format was expected"

// documents are reused from request to request.
var documents = sync.Pool{New: func() any { return new(document) }}

// request is one call inside a body.
type request struct {
	method string
	params val
	id     val
	hasID  bool
}

// answer appends the reply to a whole body and returns its HTTP status. method is that of the path, "" for POST /.
func (x exchange) answer(b, body []byte, method string) ([]byte, int) {
	doc := documents.Get().(*document)
	defer documents.Put(doc)
	if len(body) == 0 && method != "" {
		return x.one(b, &request{method: method})
	}
	if bad := doc.parse(body); bad != nil {
		text := "Failed to parse the request body as JSON: " + bad.message(body)
		b = append(appendInvalid(append(b, `{"jsonrpc":"2.0","error":`...), "PARSE_ERROR", "error_message", text, -32700, "Parse error"), `,"id":null}`...)
		return b, http.StatusBadRequest
	}
	root := val{doc, 0}
	if method != "" {
		return x.path(b, root, method)
	}
	if root.kind() == kArray && root.len() > 0 {
		return x.batch(b, root), http.StatusOK
	}
	var r request
	if !r.read(root) {
		return appendNotRequest(b), http.StatusBadRequest
	}
	return x.one(b, &r)
}

func appendNotRequest(b []byte) []byte {
	b = appendInvalid(append(b, `{"jsonrpc":"2.0","error":`...), "PARSE_ERROR", "error_message", notRequest, -32700, "Parse error")
	return append(b, `,"id":null}`...)
}

// appendInvalid appends the error object of a request that is refused before its method runs.
func appendInvalid(b []byte, cause, member, text string, code int, message string) []byte {
	b = append(append(b, `{"name":"REQUEST_VALIDATION_ERROR","cause":{"name":"`...), cause...)
	b = append(append(append(b, `","info":{"`...), member...), `":`...)
	b = append(view.AppendString(b, text), `}},"code":`...)
	b = append(append(append(appendInt(b, code), `,"message":"`...), message...), `","data":`...)
	return append(view.AppendString(b, text), '}')
}

// read fills r from an envelope; false if it is none. jsonrpc and id may be missing, other keys are ignored; nothing may
// stand twice.
func (r *request) read(v val) bool {
	if v.kind() != kObject {
		return false
	}
	seen, ok := 0, true
	once := func(bit int) {
		ok = ok && seen&bit == 0
		seen |= bit
	}
	for at := v.node().child; at != 0; at = v.doc.nodes[at].next {
		value := val{v.doc, v.doc.nodes[at].child}
		switch string(val{v.doc, at}.str()) {
		case "jsonrpc":
			once(1)
			ok = ok && value.kind() == kString && string(value.str()) == "2.0"
		case "method":
			once(2)
			ok = ok && value.kind() == kString
			r.method = string(value.str())
		case "params":
			once(4)
			r.params = value
		case "id":
			once(8)
			r.id, r.hasID = value, true
		}
	}
	return ok && seen&2 != 0
}

// path answers POST /<method>, whose body is an envelope (in which the method need not be repeated) or the bare
// parameters.
func (x exchange) path(b []byte, root val, method string) ([]byte, int) {
	r := request{method: method, params: root}
	isEnvelope := false
	for _, key := range []string{"jsonrpc", "method", "params"} {
		_, has := root.get(key)
		isEnvelope = isEnvelope || has
	}
	if !isEnvelope {
		return x.one(b, &r)
	}
	r = request{}
	if !r.read(root) && (r.method != "" || !onlyMethodMissing(root)) {
		return appendNotRequest(b), http.StatusBadRequest
	}
	if r.method != "" && r.method != method {
		text := "the body's method is " + r.method + ", the path's " + method
		return x.reply(b, &r, func(b []byte) []byte {
			return appendInvalid(append(b, `"error":`...), "PARSE_ERROR", "error_message", text, -32700, "Parse error")
		}), http.StatusBadRequest
	}
	r.method = method
	return x.one(b, &r)
}

// onlyMethodMissing tells whether an envelope is one but for the method.
func onlyMethodMissing(v val) bool {
	version, has := v.get("jsonrpc")
	_, method := v.get("method")
	return !method && (!has || version.kind() == kString && string(version.str()) == "2.0")
}

// batch answers a list of requests in order, each with a reply of its own.
func (x exchange) batch(b []byte, list val) []byte {
	if list.len() > x.opts.MaxBatch {
		text := fmt.Sprintf("a batch may hold at most %d requests, this one has %d", x.opts.MaxBatch, list.len())
		b = appendInvalid(append(b, `{"jsonrpc":"2.0","error":`...), "PARSE_ERROR", "error_message", text, -32700, "Parse error")
		return append(b, `,"id":null}`...)
	}
	b = append(b, '[')
	sep := false
	list.each(func(item val) bool {
		if sep {
			b = append(b, ',')
		}
		sep = true
		var r request
		if !r.read(item) {
			b = appendNotRequest(b)
		} else {
			b, _ = x.one(b, &r)
		}
		return true
	})
	return append(b, ']')
}

// reply appends an envelope around what member appends: "result":... or "error":....
func (s *Server) reply(b []byte, r *request, member func([]byte) []byte) []byte {
	return appendID(member(append(b, `{"jsonrpc":"2.0",`...)), r)
}

func appendID(b []byte, r *request) []byte {
	b = append(b, `,"id":`...)
	if r.hasID {
		return append(r.id.appendCompact(b), '}')
	}
	return append(b, dontCare+"}"...)
}

// one answers a request and counts it.
func (x exchange) one(b []byte, r *request) ([]byte, int) {
	route := byName[r.method]
	start := time.Now()
	if route == nil {
		x.metrics.observe(unknownLabel, time.Since(start), -32601)
		return x.reply(b, r, func(b []byte) []byte {
			return appendInvalid(append(b, `"error":`...), "METHOD_NOT_FOUND", "method_name", r.method, -32601, "Method not found")
		}), http.StatusBadRequest
	}
	from := len(b)
	b = append(b, `{"jsonrpc":"2.0","result":`...)
	out, label, err := x.run(b, route, r)
	if label == "" {
		label = r.method
	}
	if err == nil {
		x.metrics.observe(label, time.Since(start), 0)
		return appendID(out, r), http.StatusOK
	}
	b = append(out[:from], `{"jsonrpc":"2.0","error":`...)
	httpStatus := http.StatusBadRequest
	var bad *parseFailure
	var f *failure
	if errors.As(err, &bad) {
		x.metrics.observe(label, time.Since(start), -32700)
		b = appendInvalid(b, "PARSE_ERROR", "error_message", bad.text, -32700, "Parse error")
	} else {
		errors.As(internal("", err), &f)
		x.metrics.observe(label, time.Since(start), -32000)
		b, httpStatus = f.appendError(b), f.status()
		if f.fault == UnknownBlock && x.belowHead(r.params) {
			httpStatus = http.StatusUnprocessableEntity
		}
	}
	return appendID(b, r), x.httpStatus(route, httpStatus)
}

// belowHead tells whether an object of parameters names a height below the head's: that block is not late but gone, or
// was never made (nearcore chain/jsonrpc/src/lib.rs:2685).
func (s *Server) belowHead(params val) bool {
	id, _ := params.get("block_id")
	height, ok := id.uint64()
	return ok && primitives.Height(height) < s.node.Head().Height
}

// httpStatus applies rpc.http_status.
func (s *Server) httpStatus(r *route, status int) int {
	if s.opts.HTTPStatus == HTTPStatusAlways200 || s.opts.HTTPStatus == HTTPStatusSpec && r.specStatus {
		return http.StatusOK
	}
	return status
}

// run calls a method. A panic becomes INTERNAL_ERROR; of methods that wait only so many run at once.
func (x exchange) run(b []byte, route *route, r *request) (out []byte, label string, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.metrics.panics.Add(1)
			x.log.WithField("method", r.method).Errorf("panic: %v\n%s", p, debug.Stack())
			out, err = b, internal(reachedLimits, errors.New("the request ended in a panic"))
		}
	}()
	c := call{Server: x.Server, ctx: x.ctx, conn: x.conn}
	if route.waits {
		if x.metrics.waiting.Add(1) > int64(x.opts.MaxWaiting) {
			x.metrics.waiting.Add(-1)
			x.metrics.refused.Add(1)
			return b, "", internal(reachedLimits, view.ErrTooManyRequests)
		}
		defer x.metrics.waiting.Add(-1)
		ctx, release, err := x.wait()
		if err != nil {
			x.metrics.refused.Add(1)
			return b, "", internal(reachedLimits, err)
		}
		defer release()
		c.ctx = ctx
	}
	return route.run(&c, b, r.params)
}
