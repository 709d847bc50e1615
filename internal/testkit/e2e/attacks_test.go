//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// arms is what the attacks use, prepared by the test. Only the attackers use its key.
type arms struct {
	Addr   string              // of the node
	Block  string              // the block in which Large was deployed
	Large  string              // an account with a megabyte of code
	Burner string              // an account with a contract that burns a given amount of gas
	Traced string              // hash of a transaction that called fib
	Key    *primitives.KeyFile // of an account of the attackers
	Base   primitives.Hash     // for its transactions
	Nonce  primitives.Nonce    // of its key
	Since  int64               // when Nonce was read, in ms
	Time   time.Duration       // duration of each attack
	Unsent []string            // valid transactions of another account that are never sent
}

// attack is one attack by a client without an API key. The names of attacks begin with a number, by
// which TROUPE_ATTACK selects them.
type attack struct {
	name string
	run  func(ctx context.Context, a *arms)
}

// attacks are attacks on the RPC: 1 to 9 over HTTP, the others by WebSocket.
var attacks = []attack{
	{"1 changes names an account 150 times", func(ctx context.Context, a *arms) {
		list := strings.Repeat(`"`+a.Large+`",`, 149) + `"` + a.Large + `"`
		a.flood(ctx, 1, 4, rpcBody("changes", `{"changes_type":"contract_code_changes","account_ids":[`+list+`],"block_id":"`+a.Block+`"}`))
	}},
	{"2 a batch of view_code", func(ctx context.Context, a *arms) { a.flood(ctx, 2, 4, a.codeBatch()) }},
	{"2 traces with profiles", func(ctx context.Context, a *arms) {
		one := rpcBody("EXPERIMENTAL_trace_tx", `{"tx_hash":"`+a.Traced+`","sender_account_id":"`+a.Burner+`","profile":true}`)
		a.flood(ctx, 3, 4, "["+one+","+one+","+one+","+one+"]")
	}},
	{"2 replies that are not read", func(ctx context.Context, a *arms) {
		a.each(ctx, 4, 8, func(from string, _ int) {
			c, err := a.dial(ctx, from)
			if err != nil {
				return
			}
			defer c.Close()
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			post(c, a.codeBatch())
			pause(ctx, 5*time.Second)
		})
	}},
	{"3 objects as ids", func(ctx context.Context, a *arms) {
		var b strings.Builder
		for i := range 12_000 {
			fmt.Fprintf(&b, `"%07x":0,`, i*2654435761%(1<<28))
		}
		a.flood(ctx, 5, 8, `{"jsonrpc":"2.0","method":"health","id":{`+b.String()+`"z":0}}`)
	}},
	{"4 echoes", func(ctx context.Context, a *arms) {
		a.flood(ctx, 6, 4, `{"jsonrpc":"2.0","method":"gas_price","id":1,"params":"`+strings.Repeat("\x7f", 10<<20-1000)+`"}`)
	}},
	{"5 many values", func(ctx context.Context, a *arms) { a.flood(ctx, 7, 4, "["+strings.Repeat("0,", 5<<20-100)+"0]") }},
	{"6 waits for what was never sent", func(ctx context.Context, a *arms) {
		a.each(ctx, 8, 1000, func(from string, i int) {
			c, err := a.dial(ctx, from)
			if err != nil {
				return
			}
			defer c.Close()
			post(c, rpcBody("tx", `{"signed_tx_base64":"`+a.Unsent[i%len(a.Unsent)]+`","wait_until":"FINAL"}`))
			answer(c)
		})
	}},
	{"7 deployments without waiting", func(ctx context.Context, a *arms) {
		// each attack continues where the previous one ended
		s := signer{key: a.Key, base: a.Base, nonce: a.Nonce + primitives.Nonce(time.Now().UnixMilli()-a.Since)}
		c, err := a.dial(ctx, "127.0.9.1")
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		for i := uint64(0); ctx.Err() == nil; i++ {
			post(c, rpcBody("broadcast_tx_async", `["`+s.sign(a.Key.AccountID, &primitives.DeployContract{Code: contracts.Large(780_000, uint64(s.nonce))})+`"]`))
			if !discard(in) {
				return
			}
			if i%12 == 11 {
				pause(ctx, 5*time.Second)
			}
		}
	}},
	{"8 views that spin", func(ctx context.Context, a *arms) {
		a.flood(ctx, 10, 16, rpcBody("query", `{"request_type":"call_function","finality":"final","account_id":"`+a.Burner+`","method_name":"burn","args_base64":"`+
			base64.StdEncoding.EncodeToString([]byte(`{"tgas":200}`))+`"}`))
	}},
	{"9 idle connections and halves of requests", func(ctx context.Context, a *arms) {
		a.each(ctx, 11, 600, func(from string, i int) {
			c, err := a.dial(ctx, from)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				return
			}
			defer c.Close()
			switch i % 3 {
			case 0:
				post(c, rpcBody("health", `[]`))
				answer(c)
			case 1:
				_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n[")
			}
			_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
			_, _ = io.Copy(io.Discard, c)
			pause(ctx, 20*time.Millisecond)
		})
	}},
	{"10 a thousand subscribers of whom half never read", func(ctx context.Context, a *arms) {
		a.each(ctx, 13, 1000, func(_ string, i int) {
			// ten each, so that the rate limit for new subscriptions admits all of them
			c := a.socket(ctx, fmt.Sprintf("127.0.13.%d", 1+i%100))
			if c == nil {
				pause(ctx, 100*time.Millisecond)
				return
			}
			defer c.Close()
			text(c, rpcBody("subscribe", `{"topic":"blocks","finality":"optimistic"}`))
			text(c, rpcBody("subscribe", `{"topic":"outcomes","account_id":"near","finality":"optimistic","from_height":1}`))
			text(c, rpcBody("subscribe", `{"topic":"transactions","account_id":"near"}`))
			if i%2 == 0 {
				pause(ctx, time.Hour)
				return
			}
			_, _ = io.Copy(io.Discard, c)
		})
	}},
	{"11 floods of subscribe and unsubscribe", func(ctx context.Context, a *arms) {
		a.each(ctx, 14, 8, func(from string, _ int) {
			c := a.socket(ctx, from)
			if c == nil {
				pause(ctx, 100*time.Millisecond)
				return
			}
			defer c.Close()
			go func() { _, _ = io.Copy(io.Discard, c) }()
			for i := 1; ctx.Err() == nil; i++ {
				if text(c, rpcBody("subscribe", `{"topic":"transactions","account_id":"near","from_height":1}`)) != nil ||
					text(c, rpcBody("unsubscribe", fmt.Sprintf(`["%d"]`, i))) != nil {
					return
				}
			}
		})
	}},
	{"12 halves of handshakes, huge and broken messages", func(ctx context.Context, a *arms) {
		a.each(ctx, 15, 200, func(from string, i int) {
			if i%4 == 0 {
				c, err := a.dial(ctx, from)
				if err == nil {
					_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")
					pause(ctx, 3*time.Second)
					_ = c.Close()
				}
				return
			}
			c := a.socket(ctx, from)
			if c == nil {
				pause(ctx, 100*time.Millisecond)
				return
			}
			defer c.Close()
			switch i % 4 {
			case 1: // a message of ten megabytes that is never finished
				_, _ = c.Write([]byte{0x81, 0xff, 0, 0, 0, 0, 0, 0x9f, 0, 0, 0, 0, 0, 0})
				for ctx.Err() == nil {
					if _, err := c.Write(make([]byte, 64<<10)); err != nil {
						return
					}
				}
			case 2: // a message in fragments of one byte
				if frame(c, 0x01, "[") != nil {
					return
				}
				for ctx.Err() == nil {
					if frame(c, 0x00, "0,") != nil {
						return
					}
				}
			case 3: // pings, whose pongs are not read
				for ctx.Err() == nil {
					if frame(c, 0x89, strings.Repeat("x", 125)) != nil {
						return
					}
				}
			}
		})
	}},
}

// socket opens a WebSocket. It returns nil if the node refuses it.
func (a *arms) socket(ctx context.Context, from string) net.Conn {
	c, err := a.dial(ctx, from)
	if err != nil {
		return nil
	}
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	head := make([]byte, 12)
	if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 101" {
		_ = c.Close()
		return nil
	}
	_ = c.SetReadDeadline(time.Time{})
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return c
}

func text(c net.Conn, s string) error { return frame(c, 0x81, s) }

// frame sends a WebSocket frame, masked with zeros.
func frame(c net.Conn, kind byte, s string) error {
	b := []byte{kind, 0x80 | byte(len(s))}
	if len(s) > 125 {
		b = []byte{kind, 0x80 | 126, byte(len(s) >> 8), byte(len(s))}
	}
	_, err := c.Write(append(append(b, 0, 0, 0, 0), s...))
	return err
}

func rpcBody(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
}

func (a *arms) codeBatch() string {
	one := rpcBody("query", `{"request_type":"view_code","finality":"final","account_id":"`+a.Large+`"}`)
	return "[" + strings.Repeat(one+",", 99) + one + "]"
}

// dial connects from one of the attackers' addresses.
func (a *arms) dial(ctx context.Context, from string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 2 * time.Second}
	return d.DialContext(ctx, "tcp", a.Addr)
}

// each repeats do in n goroutines until the time is over. Each attack has an address of its own.
func (a *arms) each(ctx context.Context, net, n int, do func(from string, i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				do(fmt.Sprintf("127.0.%d.1", net), i)
			}
		})
	}
	all.Wait()
}

// flood sends the same request on n connections, each as soon as the previous one is answered, but
// at most ten times a second.
func (a *arms) flood(ctx context.Context, net, n int, body string) {
	a.each(ctx, net, n, func(from string, _ int) {
		c, err := a.dial(ctx, from)
		if err != nil {
			pause(ctx, 100*time.Millisecond)
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		for in := bufio.NewReader(c); ctx.Err() == nil; pause(ctx, 20*time.Millisecond) {
			post(c, body)
			if !discard(in) {
				return
			}
		}
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func post(c net.Conn, body string) {
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func answer(c net.Conn) { discard(bufio.NewReader(c)) }

// discard reads a reply and drops it. It returns false if the connection has ended.
func discard(in *bufio.Reader) bool {
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return err == nil && !r.Close
}

// sign signs a transaction with these actions and the next nonce.
func (s *signer) sign(to primitives.AccountID, actions ...primitives.Action) string {
	s.nonce++
	t := primitives.Transaction{SignerID: s.key.AccountID, PublicKey: s.key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: s.nonce},
		ReceiverID: to, BlockHash: s.base, Actions: actions}
	hash := t.Hash()
	return base64.StdEncoding.EncodeToString(primitives.NewSignedTransaction(t, s.key.SecretKey.Sign(hash[:])).AppendBorsh(nil))
}

// TestAttacker is not a test: TestHonestClientIsServedDuringAttacks runs it in a process of its own
// with a low priority, so that attackers and the honest client do not share a scheduler.
func TestAttacker(t *testing.T) {
	file, which := os.Getenv("TROUPE_ARMS"), os.Getenv("TROUPE_ATTACKS")
	if file == "" {
		t.Skip("run by TestHonestClientIsServedDuringAttacks")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var a arms
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
	ctx, cancel := context.WithTimeout(t.Context(), a.Time)
	defer cancel()
	var all sync.WaitGroup
	var ran atomic.Int32
	list := attacks
	if which != "all" {
		list = append(list[:len(list):len(list)], floodAttacks...)
	}
	for _, x := range list {
		if which == "all" || which == x.name {
			all.Go(func() { ran.Add(1); x.run(ctx, &a) })
		}
	}
	all.Wait()
	if ran.Load() == 0 {
		t.Errorf("no attack is %q", which)
	}
}

// attackers starts the attacks in processes with this priority. wait returns when they have ended.
func attackers(t *testing.T, a *arms, which string, d time.Duration, nice int) (wait func()) {
	t.Helper()
	mine := *a
	mine.Time = d
	b, err := json.Marshal(&mine)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/arms.json"
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestAttacker$", "-test.count=1")
	c.Env = append(os.Environ(), "TROUPE_ARMS="+file, "TROUPE_ATTACKS="+which, "TROUPE_BIN="+binary, "GOMAXPROCS=1")
	var out output
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, c.Process.Pid, nice)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() { _ = c.Process.Kill() })
	return func() {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("attackers: %v\n%s", err, tail(out.String(), 2000))
			}
		case <-time.After(d + time.Minute):
			t.Fatalf("the attackers don't end:\n%s", tail(out.String(), 2000))
		}
	}
}
