package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/troupe-chain/troupe/primitives"
)

// TestLyingServerCausesPrintableError: whatever a server replies, a command ends with an error that
// is printable and names the URL, and it uses a bounded amount of memory.
func TestLyingServerCausesPrintableError(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	var stolen bool
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stolen = true
		_, _ = io.WriteString(w, `{"result":{}}`)
	}))
	defer thief.Close()
	raw := func(text string) http.HandlerFunc { // a reply that net/http does not send
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}
	says := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for block := bytes.Repeat([]byte(" "), 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	const deep = 9000
	var long strings.Builder // a chain of receipts
	for i := range 300_000 {
		fmt.Fprintf(&long, `,{"id":"%d","outcome":{"receipt_ids":["%d"]}}`, i, i+1)
	}
	account, tx := "account a.near", "tx 11111111111111111111111111111111"
	for _, c := range []struct {
		name, line string
		reply      http.HandlerFunc
		want       string // in the output
	}{
		{"status line", account, raw("HTTP/1.1 500 \x1b[2J\x1b]0;evil\x07\r\nContent-Length: 2\r\n\r\nno"), "HTTP status 500 and no JSON-RPC response, but no;"},
		{"html", account, says("<html>\x1b[31m\u202e"), `but <html>\x1b[31m\u202e`},
		{"empty", account, says(""), "no JSON-RPC response"},
		{"other JSON", account, says("[]"), "no JSON-RPC response, but []"},
		{"no result", account, says("{}"), "answers without a result"},
		{"null", account, says("null"), "answers without a result"},
		{"redirect 302", account, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", thief.URL)
			w.WriteHeader(302)
		}, "redirects to " + thief.URL},
		{"redirect 307", account, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "//\u202ex")
			w.WriteHeader(307)
		}, `redirects to //\u202ex`},
		{"cut", account, raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"result\""), "breaks off after 9 bytes"},
		{"endless", "rpc status", endless, "is larger than 256 MiB"},
		{"control characters of an error", account, says(`{"error":{"name":"A\u001b[2J","data":"\u202e` + strings.Repeat("y", 1<<20) + `","cause":{"name":"B\u0007"}}}`), `B\x07: `},
		{"invalid UTF-8", "rpc status", says("{\"result\":\"\x9b31m\"}"), "\ufffd31m"},
		{"deep", "rpc status", says(`{"result":` + strings.Repeat("[", deep) + strings.Repeat("1,", 50_000) + "1" + strings.Repeat("]", deep) + "}"), "[[[["},
		{"too deep", "rpc status", says(`{"result":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6) + "}"), "no JSON-RPC response"},
		{"large numbers", account, says(`{"result":{"amount":"` + strings.Repeat("9", 1000) + `","block_height":1e400}}`), "invalid account"},
		{"long chain of receipts", tx, says(`{"result":{"status":{},"transaction":{"hash":"T"},"transaction_outcome":{"outcome":{"receipt_ids":["0"]}},"receipts_outcome":[{}` + long.String() + `]}}`), "receipt 299999"},
		{"loop of receipts", tx, says(`{"result":{"status":{},"transaction":{"hash":"T"},"transaction_outcome":{"outcome":{"receipt_ids":["0"]}},"receipts_outcome":[{"id":"0","outcome":{"receipt_ids":["0","1"]}}]}}`), "receipt 0"},
		{"result that is no bytes", "view a.near x", says(`{"result":{"result":[49,304],"logs":[]}}`), "contains 304, which is not a byte"},
		{"logs and error of a view", "view a.near x", says(`{"result":{"logs":["\u001b[2J` + "\u202e" + `"],"error":"\u0007` + strings.Repeat("z", 1<<20) + `"}}`), `log \x1b[2J\u202e`},
		{"block of wrong types", "block", says(`{"result":{"header":{"height":-1}}}`), "invalid block"},
		{"block with control characters", "block", says(`{"result":{"author":"\u001b[2J","header":{"hash":"\u202e","timestamp_nanosec":"9223372036854775807"},"chunks":[{"chunk_hash":"\u0007"}]}}`), `producer \x1b[2J`},
		{"key with control characters", account, says(`{"result":{"amount":"1","locked":"0","keys":[{"public_key":"\u001b[2J","access_key":{"permission":{"FunctionCall":{"receiver_id":"\u202e"}}}}]}}`), `calls of \u202e`},
		{"no block", "send near 1 --as near", func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			if bytes.Contains(b, []byte(`"block"`)) {
				says(`{"result":{}}`)(w, r)
			} else {
				says(`{"result":{"nonce":18446744073709551615}}`)(w, r)
			}
		}, "a block without a hash"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(c.reply)
			defer s.Close()
			got := runLine(append([]string{"--home", t.TempDir()}, append(strings.Fields(c.line), "--url", s.URL)...))
			if !strings.Contains(got, c.want) {
				t.Errorf("no %q in\n%.2000s", c.want, got)
			}
			if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q is not printable", got[max(0, i-50):i+5])
			}
			if size := len(got); size > 1<<20 && c.line != tx {
				t.Errorf("%d bytes of output", size)
			}
		})
	}
	if stolen {
		t.Error("a redirect was followed")
	}
	plain := httptest.NewServer(says("{}"))
	defer plain.Close()
	if got := runLine([]string{"--home", t.TempDir(), "rpc", "status", "--url",
		"https" + strings.TrimPrefix(plain.URL, "http")}); !strings.Contains(got, "no answer from https://") ||
		!strings.Contains(got, "HTTP response to HTTPS client") {
		t.Errorf("TLS to a plain port: %s", got)
	}
}

// TestConcurrentClientsCanShareAKey: transactions that are signed with one key at the same time are
// all executed.
func TestConcurrentClientsCanShareAKey(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir, url := startNode(t)
	const clients = 6
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			if got := runLine([]string{"--home", dir, "send", "near", fmt.Sprint("0.", i+1), "--as", "test.near",
				"--url", url}); strings.Contains(got, "exit ") {
				t.Errorf("client %d:\n%s", i, got)
			}
		})
	}
	wg.Wait()
	if got := runLine([]string{"--home", dir, "account", "near", "--url", url}); !strings.Contains(got, "balance  1000000002.1 NEAR") {
		t.Errorf("not each was executed once:\n%s", got)
	}
}

// TestNonceRetriesAreBounded: a server that refuses each nonce is asked a bounded number of times.
func TestNonceRetriesAreBounded(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	var sent int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Method string }
		_ = json.NewDecoder(r.Body).Decode(&q)
		switch q.Method {
		case "block":
			_, _ = fmt.Fprintf(w, `{"result":{"header":{"hash":%q}}}`, primitives.HashBytes(nil))
		case "send_tx":
			sent++
			_, _ = fmt.Fprintf(w,
				`{"error":{"name":"HANDLER_ERROR","cause":{"name":"INVALID_TRANSACTION","info":{}},"data":{"TxExecutionError":{"InvalidTxError":{"InvalidNonce":{"tx_nonce":1,"ak_nonce":%d}}}}}}`, sent*1000)
		default:
			_, _ = io.WriteString(w, `{"result":{"nonce":7,"permission":"FullAccess"}}`)
		}
	}))
	defer s.Close()
	if got := runLine([]string{"--home", t.TempDir(), "send", "near", "1", "--as", "near", "--url",
		s.URL}); sent != maxNonces || !strings.Contains(got, "InvalidNonce") {
		t.Errorf("sent %d times\n%s", sent, got)
	}
}

// TestOnlyRegularKeyFilesAreOpened: entries of the searched folders that are no regular files are
// not opened. A pipe that is named on the command line is read; one without a writer does not block
// the command.
func TestOnlyRegularKeyFilesAreOpened(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	dir, url := startNode(t)
	key := (&primitives.KeyFile{AccountID: "near", SecretKey: primitives.TestKey("near")}).MarshalIndent()
	send := func(args ...string) string {
		t.Helper()
		done := make(chan string, 1)
		go func() {
			done <- runLine(append([]string{"--home", dir, "send", "test.near", "1", "--as", "near", "--url", url}, args...))
		}()
		select {
		case got := <-done:
			return got
		case <-time.After(time.Minute):
			t.Fatalf("%v: the command waits", args)
			return ""
		}
	}
	fifo := filepath.Join(user, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skipf("%s is on a file system without named pipes (%v): set TMPDIR to a folder of a local disk", fifo, err)
	}
	if got := send("--key", fifo); !strings.Contains(got, "fifo: key file") || !strings.Contains(got, "exit 1") {
		t.Errorf("no writer:\n%s", got)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(key); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if got := send("--key", fmt.Sprintf("/dev/fd/%d", r.Fd())); !strings.Contains(got, "  ok  ") {
		t.Errorf("a pipe:\n%s", got)
	}
	_ = r.Close()
	huge := filepath.Join(user, "huge")
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 1<<40); err != nil {
		t.Fatal(err)
	}
	if got := send("--key", huge); !strings.Contains(got, "is larger than 64 KiB") {
		t.Errorf("huge:\n%s", got)
	}
	if got := send("--key", user); !strings.Contains(got, "is a directory") {
		t.Errorf("a folder:\n%s", got)
	}
	for _, name := range []string{filepath.Join(dir, "keys", "near.json"), filepath.Join(user, ".near-credentials", "test", "near.json")} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := send(); !strings.Contains(got, "  ok  ") { // by the key of the name
		t.Errorf("pipes in the searched folders:\n%s", got)
	}
	if got := runLine([]string{"--home", dir, "send", "test.near", "1", "--as", "near", "--url", url, "--wait",
		"SOON"}); !strings.Contains(got, "--wait is \"SOON\"") || !strings.Contains(got, "exit 2") {
		t.Errorf("--wait:\n%s", got)
	}
}

// TestPlainServerGetsNoPublicNetworkKeys: a server without TLS cannot make a command sign with the
// keys of mainnet or testnet by claiming to be one of them. No chain id makes a command read other
// folders.
func TestPlainServerGetsNoPublicNetworkKeys(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "secret")
	for _, network := range []string{"mainnet", "local"} {
		dir := filepath.Join(user, ".near-credentials", network)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "alice.near.json"),
			(&primitives.KeyFile{AccountID: "alice.near", SecretKey: key}).MarshalIndent(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		chain, want string
		used        bool
	}{
		{"local", "", true},
		{"mainnet", ".near-credentials/mainnet, because a node without https says that it is of mainnet", false},
		{"*", "no key of alice.near", false},
		{"../../x", "no key of alice.near", false},
		{"loca[l]", "no key of alice.near", false},
		{"", "no key of alice.near", false},
	} {
		var asked bool
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			switch {
			case bytes.Contains(b, []byte(`"status"`)):
				_, _ = fmt.Fprintf(w, `{"result":{"chain_id":%q}}`, c.chain)
			case bytes.Contains(b, []byte(key.PublicKey().String())):
				asked = true
				fallthrough
			default:
				_, _ = io.WriteString(w, `{"error":{"cause":{"name":"UNKNOWN_ACCESS_KEY"}}}`)
			}
		}))
		got := runLine([]string{"--home", t.TempDir(), "send", "bob.near", "1", "--as", "alice.near", "--url", s.URL})
		s.Close()
		if asked != c.used || !strings.Contains(got, c.want) {
			t.Errorf("%q: the key is used: %v\n%s", c.chain, asked, got)
		}
	}
}
