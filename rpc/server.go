package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// The values of rpc.http_status, which sets the HTTP status of error replies.
const (
	// HTTPStatusSpec uses neard's statuses, except that replies of EXPERIMENTAL_tx_status are
	// always 200.
	HTTPStatusSpec = "spec"
	// HTTPStatusNearcore uses exactly neard's statuses.
	HTTPStatusNearcore = "nearcore"
	// HTTPStatusAlways200 uses status 200 for every reply to a call.
	HTTPStatusAlways200 = "always_200"
)

// Options are the limits and switches of a server. The comment of a field has its name in
// config.json. withDefaults sets the defaults of zero values.
type Options struct {
	// Addr is the address to listen on as host:port. Port 0: any free port.
	Addr string

	// HTTP.

	// CORSOrigins are the allowed origins (rpc.cors_allowed_origins). Empty: "*", all of them.
	CORSOrigins []string
	// HTTPStatus is which status an error has (rpc.http_status). Empty: HTTPStatusSpec.
	HTTPStatus string
	// TLSCert and TLSKey are files (troupe.rpc.tls_cert, troupe.rpc.tls_key). Empty: no TLS.
	TLSCert, TLSKey string
	// TrustedProxies are the proxies whose X-Forwarded-For is used (troupe.rpc.trusted_proxies).
	TrustedProxies []string
	// APIKeys are the keys of clients with limits of their own (troupe.rpc.api_keys).
	APIKeys []string
	// RequireAPIKey refuses requests without a key (troupe.rpc.require_api_key).
	RequireAPIKey bool

	// Limits.

	// MaxBody is the maximum length of a request in bytes
	// (rpc.limits_config.json_payload_max_size). 0: 10 MiB.
	MaxBody int
	// PollingTimeout is how long a request may wait (rpc.polling_config.polling_timeout). 0: 10 s.
	PollingTimeout time.Duration
	// ViewStateLimit is the maximum size of the state that view_state shows, in bytes
	// (trie_viewer_state_size_limit). 0: no limit.
	ViewStateLimit uint64
	// ViewKeysLimit is the maximum number of keys that view_access_key_list shows
	// (view_access_keys_limit). 0: 100.
	ViewKeysLimit uint32
	// Limits are those of troupe.rpc. The zero value is limits.Default().
	Limits limits.Limits
	// IndexerRequests is the number of calls of EXPERIMENTAL_indexer_block that may run at a time;
	// 0: the method is switched off. The value is rpc.indexer_max_concurrent_requests if
	// rpc.enable_indexer_rpc is true, else 0.
	IndexerRequests int

	// Methods and pages.

	// NoSimulate, NoTrace and NoSandbox switch methods off (troupe.rpc.simulate, troupe.rpc.trace
	// and troupe.rpc.sandbox are false).
	NoSimulate, NoTrace, NoSandbox bool
	// Debug switches the debug methods on (rpc.enable_debug_rpc).
	Debug bool
	// Console serves the page at /console (troupe.rpc.console).
	Console bool

	// What the server shows of the node.

	// Metrics appends the node's metrics that do not belong to the RPC, in Prometheus text. nil:
	// none.
	Metrics func([]byte) []byte
	// Actors appends, as JSON, what the console shows about at most most actors. nil: the console
	// shows no actors.
	Actors func(b []byte, most int) []byte
	// Included returns the number of transactions in blocks that have become the head since the
	// start. nil: the console's history has no samples.
	Included func() uint64
	// Log receives errors. nil: nothing is logged.
	Log logrus.FieldLogger
}

// withDefaults sets the fields that are zero and have a default, and checks the others.
func (o *Options) withDefaults() error {
	if len(o.CORSOrigins) == 0 {
		o.CORSOrigins = []string{"*"}
	}
	setDefault(&o.HTTPStatus, HTTPStatusSpec)
	setDefault(&o.MaxBody, 10<<20)
	setDefault(&o.PollingTimeout, 10*time.Second)
	setDefault(&o.ViewKeysLimit, 100)
	setDefault(&o.Limits, limits.Default())
	if o.Log == nil {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		o.Log = quiet
	}
	switch o.HTTPStatus {
	case HTTPStatusSpec, HTTPStatusNearcore, HTTPStatusAlways200:
		return nil
	}
	return fmt.Errorf("rpc.http_status is %q: it may be %q, %q or %q", o.HTTPStatus, HTTPStatusSpec, HTTPStatusNearcore, HTTPStatusAlways200)
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Server is the HTTP server of one node. Its methods are safe for concurrent use.
type Server struct {
	node     Node
	opts     Options
	log      logrus.FieldLogger
	metrics  *metrics
	blocks   encodedCache
	statuses encodedStatus
	sessions sessions
	looks    hangupPoller
	turns    wakeTurns
	sockets  *sockets
	cors     cors
	limiter  *connLimiter
	errorLog errorLog
	http     *fasthttp.Server
	ctx      context.Context // ends when the server shuts down
	stop     context.CancelCauseFunc
	worlds   worlds
	listed   actorList
	history  consoleHistory
	root     *Server                       // main server; nil: this server does not serve a sandbox copy
	asked    func() (done func(), ok bool) // WorldOptions.Asked of a sandbox copy; nil on the main server
}

// New returns a server that does not listen yet.
func New(node Node, opts Options) (*Server, error) {
	if err := opts.withDefaults(); err != nil {
		return nil, err
	}
	s := &Server{node: node, opts: opts, log: opts.Log, metrics: newMetrics(), cors: newCORS(opts.CORSOrigins), turns: newWakeTurns()}
	var err error
	if s.limiter, err = newConnLimiter(&s.opts, &s.cors); err != nil {
		return nil, err
	}
	if opts.TLSCert != "" || opts.TLSKey != "" {
		c, err := newCertificate(opts.TLSCert, opts.TLSKey, s.log)
		if err != nil {
			return nil, err
		}
		s.limiter.tls = &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	s.sockets = s.newSockets()
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.http = s.newHTTP(s.Handle)
	return s, nil
}

// newHTTP returns an HTTP server for listeners of connLimiter.
func (s *Server) newHTTP(handle fasthttp.RequestHandler) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:               handle,
		ErrorHandler:          s.badRequest,
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,
		MaxRequestBodySize:    s.opts.MaxBody,
		Concurrency:           math.MaxInt32, // connLimiter limits connections
		IdleTimeout:           s.opts.Limits.IdleTimeout,
		ReadTimeout:           s.opts.Limits.ReadTimeout,
		ReadBufferSize:        8 << 10, // fasthttp rejects requests whose headers exceed the buffer
		// exchange.body reads bodies, within the limits of memory. Forms are not parsed.
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		ConnState: func(c net.Conn, state fasthttp.ConnState) {
			s.follow(c, state)
			s.limiter.follow(c, state)
		},
		Logger: fasthttpLog{s.log},
	}
}

// Listen binds the address of the options.
func (s *Server) Listen() (net.Listener, error) { return net.Listen("tcp", s.opts.Addr) }

// Serve serves a listener until Shutdown, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	s.keepHistory()
	return s.http.Serve(&listener{l, s.limiter})
}

// Bounds of a shutdown. lastWords is the time that clients may take to read what is being sent.
// lastWait is the time that connections may take to end by themselves.
const (
	lastWords = 300 * time.Millisecond
	lastWait  = 600 * time.Millisecond
)

// Shutdown ends the waits, lets running requests finish and closes the connections. Clients cannot
// delay the shutdown. Incomplete requests are dropped, clients that do not read are cut off, and
// after lastWait all remaining connections are closed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.sockets.stop()
	s.stop(errStopping)
	s.limiter.stop(lastWords)
	ctx, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	s.sockets.drain(ctx)
	err := s.http.ShutdownWithContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.limiter.closeAll()
		err = nil
	}
	return err
}

// Waiting returns how many requests wait for the chain now.
func (s *Server) Waiting() int { return int(s.metrics.waiting.Load()) }

// AppendMetrics appends the text of GET /metrics, for a second listener (rpc.prometheus_addr).
func (s *Server) AppendMetrics(b []byte) []byte {
	s.metrics.scrapes.Add(1)
	b = s.metrics.appendOwn(s.metrics.appendText(b))
	b = s.appendLimits(b)
	if s.opts.Metrics != nil {
		b = s.opts.Metrics(b)
	}
	return b
}

// badRequest answers requests that are not valid HTTP. If the body is too large, badRequest reads a
// little more of the body, so that the client receives the reply before the connection is closed.
func (s *Server) badRequest(ctx *fasthttp.RequestCtx, err error) {
	s.cors.set(ctx)
	code, text := http.StatusBadRequest, "the request is no valid HTTP: "+err.Error()
	var small *fasthttp.ErrSmallBuffer
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge), errors.Is(err, errBodyLarge):
		code, text = http.StatusRequestEntityTooLarge, "length limit exceeded"
		drain(ctx.Conn(), int64(s.opts.MaxBody))
	case errors.As(err, &small):
		code, text = http.StatusRequestHeaderFieldsTooLarge, "the request's headers are too large"
	case errors.As(err, &timeout) && timeout.Timeout():
		s.limiter.refused[limits.ReadTime].Add(1)
		code, text = http.StatusRequestTimeout, "the request did not arrive in time"
	}
	ctx.SetStatusCode(code)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text)
}

// drain reads at most limit bytes that a client still sends, for at most a second.
func drain(c net.Conn, limit int64) {
	if c.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = io.CopyN(io.Discard, c, limit) // an error of the read does not prevent the reply
	}
}

// fasthttpLog logs fasthttp's messages (mostly broken connections) at debug level.
type fasthttpLog struct{ log logrus.FieldLogger }

// Printf logs at debug level.
func (l fasthttpLog) Printf(format string, args ...any) { l.log.Debugf(format, args...) }
