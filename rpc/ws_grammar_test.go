package rpc

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// socketScript is the conversation of one client on a WebSocket, as bytes decide: messages from the
// document in all kinds of frames, sometimes ending with an invalid frame.
type socketScript struct {
	*grammar
	t       *testing.T
	s       *Server
	names   []string
	beside  []string // those that may run concurrently: the fake node has no locks
	net     net.Conn
	replies chan string // closed when the WebSocket ends
	asked   int         // messages whose replies are outstanding
	subs    int         // that were requested
}

// talkPatience bounds every step.
const talkPatience = time.Minute

// frame writes one frame, masked as a client has to.
func (k *socketScript) frame(first byte, payload []byte) {
	b := []byte{first, 0x80}
	switch n := len(payload); {
	case n < 126:
		b[1] |= byte(n)
	case n < 1<<16:
		b[1] |= 126
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b[1] |= 127
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	mask := [4]byte{byte(k.pick(256)), byte(k.pick(256)), 7, byte(k.pick(256))}
	b = append(b, mask[:]...)
	for i, x := range payload {
		b = append(b, x^mask[i%4])
	}
	_, _ = k.net.Write(b) // if it has ended, reading shows that
}

// The first byte of frames.
const (
	finText, finBinary, finClose, finPing, finPong = 0x81, 0x82, 0x88, 0x89, 0x8a
	beginText, goesOn, finMore                     = 0x01, 0x00, 0x80
)

// message sends a text, in one frame or several, sometimes with other frames in between.
func (k *socketScript) message(text string) {
	k.asked++
	n := k.pick(5)
	if n == 0 || len(text) < n {
		k.frame(finText, []byte(text))
		return
	}
	kind := byte(beginText)
	for range n {
		at := k.pick(len(text) + 1)
		k.frame(kind, []byte(text[:at]))
		if k.pick(4) == 3 {
			k.frame(finPing, []byte("between"))
		}
		text, kind = text[at:], goesOn
	}
	k.frame(finMore, []byte(text))
}

// reply returns the next reply; false: the WebSocket has ended, or is silent.
func (k *socketScript) reply() (string, bool) {
	select {
	case r, ok := <-k.replies:
		if ok {
			k.asked--
		} else {
			k.t.Error("it has ended")
		}
		return r, ok
	case <-time.After(talkPatience):
		k.t.Error("no reply")
		return "", false
	}
}

// ask sends one request and compares the reply with that of POST.
func (k *socketScript) ask(r grammarRequest) bool {
	k.spoiled = k.spoiled || r.path != "/" // not a request here
	k.message(r.body)
	got, ok := k.reply()
	if !ok {
		k.t.Errorf("to %.600s", r.body)
		return false
	}
	if !strings.Contains(got, "too many requests: troupe.rpc.") {
		if err := k.held(r, 200, got); err != nil {
			k.t.Errorf("error %v\nbody:\n%.600s\ngot:\n%.600s", err, r.body, got)
		}
	}
	if r.method == subscribe.Name || r.method == unsubscribe.Name || strings.Contains(r.body, "subscribe") {
		return true
	}
	if _, want := post(k.s, "/", r.body); got != want {
		k.t.Errorf("%.600s\n got %.600s\nwant %.600s", r.body, got, want)
	}
	return true
}

// some generates a request of a method, more often one of subscriptions.
func (k *socketScript) some(names []string) grammarRequest {
	k.spoiled = false
	switch k.pick(4) {
	case 0:
		k.subs++
		return k.request([]string{subscribe.Name})
	case 1:
		return grammarRequest{"/", fmt.Sprintf(`{"id":1,"method":"unsubscribe","params":["%d"]}`, k.pick(k.subs+2)), unsubscribe.Name}
	}
	return k.request(names)
}

// breaks are frames that a client must not send, or that close the WebSocket. The server has to end
// it.
var breaks = [][]byte{
	{0x81, 0x02, '{', '}'},                                          // without a mask
	{0xc1, 0x80, 0, 0, 0, 0},                                        // compressed
	{0x83, 0x80, 0, 0, 0, 0},                                        // an unknown opcode
	{0x89, 0xfe, 0, 126, 0, 0, 0, 0},                                // a long ping
	{0x09, 0x80, 0, 0, 0, 0},                                        // a fragmented ping
	{0x80, 0x80, 0, 0, 0, 0},                                        // a continuation without a beginning
	{0x01, 0x81, 0, 0, 0, 0, '[', 0x81, 0x81, 0, 0, 0, 0, ']'},      // a message within another
	{0x81, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},             // a negative length
	{0x81, 0xff, 0, 0, 0, 0, 0xff, 0, 0, 1, 0, 0, 0, 0},             // 4 GiB
	{0x88, 0x81, 0, 0, 0, 0, 3},                                     // half of a close code
	{0x88, 0x82, 0, 0, 0, 0, 0x03, 0xed},                            // a close code that may not be sent
	{0x88, 0x84, 0, 0, 0, 0, 0x03, 0xe8, 0xff, 0xfe},                // a reason that is not UTF-8
	{0x88, 0x80, 0, 0, 0, 0},                                        // a close without a code
	{0x88, 0x86, 0, 0, 0, 0, 0x03, 0xe8, 'd', 'o', 'n', 'e'},        // a plain close
	{0x82, 0x82, 0, 0, 0, 0, '{', '}'},                              // a binary message
	{0x82, 0xff, 0, 0, 0, 0, 0xff, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4}, // a long one
}

// run talks until the bytes are used up.
func (k *socketScript) run() {
	for steps := 0; len(k.in) > 0 && steps < 12; steps++ {
		switch k.pick(10) {
		default:
			if !k.ask(k.some(k.names)) {
				return
			}
		case 5: // several at once
			for range 2 + k.pick(4) {
				k.message(k.some(k.beside).body)
			}
			k.spoiled = true
			for k.asked > 0 {
				got, ok := k.reply()
				if !ok {
					return
				}
				if err := k.held(grammarRequest{}, 200, got); err != nil && !strings.Contains(got, "too many requests: troupe.rpc.") {
					k.t.Errorf("error %v\ngot:\n%.600s", err, got)
				}
			}
		case 6:
			k.frame(byte([]byte{finPing, finPong}[k.pick(2)]), make([]byte, k.pick(126)))
		case 7:
			one, other := k.some(k.beside), k.some(k.beside)
			k.spoiled = true
			if !k.ask(grammarRequest{"/", "[" + one.body + "," + other.body + "]", ""}) {
				return
			}
		case 8:
			k.spoiled = true
			if !k.ask(grammarRequest{"/", odd[k.pick(len(odd))] + "\xff", ""}) {
				return
			}
		case 9:
			if k.pick(3) != 2 {
				continue
			}
			k.end()
			return
		}
	}
}

// end breaks the protocol, or hangs up in the middle of something.
func (k *socketScript) end() {
	switch k.pick(4) {
	case 0: // while requests are under way
		k.message(k.some(k.beside).body)
		k.message(k.some(k.beside).body)
	case 1: // in the middle of a frame
		_, _ = k.net.Write([]byte{0x81, 0xfe, 1, 0, 0, 0, 0, 0, '{'})
	case 2: // at any moment
		_, _ = k.net.Write(k.in)
	default:
		_, _ = k.net.Write(breaks[k.pick(len(breaks))])
		for timeout := time.After(talkPatience); ; {
			select {
			case _, ok := <-k.replies:
				if ok {
					continue
				}
			case <-timeout:
				k.t.Error("the measurement did not stop")
			}
			return
		}
	}
}

// runSocketScript runs one client, and waits until nothing of it is left.
func runSocketScript(t *testing.T, w *socketScriptServer, in []byte) {
	c, _, err := websocket.DefaultDialer.Dial(w.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := &socketScript{grammar: &grammar{schemas: w.doc, in: in}, t: t, s: w.s, names: w.names, beside: w.beside, net: c.NetConn(), replies: make(chan string, 1024)}
	k.spoils = k.pick(4) > 0
	go func() {
		defer close(k.replies)
		for {
			_, b, err := c.ReadMessage()
			if err != nil {
				return
			}
			if strings.HasPrefix(string(b), `{"jsonrpc":"2.0","method":"subscription"`) {
				if !json.Valid(b) {
					t.Errorf("received %s", b)
				}
				continue
			}
			k.replies <- string(b)
		}
	}()
	k.run()
	_ = c.Close()
	for range k.replies { // up to the end
	}
	for end := time.Now().Add(talkPatience); ; time.Sleep(50 * time.Microsecond) {
		left := w.left()
		if left == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left after the client has disconnected: %s", left)
		}
	}
}

// socketScriptServer is a server on loopback, the document, and the methods.
type socketScriptServer struct {
	s             *Server
	n             *grammarNode
	url           string
	doc           *schemas
	names, beside []string
}

// left returns what differs from the state before the first client.
func (w *socketScriptServer) left() string {
	w.s.sockets.mu.Lock()
	open := len(w.s.sockets.open)
	w.s.sockets.mu.Unlock()
	w.s.limiter.mu.Lock()
	conns := len(w.s.limiter.conns)
	w.s.limiter.mu.Unlock()
	counts := []int64{int64(open), int64(conns), w.s.sockets.queued.Load(), w.s.sockets.subs.Load(), w.s.limiter.inFlight.Load(), w.s.metrics.waiting.Load(), w.n.sessions.Load()}
	if slices.Max(counts) == 0 && slices.Min(counts) == 0 {
		return ""
	}
	return fmt.Sprint("WebSockets, connections, queued, subscriptions, in flight, waiting, sessions: ", counts)
}

func newSocketScript(tb testing.TB) *socketScriptServer {
	_, doc, names := newGrammar(tb)
	n := &grammarNode{}
	n.subscribed = func(s *fakeSubscriber) {
		s.start = func() {
			for i := range 3 {
				s.sink.Offer(notice(i, 10))
			}
		}
	}
	n.tx = func(ctx context.Context, q *view.GetTx) (*view.FinalOutcome, error) {
		if q.WaitUntil != view.LevelFinal {
			return &view.FinalOutcome{Level: q.WaitUntil}, nil
		}
		<-ctx.Done()
		return nil, &view.LookupError{Kind: view.ErrTimeout}
	}
	s, err := New(n, Options{Addr: "127.0.0.1:0", PollingTimeout: 10 * time.Millisecond, IndexerRequests: 1, Limits: limited(func(l *limits.Limits) { l.SocketSubs, l.SocketWaits = 4, 3 })})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := s.Listen()
	if err != nil {
		tb.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	tb.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	steers := func(name string) bool { return byName[name].sandbox || byName[name].submits }
	return &socketScriptServer{s, n, "ws://" + l.Addr().String() + "/ws", doc, names, slices.DeleteFunc(slices.Clone(names), steers)}
}

// TestGeneratedSocketTrafficIsAnswered runs clients that use all frames and requests that the
// document allows, and others. Each message gets the answer of POST, clients that break the
// protocol are closed, all replies are prompt, and nothing of a client remains after its end.
func TestGeneratedSocketTrafficIsAnswered(t *testing.T) {
	w := newSocketScript(t)
	rng := rand.New(rand.NewSource(1))
	before := runtime.NumGoroutine()
	for i := range 1500 {
		in := make([]byte, 8+rng.Intn(400))
		rng.Read(in)
		if runSocketScript(t, w, in); t.Failed() {
			t.Fatalf("talk %d: %x", i, in)
		}
	}
	if n := w.s.metrics.panics.Load(); n != 0 {
		t.Errorf("%d panics", n)
	}
	eventually(t, "their goroutines end", func() bool { return runtime.NumGoroutine() <= before+4 })
}

// FuzzSocket is TestGeneratedSocketTrafficIsAnswered on the fuzzer's bytes.
func FuzzSocket(f *testing.F) {
	w := newSocketScript(f)
	f.Add([]byte{})
	for i := range 16 { // each way to break the protocol
		f.Add([]byte{1, 9, 2, 3, byte(i)})
	}
	f.Add([]byte("\x01\x00\x00 the quick brown fox jumps over the lazy dog and subscribes to what it does"))
	f.Fuzz(func(t *testing.T, in []byte) {
		runSocketScript(t, w, in)
		if n := w.s.metrics.panics.Load(); n != 0 {
			t.Errorf("%d panics", n)
		}
	})
}
