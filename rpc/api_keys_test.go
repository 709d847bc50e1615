package rpc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/klauspost/compress/gzip"
	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/fair"
	"github.com/troupe-chain/troupe/rpc/limits"
)

const healthBody = `{"method":"health","id":1}`

// TestUnknownAPIKeyIsNotFound: a known key may precede every path, is limited by its rate, and may
// be required. A path with an unknown key does not exist.
func TestUnknownAPIKeyIsNotFound(t *testing.T) {
	o := Options{APIKeys: []string{"abc-1", "slow:3"}}
	s := newServer(t, &fakeNode{}, o)
	for path, want := range map[string]int{"/abc-1": 200, "/abc-1/": 200, "/abc-1/health": 200, "/": 200, "/health": 200, "/abc-2": 404, "/abc-1/abc-1": 404, "/abc-1/nope": 404} {
		body := healthBody
		if strings.HasSuffix(path, "health") {
			body = ""
		}
		if got, reply := post(s, path, body); got != want || want == 200 && !strings.Contains(reply, `"result":null`) {
			t.Errorf("POST %s: %d %s, want %d", path, got, reply, want)
		}
	}
	for i, want := range []int{200, 200, 200, 429} {
		if got, reply := post(s, "/slow", healthBody); got != want || want == 429 && !strings.Contains(reply, "troupe.rpc.api_keys") {
			t.Errorf("request %d: %d %s, want %d", i, got, reply, want)
		}
	}
	if got, _ := post(s, "/abc-1", healthBody); got != 200 {
		t.Errorf("by another key: %d", got)
	}
	o.RequireAPIKey = true
	s, url := served(t, &fakeNode{}, o)
	if got, _ := post(s, "/", healthBody); got != 401 {
		t.Errorf("without a key: %d, want 401", got)
	}
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod("GET")
	ctx.Request.SetRequestURI("/abc-1/health")
	if s.Handle(&ctx); ctx.Response.StatusCode() != 200 {
		t.Errorf("an endpoint: %d", ctx.Response.StatusCode())
	}
	if _, reply, err := websocket.DefaultDialer.Dial(url, nil); err == nil || reply.StatusCode != 401 {
		t.Errorf("a WebSocket without a key: %v", err)
	}
	c := dial(t, strings.TrimSuffix(url, "ws")+"slow/ws", nil)
	for range 4 {
		sendText(t, c, healthBody)
	}
	for i := range 4 {
		if got := receiveText(t, c); strings.Contains(got, `"result":null`) != (i < 3) {
			t.Errorf("message %d: %s", i, got)
		}
	}
	for _, bad := range []string{"", "a b", "block", "ws", "status", "x:", "x:0", "x:-1", "x/y"} {
		if _, err := New(&fakeNode{}, Options{APIKeys: []string{bad}}); err == nil {
			t.Errorf("%q was accepted as a key", bad)
		}
	}
	if _, err := New(&fakeNode{}, Options{RequireAPIKey: true}); err == nil {
		t.Error("a key is required, and there is none")
	}
	if _, err := New(&fakeNode{}, Options{APIKeys: []string{"a", "a:5"}}); err == nil {
		t.Error("a key is taken twice")
	}
}

// TestReloadClosesSocketOfRemovedKey: a WebSocket stays open while its key exists with the same
// rate, and is closed when the key is removed.
func TestReloadClosesSocketOfRemovedKey(t *testing.T) {
	o := Options{APIKeys: []string{"stays", "goes", "slower"}}
	s, url := served(t, &fakeNode{}, o)
	open := func(key string) *websocket.Conn { return dial(t, strings.TrimSuffix(url, "ws")+key+"ws", nil) }
	plain, stays, goes, slower := open(""), open("stays/"), open("goes/"), open("slower/")
	talks := func(list ...*websocket.Conn) {
		t.Helper()
		for _, c := range list {
			sendText(t, c, healthBody)
			if got := receiveText(t, c); !strings.Contains(got, `"result":null`) {
				t.Error(got)
			}
		}
	}
	talks(plain, stays, goes, slower)
	if err := s.Reload(s.opts.Limits, []string{"stays", "slower:7"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*websocket.Conn{goes, slower} {
		if code := closeCodeOf(t, c); code != websocket.ClosePolicyViolation {
			t.Errorf("code %d", code)
		}
	}
	talks(plain, stays, open("slower/"))
}

// TestRequestsBeyondRateAreRefused: an address may send that many requests in a second, each
// request of a batch counted, and more as time passes.
func TestRequestsBeyondRateAreRefused(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.AddressRate = limits.ByAddress{Max: 5, Loopback: true} })})
	noClient.rate = rate{}
	t.Cleanup(func() { noClient.rate = rate{} })
	if got, reply := post(s, "/", "["+strings.Repeat(healthBody+",", 3)+healthBody+"]"); got != 200 || strings.Count(reply, `"result":null`) != 4 {
		t.Errorf("four: %d %s", got, reply)
	}
	if _, reply := post(s, "/", "["+healthBody+","+healthBody+"]"); strings.Count(reply, `"result":null`) != 1 || !strings.Contains(reply, "max_requests_per_address") {
		t.Errorf("two more: %s", reply)
	}
	if got, _ := post(s, "/", healthBody); got != http.StatusTooManyRequests {
		t.Errorf("one more: %d", got)
	}
	if n := s.limiter.refused[limits.MaxAddressRate].Load(); n != 2 {
		t.Errorf("%d are counted, want 2", n)
	}
	noClient.rate.at = noClient.rate.at.Add(-200 * time.Millisecond)
	if got, _ := post(s, "/", healthBody); got != 200 {
		t.Errorf("a fifth of a second later: %d", got)
	}
}

// TestLargeRepliesAreCompressed: a large reply is compressed, and marked as such, for a client that
// accepts it; its content is the same. Small and incompressible replies are not compressed.
func TestLargeRepliesAreCompressed(t *testing.T) {
	code := make([]byte, 100_000)
	if _, err := rand.Read(code); err != nil {
		t.Fatal(err)
	}
	n := &fakeNode{state: fakeState{code: []byte(strings.Repeat("wasm", 25_000)),
		account: &primitives.Account{Contract: primitives.AccountContract{Kind: primitives.ContractLocal}}}}
	s, url := served(t, n, Options{})
	get := func(body, accepts string) (*http.Response, []byte) {
		t.Helper()
		r, _ := http.NewRequest(http.MethodPost, "http"+strings.TrimSuffix(strings.TrimPrefix(url, "ws"), "ws"), strings.NewReader(body))
		r.Header.Set("Accept-Encoding", accepts)
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		b, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply, b
	}
	large := `{"method":"EXPERIMENTAL_view_code","id":1,"params":{"finality":"final","account_id":"a.near"}}`
	_, plain := get(large, "identity")
	reply, packed := get(large, "deflate, gzip;q=0.5")
	if reply.Header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(reply.Header.Get("Vary"), "accept-encoding") || len(packed) > len(plain)/10 {
		t.Fatalf("%d of %d bytes, %v", len(packed), len(plain), reply.Header)
	}
	z, err := gzip.NewReader(strings.NewReader(string(packed)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || string(got) != string(plain) {
		t.Errorf("the decompressed reply differs: %v", err)
	}
	for header, want := range map[string]bool{"gzip": true, "": false, "br, GZIP": true, "gzip;q=0": false, "gzip; q=0.0": false, "gzip;q=1": true, "x-gzip": false, "identity, gzip ;q=0.2": true} {
		if acceptsGzip([]byte(header)) != want {
			t.Errorf("%q: accepted %v", header, !want)
		}
	}
	for what, body := range map[string]string{"small": healthBody, "noise": large} {
		t.Run(what, func(t *testing.T) {
			if what == "noise" {
				n.state.code = code
			}
			if reply, b := get(body, "gzip"); reply.Header.Get("Content-Encoding") != "" || b[0] != '{' {
				t.Errorf("%s is compressed", what)
			}
		})
	}
	n.state.code = []byte(strings.Repeat("wasm", 6_000)) // small enough to be written without a turn
	_, plain = get(large, "identity")
	if reply, _ := get(large, "gzip"); reply.Header.Get("Content-Encoding") != "gzip" {
		t.Error("a smaller one is not packed")
	}
	var leave []func()
	for range s.limiter.heavy.free {
		done, _ := s.limiter.heavy.try(fair.Client{})
		leave = append(leave, done)
	}
	if reply, b := get(large, "gzip"); reply.Header.Get("Content-Encoding") != "" || len(b) != len(plain) {
		t.Error("packed beyond the places")
	}
	for _, done := range leave {
		done()
	}
	s.opts.Limits.GzipMin = 0
	if reply, _ := get(large, "gzip"); reply.Header.Get("Content-Encoding") != "" {
		t.Error("packed though switched off")
	}
	eventually(t, "nothing is in flight", func() bool { return s.limiter.inFlight.Load() == 0 })
}

// certify writes a certificate for 127.0.0.1 with a serial number.
func certify(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "troupe"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
		// Files written in quick succession may have the same modification time.
		at := time.Now().Add(time.Duration(serial) * time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestNewCertificateIsUsedWithoutRestart: with a certificate, calls and WebSockets use TLS. A new
// certificate is used without a restart, and one that cannot be read is not.
func TestNewCertificateIsUsedWithoutRestart(t *testing.T) {
	dir := t.TempDir()
	cert, key := certify(t, dir, 1)
	_, url := served(t, &fakeNode{}, Options{TLSCert: cert, TLSKey: key})
	trust := &tls.Config{InsecureSkipVerify: true}
	serial := func() (n int64) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}
		r, err := client.Post("https"+strings.TrimSuffix(strings.TrimPrefix(url, "ws"), "ws"), "application/json", strings.NewReader(healthBody))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if b, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(b), `"result":null`) {
			t.Errorf("got %s, error %v", b, err)
		}
		return r.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("certificate %d, want 1", got)
	}
	d := websocket.Dialer{TLSClientConfig: trust}
	c, _, err := d.Dial("wss"+strings.TrimPrefix(url, "ws"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sendText(t, c, healthBody)
	if got := receiveText(t, c); !strings.Contains(got, `"result":null`) {
		t.Errorf("by WebSocket: %s", got)
	}
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(certCheckInterval + 10*time.Millisecond)
	if got := serial(); got != 1 {
		t.Errorf("with a damaged key: certificate %d, want 1", got)
	}
	certify(t, dir, 2)
	eventually(t, "the new certificate is there", func() bool { return serial() == 2 })
	if r, err := http.Post("http"+strings.TrimSuffix(strings.TrimPrefix(url, "ws"), "ws"), "application/json", strings.NewReader(healthBody)); err == nil {
		r.Body.Close()
		if r.StatusCode == 200 {
			t.Error("answered without TLS")
		}
	}
	if _, err := New(&fakeNode{}, Options{TLSCert: cert, TLSKey: filepath.Join(dir, "none.pem")}); err == nil || !strings.Contains(fmt.Sprint(err), "troupe.rpc.tls_key") {
		t.Errorf("a missing key file: %v", err)
	}
}

// TestClosingSlowTLSClientDoesNotBlock: a client that does not read gets no TLS close message,
// which would be waited for under connLimiter's lock.
func TestClosingSlowTLSClientDoesNotBlock(t *testing.T) {
	cert, key := certify(t, t.TempDir(), 1)
	s := newServer(t, &fakeNode{}, Options{TLSCert: cert, TLSKey: key, Limits: limited(func(l *limits.Limits) { l.SlowAfter, l.SlowRate = time.Millisecond, 1<<30 })})
	config := s.limiter.tls.Clone()
	config.SessionTicketsDisabled = true // else the server sends more after the handshake
	for name, end := range map[string]func(*conn){
		"evicted": func(*conn) {
			s.limiter.mu.Lock()
			defer s.limiter.mu.Unlock()
			s.limiter.evict(0)
		},
		"gives way": func(c *conn) {
			c.transfer.begin()
			time.Sleep(5 * time.Millisecond)
			s.limiter.closeSlowest()
		},
		"stop":      func(*conn) { s.limiter.closeAll() },
		"WebSocket": func(c *conn) { (&socket{conn: c}).abort() },
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			in := s.limiter.admit(tls.Server(here, config))
			shaken := make(chan error, 1)
			go func() { shaken <- tls.Client(there, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
			if err := in.Conn.(*tls.Conn).Handshake(); err != nil {
				t.Fatal(err)
			}
			if err := <-shaken; err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			end(in)
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("took %v", took)
			}
			if _, err := here.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("it is open: %v", err)
			}
			_ = in.Close()
			_ = there.Close()
		})
	}
}

// TestRateIsSharedByAllConnections: consecutive connections of an address share it as well.
func TestRateIsSharedByAllConnections(t *testing.T) {
	s, addr := serve(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.AddressRate = limits.ByAddress{Max: 5, Loopback: true} })})
	refused := 0
	for range 30 {
		r, text, err := ask(dialFrom(t, "127.0.0.4", addr), healthy, "Connection: close")
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode == http.StatusTooManyRequests {
			refused++
		} else if r.StatusCode != 200 {
			t.Errorf("status code %d, text %s", r.StatusCode, text)
		}
		eventually(t, "its connection is closed", func() bool {
			s.limiter.mu.Lock()
			defer s.limiter.mu.Unlock()
			return len(s.limiter.conns) == 0
		})
	}
	if refused == 0 {
		t.Error("thirty requests of an address that may have five in a second")
	}
	s.limiter.mu.Lock()
	if len(s.limiter.clients) != 1 {
		t.Errorf("the limiter keeps %d addresses", len(s.limiter.clients))
	}
	s.limiter.mu.Unlock()
}
