package daemon

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// collector receives traces over OTLP.
type collector struct {
	mu    sync.Mutex
	spans map[string][]span // by trace
}

type span struct {
	Trace  string `json:"traceId"`
	ID     string `json:"spanId"`
	Parent string `json:"parentSpanId"`
	Name   string
	Begin  string `json:"startTimeUnixNano"`
	End    string `json:"endTimeUnixNano"`
	Status struct{ Message string }
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var q struct {
		ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range q.ResourceSpans {
		for _, y := range x.ScopeSpans {
			for _, s := range y.Spans {
				c.spans[s.Trace] = append(c.spans[s.Trace], s)
			}
		}
	}
}

// TestSelectedTransactionHasOneTrace: each transaction that is selected by its hash has one trace
// with spans for session, mempool, chunk, shard, disk and waiter, in order and within the root
// span. Others have none. The trace of a refused transaction has the reason. No request waits for
// the collector.
func TestSelectedTransactionHasOneTrace(t *testing.T) {
	c := &collector{spans: map[string][]span{}}
	s := httptest.NewServer(c)
	defer s.Close()
	const oneIn = 2
	hm := loaded(t, made(t))
	hm.Config.Tracing.Endpoint, hm.Config.Tracing.OneIn = s.URL+"/v1/traces", oneIn
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	key := hm.ValidatorKey
	want := map[string]string{} // trace -> how it was sent
	send := func(nonce primitives.Nonce, how string) {
		signed, hash := encode(draft(h, key, nonce, "near", &primitives.Transfer{Deposit: primitives.Yocto(1)}), key)
		if binary.LittleEndian.Uint64(hash[:])%oneIn == 0 {
			want[hex.EncodeToString(hash[:16])] = how
		}
		var any json.RawMessage
		switch how {
		case "async":
			if f := rpcOf(t, h, "broadcast_tx_async", `["`+signed+`"]`, &any); f != "" {
				t.Fatal(f)
			}
		default:
			if f := rpcOf(t, h, "send_tx", `{"signed_tx_base64":"`+signed+`","wait_until":"FINAL"}`, &any); f != "" {
				t.Fatal(f)
			}
		}
	}
	for nonce := range primitives.Nonce(12) {
		send(nonce+1, "waits")
	}
	for nonce := range primitives.Nonce(12) {
		send(nonce+13, "async")
	}
	send(25, "waits") // after all others
	for i := range primitives.Nonce(8) {
		signed, hash := encode(draft(h, key, 3, "near", &primitives.Transfer{Deposit: primitives.Yocto(uint64(i) + 100)}), key)
		if binary.LittleEndian.Uint64(hash[:])%oneIn == 0 {
			want[hex.EncodeToString(hash[:16])] = "refused"
		}
		var any json.RawMessage
		if f := rpcOf(t, h, "send_tx", `{"signed_tx_base64":"`+signed+`","wait_until":"FINAL"}`, &any); f == "" {
			t.Error("a nonce that was used is taken")
		}
	}
	stop(t, h) // queued traces are sent
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spans) != len(want) || len(want) < 8 {
		t.Errorf("%d traces, want %d", len(c.spans), len(want))
	}
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	for trace, how := range want {
		list := c.spans[trace]
		var names []string
		for i, s := range list {
			names = append(names, s.Name)
			if begin, end := number(s.Begin), number(s.End); begin > end || begin < number(list[0].Begin) || end > number(list[0].End) {
				t.Errorf("%s of %s from %s to %s, the whole from %s to %s", s.Name, how, s.Begin, s.End, list[0].Begin, list[0].End)
			}
			if i > 0 && s.Parent != list[0].ID || s.ID == "" {
				t.Errorf("%+v below %+v", s, list[0])
			}
		}
		text := strings.Join(names, " ")
		wanted := map[string]string{
			"waits": "transaction session mempool.queue mempool.check mempool.wait chunk shard.apply store waiter", "async": "transaction session mempool.queue mempool.check mempool.wait chunk shard.apply store",
			"refused": "transaction session mempool.queue mempool.check",
		}[how]
		if text != wanted {
			t.Errorf("%s: %s\nwant %s", how, text, wanted)
		}
		if len(list) > 0 && (list[0].Status.Message != "") != (how == "refused") {
			t.Errorf("%s: message %q", how, list[0].Status.Message)
		}
	}
}
