package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/internal/blockfeed"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// unhurried starts a node whose transactions may wait for as long as a compilation takes on a busy
// machine.
func unhurried(t *testing.T, dir string) *Daemon {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	hm.Config.RPC.PollingTimeout = 2 * time.Minute
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// fed starts a node that follows feeds.
func fed(t *testing.T, dir string, feeds ...string) *Daemon {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	hm.Config.RPC.PollingTimeout = 2 * time.Minute
	o := Options{Home: hm, Listen: "127.0.0.1:0"}
	for _, text := range feeds {
		s, err := blockfeed.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Follow = append(o.Follow, s)
	}
	h, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// acrossShards is a home of four shards and short epochs. Its validator is in another shard than
// the account near and the validator's own children.
func acrossShards(t *testing.T, length int) (dir string) {
	t.Helper()
	dir = testnode.Home(t, home.InitOptions{ChainID: "sandbox", AccountID: "zoe.near", NumShards: 4})
	path := filepath.Join(dir, "genesis.json")
	in, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"epoch_length", "transaction_validity_period"} {
		in = regexp.MustCompile(`"`+key+`":\s*\d+`).ReplaceAll(in, fmt.Appendf(nil, `"%s": %d`, key, length))
	}
	if err := os.WriteFile(path, in, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkpoint copies a home as it is between two runs, without the key of its block producer.
func checkpoint(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "home")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "validator_key.json")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sameRoots compares a follower's blocks with those of the node that produced them: hash, and for
// each shard and height state root, outcome root, gas, congestion. It counts blocks and epochs.
func sameRoots(t *testing.T, a, b *Daemon, from primitives.Height) (blocks, epochs int) {
	t.Helper()
	seen := map[primitives.EpochID]bool{}
	for height := from; height <= a.Engine.Head().Height(); height++ {
		x, err := a.store.BlockAt(height)
		if err != nil { // skipped
			continue
		}
		y, err := b.store.BlockAt(height)
		if err != nil || y.Ref() != x.Ref() {
			t.Fatalf("the follower has %v, %v; want %v", y, err, x.Ref())
		}
		for _, id := range x.Shards() {
			p, err := x.Extra(id)
			if err != nil {
				t.Fatal(err)
			}
			if q, err := y.Extra(id); err != nil || !bytes.Equal(p, q) {
				t.Errorf("block %d, shard %d: %x, %v, want %x", height, id, q, err, p)
			}
		}
		seen[x.Epoch()] = true
		blocks++
	}
	return blocks, len(seen)
}

// lyingFeed returns the URL of a feed that serves another feed's replies after do has changed them.
func lyingFeed(t *testing.T, of *Daemon, do func(w http.ResponseWriter, r *http.Request, body []byte)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, _ := io.ReadAll(r.Body)
		q, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+of.Addr.String()+r.URL.RequestURI(), bytes.NewReader(in))
		if err != nil {
			t.Error(err)
			return
		}
		q.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = a.Body.Close() }()
		body, err := io.ReadAll(a.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if a.StatusCode != http.StatusOK {
			w.WriteHeader(a.StatusCode)
			_, _ = w.Write(body)
			return
		}
		do(w, r, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

var digits = regexp.MustCompile(`[1-9A-HJ-NP-Za-km-z]{20,}|"\d+"|:\d+`)

// corruptReply changes one letter of a number, hash, key or signature.
func corruptReply(body []byte) []byte {
	places := digits.FindAllIndex(body, -1)
	if len(places) == 0 { // an error, or null
		return body
	}
	p := places[mrand.IntN(len(places))]
	out := bytes.Clone(body)
	at := p[1] - 2
	if out[at] < '0' || out[at] > '9' {
		at = p[1] - 1
	}
	if was := out[at]; was == '7' {
		out[at] = '6'
	} else {
		out[at] = '7'
	}
	return out
}

// forge changes a block and its hash, so that the producer's signature is invalid.
func forge(body []byte) []byte {
	d, err := blockdoc.Parse(body)
	if err != nil {
		return body
	}
	was, random := d.Hash, d.Block.Header.RandomValue
	d.Block.Header.RandomValue[mrand.IntN(32)]++
	body = bytes.ReplaceAll(body, []byte(random.String()), []byte(d.Block.Header.RandomValue.String()))
	return bytes.ReplaceAll(body, []byte(was.String()), []byte(d.Block.Header.Init().Hash().String()))
}

// lakeOf returns the URL of a bucket with a node's blocks in the layout of NEAR Lake, on a server
// compatible with S3.
func lakeOf(t *testing.T, of *Daemon) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := of.Engine.Head().Height()
		if q := r.URL.Query(); q.Get("list-type") == "2" {
			after, _, _ := strings.Cut(q.Get("start-after"), "/")
			n, err := strconv.ParseUint(after, 10, 64)
			if err != nil {
				t.Error(err)
			}
			_, _ = fmt.Fprint(w, "<ListBucketResult>")
			for h := primitives.Height(n) + 1; h <= head; h++ {
				if _, err := of.store.HashAt(h); err == nil {
					_, _ = fmt.Fprintf(w, "<CommonPrefixes><Prefix>%012d/</Prefix></CommonPrefixes>", h)
					break
				}
			}
			_, _ = fmt.Fprint(w, "</ListBucketResult>")
			return
		}
		folder, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		n, err := strconv.ParseUint(folder, 10, 64)
		if err != nil || primitives.Height(n) > head {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		a, err := http.Get(fmt.Sprintf("http://%s/v0/block_opt/%d", of.Addr, n))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = a.Body.Close() }()
		var d struct {
			Block  json.RawMessage
			Shards []json.RawMessage
		}
		if err := json.NewDecoder(a.Body).Decode(&d); err != nil || d.Block == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if name == "block.json" {
			_, _ = w.Write(d.Block)
			return
		}
		for _, text := range d.Shards {
			if strings.HasPrefix(string(text), fmt.Sprintf(`{"shard_id":%s,`, strings.TrimSuffix(strings.TrimPrefix(name, "shard_"), ".json"))) {
				_, _ = w.Write(text)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// busy creates transactions: transfers between shards, contracts that call each other, code
// deployed to an account by another's transaction.
func busy(t *testing.T, h *Daemon, key *primitives.KeyFile, nonce *primitives.Nonce, n int) {
	t.Helper()
	send := func(to primitives.AccountID, actions ...primitives.Action) {
		t.Helper()
		*nonce++
		began := time.Now()
		defer func() { t.Logf("transaction %d of %T: %v", *nonce, actions[0], time.Since(began)) }()
		signed, _ := encode(draft(h, key, *nonce, to, actions...), key)
		var status txStatus
		if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"}, &status); cause != "" {
			t.Fatalf("send_tx: %s", cause)
		}
		// With a validity period of 12 blocks, instant production makes only one block in 5 s; requested
		// blocks are made at once.
		if cause := ask(t, h, "sandbox_mine", []any{2}, new(json.RawMessage)); cause != "" {
			t.Fatalf("sandbox_mine: %s", cause)
		}
		if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "EXECUTED_OPTIMISTIC"}, &status); cause != "" {
			t.Fatalf("send_tx: %s", cause)
		}
	}
	for i := range n {
		child := primitives.AccountID(fmt.Sprintf("c%d.%s", *nonce, key.AccountID))
		switch kind := i % 4; {
		case kind == 1 && *nonce > 8: // compilation is not what this tests
			send("near", &primitives.Transfer{Deposit: primitives.NEAR(1)})
		case kind == 0:
			send("near", &primitives.Transfer{Deposit: primitives.NEAR(1)})
		case kind == 1: // no document of the transaction's block contains this code
			code := append([]byte("\x00asm\x01\x00\x00\x00"), wasmNote(byte(*nonce))...)
			send(child, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(50)}, &primitives.DeployContract{Code: code})
		case kind == 2:
			var p contracts.Program
			p.Call("log_utf8", fmt.Sprintf("round %d", *nonce))
			send(key.AccountID, &primitives.DeployContract{Code: contracts.Probe()}, &primitives.FunctionCall{Method: "run", Args: p.Bytes(), Gas: 30e12})
		case kind == 3:
			send(primitives.AccountID(strings.Repeat(fmt.Sprintf("%02x", byte(*nonce)), 32)), &primitives.Transfer{Deposit: primitives.NEAR(2)})
		}
	}
}

// wasmNote is a custom section, which gives the code another hash.
func wasmNote(x byte) []byte { return []byte{0, 3, 1, 'n', x} }

// TestFollowerOfFeedComputesSameRoots: a node that starts from a copy of another's folder follows
// its chain for five epochs by documents and by JSON-RPC, and computes the same roots of every
// shard in every block. There are also feeds that change blocks, return blocks of other heights,
// never answer, return no JSON, or serve another chain. The follower serves reads, reports that it
// is in sync, produces no blocks, and continues after a restart.
func TestFollowerOfFeedComputesSameRoots(t *testing.T) {
	dirA := acrossShards(t, 12)
	a := unhurried(t, dirA)
	key := a.home.ValidatorKey
	nonce := primitives.Nonce(0)
	busy(t, a, key, &nonce, 4)
	mineBy(t, a, `{"blocks":15}`)
	stop(t, a)
	dirB := checkpoint(t, dirA)
	a = unhurried(t, dirA)
	defer func() { stop(t, a) }()
	first := a.Engine.Head().Height()

	other := mustStart(t, made(t))
	defer stop(t, other)
	mineBy(t, other, `{"blocks":60}`)
	var changedBlocks, changedReplies, hung atomic.Int64 // changed documents; changed replies; requests without an answer
	honest := "http://" + a.Addr.String()
	feeds := []string{
		lyingFeed(t, a, func(w http.ResponseWriter, _ *http.Request, body []byte) {
			changedBlocks.Add(1)
			_, _ = w.Write(corruptReply(body))
		}),
		"rpc:" + lyingFeed(t, a, func(w http.ResponseWriter, _ *http.Request, body []byte) {
			changedReplies.Add(1)
			_, _ = w.Write(corruptReply(body))
		}),
		lyingFeed(t, a, func(w http.ResponseWriter, _ *http.Request, body []byte) { _, _ = w.Write(forge(body)) }),
		lyingFeed(t, a, func(_ http.ResponseWriter, r *http.Request, _ []byte) {
			hung.Add(1)
			<-r.Context().Done()
		}),
		lyingFeed(t, a, func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = w.Write([]byte("<html>")) }),
		"http://" + other.Addr.String(),
		"http://127.0.0.1:1",
		"rpc:" + honest,
		honest,
	}
	b := fed(t, dirB, feeds...)
	defer func() { stop(t, b) }()
	// Which feed is asked for a block is random, and a feed that sent invalid data is paused. So this
	// continues until each feed was asked.
	for round := 0; round < 5 || round < 40 && (changedBlocks.Load() == 0 || changedReplies.Load() == 0 || hung.Load() == 0); round++ {
		busy(t, a, key, &nonce, 4)
		mineBy(t, a, `{"blocks":6}`)
	}
	caughtUp := func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash }
	eventually(t, "in step", caughtUp)
	blocks, epochs := sameRoots(t, a, b, first+1)
	tried := fmt.Sprintf("%d blocks of %d epochs, %d and %d lies, %d hung", blocks, epochs, changedBlocks.Load(), changedReplies.Load(), hung.Load())
	if t.Log(tried); epochs < 5 || changedBlocks.Load() == 0 || changedReplies.Load() == 0 || hung.Load() == 0 {
		t.Errorf("%s: too little was tried", tried)
	}
	refused := uint64(0)
	for _, s := range b.feeds.Status() {
		refused += s.Refused
		t.Logf("%s: at %d, gave %d, %d refused, %d failed, %v", s.Name, s.Height, s.Given, s.Refused, s.Failed, s.Last)
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}

	for method, params := range map[string]string{
		"query":      fmt.Sprintf(`{"request_type":"view_account","finality":"optimistic","account_id":%q}`, key.AccountID),
		"block":      `{"finality":"optimistic"}`,
		"gas_price":  `[null]`,
		"changes":    fmt.Sprintf(`{"changes_type":"account_changes","account_ids":[%q],"finality":"final"}`, key.AccountID),
		"validators": `[null]`,
	} {
		var want, got json.RawMessage
		if f := rpcOf(t, a, method, params, &want); f != "" {
			t.Fatalf("%s: error %s", method, f)
		}
		if f := rpcOf(t, b, method, params, &got); f != "" || string(got) != string(want) {
			t.Errorf("%s: %s %s, want %s", method, f, got, want)
		}
	}
	var none struct{}
	if f := rpcOf(t, b, "health", `[]`, &none); f != "" {
		t.Errorf("health: %s", f)
	}
	if f := rpcOf(t, b, "sandbox_mine", `{"blocks":1}`, &none); f == "" {
		t.Error("a follower makes blocks")
	}

	nonce++
	signed, hash := encode(draft(a, key, nonce, "near", &primitives.Transfer{Deposit: primitives.NEAR(3)}), key)
	var status txStatus
	if cause := ask(t, b, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "EXECUTED_OPTIMISTIC"}, &status); cause != "" || !strings.HasPrefix(string(status.Status), `{"SuccessValue"`) {
		t.Errorf("a transaction that was given to the follower: %q, %s", cause, status.Status)
	}

	stop(t, b)
	busy(t, a, key, &nonce, 4)
	b = fed(t, dirB, honest)
	eventually(t, "in step after a restart", caughtUp)
	sameRoots(t, a, b, first)
	if cause := ask(t, b, "tx", map[string]any{"tx_hash": hash, "sender_account_id": key.AccountID, "wait_until": "NONE"}, &status); cause != "" {
		t.Errorf("the same transaction after a restart: %s", cause)
	}
	nonce++
	signed, _ = encode(draft(a, key, nonce, "near", &primitives.Transfer{Deposit: primitives.NEAR(3)}), key)
	if cause := ask(t, b, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"}, &status); cause != "INTERNAL_ERROR" {
		t.Errorf("a transaction that can't be passed on: %q", cause)
	}
}

// TestFollowerOfLakeTracksOnlyItsShards: a node that tracks only the shards of some accounts
// follows a bucket of NEAR Lake. From chunks of other shards it takes the receipts for its own
// shards and verifies them by the roots in the chunk headers. Queries about its shards get the same
// replies as from the node that produced the blocks; others get an error that the shard is not
// tracked.
func TestFollowerOfLakeTracksOnlyItsShards(t *testing.T) {
	dirA := acrossShards(t, 12)
	a := unhurried(t, dirA)
	defer func() { stop(t, a) }()
	key := a.home.ValidatorKey
	nonce := primitives.Nonce(0)
	busy(t, a, key, &nonce, 4)

	layout := a.Engine.Head().Layout
	mine := layout.ShardOf("near")
	var foreign primitives.AccountID // of another shard
	if foreign = key.AccountID; layout.ShardOf(foreign) == mine {
		t.Fatalf("%s and near are of one shard", foreign)
	}
	hm, err := home.Load(followerHome(t, dirA))
	if err != nil {
		t.Fatal(err)
	}
	hm.Config.TrackedShards = config.TrackedShards{Accounts: []primitives.AccountID{"near"}}
	feed, err := blockfeed.Parse("lake:" + lakeOf(t, a))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Follow: []blockfeed.Source{feed}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { stop(t, b) }()
	for range 3 {
		busy(t, a, key, &nonce, 4)
		mineBy(t, a, `{"blocks":4}`)
	}
	eventually(t, "in step", func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash })
	compared := 0
	for height := a.Engine.Chain().Height + 1; height <= a.Engine.Head().Height(); height++ {
		x, err := a.store.BlockAt(height)
		if err != nil {
			continue
		}
		y, err := b.store.BlockAt(height)
		if err != nil {
			t.Fatal(err)
		}
		p, err := x.Extra(mine)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := y.Extra(mine); err != nil || !bytes.Equal(p, q) {
			t.Errorf("block %d: %x, %v, want %x", height, q, err, p)
		}
		if q, err := y.Extra(layout.ShardOf(foreign)); err == nil {
			t.Errorf("block %d: of a shard that is not held there is %x", height, q)
		}
		compared++
	}
	t.Logf("%d blocks, %d transactions", compared, nonce)
	account := func(h *Daemon, id primitives.AccountID) (out json.RawMessage, fault string) {
		fault = rpcOf(t, h, "query", fmt.Sprintf(`{"request_type":"view_account","finality":"optimistic","account_id":%q}`, id), &out)
		return out, fault
	}
	want, _ := account(a, "near")
	if got, fault := account(b, "near"); fault != "" || string(got) != string(want) {
		t.Errorf("near: %s %s, want %s", fault, got, want)
	}
	if got, fault := account(b, foreign); fault == "" {
		t.Errorf("%s: %s, of a shard that is not held", foreign, got)
	}
}

// TestFollowerLagsByNoBlock: a follower imports each block before the next one is made, so it waits
// neither for later blocks nor for finality. With TROUPE_LAG_BLOCKS, that many blocks follow each
// other every 20 ms instead, and the test prints the time between the acceptance of a block by its
// producer and by the follower.
func TestFollowerLagsByNoBlock(t *testing.T) {
	n, measured := 20, false
	if text := os.Getenv("TROUPE_LAG_BLOCKS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		measured = true
	}
	var mu sync.Mutex
	made, taken := map[primitives.Hash]time.Time{}, map[primitives.Hash]time.Time{}
	note := func(in map[primitives.Hash]time.Time) func(*messages.BlockAccepted) {
		return func(m *messages.BlockAccepted) {
			mu.Lock()
			in[m.Hash] = time.Now()
			mu.Unlock()
		}
	}
	begin := func(dir string, observe func(*messages.BlockAccepted), feeds ...blockfeed.Source) *Daemon {
		t.Helper()
		hm, err := home.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Observe: observe, Follow: feeds})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	dirA := acrossShards(t, 50)
	a := begin(dirA, note(made))
	defer stop(t, a)
	for _, kind := range []string{"neardata", "rpc"} {
		feed, err := blockfeed.Parse(kind + ":http://" + a.Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		b := begin(followerHome(t, dirA), note(taken), feed)
		eventually(t, "in step", func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash })
		from := a.Engine.Head().Height()
		for range n {
			if mineBy(t, a, `{"blocks":1}`); measured {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			eventually(t, "at the newest block", func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash })
		}
		eventually(t, "in step", func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash })
		var lags []time.Duration
		mu.Lock()
		for h := from + 1; h <= a.Engine.Head().Height(); h++ {
			if hash, err := a.store.HashAt(h); err == nil {
				lags = append(lags, taken[hash].Sub(made[hash]))
			}
		}
		clear(taken)
		mu.Unlock()
		slices.Sort(lags)
		t.Logf("%s: %d blocks, lag p50 %v, p90 %v, p99 %v, most %v", kind, len(lags), lags[len(lags)/2], lags[len(lags)*9/10], lags[len(lags)*99/100], lags[len(lags)-1])
		stop(t, b)
	}
}
