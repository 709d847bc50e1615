// Package otlp sends traces to an OpenTelemetry collector: OTLP over HTTP, encoded as JSON.
//
//	in      Traces, from any goroutine
//	out     POST requests to an endpoint, one for each batch
//	state   a queue of traces, and counters
//	units   times on the wall clock
//	bound   maxWaiting traces in the queue, further ones are dropped; maxBatch traces in a request;
//	        sendLimit for a request
//	errors  a batch that cannot be sent is dropped and counted, so that the node never waits for a
//	        collector. Of several failures in a row only the first is reported
//	source  opentelemetry.io/docs/specs/otlp (1.3), opentelemetry-proto trace/v1
package otlp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Span is a part of a trace.
type Span struct {
	Name       string
	Begin, End time.Time
	Attributes [][2]string
	Failed     string // the reason of the failure; empty: success
}

// Trace describes one operation. The first span is the whole operation, all following spans are
// parts of it.
type Trace struct {
	ID    [16]byte
	Spans []Span
}

const (
	maxWaiting = 2048
	maxBatch   = 256
	sendEvery  = time.Second
	sendLimit  = 5 * time.Second
)

// Exporter sends traces in the background. Safe for concurrent use.
type Exporter struct {
	endpoint string
	resource []attribute
	failed   func(error)
	waiting  chan *Trace
	stop     chan struct{}
	ended    chan struct{}
	once     sync.Once
	cancel   context.CancelFunc

	sent, dropped atomic.Uint64
}

// CheckEndpoint returns an error if endpoint is not the URL of an HTTP or HTTPS server.
func CheckEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("the endpoint must have the form http://host:port/v1/traces, or https")
	}
	return nil
}

// New returns an exporter that sends to an endpoint, for which CheckEndpoint must return nil.
// resource has the attributes of the process that makes the traces, as pairs of name and value. The
// exporter calls failed with the error of a request, on its own goroutine; if several requests in a
// row fail, it calls failed only for the first one. The caller must call Close.
func New(endpoint string, resource [][2]string, failed func(error)) *Exporter {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Exporter{endpoint: endpoint, resource: attributes(resource), failed: failed,
		waiting: make(chan *Trace, maxWaiting), stop: make(chan struct{}), ended: make(chan struct{}), cancel: cancel}
	go e.run(ctx)
	return e
}

// Add queues a trace, which the caller must not change afterwards. If the queue is full, Add drops
// the trace. Add never blocks.
func (e *Exporter) Add(t *Trace) {
	select {
	case e.waiting <- t:
	default:
		e.dropped.Add(1)
	}
}

// Counts returns how many traces were sent and how many were dropped.
func (e *Exporter) Counts() (sent, dropped uint64) { return e.sent.Load(), e.dropped.Load() }

// Close sends the queued traces and stops the exporter. When ctx ends, Close drops the remaining
// traces.
func (e *Exporter) Close(ctx context.Context) {
	e.once.Do(func() { close(e.stop) })
	select {
	case <-e.ended:
	case <-ctx.Done():
		e.cancel()
		<-e.ended
	}
}

func (e *Exporter) run(ctx context.Context) {
	defer close(e.ended)
	defer e.cancel()
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	well := true
	for over := false; !over; {
		select {
		case <-e.stop:
			over = true
		case <-tick.C:
		}
		for {
			batch := e.batch()
			if len(batch) == 0 {
				break
			}
			err := e.send(ctx, batch)
			if err == nil {
				e.sent.Add(uint64(len(batch)))
			} else {
				e.dropped.Add(uint64(len(batch)))
				if well && ctx.Err() == nil {
					e.failed(err)
				}
			}
			if well = err == nil; !well { // the next tick tries again with the remaining traces
				break
			}
		}
	}
}

// batch removes up to maxBatch traces from the queue and returns these traces.
func (e *Exporter) batch() (out []*Trace) {
	for len(out) < maxBatch {
		select {
		case t := <-e.waiting:
			out = append(out, t)
		default:
			return out
		}
	}
	return out
}

func (e *Exporter) send(ctx context.Context, batch []*Trace) error {
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	body, err := e.encode(batch)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20)) // so that the connection can be reused
	if r.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", e.endpoint, r.Status)
	}
	return nil
}

// The JSON encoding of OTLP. 64-bit integers are strings, ids are hexadecimal.
type (
	attribute struct {
		Key   string `json:"key"`
		Value struct {
			String string `json:"stringValue"`
		} `json:"value"`
	}
	status struct {
		Code    int    `json:"code,omitempty"` // 2: error
		Message string `json:"message,omitempty"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"` // 1: internal, 2: server
		Begin      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Status     status      `json:"status"`
	}
	scope struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []span `json:"spans"`
	}
	resource struct {
		Resource struct {
			Attributes []attribute `json:"attributes"`
		} `json:"resource"`
		Scopes []scope `json:"scopeSpans"`
	}
	request struct {
		Resources []resource `json:"resourceSpans"`
	}
)

func attributes(list [][2]string) (out []attribute) {
	for _, x := range list {
		a := attribute{Key: x[0]}
		a.Value.String = x[1]
		out = append(out, a)
	}
	return out
}

func (e *Exporter) encode(batch []*Trace) ([]byte, error) {
	var s scope
	s.Scope.Name = "troupe"
	for _, t := range batch {
		root := ""
		for i, x := range t.Spans {
			var id [8]byte
			if _, err := rand.Read(id[:]); err != nil {
				return nil, err
			}
			y := span{TraceID: hex.EncodeToString(t.ID[:]), SpanID: hex.EncodeToString(id[:]), Parent: root, Name: x.Name, Kind: 1,
				Begin: strconv.FormatInt(
					x.Begin.UnixNano(),
					10,
				), End: strconv.FormatInt(x.End.UnixNano(), 10), Attributes: attributes(x.Attributes)}
			if i == 0 {
				root, y.Kind = y.SpanID, 2
			}
			if x.Failed != "" {
				y.Status = status{2, x.Failed}
			}
			s.Spans = append(s.Spans, y)
		}
	}
	var r resource
	r.Resource.Attributes, r.Scopes = e.resource, []scope{s}
	return json.Marshal(request{[]resource{r}})
}
