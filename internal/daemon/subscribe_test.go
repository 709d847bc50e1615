package daemon

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// notification is a message of a subscription.
type notification struct {
	ID     int
	Result json.RawMessage
	Error  json.RawMessage
	Params struct {
		Subscription string
		Cursor       json.RawMessage
		Block        *struct {
			Header struct{ Height uint64 }
		}
		Outcome *struct {
			ID      string
			Outcome struct{ Logs []string }
		}
		Event *struct {
			Standard, Event string
			Data            json.RawMessage
			Contract        string `json:"contract_id"`
		}
		Transaction *struct {
			Level string `json:"final_execution_status"`
			Hash  string `json:"tx_hash"`
		}
		Closed   *struct{ Reason string }
		Reverted []struct {
			Hash string `json:"block_hash"`
		}
	}
	raw []byte
}

// subscriber is a client with a WebSocket.
type subscriber struct {
	t *testing.T
	c *websocket.Conn
}

func follow(t *testing.T, h *Daemon) *subscriber {
	t.Helper()
	c, _, err := websocket.DefaultDialer.Dial("ws://"+h.Addr.String()+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &subscriber{t, c}
}

func (f *subscriber) send(method, params string) {
	f.t.Helper()
	if err := f.c.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *subscriber) receive() (m notification) {
	f.t.Helper()
	_ = f.c.SetReadDeadline(time.Now().Add(time.Minute))
	_, b, err := f.c.ReadMessage()
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	m.raw = b
	if err != nil || m.Error != nil {
		f.t.Fatalf("%v: got %s", err, b)
	}
	return m
}

// subscribe begins one and returns its name.
func (f *subscriber) subscribe(params string) string {
	f.t.Helper()
	f.send("subscribe", params)
	var r struct{ Subscription string }
	if err := json.Unmarshal(f.receive().Result, &r); err != nil {
		f.t.Fatal(err)
	}
	return r.Subscription
}

// TestSubscriptionResumesFromCursor: one WebSocket receives each milestone of a transaction that
// calls a contract, the contract's outcomes, and its event. It receives them again from the cursors
// of these messages, also after a restart of the node.
func TestSubscriptionResumesFromCursor(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	defer func() { stop(t, h) }()
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	act(t, h, key, 1, &primitives.DeployContract{Code: contracts.Probe()})
	var p contracts.Program
	p.Call("log_utf8", `EVENT_JSON:{"standard":"nep141","version":"1.0.0","event":"ft_mint","data":[{"amount":"5"}]}`)
	p.Call("log_utf8", "nothing of note")
	signed, hash := encode(draft(h, key, 2, key.AccountID, &primitives.FunctionCall{Method: "run", Args: p.Bytes(), Gas: 30e12}), key)
	f := follow(t, h)
	account := fmt.Sprintf(`"account_id":%q`, key.AccountID)
	for i, params := range []string{`{"topic":"transactions",` + account + `}`, `{"topic":"transactions","tx_hashes":["` + hash.String() + `"]}`,
		`{"topic":"outcomes",` + account + `,"finality":"optimistic"}`, `{"topic":"events",` + account + `,"standard":"nep141"}`, `{"topic":"events",` + account + `,"event":"ft_burn"}`} {
		if got := f.subscribe(params); got != fmt.Sprint(i+1) {
			t.Fatalf("subscription %s, want %d", got, i+1)
		}
	}
	var sent string
	if cause := ask(t, h, "broadcast_tx_async", []string{signed}, &sent); cause != "" || sent != hash.String() {
		t.Fatal(cause, sent)
	}
	levels, outcomes, events := map[string][]string{}, []string{}, 0
	var first, last json.RawMessage // cursors
	closed := ""
	for events == 0 || closed == "" || len(levels["1"]) < 5 || len(outcomes) < 2 {
		m := f.receive()
		switch p := &m.Params; {
		case p.Transaction != nil:
			if p.Transaction.Hash != hash.String() {
				t.Errorf("received %s", p.Transaction.Hash)
			}
			levels[p.Subscription] = append(levels[p.Subscription], p.Transaction.Level)
			if p.Subscription == "1" && first == nil {
				first = p.Cursor
			}
		case p.Outcome != nil:
			outcomes = append(outcomes, p.Outcome.ID)
		case p.Event != nil:
			events++
			last = p.Cursor
			if e := p.Event; p.Subscription != "4" || e.Event != "ft_mint" || string(e.Data) != `[{"amount":"5"}]` || e.Contract != string(key.AccountID) {
				t.Errorf("event %+v of subscription %s", e, p.Subscription)
			}
		case p.Closed != nil:
			closed = p.Subscription + " " + p.Closed.Reason
		}
	}
	all := []string{"INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"}
	for _, id := range []string{"1", "2"} {
		if got := slices.Clone(levels[id]); !slices.Equal(sorted(got), sorted(all)) || got[0] != "INCLUDED" && levels[id][0] != "INCLUDED" || levels[id][4] != "FINAL" {
			t.Errorf("subscription %s: milestones %v", id, levels[id])
		}
	}
	if closed != "2 DONE" || events != 1 || len(outcomes) < 2 || outcomes[0] != hash.String() {
		t.Errorf("closed %q, %d events, outcomes %v", closed, events, outcomes)
	}
	// From the cursor of the first milestone exactly the later ones are repeated.
	again := follow(t, h)
	again.subscribe(`{"topic":"transactions",` + account + `,"after":` + string(first) + `}`)
	for _, want := range levels["1"][1:] {
		if m := again.receive(); m.Params.Transaction == nil || m.Params.Transaction.Level != want {
			t.Errorf("again: %+v, want %s", m.Params, want)
		}
	}
	// And by heights, from the beginning, over a restart: all blocks, each once, in order, and the
	// event.
	stop(t, h)
	m := f.receive()
	for m.Params.Outcome != nil { // outcomes of receipts that no subscriber awaits
		m = f.receive()
	}
	if m.Params.Closed == nil || m.Params.Closed.Reason != "NODE_STOPPING" {
		t.Errorf("at the end: %+v", m.Params)
	}
	h = mustStart(t, dir)
	f = follow(t, h)
	f.subscribe(`{"topic":"events",` + account + `,"from_height":0}`)
	if m := f.receive(); m.Params.Event == nil || string(m.Params.Cursor) != string(last) {
		t.Errorf("after a restart: %+v, want the event at %s", m.Params, last)
	}
	f.subscribe(`{"topic":"blocks","finality":"final","from_height":1}`)
	final := uint64(h.Engine.Final().Height)
	for height := uint64(0); height < final; {
		m := f.receive()
		if m.Params.Block == nil || m.Params.Block.Header.Height <= height {
			t.Fatalf("after block %d: %+v", height, m.Params)
		}
		height = m.Params.Block.Header.Height
	}
	f.send("unsubscribe", `["2"]`)
	for m := f.receive(); m.ID != 1; m = f.receive() {
		if m.Params.Block == nil {
			t.Errorf("received %+v", m.Params)
		}
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// TestStreamerMessageHasNearcoresOrder: one call returns the message of nearcore's indexer
// framework for a block, with members in the order of nearcore's structs.
func TestStreamerMessageHasNearcoresOrder(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	var m json.RawMessage
	if cause := ask(t, h, "troupe_streamer_message", map[string]any{"block_id": 0}, &m); cause != "" {
		t.Fatal(cause)
	}
	if !strings.HasPrefix(string(m), `{"block":{"author":"`) || !strings.Contains(string(m), `"shards":[{"shard_id":0,"chunk":`) {
		t.Errorf("got %.300s", m)
	}
	if cause := ask(t, h, "troupe_streamer_message", []int{1_000_000}, &m); cause != "UNKNOWN_BLOCK" {
		t.Errorf("of no block: %s", cause)
	}
}

// TestSubscribersGetEachRevertedBlock: after a revert to a snapshot, subscribers receive each
// removed block at once, newest first, even if no block follows, and even if they did not receive
// the block before. Then they receive the new blocks.
func TestSubscribersGetEachRevertedBlock(t *testing.T) {
	h := manual(t, made(t))
	defer stop(t, h)
	must(t, h, "sandbox_mine", `[3]`)
	base := must(t, h, "sandbox_snapshot", `{"name":"base"}`)
	f := follow(t, h)
	f.subscribe(`{"topic":"blocks","finality":"optimistic"}`)
	var hashes []string
	for range 10 {
		must(t, h, "sandbox_mine", `[30]`)
		for range 30 {
			m := f.receive()
			var at struct {
				Hash string `json:"block_hash"`
			}
			if err := json.Unmarshal(m.Params.Cursor, &at); err != nil || m.Params.Block == nil {
				t.Fatalf("%v: got %+v", err, m)
			}
			hashes = append(hashes, at.Hash)
		}
	}
	slices.Reverse(hashes)
	late := follow(t, h)
	late.subscribe(`{"topic":"blocks","finality":"optimistic"}`)
	must(t, h, "sandbox_revert", `{"id":"base"}`)
	for who, x := range map[string]*subscriber{"who was told of all": f, "who was told of none": late} {
		m := x.receive()
		if len(m.Params.Reverted) != len(hashes) || !strings.Contains(string(m.Params.Cursor), base.Hash) {
			t.Fatalf("%s: %d blocks removed, cursor %s; want %d, %s", who, len(m.Params.Reverted), m.Params.Cursor, len(hashes), base.Hash)
		}
		for i, lost := range m.Params.Reverted {
			if lost.Hash != hashes[i] {
				t.Fatalf("%s: removed block %d is %s, want %s", who, i, lost.Hash, hashes[i])
			}
		}
	}
	must(t, h, "sandbox_mine", `[1]`)
	for _, x := range []*subscriber{f, late} {
		if m := x.receive(); m.Params.Block == nil || m.Params.Block.Header.Height != base.Height+1 {
			t.Errorf("then: %+v", m.Params)
		}
	}
}
