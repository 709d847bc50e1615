package indexer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// URL returns a source that reads from the JSON-RPC of a running node, like http://127.0.0.1:3030,
// over a WebSocket. An API key is the path of the URL: http://127.0.0.1:3030/KEY.
func URL(address string) Source { return &remote{address} }

type remote struct{ address string }

// Limits of one connection to a node.
const (
	dialLimit  = 10 * time.Second // maximum time to connect, and to wait for each reply
	heartbeat  = 20 * time.Second // interval between two pings
	silence    = 60 * time.Second // time without any message after which the connection is closed
	aheadCount = 16               // maximum number of messages that are buffered before the consumer calls Next
	// maximum total size of the buffered messages in bytes; a single message may be longer
	aheadBytes = 16 << 20
	syncPause  = 200 * time.Millisecond
	writeLimit = 5 * time.Second
)

// Open implements stream.Source.
func (r *remote) Open(ctx context.Context, q *stream.Query) (stream.Feed, error) {
	base, err := url.Parse(r.address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" && base.Scheme != "ws" && base.Scheme != "wss" {
		return nil, fmt.Errorf("%w: %.200q is not the URL of a node, such as http://127.0.0.1:3030", ErrRefused, r.address)
	}
	secure := base.Scheme == "https" || base.Scheme == "wss"
	for {
		syncing := false
		if q.Synced {
			if syncing, err = isSyncing(ctx, base, secure); err != nil {
				return nil, err
			}
		}
		if !syncing {
			f, err := dial(ctx, base, secure, q)
			if !errors.Is(err, ErrAhead) {
				return f, err
			}
			// If the node is catching up, wait for the height.
			if syncing, err2 := isSyncing(ctx, base, secure); err2 != nil || !syncing {
				return nil, err
			}
		}
		wait := time.NewTimer(syncPause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// isSyncing returns whether the node is behind its network.
func isSyncing(ctx context.Context, base *url.URL, secure bool) (bool, error) {
	u := *base
	if u.Scheme = "http"; secure {
		u.Scheme = "https"
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/status"
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return false, err
	}
	reply, err := http.DefaultClient.Do(rq)
	if err != nil {
		return false, err
	}
	defer reply.Body.Close()
	var status struct {
		Sync *struct{ Syncing bool } `json:"sync_info"`
	}
	if err := json.NewDecoder(reply.Body).Decode(&status); err != nil || status.Sync == nil {
		return false, fmt.Errorf("%s does not answer like a NEAR node: %s", u.Redacted(), reply.Status)
	}
	return status.Sync.Syncing, nil
}

// remoteFeed is a feed of a remote node over one WebSocket.
type remoteFeed struct {
	c     *websocket.Conn
	at    stream.Cursor
	ended chan struct{} // closed when the reading goroutine has ended
	woken chan struct{} // signals Next: there is a message, or the feed has ended
	space chan struct{} // signals the reader: a message was taken

	mu    sync.Mutex
	queue []queued
	bytes int
	err   error // why the feed has ended
}

type queued struct {
	m    *stream.Message
	size int
}

// said is a message from the node: a reply to a request, or a notification about a subscription.
type said struct {
	ID     int `json:"id"`
	Result *struct {
		Cursor       stream.Cursor
		Subscription string
	}
	Error  *fault
	Params struct {
		Cursor   stream.Cursor
		Message  json.RawMessage
		Reverted []stream.Cursor
		Closed   *struct{ Reason view.EndReason }
	}
}

type fault struct {
	Name  string
	Cause struct {
		Name string
		Info json.RawMessage
	}
	Data json.RawMessage
}

func (f *fault) Error() string {
	return fmt.Sprintf("the node answers %s %s %.200s %.200s", f.Name, f.Cause.Name, f.Cause.Info, f.Data)
}

func dial(ctx context.Context, base *url.URL, secure bool, q *stream.Query) (_ *remoteFeed, err error) {
	u := *base
	if u.Scheme = "ws"; secure {
		u.Scheme = "wss"
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/ws"
	d := websocket.Dialer{HandshakeTimeout: dialLimit, ReadBufferSize: 64 << 10, Proxy: http.ProxyFromEnvironment}
	c, reply, err := d.DialContext(ctx, u.String(), nil)
	if err != nil {
		if reply != nil && reply.StatusCode >= 400 && reply.StatusCode < 500 && reply.StatusCode != http.StatusTooManyRequests {
			return nil, fmt.Errorf("%w: %s: %s", ErrRefused, u.Redacted(), reply.Status)
		}
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	defer func() {
		if err != nil {
			_ = c.Close()
		}
	}()
	unhook := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer unhook()
	f := &remoteFeed{c: c, ended: make(chan struct{}), woken: make(chan struct{}, 1), space: make(chan struct{}, 1)}
	after, err := f.subscribe(request(q))
	if err != nil {
		return nil, err
	}
	// the subscription starts after the last block, but this block must be the first message
	if f.at = *after; q.After == nil && q.From == nil {
		if _, err = f.restart(q); err != nil {
			return nil, err
		}
	}
	go f.read()
	go f.beat()
	return f, nil
}

// request returns the parameters of a subscription.
func request(q *stream.Query) map[string]any {
	p := map[string]any{"topic": "messages", "finality": map[view.RefKind]string{
		view.RefOptimistic: "optimistic", view.RefNearFinal: "near-final", view.RefFinal: "final"}[q.Finality]}
	if q.Shards != nil {
		if len(q.Shards.Shards) > 0 {
			var uids []map[string]uint32
			for _, uid := range q.Shards.Shards {
				uids = append(uids, map[string]uint32{"shard_id": uid.ID, "version": uid.Version})
			}
			p["shards"] = uids
		}
		if len(q.Shards.Accounts) > 0 {
			p["accounts"] = q.Shards.Accounts
		}
	}
	if q.After != nil {
		p["after"] = q.After
	} else if q.From != nil {
		p["from_height"] = uint64(*q.From)
	}
	return p
}

// subscribe sends a subscription request and returns the cursor where the subscription starts.
func (f *remoteFeed) subscribe(params map[string]any) (*stream.Cursor, error) {
	_ = f.c.SetWriteDeadline(time.Now().Add(writeLimit))
	if err := f.c.WriteJSON(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": params}); err != nil {
		return nil, err
	}
	r, err := f.answer()
	if err != nil {
		return nil, err
	}
	return &r.Result.Cursor, nil
}

// restart replaces a subscription that starts after the last block by a subscription that starts
// before that block.
func (f *remoteFeed) restart(q *stream.Query) (*stream.Cursor, error) {
	_ = f.c.SetWriteDeadline(time.Now().Add(writeLimit))
	if err := f.c.WriteJSON(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "unsubscribe", "params": []string{"1"}}); err != nil {
		return nil, err
	}
	for { // drop messages that the consumer already has; the new subscription repeats them
		var r struct{ Method string }
		_ = f.c.SetReadDeadline(time.Now().Add(dialLimit))
		if err := f.c.ReadJSON(&r); err != nil {
			return nil, err
		}
		if r.Method == "" {
			break
		}
	}
	p := request(q)
	p["after"] = map[string]any{"block_hash": f.at.Hash.String(), "height": uint64(f.at.Height), "index": -1}
	return f.subscribe(p)
}

// answer reads the reply to a subscription request.
func (f *remoteFeed) answer() (*said, error) {
	_ = f.c.SetReadDeadline(time.Now().Add(dialLimit))
	r := new(said)
	if err := f.c.ReadJSON(r); err != nil {
		return nil, err
	}
	switch e := r.Error; {
	case e == nil && r.Result != nil:
		return r, nil
	case e == nil:
		return nil, errors.New("the node's answer has an unknown form")
	case e.Cause.Name == "CURSOR_LOST":
		return nil, fmt.Errorf("%w: %w", ErrGone, e)
	case e.Cause.Name == "UNKNOWN_BLOCK":
		return nil, fmt.Errorf("%w: %w", ErrAhead, e)
	case e.Name == "REQUEST_VALIDATION_ERROR":
		return nil, fmt.Errorf("%w: %w", ErrRefused, e)
	}
	return nil, r.Error
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// read reads messages until the connection ends. read pauses while enough messages are buffered.
func (f *remoteFeed) read() {
	defer close(f.ended)
	f.c.SetPongHandler(func(string) error { return f.c.SetReadDeadline(time.Now().Add(silence)) })
	for last := 0; ; {
		for f.full() {
			<-f.space
		}
		_ = f.c.SetReadDeadline(time.Now().Add(silence))
		b, err := f.frame(last)
		last = len(b)
		if err == nil {
			err = f.take(b)
		}
		if err != nil {
			f.mu.Lock()
			if f.err == nil {
				f.err = err
			}
			f.mu.Unlock()
			_ = f.c.Close()
			return
		}
	}
}

func (f *remoteFeed) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err == nil && len(f.queue) > 0 && (len(f.queue) >= aheadCount || f.bytes >= aheadBytes)
}

// quick parses a frame in the exact form that Troupe writes, without parsing the block in it. quick
// returns nil if the frame does not have that form.
func quick(b []byte) *stream.Message {
	const head, body, tail = `,"cursor":`, `,"message":`, "}}"
	i := bytes.Index(b[:min(len(b), 200)], []byte(head))
	k := bytes.Index(b[:min(len(b), 400)], []byte(body))
	if !bytes.HasPrefix(b, []byte(`{"jsonrpc":"2.0","method":"subscription","params":{"subscription":"`)) || i < 0 ||
		k < i || !bytes.HasSuffix(b, []byte("]}"+tail)) {
		return nil
	}
	var at stream.Cursor
	if json.Unmarshal(b[i+len(head):k], &at) != nil {
		return nil
	}
	text := b[k+len(body) : len(b)-len(tail)]
	return stream.NewMessage(at, func() ([]byte, error) { return text, nil })
}

// take handles one message from the node. take queues blocks for the consumer.
func (f *remoteFeed) take(b []byte) error {
	if m := quick(b); m != nil {
		f.keep(m, len(b))
		return nil
	}
	r := new(said)
	if err := json.Unmarshal(b, r); err != nil {
		return fmt.Errorf("the node sent a message that is not JSON: %w", err)
	}
	p := &r.Params
	m := stream.NewMessage(p.Cursor, func() ([]byte, error) { return p.Message, nil })
	switch {
	case p.Closed != nil && p.Closed.Reason == view.EndGone:
		return fmt.Errorf("%w: after cursor %v", ErrGone, p.Cursor)
	case p.Closed != nil:
		return fmt.Errorf("the node closed the subscription: %s", p.Closed.Reason)
	case p.Reverted != nil:
		m.Skipped = p.Reverted
	case p.Message == nil:
		return fmt.Errorf("the node sent an unexpected message: %.80q", b)
	}
	f.keep(m, len(b))
	return nil
}

func (f *remoteFeed) keep(m *stream.Message, size int) {
	f.mu.Lock()
	f.queue = append(f.queue, queued{m, size})
	f.bytes += size
	f.mu.Unlock()
	signal(f.woken)
}

// frame reads one message of the WebSocket. last is the length of the previous one, and the initial
// capacity of the buffer, to avoid copying.
func (f *remoteFeed) frame(last int) ([]byte, error) {
	_, r, err := f.c.NextReader()
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(make([]byte, 0, last+last/4+bytes.MinRead))
	_, err = b.ReadFrom(r)
	return b.Bytes(), err
}

// beat sends pings, so that a broken connection is detected.
func (f *remoteFeed) beat() {
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if f.c.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeLimit)) != nil {
				return
			}
		case <-f.ended:
			return
		}
	}
}

// Next implements stream.Feed.
func (f *remoteFeed) Next(ctx context.Context) (*stream.Message, error) {
	for {
		f.mu.Lock()
		if len(f.queue) > 0 {
			m := f.queue[0]
			f.queue[0] = queued{}
			f.queue = f.queue[1:]
			f.bytes -= m.size
			f.mu.Unlock()
			signal(f.space)
			return m.m, nil
		}
		err := f.err
		f.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-f.woken:
		case <-f.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// At implements stream.Feed.
func (f *remoteFeed) At() stream.Cursor { return f.at }

// Close implements stream.Feed.
func (f *remoteFeed) Close() {
	f.mu.Lock()
	if f.err == nil {
		f.err = errors.New("the feed is closed")
	}
	f.mu.Unlock()
	signal(f.space)
	_ = f.c.Close()
}
