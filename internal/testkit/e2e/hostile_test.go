//go:build e2e

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Limits that a node must stay within during an attack.
const (
	moreMemory = 300.0 // MiB above the memory before the attack
	backAfter  = time.Minute
	leastP99   = 20 * time.Millisecond
	mostLoss   = 0.05 // fraction of blocks that may be missing at the set block time
)

// besieged starts a node with a fixed block time and these RPC limits. It also returns what the
// attackers may use.
func besieged(t *testing.T, limits map[string]any) (*process, *arms) {
	t.Helper()
	home := newHome(t)
	path := filepath.Join(home, "config.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	delay := func(ms int) map[string]any { return map[string]any{"secs": 0, "nanos": ms * 1_000_000} }
	consensus := c["consensus"].(map[string]any)
	consensus["min_block_production_delay"], consensus["max_block_production_delay"] = delay(100), delay(300)
	consensus["max_block_wait_delay"] = delay(600)
	c["troupe"] = map[string]any{"block_production": "interval", "rpc": limits}
	if b, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, home)
	s := p.signer()
	key := s.key.SecretKey.PublicKey()
	account := func(name string, code []byte) *signer {
		id := primitives.AccountID(name + "." + string(s.key.AccountID))
		actions := []primitives.Action{&primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(1000)},
			&primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{}}}
		p.send(s.sign(id, actions...), "FINAL")
		own := *s.key
		own.AccountID = id
		x := &signer{key: &own, base: s.base}
		var view struct {
			Nonce primitives.Nonce `json:"nonce"`
		}
		p.get("query", map[string]any{"request_type": "view_access_key", "finality": "optimistic", "account_id": id, "public_key": key.String()}, &view)
		x.nonce = view.Nonce
		if code != nil {
			p.send(x.sign(id, &primitives.DeployContract{Code: code}), "FINAL")
		}
		return x
	}
	burner := account("burner", contracts.C("burner"))
	large := account("large", nil)
	deployed := p.send(large.sign(large.key.AccountID, &primitives.DeployContract{Code: contracts.Large(1_000_000, 1)}), "FINAL")
	fib := burner.sign(burner.key.AccountID, &primitives.FunctionCall{Method: "fib", Args: []byte(`{"n":24}`), Gas: 300e12})
	p.send(fib, "FINAL")
	raw, err := base64.StdEncoding.DecodeString(fib)
	if err != nil {
		t.Fatal(err)
	}
	evil := account("evil", nil)
	a := &arms{Addr: p.addr, Large: string(large.key.AccountID), Burner: string(burner.key.AccountID), Key: evil.key, Base: s.base,
		Traced: hashOf(t, raw)}
	a.Block = deployed.Receipts[0].Block
	a.Nonce, a.Since = evil.nonce, time.Now().UnixMilli()
	for waiting := account("waiting", nil); len(a.Unsent) < 64; {
		a.Unsent = append(a.Unsent, waiting.sign("near", &primitives.Transfer{Deposit: primitives.Yocto(1)}))
	}
	return p, a
}

// honest is a client that sends requests during the attacks and records latencies.
type honest struct {
	p      *process
	http   *http.Client
	burner string
	signer *signer
	stop   chan struct{}
	done   chan struct{}
	reads  []time.Duration
	views  []time.Duration
	finals []time.Duration
	failed []string
}

// honestly starts one from an address of its own.
func honestly(p *process, a *arms, s *signer) *honest {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}, Timeout: 5 * time.Second}
	h := &honest{p: p, burner: a.Burner, signer: s, stop: make(chan struct{}), done: make(chan struct{}),
		http: &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DialContext: d.DialContext}}}
	go h.run()
	return h
}

func (h *honest) ask(body string) time.Duration {
	began := time.Now()
	r, err := h.http.Post("http://"+h.p.addr, "application/json", strings.NewReader(body))
	if err != nil {
		h.failed = append(h.failed, fmt.Sprintf("%.80s: %v", body, err))
		return time.Since(began)
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(r.Body)
	r.Body.Close()
	took := time.Since(began)
	if err != nil || r.StatusCode != 200 || bytes.Contains(b.Bytes(), []byte(`"error"`)) {
		h.failed = append(h.failed, fmt.Sprintf("%.80s: %v %d %.300s", body, err, r.StatusCode, b.Bytes()))
	}
	return took
}

func (h *honest) run() {
	defer close(h.done)
	reads := []string{
		rpcBody("query", `{"request_type":"view_account","finality":"final","account_id":"`+h.burner+`"}`),
		rpcBody("block", `{"finality":"final"}`), rpcBody("status", `[]`), rpcBody("gas_price", `[null]`),
	}
	view := rpcBody("query", `{"request_type":"call_function","finality":"final","account_id":"`+h.burner+`","method_name":"fib","args_base64":"`+
		base64.StdEncoding.EncodeToString([]byte(`{"n":5}`))+`"}`)
	for i := 0; ; i++ {
		select {
		case <-h.stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		h.reads = append(h.reads, h.ask(reads[i%len(reads)]))
		if i%10 == 0 {
			h.views = append(h.views, h.ask(view))
		}
		if i%100 == 50 {
			h.finals = append(h.finals, h.ask(rpcBody("send_tx", `{"signed_tx_base64":"`+h.signer.sign("near", &primitives.Transfer{Deposit: primitives.Yocto(1)})+`","wait_until":"FINAL"}`)))
		}
	}
}

func (h *honest) end() {
	close(h.stop)
	<-h.done
	h.http.CloseIdleConnections()
}

// quantile sorts durations and returns the one at a share.
func quantile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[int(share*float64(len(times)-1))]
}

// pace measures the blocks per second since a height and time.
type pace struct {
	height uint64
	at     time.Time
}

func (p *process) pace() pace { return pace{p.head("optimistic").Header.Height, time.Now()} }

func (p pace) until(q pace) float64 { return float64(q.height-p.height) / q.at.Sub(p.at).Seconds() }

// TestHonestClientIsServedDuringAttacks runs each attack alone and then all together, beside an
// honest client. TROUPE_HOSTILE is how long all of them run together: 20 s by default, 5m for the
// figures of docs/performance.md.
func TestHonestClientIsServedDuringAttacks(t *testing.T) {
	each, together := 6*time.Second, 20*time.Second
	if v := os.Getenv("TROUPE_HOSTILE"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal(err)
		}
		together, each = d, 20*time.Second
	}
	// All clients connect from local addresses, to which the limits by address apply. The attackers
	// have addresses of their own, and the honest client has its own.
	p, a := besieged(t, map[string]any{
		"max_connections": 2500, "max_connections_per_address": 200, "max_parked_per_address": 200, "max_bytes_in_flight": 48 << 20, "max_bytes_in_flight_per_address": 40 << 20,
		"max_simulations_per_address": 4, "max_work_per_address": 50,
	})
	s := p.signer()
	measure := func(t *testing.T, d time.Duration) (*honest, float64) {
		t.Helper()
		from, h := p.pace(), honestly(p, a, s)
		time.Sleep(d)
		h.end()
		return h, from.until(p.pace())
	}
	time.Sleep(2 * time.Second)
	calm, rate := measure(t, 10*time.Second)
	most := max(3*quantile(calm.reads, .99), leastP99)
	t.Logf("calm: reads p50 %.2f, p99 %.2f ms; views p99 %.2f ms; FINAL p50 %.0f ms; %.2f blocks/s; %.0f MiB", ms(quantile(calm.reads, .5)), ms(quantile(calm.reads, .99)),
		ms(quantile(calm.views, .99)), ms(quantile(calm.finals, .5)), rate, resident(t, p.cmd.Process.Pid))
	under := func(name, which string, d time.Duration) {
		t.Run(name, func(t *testing.T) {
			before := resident(t, p.cmd.Process.Pid)
			wait := attackers(t, a, which, d, 10)
			time.Sleep(500 * time.Millisecond)
			peak, stop, watched := before, make(chan struct{}), make(chan struct{})
			go func() {
				defer close(watched)
				for {
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
						peak = max(peak, resident(t, p.cmd.Process.Pid))
					}
				}
			}()
			h, now := measure(t, d-time.Second)
			wait()
			close(stop)
			<-watched
			after, ended := 0.0, time.Now()
			for after = resident(t, p.cmd.Process.Pid); after > before+moreMemory/3 && time.Since(ended) < backAfter; time.Sleep(time.Second) {
				after = resident(t, p.cmd.Process.Pid)
			}
			t.Logf("%s: reads p50 %.2f, p99 %.2f, worst %.0f ms of %d; views p99 %.1f ms; FINAL p50 %.0f, worst %.0f ms; %.2f blocks/s (%.1f %% less); memory %.0f, peak +%.0f MiB, +%.0f after %.0f s",
				name, ms(quantile(h.reads, .5)), ms(quantile(h.reads, .99)), ms(quantile(h.reads, 1)), len(h.reads), ms(quantile(h.views, .99)),
				ms(quantile(h.finals, .5)), ms(quantile(h.finals, 1)), now, 100*(1-now/rate), before, peak-before, after-before, time.Since(ended).Seconds())
			if n := len(h.failed); n > 0 {
				t.Errorf("%d requests of the honest client failed: %s", n, h.failed[0])
			}
			if got := quantile(h.reads, .99); got > most {
				t.Errorf("p99 of the honest client %v, want at most %v", got, most)
			}
			if now < (1-mostLoss)*rate {
				t.Errorf("%.2f blocks/s, %.2f when calm", now, rate)
			}
			if peak > before+moreMemory {
				t.Errorf("memory grew by %.0f MiB, above the limit", peak-before)
			}
			if after > before+moreMemory/3 {
				t.Errorf("memory is still %.0f MiB higher a minute later, above the limit", after-before)
			}
			select {
			case <-p.ended:
				t.Fatal("the node has ended")
			default:
			}
		})
	}
	only := os.Getenv("TROUPE_ATTACK") // part of a name: runs only these attacks
	for _, x := range attacks {
		if strings.Contains(x.name, only) {
			under(x.name, x.name, each)
		}
	}
	if strings.Contains("all together", only) {
		under("all together", "all", together)
	}
	if took := p.stop(syscall.SIGTERM); took > 2*time.Second {
		t.Errorf("the node took %v to stop", took)
	}
}

// hashOf returns the hash of a signed transaction.
func hashOf(t *testing.T, raw []byte) string {
	t.Helper()
	tx := new(primitives.SignedTransaction)
	if err := borsh.Unmarshal(raw, tx); err != nil {
		t.Fatal(err)
	}
	return tx.Hash().String()
}
