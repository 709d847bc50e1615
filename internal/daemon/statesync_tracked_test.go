package daemon

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/prom"
	"github.com/troupe-chain/troupe/primitives"
)

// servedStates returns how many state headers and parts a node has sent.
func servedStates(t *testing.T, h *Daemon) (headers, parts int) {
	t.Helper()
	text := h.front.Metrics(nil)
	read := func(kind string) int {
		m := regexp.MustCompile(`near_state_sync_requests_served_total\{type="` + kind + `",status="success"\} (\d+)`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("no counter of %ss in %s", kind, text)
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	headers, parts = read("header"), read("part")
	timed := 0
	for _, m := range regexp.MustCompile(`near_state_part_elapsed_sec_count\{shard_id="\d+"\} (\d+)`).FindAllSubmatch(text, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		timed += n
	}
	if timed < parts {
		t.Errorf("the times of %d parts are measured, %d were sent", timed, parts)
	}
	return headers, parts
}

// TestNodeOfFewShardsStartsByStateSync: nodes that track no shard or one of three shards join a
// network long after its genesis. They start with an epoch sync proof and fetch the states of their
// shards only: none, if they track none. Then they follow the chain with the right roots, also
// after a restart, and answer for their shards only.
func TestNodeOfFewShardsStartsByStateSync(t *testing.T) {
	dirA := shortEpochs(t, 20)
	a := joined(t, dirA, "")
	defer func() { stop(t, a) }()
	key := a.home.ValidatorKey
	layout := a.Engine.Head().Layout
	own := layout.ShardOf("near")
	nonce := primitives.Nonce(0)
	run := func(to int) {
		t.Helper()
		for int(a.Engine.Head().Height()) < to {
			nonce++
			signed, _ := encode(draft(a, key, nonce, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), key)
			var status txStatus
			if got := ask(t, a, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"}, &status); got != "" {
				t.Fatal(got)
			}
			mineBy(t, a, fmt.Sprintf(`{"blocks":%d}`, min(3, to-int(a.Engine.Head().Height()))))
		}
	}
	run(155)
	boot := fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr())
	for _, x := range []struct {
		name, config   string
		held           []primitives.ShardID
		headers, parts bool
	}{
		{"none", `{"tracked_shards_config": "NoShards"}`, []primitives.ShardID{}, false, false},
		{"one", fmt.Sprintf(`{"tracked_shards_config": {"Shards": ["%v"]}}`, layout.UID(own)), []primitives.ShardID{own}, true, true},
		{"account", `{"tracked_shards_config": {"Accounts": ["near"]}}`, []primitives.ShardID{own}, true, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := followerHome(t, dirA)
			setTracked(t, dir, x.config)
			if r := CheckHome(dir, false); len(r.Errors) > 0 {
				t.Fatalf("validate-config: %v", r.Errors)
			}
			headers, parts := servedStates(t, a)
			b := again(t, dir, boot)
			awaitStateSync(t, b)
			m, err := prom.Read(bytes.NewReader(b.front.Metrics(nil)))
			if err != nil {
				t.Fatal(err)
			}
			got := 0.
			for _, s := range m.Samples["near_state_sync_download_result"] {
				if s.Labels["result"] == "success" && s.Labels["source"] == "network" {
					got += s.Value
				}
			}
			servedHeaders, servedParts := servedStates(t, a)
			sent := float64(servedHeaders - headers + servedParts - parts)
			timed, _ := m.Sum("near_state_sync_p2p_request_delay_sec_count")
			if got > sent || timed < got || (got > 0) != x.parts {
				t.Errorf("%v downloads succeeded and %v were timed, %v were sent", got, timed, sent)
			}
			b = again(t, dir, boot)
			defer func() { stop(t, b) }()
			nowHeaders, nowParts := servedStates(t, a)
			if x.headers != (nowHeaders > headers) || x.parts != (nowParts > parts) || nowHeaders-headers > len(x.held) {
				t.Errorf("%d state headers and %d parts were fetched", nowHeaders-headers, nowParts-parts)
			}
			follows := func(when string) {
				t.Helper()
				eventually(t, "in step", func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash })
				if held := b.held(); !slices.Equal(held, x.held) {
					t.Errorf("%s: it has shards %v, want %v", when, held, x.held)
				}
				for i := range b.Engine.Head().Shards {
					got, want := &b.Engine.Head().Shards[i], &a.Engine.Head().Shards[i]
					if got.Held() && !bytes.Equal(got.Extra.AppendBorsh(nil), want.Extra.AppendBorsh(nil)) {
						t.Errorf("%s: shard %d has another result", when, got.ID)
					}
				}
				for _, account := range []primitives.AccountID{"near", "0away.near", "zaway.near"} {
					want := "UNAVAILABLE_SHARD"
					if slices.Contains(x.held, layout.ShardOf(account)) {
						if want = ""; account != "near" {
							want = "UNKNOWN_ACCOUNT"
						}
					}
					var none struct{}
					if got := ask(t, b, "query", map[string]any{"request_type": "view_account", "finality": "final", "account_id": account}, &none); got != want {
						t.Errorf("%s: view of %s: %q, want %q", when, account, got, want)
					}
				}
				var none struct{}
				for _, id := range layout.ShardIDs() {
					want := "UNKNOWN_CHUNK"
					if slices.Contains(x.held, id) {
						want = ""
					}
					if got := ask(t, b, "chunk", map[string]any{"block_id": b.Engine.Final().Height, "shard_id": id}, &none); got != want {
						t.Errorf("%s: chunk of shard %d: %q, want %q", when, id, got, want)
					}
				}
			}
			follows("after the state sync")
			if first := b.Engine.Store().Tip().Tail; first < 140 {
				t.Errorf("the first block is %d: all blocks were downloaded", first)
			}
			run(int(a.Engine.Head().Height()) + 22) // into the next epoch
			follows("an epoch later")
			stop(t, b)
			run(int(a.Engine.Head().Height()) + 3)
			b = again(t, dir, boot)
			follows("after a restart")
		})
	}
}

// TestMainnetStartsWithFewShards: a node of mainnet that tracks few shards, or those of a validator,
// starts with the built-in genesis and waits for a state sync. validate-config agrees.
func TestMainnetStartsWithFewShards(t *testing.T) {
	for name, tracked := range map[string]string{
		"no shards": `"NoShards"`, "accounts": `{"Accounts": ["near"]}`, "shadow": `{"ShadowValidator": "figment.poolv1.near"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := made(t)
			mainnet(t, dir)
			setTracked(t, dir, `{"tracked_shards_config": `+tracked+`}`)
			if r := CheckHome(dir, false); len(r.Errors) > 0 {
				t.Fatalf("validate-config: %v", r.Errors)
			}
			hm, err := home.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Restarts: true})
			if err != nil {
				t.Fatal(err)
			}
			defer stop(t, h)
			if _, halted := h.Node.Halted(); halted || h.bootstrap == nil {
				t.Errorf("halted %v, state sync possible %v", halted, h.bootstrap != nil)
			}
		})
	}
}
