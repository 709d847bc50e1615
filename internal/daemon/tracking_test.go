package daemon

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// setTracked changes keys of tracked shards in config.json; null removes a key.
func setTracked(t *testing.T, dir, keys string) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, change := map[string]any{}, map[string]any{}
	for in, into := range map[string]*map[string]any{string(text): &all, keys: &change} {
		d := json.NewDecoder(strings.NewReader(in))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	maps.Copy(all, change)
	if text, err = json.Marshal(all); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// followed is a home with the genesis of another, and no validator.
func followed(t *testing.T, of, keys string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"genesis.json", "config.json", "node_key.json"} {
		b, err := os.ReadFile(filepath.Join(of, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	setTracked(t, dir, keys)
	return dir
}

// feed contains blocks of a node for others.
type feed struct {
	mu   sync.Mutex
	list []*messages.BlockAccepted
}

func (f *feed) observe(m *messages.BlockAccepted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, m)
}

// to passes the blocks to a node, with the parts of their chunks that it needs, and waits until the
// heads are equal.
func (f *feed) to(t *testing.T, h *Daemon, track engine.Track) {
	t.Helper()
	f.mu.Lock()
	list := slices.Clone(f.list)
	f.mu.Unlock()
	layout := h.Engine.Head().Layout
	for _, m := range list {
		var held []primitives.ShardID
		for _, id := range layout.ShardIDs() {
			if track(layout, id) {
				held = append(held, id)
			}
		}
		b := messages.BlockReceived{Block: m.Block, From: "feed"}
		for i := range m.Shards {
			c := m.Shards[i].Chunk
			if c != nil && !slices.Contains(held, c.Header.ShardID) {
				c = chain.CutChunk(c, layout, held)
			}
			b.Chunks = append(b.Chunks, c)
		}
		h.Node.Receive(b)
	}
	last := list[len(list)-1].Height()
	for limit := time.Now().Add(time.Minute); h.Engine.Head().Height() < last; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the head is %d, want %d", h.Engine.Head().Height(), last)
		}
	}
}

// TestProofsAreKeptForValidatorsOnly: a node without a validator key keeps no proofs unless
// config.json requires those of all chunks.
func TestProofsAreKeptForValidatorsOnly(t *testing.T) {
	for proofs, want := range map[string][2]int64{`{}`: {0, 1 << 28}, `{"proofs": {"of": "all", "memory_bytes": 5}}`: {5, 5}, `{"proofs": {"of": "none"}}`: {}} {
		dir := made(t)
		setTracked(t, dir, `{"troupe": `+proofs+`}`)
		for i, key := range []bool{false, true} {
			hm, err := home.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if !key {
				hm.ValidatorKey = nil
			}
			bytes, of := proofsOf(hm)
			if bytes != want[i] || (of != "") != (key && proofs == `{}`) {
				t.Errorf("%s, validator %v: %d bytes of %q", proofs, key, bytes, of)
			}
		}
	}
}

// TestRepliesAboutTrackedShardAreEqual: a node that tracks one of three shards follows the chain by
// what others send. Over HTTP its replies about its shard equal those of a node with all shards,
// and about others are neard's error of an untracked shard; also for old blocks, and after a
// restart.
func TestRepliesAboutTrackedShardAreEqual(t *testing.T) {
	dir := testnode.Home(t, home.InitOptions{ChainID: "sandbox", NumShards: 3})
	setTracked(t, dir, `{"tracked_shards_config": "NoShards"}`) // which a validator's duties go beyond
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	blocks := new(feed)
	a, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Observe: blocks.observe})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, a)
	layout := a.Engine.Head().Layout
	if held := a.held(); len(held) != 3 {
		t.Fatalf("the validator holds %v", held)
	}
	near := &primitives.KeyFile{AccountID: "near", SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, "near")}
	homeShard := layout.ShardOf("near")
	away := primitives.AccountID("")
	for _, x := range []primitives.AccountID{"0away.near", "zaway.near"} { // an account of another shard
		if layout.ShardOf(x) != homeShard {
			away = x
		}
	}
	if away == "" {
		t.Fatalf("%v has all names in one shard", layout)
	}
	stranger := &primitives.KeyFile{AccountID: away, SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, "away")}
	send := func(h *Daemon, key *primitives.KeyFile, nonce primitives.Nonce, to primitives.AccountID, actions ...primitives.Action) (cause string, hash primitives.Hash) {
		t.Helper()
		signed, hash := encode(draft(h, key, nonce, to, actions...), key)
		var status txStatus
		return ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &status), hash
	}
	if cause, _ := send(a, near, 1, away, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(50)},
		&primitives.AddKey{PublicKey: stranger.SecretKey.PublicKey()}); cause != "" {
		t.Fatal(cause)
	}
	// the receipt arrives in this shard
	cause, strange := send(a, stranger, primitives.Nonce(a.Engine.Head().Height())*1_000_000-3, "near", &primitives.Transfer{Deposit: primitives.NEAR(7)})
	if cause != "" {
		t.Fatal(cause)
	}

	follower := followed(t, dir, `{"tracked_shards_config": null, "tracked_accounts": ["near"]}`)
	b := mustStart(t, follower)
	track := engine.TrackAccounts("near")
	blocks.to(t, b, track)
	if held := b.held(); !slices.Equal(held, []primitives.ShardID{homeShard}) {
		t.Fatalf("the follower holds %v", held)
	}
	brought := false
	old := a.Engine.Head().Height()
	// receipts from untracked shards are part of its messages
	for at := primitives.Height(1); at <= b.Engine.Final().Height; at++ {
		raw, err := b.Backend().StreamerMessage(view.BlockRef{Kind: view.RefHeight, Height: at})
		if err != nil {
			t.Fatalf("the message of block %d: %v", at, err)
		}
		if strings.Contains(string(raw), `"predecessor_id":"`+string(away)+`"`) {
			brought = true
		}
	}
	if !brought {
		t.Errorf("no message has the transactions that %s sent", away)
	}
	look := func(when string) {
		t.Helper()
		account := func(h *Daemon, id primitives.AccountID, block any) (out struct{ Amount string }, cause string) {
			return out, ask(t, h, "query", map[string]any{"request_type": "view_account", "account_id": id, "block_id": block}, &out)
		}
		want, _ := account(a, "near", old)
		if got, cause := account(b, "near", old); cause != "" || got != want || want.Amount == "" {
			t.Errorf("%s: near is %+v %s, want %+v", when, got, cause, want)
		}
		if _, cause := account(b, away, old); cause != "UNAVAILABLE_SHARD" {
			t.Errorf("%s: an account of another shard: %q", when, cause)
		}
		var whatever struct{}
		for name, x := range map[string]struct {
			method string
			params any
			want   string
		}{
			"call":  {"query", map[string]any{"request_type": "call_function", "account_id": away, "method_name": "x", "args_base64": "", "block_id": old}, "UNAVAILABLE_SHARD"},
			"state": {"query", map[string]any{"request_type": "view_state", "account_id": away, "prefix_base64": "", "finality": "final"}, "UNAVAILABLE_SHARD"},
			"chunk": {"chunk", map[string]any{"block_id": old, "shard_id": layout.ShardOf(away)}, "UNKNOWN_CHUNK"},
			"own":   {"chunk", map[string]any{"block_id": old, "shard_id": homeShard}, ""},
			"proof": {"light_client_proof", map[string]any{"type": "transaction", "transaction_hash": strange, "sender_id": away,
				"light_client_head": b.Engine.Final().Hash}, "UNAVAILABLE_SHARD"},
		} {
			if cause := ask(t, b, x.method, x.params, &whatever); cause != x.want {
				t.Errorf("%s: %s: %q, want %q", when, name, cause, x.want)
			}
		}
		if cause, _ := send(b, stranger, 1<<41, "near", &primitives.Transfer{}); cause != "DOES_NOT_TRACK_SHARD" {
			t.Errorf("%s: a transaction of another shard: %q", when, cause)
		}
	}
	look("following")
	stop(t, b)
	b = mustStart(t, follower)
	look("behind a restart")
	for i := range primitives.Nonce(3) {
		if cause, _ := send(a, near, 2+i, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}); cause != "" {
			t.Fatal(cause)
		}
	}
	blocks.to(t, b, track)
	stop(t, b) // the flat head advances to the final block
	b = mustStart(t, follower)
	if b.Engine.BlockNode(b.Engine.Head().Hash) == nil || b.Engine.Store().Tip().FlatHead.Height <= old {
		t.Fatalf("block %d is not old", old)
	}
	look("of an old block")
	stop(t, b)

	key, err := os.ReadFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{
		`{"tracked_accounts": null, "tracked_shards_config": "AllShards"}`:                                "remove",
		`{"tracked_accounts": null, "tracked_shards_config": {"Schedule": [[0], [1]]}}`:                   "schedule",
		`{"tracked_accounts": null, "tracked_shards_config": {"ShadowValidator": "test.near"}}`:           "test.near",
		`{"tracked_accounts": null, "tracked_shards_config": {"Accounts": ["` + string(away) + `"]}}`:     "remove",
		`{"tracked_accounts": ["near"], "tracked_shards_config": null}`:                                   "",
		`{"tracked_accounts": ["near"], "tracked_shards_config": null, "validator_key_file": "key.json"}`: "produces chunks of every shard",
	} {
		if strings.Contains(keys, "key.json") {
			if err := os.WriteFile(filepath.Join(follower, "key.json"), key, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		setTracked(t, follower, keys)
		h, err := start(t, follower)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
		if err != nil && !errors.Is(err, errTracked) && !errors.Is(err, engine.ErrUntracked) {
			t.Errorf("%s: error %v", keys, err)
		}
		if err == nil {
			stop(t, h)
		}
		setTracked(t, follower, `{"validator_key_file": "validator_key.json"}`)
	}
}
