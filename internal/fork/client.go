package fork

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Options configure how the remote node is queried.
type Options struct {
	URL       string
	Timeout   time.Duration // time limit of one request; 0: DefaultTimeout
	Tries     int           // largest number of tries of one question; 0: DefaultTries
	Pause     time.Duration // pause before the second try, doubled for each further try; 0: DefaultPause
	PerSecond float64       // largest number of requests per second; 0: no bound
	AtOnce    int           // largest number of concurrent requests; 0: DefaultAtOnce
	MaxReply  int64         // largest number of bytes of a reply; 0: DefaultMaxReply
	Memory    int64         // bytes of replies to keep in memory; 0: DefaultMemory
	Cache     string        // a folder for replies; empty: nothing is kept on disk
	MustProve bool          // refuse contract storage without a proof
	Transport http.RoundTripper
	Warn      func(error) // called once for each kind of failure or unproven answer; nil: not called
}

// Defaults of Options.
const (
	DefaultTimeout  = 10 * time.Second
	DefaultTries    = 4
	DefaultPause    = 250 * time.Millisecond
	DefaultAtOnce   = 8
	DefaultMaxReply = 64 << 20
	DefaultMemory   = 256 << 20
)

// maxBatch is the maximum number of questions in one batch request.
const maxBatch = 16

// maxPause is the maximum pause between two attempts, even if the remote node asks for a longer
// one.
const maxPause = 30 * time.Second

// Client queries a node by JSON-RPC. Safe for concurrent use.
type Client struct {
	o    Options
	http http.Client
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	waiting []*question
	running int       // number of goroutines that send
	batches int8      // whether the node takes batches: 0 not known, 1 yes, -1 no
	slot    time.Time // time at which the next request may be sent
	id      uint64
	count   Counts
}

// Counts count the questions to the remote node since NewClient, and the outcomes of these
// questions.
type Counts struct {
	Questions, Requests, Batches, Retries, Failures, Refused uint64
	Bytes                                                    uint64 // number of bytes of all replies
}

// question is one call that waits for an answer.
type question struct {
	id     uint64
	method string
	params json.RawMessage
	done   chan struct{}
	result json.RawMessage
	err    error
}

// NewClient returns a client; Close ends it.
func NewClient(o Options) *Client {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Tries == 0 {
		o.Tries = DefaultTries
	}
	if o.Pause == 0 {
		o.Pause = DefaultPause
	}
	if o.AtOnce == 0 {
		o.AtOnce = DefaultAtOnce
	}
	if o.MaxReply == 0 {
		o.MaxReply = DefaultMaxReply
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	c := &Client{o: o}
	c.http.Transport = o.Transport
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = o.AtOnce
		c.http.Transport = t
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Close fails all pending questions.
func (c *Client) Close() {
	c.stop()
	c.http.CloseIdleConnections()
}

// Counts returns the counters since NewClient.
func (c *Client) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// ReplyError is an error reply of the remote node.
type ReplyError struct {
	Cause string // name of the error, like UNKNOWN_ACCOUNT; may be empty
	Text  string
}

func (e *ReplyError) Error() string {
	if e.Cause == "" {
		return "the remote node answers: " + e.Text
	}
	return "the remote node answers " + e.Cause + ": " + e.Text
}

// passing returns whether the error may disappear on a retry, or if a different node behind the
// same address answers the retry.
func (e *ReplyError) passing() bool {
	switch e.Cause {
	case "INTERNAL_ERROR", "TIMEOUT_ERROR", "NO_SYNCED_BLOCKS", "NOT_SYNCED_YET", "UNAVAILABLE_SHARD":
		return true
	}
	return false
}

// isCause returns whether err is a ReplyError with one of these names.
func isCause(err error, names ...string) bool {
	var e *ReplyError
	if !errors.As(err, &e) {
		return false
	}
	for _, n := range names {
		if e.Cause == n {
			return true
		}
	}
	return false
}

// httpError is a reply that is not JSON-RPC.
type httpError struct {
	status int
	after  time.Duration // time in the Retry-After header; 0: none
	text   string
}

func (e *httpError) Error() string {
	return fmt.Sprintf("the remote node answers HTTP %d: %s", e.status, e.text)
}

// Errors of questions.
var (
	errTooLarge = errors.New("the reply exceeds troupe.fork.max_reply_bytes")
	errReply    = errors.New("the remote node sent an invalid reply")
	errClosed   = errors.New("this node is stopping")
)

// passing returns whether a retry may help, and the pause that the remote node asked for.
func passing(err error) (bool, time.Duration) {
	var r *ReplyError
	var h *httpError
	switch {
	case errors.As(err, &r):
		return r.passing(), 0
	case errors.As(err, &h):
		return h.status == http.StatusTooManyRequests || h.status == http.StatusRequestTimeout || h.status >= 500, h.after
	case errors.Is(err, errTooLarge), errors.Is(err, context.Canceled):
		return false, 0
	}
	return true, 0 // a network error, or a truncated reply
}

// Call returns the result of a method. Call retries failures that may pass, at most Tries times.
func (c *Client) Call(method string, params any) (json.RawMessage, error) {
	in, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	c.add(func(n *Counts) { n.Questions++ })
	pause := c.o.Pause
	for try := 1; ; try++ {
		q := &question{method: method, params: in, done: make(chan struct{})}
		c.ask(q)
		select {
		case <-q.done:
		case <-c.ctx.Done():
			return nil, errClosed
		}
		if q.err == nil {
			return q.result, nil
		}
		again, after := passing(q.err)
		var r *ReplyError
		if !again || try >= c.o.Tries {
			if !errors.As(q.err, &r) {
				c.add(func(n *Counts) { n.Failures++ })
				return nil, fmt.Errorf("%s failed (tries: %d): %w", method, try, q.err)
			}
			return nil, q.err
		}
		c.add(func(n *Counts) { n.Retries++ })
		select {
		case <-time.After(min(max(pause, after), maxPause)):
		case <-c.ctx.Done():
			return nil, errClosed
		}
		pause *= 2
	}
}

func (c *Client) add(f func(*Counts)) {
	c.mu.Lock()
	f(&c.count)
	c.mu.Unlock()
}

// ask enqueues a question. The client sends the question at once if fewer than AtOnce requests are
// under way, otherwise in a batch with the next questions.
func (c *Client) ask(q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id++
	q.id = c.id
	c.waiting = append(c.waiting, q)
	if c.running < c.o.AtOnce {
		c.running++
		go c.send()
	}
}

// send sends pending questions until there are none.
func (c *Client) send() {
	for {
		c.mu.Lock()
		n := min(len(c.waiting), maxBatch)
		if n == 0 {
			c.running--
			c.mu.Unlock()
			return
		}
		if c.batches < 0 {
			n = 1
		}
		list := append([]*question{}, c.waiting[:n]...)
		c.waiting = append(c.waiting[:0], c.waiting[n:]...)
		wait := c.turn()
		c.mu.Unlock()
		if wait > 0 {
			select {
			case <-time.After(wait):
			case <-c.ctx.Done():
			}
		}
		if err := c.post(list); err != nil {
			for _, q := range list {
				q.err = err
			}
		}
		for _, q := range list {
			close(q.done)
		}
	}
}

// turn returns how long a request has to wait for the rate limit. The caller holds mu.
func (c *Client) turn() time.Duration {
	if c.o.PerSecond <= 0 {
		return 0
	}
	now := time.Now()
	if c.slot.Before(now) {
		c.slot = now
	}
	wait := c.slot.Sub(now)
	c.slot = c.slot.Add(time.Duration(float64(time.Second) / c.o.PerSecond))
	return wait
}

// post sends questions in one request and delivers an answer to each question. An error of post
// applies to all questions of the list.
func (c *Client) post(list []*question) error {
	var body []byte
	for i, q := range list {
		if len(list) > 1 {
			body = append(body, "[,"[min(i, 1)])
		}
		body = append(strconv.AppendUint(append(body, `{"jsonrpc":"2.0","id":`...), q.id, 10), `,"method":"`...)
		body = append(append(append(append(body, q.method...), `","params":`...), q.params...), '}')
	}
	if len(list) > 1 {
		body = append(body, ']')
	}
	reply, status, err := c.exchange(body)
	c.add(func(n *Counts) {
		n.Requests++
		n.Bytes += uint64(len(reply))
		if len(list) > 1 {
			n.Batches++
		}
	})
	if err != nil {
		return err
	}
	if len(list) == 1 {
		return list[0].take(reply, status)
	}
	return c.takeBatch(list, reply, status)
}

// exchange performs one HTTP request.
func (c *Client) exchange(body []byte) (reply []byte, status *httpError, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := c.http.Do(r)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no reply in %v (troupe.fork.timeout)", c.o.Timeout)
		}
		return nil, nil, err
	}
	defer func() { _ = a.Body.Close() }()
	reply, err = io.ReadAll(io.LimitReader(a.Body, c.o.MaxReply+1))
	switch {
	case int64(len(reply)) > c.o.MaxReply:
		return reply, nil, fmt.Errorf("%w (%d)", errTooLarge, c.o.MaxReply)
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return reply, nil, fmt.Errorf("reply incomplete: %d bytes in %v (troupe.fork.timeout)", len(reply), c.o.Timeout)
	case err != nil:
		return reply, nil, err
	}
	status = &httpError{status: a.StatusCode, text: clip(string(reply))}
	if s, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && s > 0 {
		status.after = time.Duration(min(s, int(maxPause/time.Second))) * time.Second
	}
	return reply, status, nil
}

func clip(s string) string {
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}

// envelope is a JSON-RPC reply.
type envelope struct {
	ID     *uint64         `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Name  string `json:"name"`
		Cause struct {
			Name string `json:"name"`
		} `json:"cause"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// take reads the reply to one question. Nodes send error replies with various HTTP statuses, so the
// body takes precedence.
func (q *question) take(reply []byte, status *httpError) error {
	var e envelope
	if err := json.Unmarshal(reply, &e); err != nil || e.Result == nil && e.Error == nil {
		if status.status != http.StatusOK {
			return status
		}
		return fmt.Errorf("%w, not JSON-RPC: %s", errReply, clip(string(reply)))
	}
	if e.Error == nil && (e.ID == nil || *e.ID != q.id) {
		return fmt.Errorf("%w: the id of the reply is not the id of the request", errReply)
	}
	q.accept(&e)
	return q.err
}

// accept stores the remote node's reply in the question: the reply's result, or its error.
func (q *question) accept(e *envelope) {
	if e.Error == nil {
		q.result = e.Result
		return
	}
	text := e.Error.Message
	if len(e.Error.Data) > 0 {
		text = string(e.Error.Data)
	}
	q.err = &ReplyError{Cause: e.Error.Cause.Name, Text: clip(text)}
}

// takeBatch reads the reply to a batch. Nodes that do not support batches reject them in different
// ways; in that case the client sends the questions one by one.
func (c *Client) takeBatch(list []*question, reply []byte, status *httpError) error {
	var all []envelope
	if err := json.Unmarshal(reply, &all); err != nil {
		c.mu.Lock()
		known := c.batches > 0
		if !known {
			c.batches = -1
		}
		c.mu.Unlock()
		if known || status.status == http.StatusTooManyRequests {
			if status.status != http.StatusOK {
				return status
			}
			return fmt.Errorf("%w, not JSON-RPC: %s", errReply, clip(string(reply)))
		}
		for _, q := range list {
			if err := c.post([]*question{q}); err != nil {
				q.err = err
			}
		}
		return nil
	}
	c.mu.Lock()
	c.batches = 1
	c.mu.Unlock()
	left := map[uint64]*question{}
	for _, q := range list {
		q.err = fmt.Errorf("%w: the reply to a batch lacks the answer to this request", errReply)
		left[q.id] = q
	}
	for i := range all {
		if all[i].ID == nil || all[i].Result == nil && all[i].Error == nil {
			continue
		}
		if q := left[*all[i].ID]; q != nil {
			delete(left, q.id)
			q.err = nil
			q.accept(&all[i])
		}
	}
	return nil
}
