package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// dontCare is the id of the reply to a request without an id.
const dontCare = `"dontcare"`

// notRequest is the error text for JSON that is not a request. The reply has no id.
const notRequest = "JSON RPC Request format was expected"

// documents pools parsed bodies, so that the next requests reuse the memory of earlier bodies.
var documents = sync.Pool{New: func() any { return new(document) }}

// maxKept is the maximum number of nodes of a document whose memory is kept for reuse.
const maxKept = 1 << 14

// maxID is the maximum length in bytes of an id that is an object or a list. Such an id is echoed
// with sorted keys, which costs the node more than sending the id costs the client. No known client
// uses long ids of this kind. A string of any length is echoed.
const maxID = 4096

// request is one call within a body.
type request struct {
	method string // cut off if it is not the name of a method
	params val
	id     val
	hasID  bool
	echo   []byte // the echoed form of an id longer than maxID; nil: the id is short
}

// answer appends the reply to a whole body and returns its HTTP status. method is the method in the
// path; empty for POST /.
func (x *exchange) answer(b, body []byte, method string) ([]byte, int) {
	b, status := x.answerBody(b, body, method)
	return b, x.httpStatus(byName[method], status)
}

func (x *exchange) answerBody(b, body []byte, method string) ([]byte, int) {
	doc := documents.Get().(*document)
	defer func() {
		x.leaveTurn()
		doc.text = nil
		if cap(doc.nodes) <= maxKept {
			documents.Put(doc)
		}
	}()
	if len(body) == 0 && method != "" {
		return x.one(b, &request{method: method})
	}
	doc.limit = bounds{nodes: int(x.opts.Limits.JSONNodes)}
	if method == "" {
		doc.limit.items = int(x.opts.Limits.Batch)
	}
	bad, err := x.parse(doc, body)
	if err != nil {
		return appendRefused(b, err), err.status()
	}
	if bad != nil {
		return x.appendBad(b, bad, body), http.StatusBadRequest
	}
	return x.parsed(b, val{doc, 0}, method)
}

// appendBad appends the reply to a body that is not JSON or exceeds a bound of JSON, and logs it.
func (x *exchange) appendBad(b []byte, bad *syntaxError, body []byte) []byte {
	text := x.syntaxText(bad, body)
	x.logUnread(text)
	b = appendInvalid(append(b, `{"jsonrpc":"2.0","error":`...), "PARSE_ERROR", "error_message", text, -32700, "Parse error")
	return append(b, `,"id":null}`...)
}

// parsed appends the reply to a body that is valid JSON.
func (x *exchange) parsed(b []byte, root val, method string) ([]byte, int) {
	if method != "" {
		return x.path(b, root, method)
	}
	if root.kind() == kArray && root.len() > 0 {
		return x.batch(b, root), http.StatusOK
	}
	var r request
	if why := r.read(root); why != "" {
		return x.notRequest(b, why), http.StatusBadRequest
	}
	r.prepareID()
	return x.one(b, &r)
}

// parse parses a body. For a large body, parse first takes a turn of the heavy limit. The exchange
// keeps the turn until the parameters of a request have been read or the reply has been made.
func (x *exchange) parse(doc *document, body []byte) (*syntaxError, *failure) {
	if len(body) > smallReply {
		if err := x.takeTurn(); err != nil {
			return nil, err
		}
	}
	return doc.parse(body), nil
}

// syntaxText returns the error text for a body that is not JSON or exceeds a bound of JSON.
func (s *Server) syntaxText(bad *syntaxError, body []byte) string {
	switch bad.over {
	case overNodes:
		s.limiter.refused[limits.MaxJSONNodes].Add(1)
		return fmt.Sprintf("the request has more than %d values (troupe.rpc.max_json_nodes)", s.opts.Limits.JSONNodes)
	case overItems:
		s.limiter.refused[limits.MaxBatch].Add(1)
		return fmt.Sprintf("a batch may hold at most %d requests", s.opts.Limits.Batch)
	}
	return "Failed to parse the request body as JSON: " + bad.message(body)
}

// appendRefused appends the reply to a body that was not read.
func appendRefused(b []byte, f *failure) []byte {
	return append(f.appendError(append(b, `{"jsonrpc":"2.0","error":`...)), `,"id":null}`...)
}

// notRequest logs and refuses a body, or an item of a batch, that is JSON and no request.
func (x *exchange) notRequest(b []byte, why string) []byte {
	x.logUnread(why)
	return appendNotRequest(b, why)
}

func appendNotRequest(b []byte, why string) []byte {
	b = appendInvalid(append(b, `{"jsonrpc":"2.0","error":`...), "PARSE_ERROR", "error_message", why, -32700, "Parse error")
	return append(b, `,"id":null}`...)
}

// appendInvalid appends the error object for a request that is rejected before its method runs.
func appendInvalid(b []byte, cause, member, text string, code int, message string) []byte {
	b = append(append(b, `{"name":"REQUEST_VALIDATION_ERROR","cause":{"name":"`...), cause...)
	b = append(append(append(b, `","info":{"`...), member...), `":`...)
	b = append(view.AppendString(b, text), `}},"code":`...)
	b = append(append(append(appendInt(b, code), `,"message":"`...), message...), `","data":`...)
	return append(view.AppendString(b, text), '}')
}

// read fills r from an envelope. If v is not an envelope, read returns the reason. jsonrpc and id
// may be missing, unknown keys are ignored, and no key may occur twice.
func (r *request) read(v val) (why string) {
	if v.kind() != kObject {
		return notRequest
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
			r.method = clipTo(string(value.start(maxEcho)), maxEcho)
		case "params":
			once(4)
			r.params = value
		case "id":
			once(8)
			r.id, r.hasID = value, true
		}
	}
	switch {
	case !ok || seen&2 == 0:
		return notRequest
	case r.hasID && r.id.kind() >= kArray && len(r.id.raw()) > maxID:
		return "an id that is no text may have at most " + strconv.Itoa(maxID) + " bytes"
	}
	return ""
}

// prepareID makes the echoed form of an id that is longer than maxID, because making that form
// takes long. prepareID overwrites the id's text, so the caller must not read the id afterwards.
func (r *request) prepareID() {
	if !r.hasID || len(r.id.raw()) <= maxID {
		return
	}
	switch raw := r.id.raw(); {
	case r.id.kind() == kNumber:
		r.echo = r.id.appendCompact(nil)
	case r.id.node().escaped:
		r.echo = normalizeEscapes(raw)
	}
}

// path answers POST /<method>. The body is either an envelope, which need not contain the method,
// or only the parameters.
func (x *exchange) path(b []byte, root val, method string) ([]byte, int) {
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
	if why := r.read(root); why != "" && (r.method != "" || !onlyMethodMissing(root) || why != notRequest) {
		return x.notRequest(b, why), http.StatusBadRequest
	}
	if r.method != "" && r.method != method {
		r.prepareID()
		text := "the body's method is " + r.method + ", the path's " + method
		x.logUnread(text)
		return x.reply(b, &r, func(b []byte) []byte {
			return appendInvalid(append(b, `"error":`...), "PARSE_ERROR", "error_message", text, -32700, "Parse error")
		}), http.StatusBadRequest
	}
	r.method = method
	r.prepareID()
	return x.one(b, &r)
}

// onlyMethodMissing returns whether v is an envelope that lacks nothing but the method.
func onlyMethodMissing(v val) bool {
	version, has := v.get("jsonrpc")
	_, method := v.get("method")
	return !method && (!has || version.kind() == kString && string(version.str()) == "2.0")
}

// reply appends an envelope around the text that member appends: "result":... or "error":....
func (s *Server) reply(b []byte, r *request, member func([]byte) []byte) []byte {
	return appendID(member(append(b, `{"jsonrpc":"2.0",`...)), r)
}

func appendID(b []byte, r *request) []byte {
	b = append(b, `,"id":`...)
	switch {
	case !r.hasID:
		return append(b, dontCare+"}"...)
	case r.echo != nil && r.id.kind() == kString:
		return append(appendPieces(append(b, '"'), r.echo), '"', '}')
	case r.echo != nil:
		return append(append(b, r.echo...), '}')
	}
	return append(r.id.appendCompact(b), '}')
}

// one answers a request, counts it in the metrics, and logs it.
func (x *exchange) one(b []byte, r *request) ([]byte, int) {
	start := time.Now()
	b, status, err := x.appendReply(b, r, start)
	x.logRequest(r, start, err)
	return b, status
}

// appendReply appends the reply to a request that began at start, and counts the request in the
// metrics. It returns the HTTP status, and the error that the reply shows.
func (x *exchange) appendReply(b []byte, r *request, start time.Time) ([]byte, int, error) {
	route := byName[r.method]
	if len(b) > smallReply { // in a batch: a small reply is appended to b without growing it
		b = growPieces(b, smallReply)
	}
	if route == nil || x.disabled(route) {
		x.metrics.observe(unknownLabel, time.Since(start), -32601)
		return x.reply(b, r, func(b []byte) []byte {
			return appendInvalid(append(b, `"error":`...), "METHOD_NOT_FOUND", "method_name", r.method, -32601, "Method not found")
		}), http.StatusBadRequest, errNoMethod
	}
	from := len(b)
	b = append(b, `{"jsonrpc":"2.0","result":`...)
	out, label, err := b, "", error(nil)
	if full := x.checkRates(); full != nil {
		err = full
	} else {
		out, label, err = x.run(b, route, r)
	}
	if label == "" {
		label = r.method
	}
	if err == nil && len(out) > x.max {
		err = x.limiter.tooLarge()
	}
	if err == nil {
		err = x.settle(out)
	}
	if err == nil {
		x.metrics.observe(label, time.Since(start), 0)
		return appendID(out, r), http.StatusOK, nil
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
		switch httpStatus {
		case http.StatusInternalServerError:
			x.logError(r, f)
		case http.StatusRequestEntityTooLarge:
			x.large++
		}
		if f.fault == UnknownBlock && x.belowHead(r.params) {
			httpStatus = http.StatusUnprocessableEntity
		}
	}
	return appendID(b, r), x.httpStatus(route, httpStatus), err
}

// disabled returns whether a method is switched off. A method that is switched off behaves as if it
// did not exist.
func (s *Server) disabled(r *route) bool {
	if r.name == indexerBlock.Name {
		return s.opts.IndexerRequests == 0
	}
	return r.sandbox && s.opts.NoSandbox ||
		r.simulates && (r.name == simulateTx.Name && s.opts.NoSimulate || r.name == traceTx.Name && s.opts.NoTrace)
}

// belowHead returns whether an object of parameters names a height below the head. If that height
// has no block now, it will never have one (nearcore chain/jsonrpc/src/lib.rs:2685).
func (s *Server) belowHead(params val) bool {
	id, _ := params.get("block_id")
	height, ok := id.uint64()
	return ok && primitives.Height(height) < s.node.Head().Height
}

// httpStatus applies rpc.http_status to the HTTP status of a reply. r is nil if the request is not
// a call of a single method.
func (s *Server) httpStatus(r *route, status int) int {
	if s.opts.HTTPStatus == HTTPStatusAlways200 || s.opts.HTTPStatus == HTTPStatusSpec && r != nil && r.specStatus {
		return http.StatusOK
	}
	return status
}

// run calls a method, within the limits of simulations, waits and heavy work. A panic becomes
// INTERNAL_ERROR.
func (x *exchange) run(b []byte, route *route, r *request) (out []byte, label string, err error) {
	c := call{Server: x.Server, ctx: x.ctx, conn: x.conn, x: x}
	defer func() {
		if p := recover(); p != nil {
			x.metrics.panics.Add(1)
			x.log.WithField("method", r.method).Errorf("panic: %v\n%s", p, debug.Stack())
			out, err = b, internal(reachedLimits, errors.New("the request ended in a panic"))
		}
		c.giveBack()
		c.leaveTurn()
		x.leaveTurn()
	}()
	if x.gone() { // the world was dropped during a batch or a WebSocket's message
		return b, "", internal("", errWorldGone)
	}
	if route.simulates {
		done, err := x.countSimulation()
		if err != nil {
			return b, "", err
		}
		defer done()
	}
	if route.waits {
		place, full := x.park()
		if full != nil {
			return b, "", full
		}
		defer func() {
			if place.leave() && err != nil {
				out, err = b, busy(limits.MaxParked)
			}
		}()
		ctx, cancel, release, err := x.wait(route.patience)
		if err != nil {
			x.metrics.refused.Add(1)
			return b, "", internal(reachedLimits, err)
		}
		defer release()
		place.ends(cancel)
		c.ctx = ctx
		if !x.until.IsZero() {
			limited, cancel := context.WithDeadline(ctx, x.until)
			defer cancel()
			c.ctx = limited
		}
	}
	if route.heavy || len(r.params.raw()) > smallReply {
		if full := x.takeTurn(); full != nil {
			return b, "", full
		}
	}
	if route.heavy {
		c.leave, x.leave = x.leave, nil
	}
	return route.run(&c, b, r.params)
}

// countSimulation counts a simulation or trace against the limit of all clients and against the
// limit of its address. done subtracts it again.
func (x *exchange) countSimulation() (done func(), err error) {
	most, holds := x.client.most(x.limiter.live.Load().AddressSimulations)
	switch {
	case x.metrics.simulating.Add(1) > int64(x.opts.Limits.Simulations):
		x.metrics.simulating.Add(-1)
		x.limiter.refused[limits.MaxSimulations].Add(1)
		return nil, busy(limits.MaxSimulations)
	case x.client.simulations.Add(1) > most && holds:
		x.client.simulations.Add(-1)
		x.metrics.simulating.Add(-1)
		x.limiter.refused[limits.MaxAddressSimulations].Add(1)
		return nil, busy(limits.MaxAddressSimulations)
	}
	return func() {
		x.client.simulations.Add(-1)
		x.metrics.simulating.Add(-1)
	}, nil
}
