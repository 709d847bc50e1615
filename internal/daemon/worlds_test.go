package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives"
)

// chainClient is a chain at a URL.
type chainClient struct {
	t   testing.TB
	url string
}

func siteOf(t testing.TB, h *Daemon) chainClient { return chainClient{t, "http://" + h.Addr.String()} }

// in is the same node's world.
func (s chainClient) in(w *newWorldReply) chainClient { return chainClient{s.t, s.url + w.Path} }

// call posts a request and decodes the result.
func (s chainClient) call(method, params string, result any) (fault string) {
	s.t.Helper()
	r, err := http.Post(s.url, "application/json", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	var out struct {
		Result json.RawMessage
		Error  struct {
			Data  any
			Cause struct{ Name string }
		}
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return fmt.Sprintf("%v: %s", err, b)
	}
	if out.Error.Cause.Name != "" {
		return fmt.Sprint(out.Error.Cause.Name, ": ", out.Error.Data)
	}
	if err := json.Unmarshal(out.Result, result); err != nil {
		return fmt.Sprintf("%s: %v", out.Result, err)
	}
	return ""
}

// must is call for requests that must succeed.
func (s chainClient) must(method, params string) (got at) {
	s.t.Helper()
	if f := s.call(method, params, &got); f != "" {
		s.t.Fatalf("%s %s: error %s", method, params, f)
	}
	return got
}

// data returns the value that patchData wrote.
func (s chainClient) data() string {
	s.t.Helper()
	var got struct{ Values []struct{ Value string } }
	if f := s.call("query", `{"request_type":"view_state","finality":"optimistic","account_id":"near","prefix_base64":"","include_proof":true}`, &got); f != "" {
		s.t.Fatal(f)
	}
	if len(got.Values) != 1 {
		return ""
	}
	return got.Values[0].Value
}

func (s chainClient) patch(value string) {
	s.t.Helper()
	var none struct{}
	if f := s.call("sandbox_patch_state", patchData(value), &none); f != "" {
		s.t.Fatal(f)
	}
}

// parsed is a hash that was sent as text.
func parsed(t testing.TB, text string) primitives.Hash {
	t.Helper()
	h, err := primitives.ParseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// newWorldReply is the reply of sandbox_new_world.
type newWorldReply struct {
	ID, Path, Hash string
	Addr, Parent   *string
	Height, Bytes  uint64
	Begin          at
}

func (s chainClient) world(params string) *newWorldReply {
	s.t.Helper()
	w := new(newWorldReply)
	if f := s.call("sandbox_new_world", params, w); f != "" {
		s.t.Fatalf("sandbox_new_world %s: %s", params, f)
	}
	return w
}

func (s chainClient) drop(id string) string {
	s.t.Helper()
	var none struct{}
	return s.call("sandbox_drop_world", fmt.Sprintf(`{"id":%q}`, id), &none)
}

func (s chainClient) get(path string) (int, string) {
	s.t.Helper()
	r, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// quiet starts a node that produces blocks only when there is something to execute, with changed
// limits of worlds.
func quiet(t testing.TB, change func(*config.Config)) *Daemon {
	t.Helper()
	hm := loaded(t, made(t))
	hm.Config.Consensus.ProduceEmptyBlocks = false
	if change != nil {
		change(hm.Config)
	}
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, h) })
	return h
}

// TestWorldsShareNoChanges: changes in a world are visible neither in other worlds nor in its
// parent, and vice versa: state with proofs, blocks, clock, transactions, snapshots, impersonation.
// Every path of the node exists for it. It begins at the head or at a snapshot. A world has worlds,
// which end with it. A revert ends the worlds that began after its target.
func TestWorldsShareNoChanges(t *testing.T) {
	h := quiet(t, nil)
	root := siteOf(t, h)
	root.patch("AQ==")
	root.must("sandbox_snapshot", `{"name":"one"}`)
	early := root.must("sandbox_mine", `{"blocks":20}`)
	a, b := root.world(`null`), root.world(`{"quiet":true}`)
	if a.ID != "1" || b.ID != "2" || a.Path != "/world/1" || a.Parent != nil || a.Addr != nil || a.Begin.Height != early.Height || a.Begin.Hash != early.Hash ||
		a.Hash != early.Hash || a.Bytes == 0 {
		t.Fatalf("%+v, %+v, the head is %+v", a, b, early)
	}
	wa, wb := root.in(a), root.in(b)
	for i, s := range []chainClient{root, wa, wb} {
		if got := s.data(); got != "AQ==" {
			t.Errorf("chain %d begins with %q", i, got)
		}
	}
	wa.patch("Ag==")
	wb.patch("Aw==")
	root.patch("BA==")
	for i, s := range []chainClient{root, wa, wb} {
		if got, want := s.data(), [...]string{"BA==", "Ag==", "Aw=="}[i]; got != want {
			t.Errorf("chain %d has %q, want %q", i, got, want)
		}
	}

	// Blocks of one chain are unknown to the others, earlier blocks are known to all.
	mined := wa.must("sandbox_mine", `{"blocks":3}`)
	var block struct{ Header struct{ Height uint64 } }
	for i, s := range []chainClient{root, wb} {
		if f := s.call("block", fmt.Sprintf(`{"block_id":%q}`, mined.Hash), &block); !strings.HasPrefix(f, "UNKNOWN_BLOCK") {
			t.Errorf("chain %d and a block of another: %q", i, f)
		}
	}
	for i, s := range []chainClient{root, wa, wb} {
		for _, id := range []string{fmt.Sprintf("%q", early.Hash), fmt.Sprint(early.Height - 7)} {
			if f := s.call("block", `{"block_id":`+id+`}`, &block); f != "" {
				t.Errorf("chain %d and block %s: %s", i, id, f)
			}
		}
		var changes struct{ Changes []json.RawMessage }
		if f := s.call("block_effects", fmt.Sprintf(`{"block_id":%q}`, early.Hash), &changes); f != "" {
			t.Errorf("chain %d and what a block did: %s", i, f)
		}
	}

	// A transaction runs in its world; the same one, in another again.
	key := loaded(t, h.home.Paths.Dir).ValidatorKey
	tx, _ := encode(primitives.Transaction{SignerID: key.AccountID, PublicKey: key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: 1},
		ReceiverID: "near", BlockHash: parsed(t, early.Hash), Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}}, key)
	for i, s := range []chainClient{wa, wb} {
		var status txStatus
		if f := s.call("send_tx", fmt.Sprintf(`{"signed_tx_base64":%q,"wait_until":"FINAL"}`, tx), &status); f != "" || !strings.HasPrefix(string(status.Status), `{"SuccessValue"`) {
			t.Errorf("world %d: %s, %s", i, f, status.Status)
		}
	}
	if n := h.Node.Waiting(); n != 0 {
		t.Errorf("%d wait in the node's own chain", n)
	}

	// Clocks and impersonation.
	var clock struct {
		Time   string `json:"timestamp_nanosec"`
		Frozen bool
	}
	if f := wa.call("sandbox_set_clock", `{"timestamp_nanosec":"4000000000000000000","frozen":true}`, &clock); f != "" {
		t.Fatal(f)
	}
	for i, s := range []chainClient{root, wb} {
		if f := s.call("sandbox_set_clock", `null`, &clock); f != "" || clock.Frozen || clock.Time >= "4000000000000000000" {
			t.Errorf("clock of chain %d: %+v, %s", i, clock, f)
		}
	}
	var none struct{}
	if f := wa.call("sandbox_impersonate", `{"all":true}`, &none); f != "" {
		t.Fatal(f)
	}
	unsigned, _ := encode(primitives.Transaction{SignerID: key.AccountID, PublicKey: key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: 2},
		ReceiverID: "near", BlockHash: parsed(t, early.Hash), Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}}, nil)
	for i, s := range []chainClient{wa, wb, root} {
		var status txStatus
		f := s.call("send_tx", fmt.Sprintf(`{"signed_tx_base64":%q,"wait_until":"EXECUTED_OPTIMISTIC"}`, unsigned), &status)
		if (f == "") != (i == 0) {
			t.Errorf("chain %d and an unsigned transaction: %q", i, f)
		}
	}

	// From a snapshot, and a world of a world.
	old := root.world(`{"snapshot":"one"}`)
	if got := root.in(old).data(); got != "AQ==" || old.Begin.Height >= early.Height {
		t.Errorf("a world from a snapshot: %+v with %q", old, got)
	}
	inner := wa.world(`null`)
	if inner.Parent == nil || *inner.Parent != "1" || inner.Path != "/world/4" {
		t.Fatalf("inner %+v", inner)
	}
	wi := root.in(inner)
	if got := wi.data(); got != "Ag==" {
		t.Errorf("a world of a world has %q", got)
	}
	wi.patch("BQ==")
	if wa.data() != "Ag==" || wi.data() != "BQ==" {
		t.Errorf("%q and %q", wa.data(), wi.data())
	}

	// Snapshots within a world, and reverts.
	wb.must("sandbox_snapshot", `{"name":"within"}`)
	wb.patch("Bg==")
	wb.must("sandbox_revert", `{"id":"within"}`)
	if got := wb.data(); got != "Aw==" {
		t.Errorf("back in a world there is %q", got)
	}
	var list []newWorldReply
	if f := wi.call("sandbox_worlds", `[]`, &list); f != "" || len(list) != 4 || list[3].ID != "4" || *list[3].Parent != "1" {
		t.Errorf("%s: list %+v", f, list)
	}

	// Endpoints.
	if code, text := wa.get("/status"); code != 200 || !strings.Contains(text, `"chain_id":"sandbox"`) {
		t.Errorf("/status: %d %s", code, text)
	}
	if code, text := wa.get("/metrics"); code != 200 || !strings.Contains(text, fmt.Sprintf("near_block_height_head %d\n", h.worlds.find("1").Engine.Head().Height())) {
		t.Errorf("/metrics of a world: %d %s", code, text[:min(len(text), 300)])
	}
	if _, text := root.get("/metrics"); !strings.Contains(text, "troupe_worlds 4\n") || !strings.Contains(text, "troupe_worlds_made_total 4\n") {
		t.Error("/metrics does not count the worlds")
	}
	for _, path := range []string{"/world/99", "/world/99/status", "/world/", "/world"} {
		if code, _ := root.get(path); code != 404 {
			t.Errorf("%s: code %d", path, code)
		}
	}

	// A world ends with its child worlds; a revert ends all worlds that began after its target.
	if f := root.drop("1"); f != "" {
		t.Error(f)
	}
	for _, w := range []chainClient{wa, wi} {
		if f := w.call("sandbox_worlds", `null`, &list); !strings.HasPrefix(f, "UNKNOWN_WORLD: there is no such world") {
			t.Errorf("%s: error %s", w.url, f)
		}
	}
	if f := root.drop("1"); f != `SANDBOX_REFUSED: there is no world "1", or it has ended` {
		t.Error(f)
	}
	root.must("sandbox_revert", `{"id":"one"}`)
	if f := wb.call("sandbox_worlds", `null`, &list); !strings.HasPrefix(f, "UNKNOWN_WORLD") {
		t.Errorf("a world after a revert: %s", f)
	}
	if got := root.in(old).data(); got != "AQ==" {
		t.Errorf("a world from where a revert leads: %q", got)
	}
	if f := root.call("sandbox_new_world", `{"snapshot":"never"}`, &none); !strings.HasPrefix(f, "SANDBOX_REFUSED: there is no snapshot") {
		t.Error(f)
	}
	if f := root.in(old).drop(old.ID); f != "" { // at its own path
		t.Error(f)
	}
	root.patch("Bw==")
	if _, text := root.get("/metrics"); !strings.Contains(text, "troupe_worlds 0\n") || !strings.Contains(text, `troupe_worlds_ended_total{why="behind"} 1`) {
		t.Error("/metrics does not count the ended worlds")
	}
}

// TestWorldsBeyondLimitsEnd: worlds are limited in number and memory. An idle world ends, unless a
// client has a WebSocket to it. If all together take too much memory, the largest ends.
func TestWorldsBeyondLimitsEnd(t *testing.T) {
	t.Run("number", func(t *testing.T) {
		h := quiet(t, func(c *config.Config) { c.Worlds.Max = 2 })
		s := siteOf(t, h)
		first := s.world(`null`)
		s.world(`null`)
		var none newWorldReply
		if f := s.call("sandbox_new_world", `null`, &none); f != "SANDBOX_REFUSED: there are 2 worlds already (troupe.worlds.max); end one with sandbox_drop_world" {
			t.Error(f)
		}
		if f := s.drop(first.ID); f != "" {
			t.Error(f)
		}
		s.world(`null`)
		if _, text := s.get("/metrics"); !strings.Contains(text, "troupe_worlds_refused_total 1\n") || !strings.Contains(text, "troupe_worlds_limit 2\n") {
			t.Error("/metrics does not count the refusal")
		}
	})
	t.Run("idle", func(t *testing.T) {
		// no request takes so long, on a busy machine
		h := quiet(t, func(c *config.Config) { c.Worlds.Idle = 4 * time.Second })
		s := siteOf(t, h)
		idle, asked, open, parent := s.world(`null`), s.world(`null`), s.world(`null`), s.world(`null`)
		inner := s.in(parent).world(`null`)
		c, _, err := websocket.DefaultDialer.Dial("ws://"+h.Addr.String()+open.Path+"/ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for deadline := time.Now().Add(time.Minute); h.worlds.find(idle.ID) != nil; {
			s.in(asked).data()
			s.in(inner).data()
			if time.Now().After(deadline) {
				t.Fatal("an idle world did not end")
			}
			time.Sleep(20 * time.Millisecond)
		}
		for _, w := range []*newWorldReply{asked, open, parent, inner} {
			if h.worlds.find(w.ID) == nil {
				t.Errorf("world %s has ended", w.ID)
			}
		}
	})
	t.Run("memory", func(t *testing.T) {
		h := quiet(t, func(c *config.Config) { c.Worlds.Bytes = 4 * worldBytes })
		s := siteOf(t, h)
		small, large := s.world(`null`), s.world(`null`)
		grown := make(chan struct{})
		go func() {
			defer close(grown)
			var got at
			for s.in(large).call("sandbox_mine", `{"blocks":500}`, &got) == "" {
			}
		}()
		<-grown // it has ended
		if h.worlds.find(small.ID) == nil || h.worlds.find(large.ID) != nil {
			t.Error("another one than the largest has ended")
		}
		s.world(`null`)
		s.world(`null`)
		var none newWorldReply
		for range 3 {
			if f := s.call("sandbox_new_world", `null`, &none); f != "" && !strings.HasPrefix(f, "SANDBOX_REFUSED: the worlds use") {
				t.Error(f)
			}
		}
		if h.worlds.refused.Load() == 0 {
			t.Error("nothing was refused")
		}
	})
}

// TestWorldSocketReceivesOnlyItsBlocks: a WebSocket below a world's path receives the world's
// blocks and no others, and ends with it. A port of the world serves it and is closed with it.
func TestWorldSocketReceivesOnlyItsBlocks(t *testing.T) {
	h := quiet(t, nil)
	s := siteOf(t, h)
	w := s.world(`{"port":true}`)
	c, _, err := websocket.DefaultDialer.Dial("ws://"+h.Addr.String()+w.Path+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	f := &subscriber{t, c}
	f.subscribe(`{"topic":"blocks","finality":"optimistic"}`)
	s.must("sandbox_mine", `{"blocks":5}`)
	mined := s.in(w).must("sandbox_mine", `{"blocks":2}`)
	for height := mined.Height - 1; height <= mined.Height; height++ {
		m := f.receive()
		if m.Params.Block == nil || m.Params.Block.Header.Height != height {
			t.Fatalf("%+v, want block %d", m.Params, height)
		}
	}
	if w.Addr == nil {
		t.Fatal("no address")
	}
	own := chainClient{t, "http://" + *w.Addr}
	own.patch("CQ==")
	if own.data() != "CQ==" || s.in(w).data() != "CQ==" || s.data() != "" {
		t.Errorf("data %q, %q, %q", own.data(), s.in(w).data(), s.data())
	}
	if code, _ := own.get("/status"); code != 200 {
		t.Errorf("/status at its own port: %d", code)
	}
	if f := s.drop(w.ID); f != "" {
		t.Fatal(f)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	for err = nil; err == nil; {
		_, _, err = c.ReadMessage()
	}
	if !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("the WebSocket of a world that was dropped: %v", err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(own.url + "/status")
		if err != nil {
			break
		}
		_ = r.Body.Close()
		if r.StatusCode == http.StatusNotFound || time.Now().After(deadline) {
			t.Fatalf("the port of a world that was dropped: %d", r.StatusCode)
		}
	}
}

// TestWorldPathRequiresAPIKey: API keys are required for a world's path as for any other.
func TestWorldPathRequiresAPIKey(t *testing.T) {
	h := quiet(t, func(c *config.Config) { c.RPC.APIKeys, c.RPC.RequireAPIKey = []string{"secret"}, true })
	s := siteOf(t, h)
	keyed := chainClient{t, s.url + "/secret"}
	w := keyed.world(`null`)
	keyed.in(w).patch("AQ==")
	r, err := http.Post(s.url+w.Path, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"status"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %d", r.StatusCode)
	}
}

// TestConcurrentWorldsLeaveNothing: clients create, use and drop worlds concurrently, with reverts
// of their parent in between. Nothing blocks, no world sees another's changes, and nothing is left
// at the end.
func TestConcurrentWorldsLeaveNothing(t *testing.T) {
	h := quiet(t, func(c *config.Config) { c.Worlds.Max = 12 })
	root := siteOf(t, h)
	root.patch("AQ==")
	root.must("sandbox_snapshot", `{"name":"base"}`)
	before := runtime.NumGoroutine()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				w := new(newWorldReply)
				if f := root.call("sandbox_new_world", `{"snapshot":"base"}`, w); f != "" {
					continue // too many worlds, or the snapshot was being reverted to
				}
				s := root.in(w)
				value := fmt.Sprintf("%c%c==", 'A'+k, "AQgw"[i%4])
				var none struct{}
				if f := s.call("sandbox_patch_state", patchData(value), &none); f == "" {
					if got := s.data(); got != value {
						t.Errorf("a world has %q, want %q", got, value)
					}
				} else {
					t.Errorf("patch in a world: %s", f)
				}
				if i%3 == 0 {
					all.Go(func() { _ = s.call("sandbox_mine", `{"blocks":50}`, new(at)) }) // it may lose its world
				}
				_ = root.drop(w.ID)
			}
		})
	}
	for range 25 {
		root.patch("Ag==")
		root.must("sandbox_mine", `{"blocks":3}`)
		root.must("sandbox_revert", `{"id":"base"}`)
	}
	close(stop)
	all.Wait()
	if got := root.data(); got != "AQ==" {
		t.Errorf("at last %q", got)
	}
	var list []newWorldReply
	if f := root.call("sandbox_worlds", `null`, &list); f != "" || len(list) != 0 {
		t.Errorf("%s: left are %+v", f, list)
	}
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before+20; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, before %d\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
		}
	}
}
