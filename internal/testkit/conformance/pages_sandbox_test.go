package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// sandboxWorld runs a node as the command does, with a token on its chain. It returns the
// parameters for the requests of the method pages, which are sent in the order of their names. The
// second client and parameters are those of a fork of it.
func sandboxWorld(t *testing.T) (_ Client, _ map[string]string, forked Client, ofFork map[string]string) {
	t.Helper()
	dir, seed := t.TempDir(), "test.near"
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	_, err := home.Init(t.Context(), home.InitOptions{Dir: dir, ChainID: "sandbox", AccountID: "test.near", TestSeed: &seed, Random: noise{}, Downloader: home.NewDownloader(), Now: time.Now})
	must(err)
	hm, err := home.Load(dir)
	must(err)
	hm.Config.Production = config.Manual
	h, client := started(t, daemon.Options{Home: hm})
	call := func(method, params string) (result json.RawMessage) {
		t.Helper()
		got, err := client(Request{Method: "POST", Path: "/", Body: fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":%q,"params":%s}`, method, params)})
		must(err)
		var reply struct{ Result, Error json.RawMessage }
		must(json.Unmarshal([]byte(got.Body), &reply))
		if reply.Error != nil {
			t.Fatalf("%s: error %s", method, reply.Error)
		}
		return reply.Result
	}
	key := hm.ValidatorKey.SecretKey
	token := base64.StdEncoding.EncodeToString(contracts.C("ft"))
	call("sandbox_set_balance", `["token.near","50000000000000000000000000"]`)
	call("sandbox_set_code", fmt.Sprintf(`["token.near",%q]`, token))
	call("sandbox_snapshot", `{"name":"deployed"}`)
	call("sandbox_snapshot", `{"name":"other"}`)
	call("sandbox_tag", `{"name":"setup"}`)
	call("sandbox_tag", `{"name":"old","tx_hashes":[]}`)
	tx := primitives.Transaction{SignerID: "test.near", PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: 1}, ReceiverID: "token.near",
		BlockHash: h.Engine.Head().Hash, Actions: []primitives.Action{&primitives.FunctionCall{Method: "new", Gas: 30_000_000_000_000,
			Args: []byte(`{"owner_id":"test.near","total_supply":"10","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}`)}}}
	hash := tx.Hash()
	call("broadcast_tx_async", fmt.Sprintf(`[%q]`, base64.StdEncoding.EncodeToString(primitives.NewSignedTransaction(tx, key.Sign(hash[:])).AppendBorsh(nil))))
	for deadline := time.Now().Add(time.Minute); h.Node.Waiting() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the pool has nothing")
		}
	}
	call("sandbox_mine", fmt.Sprintf(`{"until":%q}`, hash))
	replay := call("sandbox_dump_transaction", fmt.Sprintf(`[%q]`, hash))
	const account = `"account_id":"token.near"`
	public := key.PublicKey().String()
	call("sandbox_new_world", `{"snapshot":"deployed","quiet":true}`)
	forked = forkOf(t, h)
	return client, map[string]string{
		"sandbox_next_epoch": `null`, "sandbox_snapshot": `{"name":"ready"}`, "sandbox_revert": `{"id":"deployed"}`, "sandbox_drop_snapshot": `{"id":"other"}`,
		"sandbox_snapshots": `null`, "sandbox_set_clock": `{"timestamp_nanosec":"2000000000000000000","frozen":true}`,
		"sandbox_set_production": `{"mode":"manual","quiet":true}`, "sandbox_dump_state": `{"account_ids":["token.near"]}`,
		"sandbox_load_state":         `{"records":[{"AccessKey":{` + account + `,"public_key":"` + public + `","access_key":{"nonce":0,"permission":"FullAccess"}}}]}`,
		"sandbox_dump_transaction":   fmt.Sprintf(`{"tx_hash":%q}`, hash),
		"sandbox_replay_transaction": `{"replace":true,` + string(replay)[1:], "sandbox_set_balance": `{` + account + `,"amount":"5000000000000000000000000"}`,
		"sandbox_set_code": `{` + account + `,"code_base64":"AGFzbQEAAAA="}`, "sandbox_set_key": `{` + account + `,"public_key":"` + public + `","nonce":0}`,
		"sandbox_set_storage": `{` + account + `,"key_base64":"a2V5","value_base64":"dg=="}`,
		"sandbox_deal":        `{"token_id":"token.near","account_id":"alice.near","amount":"1000"}`,
		"sandbox_impersonate": `{"account_ids":["alice.near"]}`, "sandbox_miss_chunks": `{"blocks":1}`, "sandbox_reorg": `{"blocks":1}`,
		"sandbox_mock_verification": `{"ed25519_verify":true}`, "sandbox_tag": `{"name":"transfers"}`, "sandbox_tags": `null`, "sandbox_drop_tag": `{"name":"old"}`,
		"sandbox_profile": `{"name":"setup"}`, "sandbox_new_world": `{"snapshot":"deployed","quiet":true}`, "sandbox_worlds": `null`, "sandbox_drop_world": `{"id":"1"}`,
	}, forked, map[string]string{"sandbox_fork": `{"live":["token.near"]}`}
}

// started runs a node until the test ends.
func started(t *testing.T, o daemon.Options) (*daemon.Daemon, Client) {
	t.Helper()
	o.Listen = "127.0.0.1:0"
	h, err := daemon.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return h, OverConn(func() (net.Conn, error) { return net.Dial("tcp", h.Addr.String()) })
}

// forkOf runs a fork of another node's chain.
func forkOf(t *testing.T, h *daemon.Daemon) Client {
	t.Helper()
	there := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("tcp", h.Addr.String()) }}
	t.Cleanup(there.CloseIdleConnections)
	spec, err := fork.ParseSpec("http://rpc.example.org")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "fork")
	if _, err := fork.Make(t.Context(), dir, spec, fork.Options{URL: spec.URL, Transport: there}); err != nil {
		t.Fatal(err)
	}
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	hm.Config.Production = config.Manual
	_, client := started(t, daemon.Options{Home: hm, ForkTransport: there})
	return client
}

// noise are the deterministic bytes of keys and names.
type noise struct{}

func (noise) Read(b []byte) (int, error) {
	sum := sha256.Sum256([]byte("pages"))
	return copy(b, bytes.Repeat(sum[:], len(b)/len(sum)+1)), nil
}
