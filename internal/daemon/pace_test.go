package daemon

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// pace is how blocks followed each other by their timestamps: how many a second, and the times
// between two.
type pace struct {
	rate         float64
	p99, longest time.Duration
}

// paceOf measures the blocks that are produced in a period.
func paceOf(b *testing.B, h *Daemon, span time.Duration) (p pace) {
	from := h.Engine.Head().Height()
	time.Sleep(span)
	return paceSince(b, h, from)
}

// paceSince looks at the blocks above a height.
func paceSince(b *testing.B, h *Daemon, from primitives.Height) (p pace) {
	last := h.Engine.Head().Header()
	first := last
	var between []time.Duration
	for first.Height > from {
		before, err := h.Engine.Header(first.PrevHash)
		if err != nil {
			b.Fatal(err)
		}
		between = append(between, time.Duration(first.Timestamp-before.Timestamp))
		first = before
	}
	n := len(between)
	if n == 0 {
		b.Fatal("no block")
	}
	slices.Sort(between)
	p.p99, p.longest = between[(n*99-1)/100], between[n-1]
	p.rate = float64(n) / time.Duration(last.Timestamp-first.Timestamp).Seconds()
	return p
}

// report reports the block times without and with the disturbance.
func report(b *testing.B, calm, disturbed pace) {
	b.ReportMetric(0, "ns/op") // without meaning here
	b.ReportMetric(100*(1-disturbed.rate/calm.rate), "%-slower")
	for _, x := range []struct {
		name string
		pace
	}{{"calm", calm}, {"disturbed", disturbed}} {
		b.ReportMetric(x.rate, "blocks/s-"+x.name)
		b.ReportMetric(float64(x.p99.Microseconds())/1000, "ms-p99-"+x.name)
		b.ReportMetric(float64(x.longest.Microseconds())/1000, "ms-longest-"+x.name)
	}
}

// pacers are the modes of block production: at fixed intervals, and on demand of a client that
// sends one transaction after the other, each when the previous one is final.
var pacers = []struct {
	name   string
	config map[string]any
	client bool
}{
	{"timed", map[string]any{"troupe": map[string]any{"block_production": "interval"}}, false},
	{"on demand", nil, true},
}

// paced starts a node with the probe. Its blocks are produced by the clock or by a client until
// stopped is called. second is another key of the account that has the probe; the client uses the
// first.
func paced(b *testing.B, client bool, set map[string]any) (h *Daemon, second *primitives.KeyFile, stopped func()) {
	h, key := withProbe(b, set)
	second = &primitives.KeyFile{AccountID: key.AccountID, SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, "second")}
	act(b, h, key, 2, &primitives.AddKey{PublicKey: second.PublicKey()})
	end := make(chan struct{})
	var clients sync.WaitGroup
	if client {
		clients.Go(func() {
			for nonce := primitives.Nonce(1_000); ; nonce++ {
				select {
				case <-end:
					return
				default:
					act(b, h, key, nonce, &primitives.Transfer{Deposit: primitives.Yocto(1)})
				}
			}
		})
	}
	return h, second, func() {
		close(end)
		clients.Wait()
		stop(b, h)
	}
}

// BenchmarkViewFlood measures the blocks per second while 64 clients call a contract without a
// pause, and without them: calls that burn all the gas of a view, and calls that are just short
// enough for the short lane.
func BenchmarkViewFlood(b *testing.B) {
	var short contracts.Program
	short.Loop(1_000_000) // 8 Tgas or so
	for _, p := range pacers {
		for name, call := range map[string]string{
			"all":   `"method_name":"spin","args_base64":""`,
			"short": `"method_name":"run","args_base64":"` + base64.StdEncoding.EncodeToString(short.Bytes()) + `"`,
		} {
			b.Run("blocks="+p.name+"/gas="+name, func(b *testing.B) {
				h, key, stopped := paced(b, p.client, p.config)
				defer stopped()
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"query","params":{"request_type":"call_function","finality":"optimistic","account_id":%q,%s}}`, key.AccountID, call)
				for b.Loop() {
					calm := paceOf(b, h, paceSpan)
					var clients sync.WaitGroup
					end := make(chan struct{})
					before := h.views.Stats()
					for range 64 {
						clients.Go(func() { flood(b, h, body, end) })
					}
					time.Sleep(time.Second)
					flooded := paceOf(b, h, paceSpan)
					close(end)
					clients.Wait()
					after := h.views.Stats()
					report(b, calm, flooded)
					b.ReportMetric(float64(after.Done-before.Done), "runs")
					b.ReportMetric(float64(after.Long-before.Long), "long")
				}
			})
		}
	}
}

const paceSpan = 10 * time.Second

// BenchmarkDeploy measures block times while contracts of 250 KB are deployed and called for the
// first time, and without that; the time until a deployment is final, including its compilation,
// and of the first call.
func BenchmarkDeploy(b *testing.B) {
	for _, p := range pacers {
		b.Run("blocks="+p.name, func(b *testing.B) {
			h, deployer, stopped := paced(b, p.client, p.config)
			defer stopped()
			// above the key's initial nonce
			seed, nonce := uint64(0), primitives.Nonce(h.Engine.Head().Height()-1)*1_000_000
			for b.Loop() {
				calm := paceOf(b, h, paceSpan)
				end := make(chan struct{})
				var client sync.WaitGroup
				var deploy, call time.Duration
				n := 0
				client.Go(func() {
					for ; ; n++ {
						select {
						case <-end:
							return
						default:
						}
						seed++
						code := contracts.Large(250_000, seed)
						start := time.Now()
						act(b, h, deployer, nonce, &primitives.DeployContract{Code: code})
						middle := time.Now()
						act(b, h, deployer, nonce+1, &primitives.FunctionCall{Method: "run", Gas: 100_000_000_000_000})
						nonce += 2
						deploy += middle.Sub(start)
						call += time.Since(middle)
					}
				})
				disturbed := paceOf(b, h, paceSpan)
				close(end)
				client.Wait()
				report(b, calm, disturbed)
				b.ReportMetric(float64(n), "deployed")
				b.ReportMetric(float64(deploy.Milliseconds())/float64(n), "ms-deploy")
				b.ReportMetric(float64(call.Milliseconds())/float64(n), "ms-first-call")
			}
		})
	}
}

// flood posts one request after another.
func flood(b *testing.B, h *Daemon, body string, end chan struct{}) {
	for {
		select {
		case <-end:
			return
		default:
		}
		r, err := http.Post("http://"+h.Addr.String(), "application/json", strings.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
}
