package rpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// served is a server on loopback.
func served(t *testing.T, n *fakeNode, o Options) (*Server, string) {
	t.Helper()
	s, addr := serve(t, n, o)
	return s, "ws://" + addr + "/ws"
}

func dial(t *testing.T, url string, header http.Header) *websocket.Conn {
	t.Helper()
	c, reply, err := websocket.DefaultDialer.Dial(url, header)
	if err != nil {
		t.Fatalf("%v: reply %+v", err, reply)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func sendText(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func receiveText(t *testing.T, c *websocket.Conn) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, b, err := c.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// closeCodeOf reads to the end of a WebSocket and returns its close code; 0: it was cut off.
func closeCodeOf(t *testing.T, c *websocket.Conn) int {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			var e *websocket.CloseError
			if ok := asClose(err, &e); ok {
				return e.Code
			}
			if timedOut(err) {
				t.Fatal("the WebSocket does not end")
			}
			return 0
		}
	}
}

func asClose(err error, e **websocket.CloseError) bool {
	x, ok := err.(*websocket.CloseError)
	*e = x
	return ok
}

// TestSocketAnswersLikePOST: a message gets the same bytes as a body of POST: each method, batches,
// and invalid requests.
func TestSocketAnswersLikePOST(t *testing.T) {
	_, url := served(t, &fakeNode{}, Options{})
	s := newServer(t, &fakeNode{}, Options{})
	c := dial(t, url, nil)
	bodies := []string{"", "5", "[]", `{"method":"nope","id":[1]}`, `[{"method":"health","id":1},{"method":"nope","id":"x"},5]`, `{"method":"health"`}
	for i := range methods {
		if params := goodParams[methods[i].name]; params != "" && methods[i].name != subscribe.Name {
			bodies = append(bodies, `{"jsonrpc":"2.0","id":7,"method":"`+methods[i].name+`","params":`+params+`}`)
		}
	}
	for _, body := range bodies {
		if strings.Contains(body, `"unsubscribe"`) {
			continue
		}
		sendText(t, c, body)
		_, want := post(s, "/", body)
		if got := receiveText(t, c); got != want {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
	}
	if status, reply := post(s, "/", `{"method":"subscribe","params":{"topic":"blocks"},"id":1}`); !strings.Contains(reply, `"NOT_A_WEBSOCKET"`) || status != 200 {
		t.Errorf("subscribe by HTTP: %d %s", status, reply)
	}
}

// TestSocketWaitDelaysNoOther: a request that waits for the chain does not delay others, and ends
// when its client leaves.
func TestSocketWaitDelaysNoOther(t *testing.T) {
	var ended atomic.Bool
	began := make(chan struct{})
	n := &fakeNode{tx: func(ctx context.Context, _ *view.GetTx) (*view.FinalOutcome, error) {
		close(began)
		<-ctx.Done()
		ended.Store(true)
		return nil, &view.LookupError{Kind: view.ErrTimeout}
	}}
	s, url := served(t, n, Options{PollingTimeout: time.Minute})
	c := dial(t, url, nil)
	sendText(t, c, `{"method":"tx","params":["`+zeroHash+`","a.near"],"id":1}`)
	<-began
	sendText(t, c, `{"method":"health","id":2}`)
	if got := receiveText(t, c); !strings.HasSuffix(got, `"id":2}`) {
		t.Errorf("got %s", got)
	}
	_ = c.Close()
	eventually(t, "the wait ends", ended.Load)
	eventually(t, "the session ends", func() bool { return n.sessions.Load() == 0 })
	eventually(t, "the WebSocket is forgotten", func() bool {
		s.sockets.mu.Lock()
		defer s.sockets.mu.Unlock()
		return len(s.sockets.open) == 0
	})
}

// TestSocketUpgradeIsRefusedToSomeClients: which clients may open a WebSocket, and the answer to a
// plain request.
func TestSocketUpgradeIsRefusedToSomeClients(t *testing.T) {
	_, url := served(t, &fakeNode{}, Options{CORSOrigins: []string{"https://good.example"}, Limits: limited(func(l *limits.Limits) {
		l.Sockets = 2
	})})
	get := func(header map[string]string) int {
		r, _ := http.NewRequest(http.MethodGet, "http"+strings.TrimPrefix(url, "ws"), nil)
		for k, v := range header {
			r.Header.Set(k, v)
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		return reply.StatusCode
	}
	upgrade := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
	with := func(key, value string) map[string]string {
		out := map[string]string{}
		for k, v := range upgrade {
			out[k] = v
		}
		out[key] = value
		return out
	}
	for _, x := range []struct {
		what   string
		header map[string]string
		want   int
	}{
		{"plain", nil, http.StatusUpgradeRequired},
		{"an old version", with("Sec-WebSocket-Version", "8"), http.StatusBadRequest},
		{"no key", with("Sec-WebSocket-Key", ""), http.StatusBadRequest},
		{"another origin", with("Origin", "https://bad.example"), http.StatusForbidden},
	} {
		t.Run(x.what, func(t *testing.T) {
			if got := get(x.header); got != x.want {
				t.Errorf("%d, want %d", got, x.want)
			}
		})
	}
	dial(t, url, http.Header{"Origin": {"https://good.example"}})
	dial(t, url, nil)
	if got := get(upgrade); got != http.StatusServiceUnavailable {
		t.Errorf("a third: %d, want %d", got, http.StatusServiceUnavailable)
	}
}

// TestInvalidSocketMessageClosesIt: an invalid message closes its WebSocket with the right code,
// and affects nothing else.
func TestInvalidSocketMessageClosesIt(t *testing.T) {
	s, url := served(t, &fakeNode{}, Options{MaxBody: 100_000, Limits: limited(func(l *limits.Limits) { l.ReadTimeout = 200 * time.Millisecond })})
	raw := func(c *websocket.Conn, b []byte) {
		if _, err := c.NetConn().Write(b); err != nil {
			t.Fatal(err)
		}
	}
	mask := []byte{0, 0, 0, 0}
	for _, x := range []struct {
		what string
		do   func(c *websocket.Conn)
		want int
	}{
		{"binary", func(c *websocket.Conn) { _ = c.WriteMessage(websocket.BinaryMessage, []byte(`{"method":"health"}`)) }, websocket.CloseUnsupportedData},
		{"too large", func(c *websocket.Conn) { _ = c.WriteMessage(websocket.TextMessage, make([]byte, 100_001)) }, websocket.CloseMessageTooBig},
		{"a length beyond all", func(c *websocket.Conn) {
			raw(c, append([]byte{0x81, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255}, mask...))
		}, websocket.CloseMessageTooBig},
		{"too large in fragments", func(c *websocket.Conn) {
			w, _ := c.NextWriter(websocket.TextMessage)
			for range 60 {
				if _, err := w.Write(make([]byte, 5000)); err != nil {
					return
				}
			}
		}, websocket.CloseMessageTooBig},
		{"not masked", func(c *websocket.Conn) { raw(c, []byte{0x81, 2, '{', '}'}) }, websocket.CloseProtocolError},
		{"a continuation of nothing", func(c *websocket.Conn) { raw(c, append([]byte{0x80, 0x80}, mask...)) }, websocket.CloseProtocolError},
		{"half a message", func(c *websocket.Conn) { raw(c, append([]byte{0x01, 0x80}, mask...)) }, websocket.ClosePolicyViolation},
		{"a code that is none", func(c *websocket.Conn) { raw(c, append([]byte{0x8b, 0x80}, mask...)) }, websocket.CloseProtocolError},
		{"goodbye", func(c *websocket.Conn) {
			_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
		}, websocket.CloseNormalClosure},
	} {
		t.Run(x.what, func(t *testing.T) {
			c := dial(t, url, nil)
			x.do(c)
			if got := closeCodeOf(t, c); got != x.want {
				t.Errorf("code %d, want %d", got, x.want)
			}
		})
	}
	eventually(t, "nothing is in flight", func() bool { return s.limiter.inFlight.Load() == 0 && s.sockets.queued.Load() == 0 })
	if s.limiter.refused[limits.ReadTime].Load() != 1 {
		t.Errorf("%d messages were late, want 1", s.limiter.refused[limits.ReadTime].Load())
	}
}

// TestSilentSocketIsClosed: a client that sends nothing is closed; one that sends pongs stays.
func TestSilentSocketIsClosed(t *testing.T) {
	s, url := served(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.SocketPing = 2 * time.Second })})
	there := dial(t, url, nil)
	gone := make(chan error, 1)
	go func() { // the library answers pings while it reads
		_, _, err := there.ReadMessage()
		gone <- err
	}()
	mute := dial(t, url, nil)
	_ = mute
	eventually(t, "the mute one is let go", func() bool { return s.limiter.refused[limits.SocketPing].Load() == 1 })
	time.Sleep(2 * time.Second) // two pings more; absence cannot be waited for
	select {
	case err := <-gone:
		t.Fatalf("the client that sends pongs was closed too: %v", err)
	default:
	}
}

// notices lets a test control subscriptions.
func notices(n *fakeNode) chan *fakeSubscriber {
	subs := make(chan *fakeSubscriber, 16)
	n.subscribed = func(s *fakeSubscriber) { subs <- s }
	return subs
}

func notice(index int, size int) *view.Notice {
	c := view.Cursor{At: testAt, Index: index}
	return &view.Notice{Cursor: c, Body: append(view.AppendCursor([]byte(`"cursor":`), &c), `,"x":"`+strings.Repeat("x", size)+`"`...)}
}

// TestSubscriptionStartsAfterItsReply: a subscription's first message follows the reply with its
// id. It ends when it is cancelled, and with its WebSocket.
func TestSubscriptionStartsAfterItsReply(t *testing.T) {
	n := &fakeNode{}
	subs := notices(n)
	made := n.subscribed
	n.subscribed = func(s *fakeSubscriber) {
		s.start = func() { s.sink.Offer(notice(0, 1)) }
		made(s)
	}
	s, url := served(t, n, Options{})
	c := dial(t, url, nil)
	sendText(t, c, `{"id":1,"method":"subscribe","params":{"topic":"events","account_id":"a.near","standard":"nep141","event":"ft_mint","finality":"optimistic"}}`)
	at := `{"block_hash":"` + testHash.String() + `","height":100}`
	if got, want := receiveText(t, c), `{"jsonrpc":"2.0","result":{"cursor":`+at+`,"subscription":"1"},"id":1}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, want := receiveText(t, c), `{"jsonrpc":"2.0","method":"subscription","params":{"subscription":"1","cursor":`+strings.TrimSuffix(at, "}")+`,"index":0},"x":"x"}}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	first := <-subs
	if q := first.q; q.Topic != view.TopicEvents || q.Account != "a.near" || q.Standard != "nep141" || q.Event != "ft_mint" || q.Finality != view.RefOptimistic || q.Lag != 64 {
		t.Errorf("requested %+v", q)
	}
	sendText(t, c, `{"id":2,"method":"unsubscribe","params":["1"]}`)
	if got := receiveText(t, c); got != `{"jsonrpc":"2.0","result":true,"id":2}` || !first.cancelled.Load() {
		t.Errorf("unsubscribe: %s, cancelled %v", got, first.cancelled.Load())
	}
	sendText(t, c, `{"id":3,"method":"unsubscribe","params":{"subscription":"1"}}`)
	if got := receiveText(t, c); !strings.Contains(got, `"UNKNOWN_SUBSCRIPTION"`) {
		t.Errorf("unsubscribe again: %s", got)
	}
	sendText(t, c, `{"id":4,"method":"subscribe","params":{"topic":"blocks","after":{"block_hash":"`+zeroHash+`","height":7,"index":3}}}`)
	receiveText(t, c)
	second := <-subs
	if a := second.q.After; a == nil || a.Height != 7 || a.Index != 3 || second.q.Finality != view.RefFinal {
		t.Errorf("requested %+v", second.q)
	}
	_ = c.Close()
	eventually(t, "the subscription ends", second.cancelled.Load)
	if s.sockets.subs.Load() != 0 {
		t.Errorf("%d subscriptions are counted", s.sockets.subs.Load())
	}
}

// TestInvalidSubscriptionIsRefused: invalid subscriptions are refused with the reason.
func TestInvalidSubscriptionIsRefused(t *testing.T) {
	n := &fakeNode{}
	_, url := served(t, n, Options{Limits: limited(func(l *limits.Limits) { l.SocketSubs = 1 })})
	c := dial(t, url, nil)
	for params, want := range map[string]string{
		`[]`:                       "PARSE_ERROR",
		`{"topic":"weather"}`:      "unknown variant `weather`",
		`{"topic":"events"}`:       "missing field `account_id`",
		`{"topic":"transactions"}`: "missing field `account_id`",
		`{"topic":"messages","shards":[{"shard_id":1}]}`:                                          "missing field `version`",
		`{"topic":"messages","accounts":[]}`:                                                      "shards and accounts must name 1 to 256 together",
		`{"topic":"transactions","tx_hashes":[]}`:                                                 "tx_hashes must have 1 to 256 hashes",
		`{"topic":"blocks","finality":"maybe"}`:                                                   "unknown variant `maybe`",
		`{"topic":"blocks","from_height":-1}`:                                                     "PARSE_ERROR",
		`{"topic":"blocks","from_height":1,"after":{"block_hash":"` + zeroHash + `","height":1}}`: "after and from_height exclude each other",
	} {
		sendText(t, c, `{"id":1,"method":"subscribe","params":`+params+`}`)
		if got := receiveText(t, c); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", params, got)
		}
	}
	n.err = &view.CursorError{Earliest: 42}
	sendText(t, c, `{"id":1,"method":"subscribe","params":{"topic":"blocks","from_height":1}}`)
	if got := receiveText(t, c); !strings.Contains(got, `"cause":{"info":{"earliest_height":42},"name":"CURSOR_LOST"}`) {
		t.Errorf("a lost cursor: %s", got)
	}
	n.err = nil
	for _, want := range []string{`"subscription":"`, "max_subscriptions_per_websocket"} {
		sendText(t, c, `{"id":1,"method":"subscribe","params":{"topic":"blocks"}}`)
		if got := receiveText(t, c); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestUnreadNoticesStayInQueueBound: for a client that does not read, the node keeps no more than
// its queue. Other clients receive their notices. The client is notified of room once it reads.
func TestUnreadNoticesStayInQueueBound(t *testing.T) {
	n := &fakeNode{}
	subs := notices(n)
	s, url := served(t, n, Options{Limits: limited(func(l *limits.Limits) { l.QueueMessages, l.QueueBytes = 64, 1<<20 })})
	lazy := dial(t, url, nil)
	sendText(t, lazy, `{"id":1,"method":"subscribe","params":{"topic":"blocks"}}`)
	receiveText(t, lazy) // that it has begun
	sub := <-subs
	sent := 0
	// What the system's buffers take off the queue does not count.
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		if !sub.sink.Offer(notice(sent, 100_000)) {
			time.Sleep(time.Millisecond)
		} else if sent++; sent > 1000 {
			t.Fatal("the queue never fills up")
		} else {
			end = time.Now().Add(300 * time.Millisecond)
		}
	}
	if q := s.sockets.queued.Load(); q > 2<<20 {
		t.Errorf("%d bytes are kept", q)
	}
	room := make(chan struct{})
	sub.sink.WhenRoom(func() { close(room) })
	select {
	case <-room:
		t.Error("notified of room although the client has not read")
	case <-time.After(50 * time.Millisecond):
	}
	busy := dial(t, url, nil)
	sendText(t, busy, `{"id":1,"method":"subscribe","params":{"topic":"blocks"}}`)
	receiveText(t, busy)
	other := <-subs
	other.sink.Offer(notice(0, 1))
	if got := receiveText(t, busy); !strings.Contains(got, `"index":0`) {
		t.Errorf("the other subscriber: %s", got)
	}
	at := view.Cursor{At: testAt, Index: sent - 1}
	sub.sink.End(view.EndSlow, &at)
	for i := range sent {
		if got := receiveText(t, lazy); !strings.Contains(got, fmt.Sprintf(`"index":%d}`, i)) {
			t.Fatalf("message %d: %.200s", i, got)
		}
	}
	if got, want := receiveText(t, lazy), fmt.Sprintf(`"index":%d},"closed":{"reason":"SLOW_READER"}}}`, sent-1); !strings.HasSuffix(got, want) {
		t.Errorf("the end: %s", got)
	}
	<-room
}

// TestShutdownSendsCursorAndClose: on shutdown subscribers get the cursor to resume from, and all
// clients a close message.
func TestShutdownSendsCursorAndClose(t *testing.T) {
	n := &fakeNode{}
	subs := notices(n)
	o := Options{Addr: "127.0.0.1:0"}
	s := newServer(t, n, o)
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	url := "ws://" + l.Addr().String() + "/ws"
	c, lazy, half := dial(t, url, nil), dial(t, url, nil), dial(t, url, nil)
	sendText(t, c, `{"id":1,"method":"subscribe","params":{"topic":"blocks"}}`)
	receiveText(t, c)
	<-subs
	sendText(t, lazy, `{"id":1,"method":"subscribe","params":{"topic":"blocks"}}`)
	sub := <-subs
	for i := 0; sub.sink.Offer(notice(i, 100_000)); i++ {
	}
	if _, err := half.NetConn().Write([]byte{0x81}); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := receiveText(t, c); !strings.Contains(got, `"closed":{"reason":"NODE_STOPPING"}`) {
		t.Errorf("got %s", got)
	}
	if code := closeCodeOf(t, c); code != websocket.CloseGoingAway {
		t.Errorf("code %d, want %d", code, websocket.CloseGoingAway)
	}
	eventually(t, "all are forgotten", func() bool {
		s.sockets.mu.Lock()
		defer s.sockets.mu.Unlock()
		return len(s.sockets.open) == 0
	})
}

// TestClientThatReadsNothingIsCutOff: a client that reads nothing at all is cut off after
// write_timeout, with everything queued for it.
func TestClientThatReadsNothingIsCutOff(t *testing.T) {
	n := &fakeNode{}
	subs := notices(n)
	s, url := served(t, n, Options{Limits: limited(func(l *limits.Limits) { l.WriteTimeout = 100 * time.Millisecond })})
	var d net.Dialer
	nc, err := d.DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(url, "ws://"), "/ws"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, _ = io.WriteString(nc, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	text := `{"id":1,"method":"subscribe","params":{"topic":"blocks"}}`
	_, _ = nc.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...))
	sub := <-subs
	for i := 0; !sub.cancelled.Load(); i++ {
		sub.sink.Offer(notice(i, 1<<20))
		time.Sleep(time.Millisecond)
		if i > 20_000 {
			t.Fatal("the client was not disconnected")
		}
	}
	eventually(t, "nothing is kept", func() bool { return s.sockets.queued.Load() == 0 && s.sockets.subs.Load() == 0 })
	if !bytes.Contains(s.AppendMetrics(nil), []byte(`troupe_rpc_limit_refusals_total{limit="write_timeout"} 1`)) {
		t.Error("write_timeout is not counted in /metrics")
	}
}

// TestSocketsBeyondLimitsAreRefused: a client beyond a limit is refused, or waits, and /metrics
// counts it.
func TestSocketsBeyondLimitsAreRefused(t *testing.T) {
	block := make(chan struct{})
	n := &fakeNode{tx: func(ctx context.Context, _ *view.GetTx) (*view.FinalOutcome, error) {
		<-block
		return &view.FinalOutcome{Level: view.LevelFinal}, nil
	}}
	subs := notices(n)
	over := func(s *Server, key string) {
		t.Helper()
		eventually(t, key+" is over", func() bool {
			text := string(s.AppendMetrics(nil))
			return strings.Contains(text, `troupe_rpc_limit_refusals_total{limit="`+key+`"} `) &&
				!strings.Contains(text, `troupe_rpc_limit_refusals_total{limit="`+key+`"} 0`)
		})
	}
	begin := func(c *websocket.Conn) string {
		t.Helper()
		sendText(t, c, `{"id":1,"method":"subscribe","params":{"topic":"blocks"}}`)
		return receiveText(t, c)
	}

	s, url := served(t, n, Options{Limits: limited(func(l *limits.Limits) {
		l.AddressSockets = limits.ByAddress{Max: 2, Loopback: true}
		l.AddressSubs = limits.ByAddress{Max: 3, Loopback: true}
		l.SocketWaits = 2
	})})
	a, b := dial(t, url, nil), dial(t, url, nil)
	if _, reply, err := websocket.DefaultDialer.Dial(url, nil); err == nil || reply.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a third WebSocket: %v", err)
	}
	over(s, "max_websockets_per_address")
	for _, c := range []*websocket.Conn{a, b, a, b} {
		begin(c)
	}
	over(s, "max_subscriptions_per_address")
	for range 3 {
		sendText(t, a, `{"method":"tx","params":["`+zeroHash+`","a.near"],"id":1}`)
	}
	sendText(t, a, `{"method":"health","id":2}`)
	over(s, "max_websocket_waits")
	close(block)
	for want := 4; want > 0; want-- { // the third and later messages have waited
		receiveText(t, a)
	}

	s, url = served(t, n, Options{Limits: limited(func(l *limits.Limits) { l.Subscriptions, l.QueuedBytes, l.QueueMessages = 2, 1<<20, 8 })})
	a, b = dial(t, url, nil), dial(t, url, nil)
	for len(subs) > 0 {
		<-subs
	}
	for i, want := range []string{`"subscription":"1"`, `"subscription":"2"`, "max_subscriptions)"} {
		if got := begin(a); i < 2 && !strings.Contains(got, want) || i == 2 && !strings.Contains(got, "troupe.rpc.max_subscriptions") {
			t.Errorf("subscription %d: %s", i, got)
		}
	}
	over(s, "max_subscriptions")
	sink := (<-subs).sink
	fill := func(size int) { // until nothing has left for a while
		for refused, last := 0, time.Now(); refused < 100 || time.Since(last) < 200*time.Millisecond; refused++ {
			if sink.Offer(notice(0, size)) {
				refused, last = 0, time.Now()
			}
		}
	}
	fill(300_000) // more than the system's buffers take
	over(s, "max_queued_bytes")
	sendText(t, b, `{"method":"health","id":3}`)
	if got := receiveText(t, b); !strings.HasSuffix(got, `"id":3}`) {
		t.Errorf("another client, where all queues are full: %s", got)
	}
	fill(1)
	over(s, "max_queue_messages")

	s, url = served(t, n, Options{PollingTimeout: 50 * time.Millisecond, Limits: limited(func(l *limits.Limits) {
		l.AddressWork = limits.ByAddress{Max: 1, Loopback: true}
	})})
	a = dial(t, url, nil)
	for i := range 3 {
		if got := begin(a); strings.Contains(got, "max_work_per_address") != (i > 0) {
			t.Errorf("subscription %d of an address that may have a millisecond in a second: %s", i, got)
		}
	}
	over(s, "max_work_per_address")

	for len(subs) > 0 {
		<-subs
	}
	s, url = served(t, n, Options{Limits: limited(func(l *limits.Limits) { l.QueueBytes = 64 << 10 })})
	a = dial(t, url, nil)
	begin(a)
	for sink = (<-subs).sink; len(subs) > 0; sink = (<-subs).sink {
	}
	fill(60_000)
	over(s, "max_queue_bytes")
}
