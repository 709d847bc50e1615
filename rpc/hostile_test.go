package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// serve listens on an address of the loopback network.
func serve(t *testing.T, n *fakeNode, o Options) (*Server, string) {
	t.Helper()
	o.Addr = "127.0.0.1:0"
	s := newServer(t, n, o)
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

// dialFrom connects from an address of the loopback network.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a body on a connection.
func ask(c net.Conn, body string, headers ...string) (*http.Response, string, error) {
	request := fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s", len(body), strings.Join(append(headers, ""), "\r\n"), body)
	go func() { _, _ = io.WriteString(c, request) }() // the server may refuse before all is sent
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r, string(text), err
}

const healthy = `{"method":"health","id":1}`

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestReplyDoesNotGrowWithRequest: a reply does not grow with the request, whichever part of it is
// long, and is fast.
func TestReplyDoesNotGrowWithRequest(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	junk := strings.Repeat("\x7f", 1<<20)
	deep := strings.Repeat(`{"`+strings.Repeat("k", 30_000)+`":`, 126) + "x"
	bodies := []string{
		`{"id":1,"method":"` + junk + `"}`, junk, `"` + junk + `"`, deep,
		`{"id":1,"method":"health","` + junk + `":1`, `{"id":1,"method":"health","params":` + strings.Repeat("9", 4<<20) + `}`,
		`{"id":1,"method":"gas_price","params":[1.` + strings.Repeat("9", 4<<20) + `]}`,
	}
	for i := range methods {
		m := methods[i].name
		bodies = append(bodies, `{"id":1,"method":"`+m+`","params":"`+junk+`"}`, `{"id":1,"method":"`+m+`","params":["`+junk+`"]}`,
			`{"id":1,"method":"`+m+`","params":["`+junk+`","`+junk[:9]+`"]}`)
		if p := goodParams[m]; strings.HasPrefix(p, "{") { // each value of a valid request
			for _, member := range strings.Split(strings.Trim(p, "{}"), ",") {
				key, _, ok := strings.Cut(member, ":")
				if !ok {
					continue
				}
				bodies = append(bodies, `{"id":1,"method":"`+m+`","params":`+strings.Replace(p, member, key+`:"`+junk+`"`, 1)+`}`)
			}
		}
	}
	for _, body := range bodies {
		start := time.Now()
		_, reply := post(s, "/", body)
		if took := time.Since(start); len(reply) > 8<<10 || took > 20*time.Second {
			t.Errorf("%.80q: a reply of %d bytes in %v", body, len(reply), took)
		}
		if _, reply = post(s, "/block", body); len(reply) > 8<<10 {
			t.Errorf("POST /block %.80q: a reply of %d bytes", body, len(reply))
		}
	}
}

// TestEchoedIDsAreBounded: echoing an id that is an object takes linear time, and its length is
// bounded.
func TestEchoedIDsAreBounded(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	object := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%06x":0`, i*2654435761%(1<<24))
		}
		return "{" + b.String()[1:] + "}"
	}
	if status, reply := post(s, "/", `{"method":"health","id":`+object(12_000)+`}`); status != 400 || !strings.Contains(reply, "an id that is no text may have at most 4096 bytes") {
		t.Errorf("a long id: %d %.300s", status, reply)
	}
	if _, reply := post(s, "/", `[{"method":"health","id":`+object(12_000)+`}]`); !strings.Contains(reply, "an id that is no text may have at most 4096 bytes") {
		t.Errorf("a long id in a batch: %.300s", reply)
	}
	if status, reply := post(s, "/", `{"method":"health","id":`+object(300)+`}`); status != 200 || !strings.Contains(reply, `"id":{"000000":0,`) {
		t.Errorf("an id of 300 members: %d %.300s", status, reply)
	}
	var d document
	if err := d.parse([]byte(object(100_000))); err != nil {
		t.Fatal(err.text)
	}
	start := time.Now()
	// It would take minutes if it were quadratic.
	if got := len((val{&d, 0}).appendCompact(nil)); got < 100_000 || time.Since(start) > 20*time.Second {
		t.Errorf("100,000 members: %d bytes in %v", got, time.Since(start))
	}
}

// TestBodyBeyondBoundIsRefusedEarly: a body beyond a bound is refused while it is read, and costs
// no more than one within it.
func TestBodyBeyondBoundIsRefusedEarly(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.JSONNodes = 10_000 })})
	for _, body := range []string{
		`{"method":"health","params":[` + strings.Repeat("0,", 5<<20) + `0]}`, "[" + strings.Repeat("[0],", 2<<20) + "0]",
	} {
		var status int
		var reply string
		cost := allocated(func() { status, reply = post(s, "/", body) })
		if status != 400 || !strings.Contains(reply, "the request has more than 10000 values") && !strings.Contains(reply, "a batch may hold at most 100") {
			t.Errorf("status %d, reply %.300s", status, reply)
		}
		if most := uint64(len(body)) + 4<<20; cost > most { // the test's own copy of the body, and the nodes
			t.Errorf("%d bytes allocated, want at most %d", cost, most)
		}
	}
	// Parameters of one method may have more items than a batch has requests.
	list := `["` + strings.Repeat(`a.near","`, 500) + `a.near"]`
	if status, reply := post(s, "/changes", `{"changes_type":"account_changes","account_ids":`+list+`,"finality":"final"}`); status != 200 {
		t.Errorf("500 accounts: %d %.300s", status, reply)
	}
}

// bigState has code of a megabyte in every account.
func bigState() *fakeNode {
	n := &fakeNode{}
	n.state.account = &primitives.Account{Contract: primitives.AccountContract{Kind: primitives.ContractLocal}}
	n.state.code = make([]byte, 1<<20)
	return n
}

const viewCodeBody = `{"method":"query","id":1,"params":{"request_type":"view_code","finality":"final","account_id":"a.near"}}`

// TestBatchHasOneReplyBudget: a batch has one budget for all its replies; a reply beyond it is a
// refusal.
func TestBatchHasOneReplyBudget(t *testing.T) {
	s := newServer(t, bigState(), Options{Limits: limited(func(l *limits.Limits) { l.Reply = 4 << 20 })})
	status, reply := post(s, "/", "["+strings.Repeat(viewCodeBody+",", 99)+healthy+"]")
	if status != 200 || len(reply) > 4<<20+100*1024 {
		t.Errorf("a batch: %d, %d bytes", status, len(reply))
	}
	if n := strings.Count(reply, `"code_base64"`); n != 2 {
		t.Errorf("%d replies have code, want the 2 that fit", n)
	}
	if n := strings.Count(reply, "max_reply_bytes"); n < 97 {
		t.Errorf("%d replies have a reason", n)
	}
	s = newServer(t, bigState(), Options{Limits: limited(func(l *limits.Limits) { l.Reply = 64 << 10 })})
	if status, reply := post(s, "/", viewCodeBody); status != 413 || !strings.Contains(reply, "INTERNAL_ERROR") {
		t.Errorf("one that is too large: %d %.300s", status, reply)
	}
}

// TestSlowReadersHoldBoundedBytes: clients that do not read hold no more than the limit, small
// requests are served, and the write timeout closes those clients.
func TestSlowReadersHoldBoundedBytes(t *testing.T) {
	const most = 20 << 20
	s, addr := serve(t, bigState(), Options{Limits: limited(func(l *limits.Limits) {
		l.InFlight, l.WriteTimeout = most, 500*time.Millisecond
	})})
	batch := "[" + strings.Repeat(viewCodeBody+",", 6) + healthy + "]"
	for range 16 {
		c := dialFrom(t, "127.0.0.1", addr)
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(batch), batch); err != nil {
			t.Fatal(err)
		}
	}
	c := dialFrom(t, "127.0.0.1", addr)
	for range 20 {
		if r, text, err := ask(c, healthy); err != nil || r.StatusCode != 200 {
			t.Fatalf("beside slow readers: %v %s", err, text)
		}
		if now := s.limiter.inFlight.Load(); now > most {
			t.Errorf("%d bytes in flight", now)
		}
		time.Sleep(5 * time.Millisecond)
	}
	eventually(t, "bytes in flight are given back", func() bool { return s.limiter.inFlight.Load() == 0 })
	if s.limiter.refused[limits.WriteTime].Load() == 0 {
		t.Error("no slow reader was cut off")
	}
	// An announced body that is not sent costs nothing; one that is sent is counted.
	for range 50 {
		c := dialFrom(t, "127.0.0.1", addr)
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n["); err != nil {
			t.Fatal(err)
		}
	}
	if r, text, err := ask(c, healthy); err != nil || r.StatusCode != 200 {
		t.Errorf("beside half requests: %v %s", err, text)
	}
	if now := s.limiter.inFlight.Load(); now > most/2 {
		t.Errorf("%d bytes in flight for bodies that were not sent", now)
	}
}

func TestRefusalNamesTheReachedLimit(t *testing.T) {
	s, addr := serve(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) {
		l.InFlight, l.AddressInFlight = 64<<20, limits.ByAddress{Max: 1 << 20, Loopback: true}
	})})
	r, text, err := ask(dialFrom(t, "127.0.0.2", addr), healthy+strings.Repeat(" ", 4<<20))
	if err != nil || r.StatusCode != 503 || !strings.Contains(text, "troupe.rpc.max_bytes_in_flight_per_address") {
		t.Errorf("error %v, text %s", err, text)
	}
	if a, b := s.limiter.refused[limits.MaxAddressInFlight].Load(), s.limiter.refused[limits.MaxInFlight].Load(); a != 1 || b != 0 {
		t.Errorf("%d refusals by address, %d in all", a, b)
	}
}

func eventually(t *testing.T, what string, have func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !have(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func TestIdleConnectionsKeepOutNoClient(t *testing.T) {
	s, addr := serve(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.Connections = 20 })})
	honest := dialFrom(t, "127.0.0.2", addr)
	if r, text, err := ask(honest, healthy); err != nil || r.StatusCode != 200 {
		t.Fatalf("error %v, text %s", err, text)
	}
	for range 40 {
		c := dialFrom(t, "127.0.0.3", addr)
		if r, text, err := ask(c, healthy); err != nil || r.StatusCode != 200 {
			t.Fatalf("error %v, text %s", err, text)
		}
	}
	for _, path := range []string{"/status", "/metrics"} {
		r, err := http.Get("http://" + addr + path)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("GET %s with all places taken: %v %v", path, r, err)
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if path == "/metrics" && !strings.Contains(string(text), "troupe_rpc_limit_fill{limit=\"max_connections\"} 20\n") {
			t.Errorf("metrics: %s", text)
		}
	}
	// The evicted connections were those of the address with most, not the ones idle for longest.
	if r, text, err := ask(honest, healthy); err != nil || r.StatusCode != 200 {
		t.Errorf("the connection of another address was closed: %v %s", err, text)
	}
	if n := s.limiter.evicted.Load(); n < 21 {
		t.Errorf("%d connections gave way", n)
	}
}

// TestRefusedConnectionGetsReadableReply: a refused connection gets a reply that browsers and
// JSON-RPC clients understand.
func TestRefusedConnectionGetsReadableReply(t *testing.T) {
	stop := make(chan struct{})
	n := &fakeNode{sendTx: func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) {
		select {
		case <-ctx.Done():
		case <-stop:
		}
		return nil, &view.LookupError{Kind: view.ErrTimeout}
	}}
	s, addr := serve(t, n, Options{PollingTimeout: time.Minute, CORSOrigins: []string{"https://a.example"}, Limits: limited(func(l *limits.Limits) {
		l.Connections, l.AddressConnections = 4, limits.ByAddress{Max: 2, Loopback: true}
	})})
	defer close(stop)
	wait := func(from string) {
		c := dialFrom(t, from, addr)
		body := `{"method":"send_tx","params":["` + signedText() + `"]}`
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	wait("127.0.0.2")
	wait("127.0.0.2")
	eventually(t, "both wait", func() bool { return s.Waiting() == 2 })
	refused := func(from, key string) {
		t.Helper()
		r, text, err := ask(dialFrom(t, from, addr), healthy, "Origin: https://a.example")
		if err != nil || r.StatusCode != 503 || r.Header.Get("Access-Control-Allow-Origin") != "https://a.example" ||
			r.Header.Get("Content-Type") != "application/json" || !strings.Contains(text, `"name":"INTERNAL_ERROR"`) || !strings.Contains(text, key) {
			t.Errorf("from %s: %v %v %s", from, err, r, text)
		}
	}
	refused("127.0.0.2", "troupe.rpc.max_connections_per_address")
	wait("127.0.0.3")
	wait("127.0.0.3")
	eventually(t, "all wait", func() bool { return s.Waiting() == 4 })
	refused("127.0.0.4", "troupe.rpc.max_connections")
	if text := string(s.AppendMetrics(nil)); !strings.Contains(text, "troupe_rpc_limit_refusals_total{limit=\"max_connections_per_address\"} 1\n") ||
		!strings.Contains(text, "troupe_rpc_limit_refusals_total{limit=\"max_connections\"} 1\n") {
		t.Errorf("metrics: %s", text)
	}
}

// TestLoopbackIsExemptFromAddressLimits: limits by address do not apply to loopback unless they are
// set.
func TestLoopbackIsExemptFromAddressLimits(t *testing.T) {
	_, addr := serve(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.AddressConnections.Max = 2 })})
	for range 5 {
		if r, text, err := ask(dialFrom(t, "127.0.0.2", addr), healthy); err != nil || r.StatusCode != 200 {
			t.Errorf("error %v, text %s", err, text)
		}
	}
}

// TestOnlyTrustedProxyNamesTheClient: X-Forwarded-For of a trusted proxy determines the client, and
// only the address that the proxy added itself.
func TestOnlyTrustedProxyNamesTheClient(t *testing.T) {
	started := make(chan struct{}, 8)
	n := &fakeNode{sendTx: func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	_, addr := serve(t, n, Options{PollingTimeout: time.Second, TrustedProxies: []string{"127.0.0.9", "10.0.0.0/8"}, Limits: limited(func(l *limits.Limits) {
		l.AddressParked.Max = 1
	})})
	body := `{"method":"send_tx","params":["` + signedText() + `"]}`
	try := func(from, header string) string {
		_, text, err := ask(dialFrom(t, from, addr), body, "X-Forwarded-For: "+header)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var all sync.WaitGroup
	all.Go(func() { try("127.0.0.9", "1.1.1.1, 7.7.7.7, 10.1.2.3") }) // 7.7.7.7 waits
	<-started
	const key = "max_parked_per_address"
	if text := try("127.0.0.9", "2.2.2.2, 7.7.7.7"); !strings.Contains(text, key) {
		t.Errorf("the same client by the proxy: %s", text)
	}
	all.Go(func() {
		if text := try("127.0.0.9", "7.7.7.7, 8.8.8.8"); strings.Contains(text, key) {
			t.Errorf("another client by the proxy: %s", text)
		}
	})
	<-started
	all.Go(func() {
		if text := try("127.0.0.8", "7.7.7.7"); strings.Contains(text, key) {
			t.Errorf("X-Forwarded-For of an untrusted client was used: %s", text)
		}
	})
	<-started
	all.Wait()
	if _, err := New(&fakeNode{}, Options{TrustedProxies: []string{"nonsense"}}); err == nil {
		t.Error("a proxy that is no address is taken")
	}
}

// TestShutdownDoesNotWaitForSlowClients: incomplete requests and clients that do not read end with
// the server, which closes them. By themselves they would end after an hour.
func TestShutdownDoesNotWaitForSlowClients(t *testing.T) {
	if lastWords+lastWait >= time.Second {
		t.Errorf("a shutdown may take %v", lastWords+lastWait)
	}
	n := bigState()
	n.sendTx = func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s := newServer(t, n, Options{Addr: "127.0.0.1:0", PollingTimeout: time.Hour, Limits: limited(func(l *limits.Limits) {
		l.ReadTimeout, l.WriteTimeout, l.IdleTimeout, l.BatchTimeout = time.Hour, time.Hour, time.Hour, time.Hour
	})})
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	addr := l.Addr().String()
	var open []net.Conn
	for _, half := range []string{"", "POST / HT", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"} {
		c := dialFrom(t, "127.0.0.1", addr)
		open = append(open, c)
		if _, err := io.WriteString(c, half); err != nil {
			t.Fatal(err)
		}
	}
	slow := dialFrom(t, "127.0.0.1", addr)
	_ = slow.(*net.TCPConn).SetReadBuffer(4096)
	batch := "[" + strings.Repeat(viewCodeBody+",", 15) + healthy + "]"
	fmt.Fprintf(slow, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(batch), batch)
	eventually(t, "the slow reader is served", func() bool { return s.limiter.inFlight.Load() > 16<<20 })
	waits := make(chan string, 1)
	go func() {
		_, text, err := ask(dialFrom(t, "127.0.0.1", addr), `{"method":"send_tx","params":["`+signedText()+`"]}`)
		waits <- fmt.Sprint(err, text)
	}()
	eventually(t, "one waits", func() bool { return s.Waiting() == 1 })
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("shutdown: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the shutdown waits for its clients")
	}
	eventually(t, "no connection is left", func() bool { // also the slow reader's
		s.limiter.mu.Lock()
		defer s.limiter.mu.Unlock()
		return len(s.limiter.conns) == 0
	})
	for i, c := range open {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); timedOut(err) {
			t.Errorf("connection %d is still open", i)
		}
	}
	if got := <-waits; !strings.Contains(got, "the node is stopping") {
		t.Errorf("the waiting request got %s", got)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// TestInternalErrorsAreLogged: replies with 500 are logged with what is needed to reproduce them,
// at a bounded rate.
func TestInternalErrorsAreLogged(t *testing.T) {
	log, hook := test.NewNullLogger()
	n := &fakeNode{err: errors.New("disk on fire")}
	s := newServer(t, n, Options{Log: log})
	for range 3 * maxLoggedErrors {
		callMethod(s, "gas_price", `{"block_id":`+strings.Repeat("1", 15)+`}`)
	}
	entries := hook.AllEntries()
	if len(entries) != maxLoggedErrors {
		t.Fatalf("%d lines, want %d", len(entries), maxLoggedErrors)
	}
	e := entries[0]
	if e.Level != logrus.ErrorLevel || e.Data["method"] != "gas_price" || e.Data["params"] != `{"block_id":111111111111111}` || fmt.Sprint(e.Data["error"]) != "disk on fire" {
		t.Errorf("logged %v %v", e.Level, e.Data)
	}
	hook.Reset()
	s.errorLog.since = time.Now().Add(-2 * time.Minute)
	callMethod(s, "gas_price", `[null]`)
	if e := hook.LastEntry(); e == nil || e.Data["not_logged"] != 2*maxLoggedErrors {
		t.Errorf("a minute later: %v", e)
	}
	hook.Reset()
	n.err = &view.LookupError{Kind: view.ErrUnknownHeight}
	callMethod(s, "block", `[7]`)
	callMethod(s, "gas_price", `nonsense`)
	if e := hook.LastEntry(); e != nil {
		t.Errorf("a fault of the client is logged: %v", e)
	}
}

// TestRequestsAreLoggedAtDebug: each request of a body is a debug message with its method and
// error, and so is a body that is no request. At the level info there is none.
func TestRequestsAreLoggedAtDebug(t *testing.T) {
	log, hook := test.NewNullLogger()
	n := &fakeNode{}
	s := newServer(t, n, Options{Log: log})
	callMethod(s, "gas_price", `[null]`)
	if e := hook.LastEntry(); e != nil {
		t.Fatalf("logged at the level info: %v", e)
	}
	log.SetLevel(logrus.DebugLevel)
	for _, c := range []struct {
		name, path, body string
		method, err      string // err: a part of the field; "": there is none
	}{
		{"success", "/", `{"jsonrpc":"2.0","id":1,"method":"gas_price","params":[null]}`, "gas_price", ""},
		{"failure", "/", `{"jsonrpc":"2.0","id":1,"method":"block","params":[7,8]}`, "block", "Failed parsing args"},
		{"unknown method", "/", `{"jsonrpc":"2.0","id":1,"method":"nope"}`, "nope", "METHOD_NOT_FOUND"},
		{"long method", "/", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 500) + `"}`, strings.Repeat("m", maxMethod), "METHOD_NOT_FOUND"},
		{"path", "/health", `{}`, "health", ""},
		{"no JSON", "/", `{`, "", "Failed to parse the request body as JSON"},
		{"no request", "/", `5`, "", notRequest},
		{"another method", "/health", `{"jsonrpc":"2.0","id":1,"method":"block"}`, "", "the path's health"},
	} {
		t.Run(c.name, func(t *testing.T) {
			hook.Reset()
			post(s, c.path, c.body)
			entries := hook.AllEntries()
			if len(entries) != 1 {
				t.Fatalf("%d messages, want 1", len(entries))
			}
			e := entries[0]
			method, _ := e.Data["method"].(string)
			if e.Level != logrus.DebugLevel || !strings.HasPrefix(method, c.method) || len(method) > len(c.method)+3 {
				t.Errorf("logged %v %v", e.Level, e.Data)
			}
			if err, failed := e.Data["error"].(string); failed != (c.err != "") || !strings.Contains(err, c.err) {
				t.Errorf("error %q, want %q", err, c.err)
			}
		})
	}
	hook.Reset()
	post(s, "/", `[{"jsonrpc":"2.0","id":1,"method":"gas_price","params":[null]},7]`)
	if entries := hook.AllEntries(); len(entries) != 2 || entries[0].Data["method"] != "gas_price" || entries[1].Data["error"] != notRequest {
		t.Errorf("a batch: %v", entries)
	}
}

// TestStatusCodesFollowHTTPStatusOption: with always_200 every status is 200, and with spec that of
// EXPERIMENTAL_tx_status is.
func TestStatusCodesFollowHTTPStatusOption(t *testing.T) {
	for _, c := range []struct {
		mode, path, body string
		want             int
	}{
		{HTTPStatusAlways200, "/", "{", 200}, {HTTPStatusAlways200, "/", `{"method":"nope"}`, 200}, {HTTPStatusAlways200, "/", `5`, 200},
		{HTTPStatusAlways200, "/gas_price", `{"method":"health"}`, 200}, {HTTPStatusAlways200, "/gas_price", `{"jsonrpc":"1.0","params":[]}`, 200},
		{HTTPStatusSpec, "/", "{", 400}, {HTTPStatusSpec, "/", `{"method":"nope"}`, 400},
		{HTTPStatusSpec, "/EXPERIMENTAL_tx_status", "{", 200}, {HTTPStatusSpec, "/EXPERIMENTAL_tx_status", `{"jsonrpc":"1.0","params":[]}`, 200},
		{HTTPStatusSpec, "/EXPERIMENTAL_tx_status", `{"method":"health"}`, 200}, {HTTPStatusSpec, "/tx", "{", 400},
		{HTTPStatusNearcore, "/EXPERIMENTAL_tx_status", "{", 400},
	} {
		s := newServer(t, &fakeNode{}, Options{HTTPStatus: c.mode})
		if got, reply := post(s, c.path, c.body); got != c.want || !strings.Contains(reply, `"error"`) {
			t.Errorf("%s: POST %s %s: %d %s, want %d", c.mode, c.path, c.body, got, reply, c.want)
		}
	}
}

// TestBatchHasOneTimeout: a batch has one timeout for all its requests, and its waits run
// concurrently; a signer's submissions run in order.
func TestBatchHasOneTimeout(t *testing.T) {
	var mu sync.Mutex
	now, most, order, beside := 0, 0, 0, 1
	endless := false
	full := make(chan struct{}) // closed once that many run concurrently
	var once sync.Once
	n := &fakeNode{}
	hold := func(ctx context.Context) error {
		mu.Lock()
		now++
		if most = max(most, now); now == beside {
			once.Do(func() { close(full) })
		}
		mu.Unlock()
		defer func() { mu.Lock(); now--; mu.Unlock() }()
		select {
		case <-full:
		case <-time.After(time.Minute):
			t.Error("so many are never there beside each other")
		}
		if !endless {
			return nil
		}
		<-ctx.Done()
		return &view.LookupError{Kind: view.ErrTimeout}
	}
	n.tx = func(ctx context.Context, _ *view.GetTx) (*view.FinalOutcome, error) {
		return &view.FinalOutcome{}, hold(ctx)
	}
	n.sendTx = func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) {
		mu.Lock()
		order++
		mu.Unlock()
		return &view.FinalOutcome{}, hold(ctx)
	}
	wait := `{"method":"tx","id":7,"params":["` + zeroHash + `","a.near"]}`
	send := `{"method":"send_tx","id":8,"params":["` + signedText() + `"]}`
	s := newServer(t, n, Options{})
	beside = maxConcurrent
	if _, reply := post(s, "/", "["+strings.Repeat(wait+",", 63)+wait+"]"); strings.Count(reply, `"id":7`) != 64 {
		t.Errorf("64 waits: %.200s", reply)
	}
	if most != maxConcurrent {
		t.Errorf("%d at once, want %d", most, maxConcurrent)
	}
	most, beside = 0, -1
	if post(s, "/", "["+strings.Repeat(send+",", 4)+send+"]"); most != 1 || order != 5 {
		t.Errorf("of one signer %d submissions at once, %d in all; want 1 and 5", most, order)
	}
	// Each submission would wait for an hour: at most one begins before the time of the batch is over.
	endless, order = true, 0
	s = newServer(t, n, Options{PollingTimeout: time.Hour, Limits: limited(func(l *limits.Limits) {
		l.BatchTimeout = 50 * time.Millisecond
	})})
	_, reply := post(s, "/", "["+strings.Repeat(send+","+healthy+",", 40)+healthy+"]")
	if !strings.Contains(reply, "batch_timeout") || strings.Count(reply, `"id":`) != 81 || order > 1 {
		t.Errorf("a batch of 50 ms: %d replies, %d submissions: %.300s", strings.Count(reply, `"id":`), order, reply)
	}
}

// TestSimulationsHaveTheirOwnLimit: simulations have few places, and none if they are switched off.
func TestSimulationsHaveTheirOwnLimit(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{NoSimulate: true, NoTrace: true})
	for _, m := range []string{"EXPERIMENTAL_simulate_tx", "EXPERIMENTAL_trace_tx"} {
		if status, reply := callMethod(s, m, goodParams[m]); status != 400 || !strings.Contains(reply, "METHOD_NOT_FOUND") {
			t.Errorf("%s switched off: %d %s", m, status, reply)
		}
	}
	s = newServer(t, &fakeNode{err: errors.New("ran")}, Options{Limits: limited(func(l *limits.Limits) { l.Simulations = 1 })})
	if status, reply := callMethod(s, "EXPERIMENTAL_trace_tx", goodParams["EXPERIMENTAL_trace_tx"]); status != 500 || !strings.Contains(reply, "ran") {
		t.Errorf("with a free place: %d %s", status, reply)
	}
	s.metrics.simulating.Add(1)
	if status, reply := callMethod(s, "EXPERIMENTAL_trace_tx", goodParams["EXPERIMENTAL_trace_tx"]); status != 503 || !strings.Contains(reply, "max_simulations") {
		t.Errorf("without: %d %s", status, reply)
	}
}

// TestHeavyClientWaitsForItsShare: a client that has used its share of heavy work waits; other
// clients, and small requests, do not.
func TestHeavyClientWaitsForItsShare(t *testing.T) {
	s, addr := serve(t, bigState(), Options{PollingTimeout: 30 * time.Second, Limits: limited(func(l *limits.Limits) {
		l.AddressWork = limits.ByAddress{Max: 100, Loopback: true}
	})})
	greedy := dialFrom(t, "127.0.0.2", addr)
	if r, text, err := ask(greedy, viewCodeBody); err != nil || r.StatusCode != 200 {
		t.Fatalf("error %v, text %.300s", err, text)
	}
	s.limiter.mu.Lock()
	c := s.limiter.clients[clientAddr(greedy.LocalAddr())]
	s.limiter.mu.Unlock()
	expect := func(c net.Conn, body string, want int) {
		t.Helper()
		if r, text, err := ask(c, body); err != nil || r.StatusCode != want {
			t.Errorf("error %v, got %v, text %.300s", err, r, text)
		}
	}
	owe := func(debt time.Duration) (at time.Time) {
		c.quota.mu.Lock()
		defer c.quota.mu.Unlock()
		at = time.Now()
		c.quota.debt, c.quota.at = debt, at
		return at
	}
	owe(time.Hour) // ten hours until it may work again
	expect(greedy, healthy, 200)
	expect(dialFrom(t, "127.0.0.3", addr), viewCodeBody, 200)
	if _, text, err := ask(greedy, viewCodeBody); err != nil || !strings.Contains(text, "max_work_per_address") {
		t.Errorf("a wait that cannot end in time: error %v, text %.300s", err, text)
	}
	charged := owe(380 * time.Millisecond) // 280 ms too much: 2.8 s
	expect(greedy, viewCodeBody, 200)
	if took := time.Since(charged); took < 2500*time.Millisecond {
		t.Errorf("the client above its share waited %v", took)
	}
	owe(time.Hour)
	// Reconnecting does not help.
	greedy.Close()
	expect(dialFrom(t, "127.0.0.2", addr), `{"method":"health","x":"`+strings.Repeat("x", 100_000)+`"}`, 503)
}

// TestSimulationTimeCountsAsWork: the time of simulations and traces counts towards their client's
// share.
func TestSimulationTimeCountsAsWork(t *testing.T) {
	n := &fakeNode{took: 700 * time.Millisecond}
	_, addr := serve(t, n, Options{PollingTimeout: time.Second, Limits: limited(func(l *limits.Limits) {
		l.AddressWork = limits.ByAddress{Max: 100, Loopback: true}
	})})
	for _, m := range []string{"EXPERIMENTAL_simulate_tx", "EXPERIMENTAL_trace_tx"} {
		c := dialFrom(t, "127.0.0."+fmt.Sprint(len(m)), addr)
		body := `{"jsonrpc":"2.0","id":1,"method":"` + m + `","params":` + goodParams[m] + `}`
		for i, want := range []int{200, 503} {
			if r, text, err := ask(c, body); err != nil || r.StatusCode != want || want == 503 && !strings.Contains(text, "max_work_per_address") {
				t.Errorf("%s, the %d-th: %v %v %.200s", m, i, err, r, text)
			}
		}
	}
}

// TestClientWithFewWaitsTakesPlace: when all places are taken, a client with few waits takes one
// from a client with most, and keeps its own.
func TestClientWithFewWaitsTakesPlace(t *testing.T) {
	over := make(chan struct{})
	n := &fakeNode{sendTx: func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over:
			return nil, &view.LookupError{Kind: view.ErrTimeout}
		}
	}}
	s, addr := serve(t, n, Options{PollingTimeout: time.Hour, Limits: limited(func(l *limits.Limits) { l.Parked = 6 })})
	body := `{"method":"send_tx","params":["` + signedText() + `"]}`
	var all sync.WaitGroup
	var gaveWay, other atomic.Int64
	wait := func(from string) {
		before := s.Waiting()
		c := dialFrom(t, from, addr)
		all.Go(func() {
			switch r, text, err := ask(c, body); {
			case err != nil:
				t.Errorf("%s: error %v", from, err)
			case r.StatusCode == 503 && strings.Contains(text, "troupe.rpc.max_parked_requests") && from == "127.0.0.3":
				gaveWay.Add(1)
			case r.StatusCode != 408:
				other.Add(1)
				t.Errorf("%s: status code %d, text %s", from, r.StatusCode, text)
			}
		})
		for s.Waiting() == before && before < 6 {
			time.Sleep(time.Millisecond)
		}
	}
	for range 6 {
		wait("127.0.0.3")
	}
	for i := range 3 { // until both have three
		wait("127.0.0.2")
		for gaveWay.Load() != int64(i+1) && other.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		if r, text, err := ask(dialFrom(t, from, addr), body); err != nil || r.StatusCode != 503 || !strings.Contains(text, "max_parked_requests") {
			t.Errorf("a fourth of %s: %v %s", from, err, text)
		}
	}
	if got := s.Waiting(); got != 6 {
		t.Errorf("%d wait, want 6", got)
	}
	if got := s.limiter.refused[limits.MaxParked].Load(); got != 5 {
		t.Errorf("%d refusals on /metrics, want 3 that gave way and 2", got)
	}
	close(over)
	all.Wait()
	s.limiter.parking.mu.Lock()
	defer s.limiter.parking.mu.Unlock()
	if len(s.limiter.parking.of) != 0 || s.Waiting() != 0 {
		t.Errorf("%d clients stay parked, %d waits", len(s.limiter.parking.of), s.Waiting())
	}
}

// TestIdleTimeoutIsCounted: a connection that is closed for inactivity is counted under
// idle_timeout.
func TestIdleTimeoutIsCounted(t *testing.T) {
	s, addr := serve(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.IdleTimeout = 50 * time.Millisecond })})
	const line = "troupe_rpc_limit_refusals_total{limit=\"idle_timeout\"} "
	if text := string(s.AppendMetrics(nil)); !strings.Contains(text, line+"0\n") {
		t.Errorf("before: %s", text)
	}
	c := dialFrom(t, "127.0.0.2", addr)
	if r, text, err := ask(c, healthy); err != nil || r.StatusCode != 200 {
		t.Fatalf("error %v, text %s", err, text)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("after the time: %v", err)
	}
	if text := string(s.AppendMetrics(nil)); !strings.Contains(text, line+"1\n") {
		t.Errorf("after: %s", text)
	}
}

// TestLimiterClockIsMonotonic: durations in connLimiter do not depend on the wall clock, which may
// be set.
func TestLimiterClockIsMonotonic(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") && bytes.Contains(text, []byte(".UnixNano(")) {
			t.Errorf("%s takes the time from the wall", name)
		}
	}
	a := clock()
	if b := clock(); a <= 0 || b < a {
		t.Errorf("%d, then %d", a, b)
	}
}
