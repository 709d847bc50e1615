package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
)

type at struct {
	ID, Hash string
	Height   uint64
}

// manual starts a node with manual block production.
func manual(t *testing.T, dir string) *Daemon {
	t.Helper()
	hm := loaded(t, dir)
	hm.Config.Production = config.Manual
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// must posts a request that is answered.
func must(t *testing.T, h *Daemon, method, params string) (got at) {
	t.Helper()
	if f := rpcOf(t, h, method, params, &got); f != "" {
		t.Fatalf("%s %s: error %s", method, params, f)
	}
	return got
}

func patchData(value string) string {
	return fmt.Sprintf(`{"records":[{"Data":{"account_id":"near","data_key":"aw==","value":%q}}]}`, value)
}

// dataOf returns the value that patchData wrote.
func dataOf(t *testing.T, h *Daemon) string {
	t.Helper()
	var got struct{ Values []struct{ Value string } }
	if f := rpcOf(t, h, "query", `{"request_type":"view_state","finality":"optimistic","account_id":"near","prefix_base64":""}`, &got); f != "" {
		t.Fatal(f)
	}
	if len(got.Values) != 1 {
		return ""
	}
	return got.Values[0].Value
}

// TestRevertRestoresStateHeadPoolAndClock: a revert restores state, head, pool and clock, across
// epochs and nested snapshots. Removed blocks are unknown by hash and height, and other blocks take
// their heights. A client that waits for a removed transaction gets an error. Ended snapshots are
// refused by name. A restart loads the reverted chain.
func TestRevertRestoresStateHeadPoolAndClock(t *testing.T) {
	dir := made(t)
	h := manual(t, dir)
	var none struct{}
	rpc := func(method, params string) {
		t.Helper()
		if f := rpcOf(t, h, method, params, &none); f != "" {
			t.Fatalf("%s: error %s", method, f)
		}
	}
	rpc("sandbox_patch_state", patchData("AQ=="))
	key := loaded(t, dir).ValidatorKey
	held, heldHash := encode(draft(h, key, 10, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), key)
	var hash string
	if f := rpcOf(t, h, "broadcast_tx_async", fmt.Sprintf("[%q]", held), &hash); f != "" {
		t.Fatal(f)
	}
	included(t, h)
	base := must(t, h, "sandbox_snapshot", `{"name":"base"}`)
	if base.ID != "base" || base.Height != uint64(h.Engine.Head().Height()) {
		t.Fatalf("%+v, the head is %d", base, h.Engine.Head().Height())
	}
	var clock struct {
		Time string `json:"timestamp_nanosec"`
	}
	if f := rpcOf(t, h, "sandbox_set_clock", `null`, &clock); f != "" {
		t.Fatal(f)
	}
	rpc("sandbox_patch_state", patchData("Ag=="))
	behind := must(t, h, "sandbox_mine", `{"blocks":40}`)
	if n := h.Node.Waiting(); n != 0 {
		t.Errorf("%d wait behind blocks", n)
	}
	inner := must(t, h, "sandbox_snapshot", `null`)
	rpc("sandbox_fast_forward", `{"delta_height":100000}`)
	rpc("sandbox_patch_state", patchData("Aw=="))
	last := must(t, h, "sandbox_snapshot", `[]`)
	if inner.ID != "1" || last.ID != "2" {
		t.Errorf("they are called %q and %q", inner.ID, last.ID)
	}
	if got := must(t, h, "sandbox_revert", `["1"]`); got.Hash != inner.Hash || dataOf(t, h) != "Ag==" || h.Engine.Head().Hash.String() != inner.Hash {
		t.Errorf("%+v and %q, want %+v", got, dataOf(t, h), inner)
	}
	if f := rpcOf(t, h, "sandbox_revert", `{"id":2}`, &none); f != `SANDBOX_REFUSED: there is no snapshot "2", or it has ended; existing ones are ["base" "1"]` {
		t.Errorf("one that ended: %s", f)
	}
	rpc("sandbox_next_epoch", `null`)

	// A client waits for a transaction that is rolled back.
	waits := make(chan string, 1)
	lost, _ := encode(draft(h, key, 11, "near", &primitives.Transfer{Deposit: primitives.NEAR(2)}), key)
	go func() {
		var status txStatus
		waits <- ask(t, h, "send_tx", map[string]any{"signed_tx_base64": lost, "wait_until": "INCLUDED"}, &status)
	}()
	included(t, h)
	must(t, h, "sandbox_revert", `{"id":"base"}`)
	if got := <-waits; !strings.Contains(got, "INTERNAL_ERROR") {
		t.Errorf("the waiting client got %q", got)
	}
	if head := h.Engine.Head(); head.Hash.String() != base.Hash || dataOf(t, h) != "AQ==" {
		t.Errorf("the head is %d, the data %q", head.Height(), dataOf(t, h))
	}
	for _, params := range []string{fmt.Sprintf(`{"block_id":%q}`, behind.Hash), fmt.Sprintf(`{"block_id":%d}`, behind.Height)} {
		if f := rpcOf(t, h, "block", params, &none); !strings.HasPrefix(f, "UNKNOWN_BLOCK") {
			t.Errorf("unknown block %s: %q", params, f)
		}
	}
	before := clock.Time
	if f := rpcOf(t, h, "sandbox_set_clock", `null`, &clock); f != "" || len(clock.Time) != len(before) || clock.Time[:8] != before[:8] {
		t.Errorf("the clock shows %s, then it was %s, %s", clock.Time, before, f)
	}
	if n := h.Node.Waiting(); n != 1 {
		t.Errorf("%d wait, want 1", n)
	}
	if got := must(t, h, "sandbox_mine", fmt.Sprintf(`{"until":%q}`, heldHash.String())); got.Height < base.Height+1 || got.Height > base.Height+3 {
		t.Errorf("executed at height %d, the snapshot is at %d", got.Height, base.Height)
	}
	again := must(t, h, "sandbox_mine", fmt.Sprintf("[%d]", behind.Height-uint64(h.Engine.Head().Height())))
	if again.Height != behind.Height || again.Hash == behind.Hash {
		t.Errorf("%+v came again as %+v", behind, again)
	}
	must(t, h, "sandbox_drop_snapshot", `{"id":"base"}`)
	var list []at
	if f := rpcOf(t, h, "sandbox_snapshots", `[]`, &list); f != "" || len(list) != 0 {
		t.Errorf("list %v, error %s", list, f)
	}
	must(t, h, "sandbox_mine", `[300]`) // folds pass where the snapshots were
	head := h.Engine.Head().Hash
	stop(t, h)
	h = manual(t, dir)
	defer stop(t, h)
	if h.Engine.Head().Hash != head || dataOf(t, h) != "AQ==" {
		t.Errorf("after a restart the head is %d, the data %q", h.Engine.Head().Height(), dataOf(t, h))
	}
}

// TestRepeatedRevertsGiveTheSameState: reverts over up to a thousand blocks on an instant chain,
// with snapshots that are used repeatedly: the state is the same each time, and blocks continue.
func TestRepeatedRevertsGiveTheSameState(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	var none struct{}
	if f := rpcOf(t, h, "sandbox_patch_state", patchData("AQ=="), &none); f != "" {
		t.Fatal(f)
	}
	base := must(t, h, "sandbox_snapshot", `null`)
	key := h.home.ValidatorKey
	for i := range 12 {
		act(t, h, key, primitives.Nonce(i+1), &primitives.Transfer{Deposit: primitives.NEAR(1)})
		if f := rpcOf(t, h, "sandbox_patch_state", patchData("Ag=="), &none); f != "" {
			t.Fatal(f)
		}
		if i%6 == 5 {
			must(t, h, "sandbox_mine", `[900]`)
		}
		got := must(t, h, "sandbox_revert", fmt.Sprintf("[%q]", base.ID))
		if got.Hash != base.Hash || dataOf(t, h) != "AQ==" {
			t.Fatalf("round %d: %+v, %q", i, got, dataOf(t, h))
		}
	}
}

func TestBlocksHaveTheConfiguredTime(t *testing.T) {
	h := manual(t, made(t))
	defer stop(t, h)
	set := func(params string) (fault string) {
		t.Helper()
		var none struct{}
		return rpcOf(t, h, "sandbox_set_clock", params, &none)
	}
	stamp := func() uint64 {
		t.Helper()
		must(t, h, "sandbox_mine", `null`)
		return h.Engine.Head().Header().Timestamp
	}
	first := stamp()
	const hour = 3_600_000_000_000
	if f := set(fmt.Sprintf(`{"advance_nanosec":"%d"}`, 5*hour)); f != "" {
		t.Fatal(f)
	}
	if got := stamp(); got < first+5*hour || got > first+6*hour {
		t.Errorf("after five hours the block time is %d ns later", got-first)
	}
	when := first + 10*hour
	if f := set(fmt.Sprintf(`{"next_timestamp_nanosec":%d}`, when)); f != "" {
		t.Fatal(f)
	}
	if got := stamp(); got != when {
		t.Errorf("the next block has %d, want %d", got, when)
	}
	if got := stamp(); got <= when || got > when+hour {
		t.Errorf("the next block is %d ns later", got-when)
	}
	when += 10 * hour
	if f := set(fmt.Sprintf(`{"timestamp_nanosec":%d,"frozen":true}`, when)); f != "" {
		t.Fatal(f)
	}
	if a, b := stamp(), stamp(); a != when || b != when+1 {
		t.Errorf("stopped clock at %d, block times %d and %d", when, a, b)
	}
	if f := set(`{"interval_nanosec":1000000000,"frozen":false}`); f != "" {
		t.Fatal(f)
	}
	if a, b := stamp(), stamp(); b-a != 1_000_000_000 {
		t.Errorf("%d ns between blocks", b-a)
	}
	if f := set(fmt.Sprintf(`{"timestamp_nanosec":%d}`, first)); !strings.HasPrefix(f, "SANDBOX_REFUSED: invalid clock setting: ") {
		t.Errorf("back: %s", f)
	}
	for _, x := range []struct {
		unit string
		ns   uint64
	}{{"microseconds", 1_000}, {"milliseconds", 1_000_000}, {"seconds", 1_000_000_000}} {
		later := when + 1_000_000_000_000
		want := fmt.Sprintf("SANDBOX_REFUSED: invalid clock setting: %d looks like %s; the time must be in nanoseconds: %d", later/x.ns, x.unit, later/x.ns*x.ns)
		for _, name := range []string{"timestamp_nanosec", "next_timestamp_nanosec"} {
			if f := set(fmt.Sprintf(`{%q:%d}`, name, later/x.ns)); f != want {
				t.Errorf("%s in %s: %s, want %s", name, x.unit, f, want)
			}
		}
	}
	if f := set(`{"advance_nanosec":18446744073709551615}`); !strings.Contains(f, "is beyond the largest possible time") {
		t.Errorf("far: %s", f)
	}
}

// TestProductionModeChangesAtRuntime: the production mode can be changed while the node runs. A
// quiet chain produces blocks only for a waiting client, a manual one only on request. The interval
// is kept.
func TestProductionModeChangesAtRuntime(t *testing.T) {
	dir := made(t)
	hm := loaded(t, dir)
	hm.Config.Consensus.MinDelay, hm.Config.Consensus.MaxDelay = 20*time.Millisecond, 40*time.Millisecond
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	var got struct {
		Mode     string
		Quiet    bool
		Interval string `json:"interval_nanosec"`
	}
	set := func(params string) {
		t.Helper()
		if f := rpcOf(t, h, "sandbox_set_production", params, &got); f != "" {
			t.Fatal(f)
		}
	}
	// still waits until no block is produced for a while and returns the head. It fails if the chain
	// continues.
	still := func(what string, wait time.Duration) primitives.Height {
		t.Helper()
		for limit := time.Now().Add(20 * time.Second); ; {
			before := h.Engine.Head().Height()
			<-time.After(wait)
			now := h.Engine.Head().Height()
			if now == before {
				return now
			}
			if time.Now().After(limit) {
				t.Fatalf("a %s chain makes blocks, it is at %d", what, now)
			}
		}
	}
	if set(`null`); got.Mode != "instant" || got.Quiet {
		t.Errorf("%+v at first", got)
	}
	if set(`{"quiet":true}`); got.Mode != "instant" || !got.Quiet {
		t.Errorf("got %+v", got)
	}
	before := still("quiet", 500*time.Millisecond)
	act(t, h, h.home.ValidatorKey, 1, &primitives.Transfer{Deposit: primitives.NEAR(1)})
	if now := h.Engine.Head().Height(); now <= before || now > before+6 {
		t.Errorf("%d blocks for a transaction", now-before)
	}
	set(`{"mode":"manual","quiet":false}`)
	still("manual", 300*time.Millisecond)
	set(`{"mode":"interval","interval_nanosec":"10000000"}`)
	if set(`null`); got.Mode != "interval" || got.Interval != "10000000" {
		t.Errorf("the setting is %+v", got)
	}
	from := h.Engine.Head().Height()
	eventually(t, "ten blocks on", func() bool { return h.Engine.Head().Height() >= from+10 })
	if f := rpcOf(t, h, "sandbox_set_production", `{"interval_nanosec":1}`, &got); !strings.HasPrefix(f,
		"SANDBOX_REFUSED: invalid block production setting: ") {
		t.Errorf("an interval of 1 ns: %s", f)
	}
}

// TestRevertUnderLoadDoesNotHalt: a chain of several shards is reverted while clients submit and
// wait without a pause and one patches the state. The node does not halt, each revert leads to its
// block, and blocks continue.
func TestRevertUnderLoadDoesNotHalt(t *testing.T) {
	dir := testnode.Home(t, home.InitOptions{ChainID: "sandbox", NumShards: 4})
	h := mustStart(t, dir)
	defer stop(t, h)
	var none struct{}
	if f := rpcOf(t, h, "sandbox_patch_state", patchData("AQ=="), &none); f != "" {
		t.Fatal(f)
	}
	base := must(t, h, "sandbox_snapshot", `null`)
	key := h.home.ValidatorKey
	end := make(chan struct{})
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				tx, _ := encode(draft(h, key, primitives.Nonce(1+4*i+c), "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), key)
				level := []string{"NONE", "INCLUDED", "EXECUTED_OPTIMISTIC", "FINAL"}[c]
				r, err := http.Post("http://"+h.Addr.String(), "application/json", strings.NewReader(fmt.Sprintf(
					`{"jsonrpc":"2.0","id":1,"method":"send_tx","params":{"signed_tx_base64":%q,"wait_until":%q}}`, tx, level)))
				if err == nil {
					_ = r.Body.Close()
				}
			}
		})
	}
	for i := range 25 {
		if i%3 == 0 {
			if f := rpcOf(t, h, "sandbox_patch_state", patchData("Ag=="), &none); f != "" {
				t.Error(f)
			}
		}
		if i%4 == 0 {
			must(t, h, "sandbox_mine", `[20]`)
		}
		if got := must(t, h, "sandbox_revert", fmt.Sprintf("[%q]", base.ID)); got.Hash != base.Hash {
			t.Fatalf("%+v, want %+v", got, base)
		}
	}
	close(end)
	clients.Wait()
	if halted, ok := h.Node.Halted(); ok {
		t.Fatalf("halted: %+v", halted)
	}
	before := h.Engine.Head().Height()
	if got := must(t, h, "sandbox_mine", `[5]`); got.Height < uint64(before)+5 {
		t.Errorf("from %d to %d", before, got.Height)
	}
}
