package daemon

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// rpcOf posts a request and decodes the result.
func rpcOf(t *testing.T, h *Daemon, method, params string, result any) (fault string) {
	t.Helper()
	r, err := http.Post("http://"+h.Addr.String(), "application/json", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var out struct {
		Result json.RawMessage
		Error  struct {
			Data  any
			Cause struct{ Name string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	if out.Error.Cause.Name != "" {
		return fmt.Sprint(out.Error.Cause.Name, ": ", out.Error.Data)
	}
	if err := json.Unmarshal(out.Result, result); err != nil {
		t.Fatalf("%s: result %s, error %v", method, out.Result, err)
	}
	return ""
}

type account struct {
	Amount, Locked string
	CodeHash       string `json:"code_hash"`
}

// TestPatchIsVisibleWhenReplyArrives: the patched state is visible when the reply arrives, with its
// cause in the changes, and after a restart. An invalid patch is refused with the reason and
// changes nothing.
func TestPatchIsVisibleWhenReplyArrives(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	var none struct{}
	code := base64.StdEncoding.EncodeToString([]byte("no wasm"))
	const new = `{"Account":{"account_id":"new.near","account":{"amount":"7","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":0}}}`
	if f := rpcOf(t, h, "sandbox_patch_state", `{"records":[`+new+`,{"Contract":{"account_id":"new.near","code":"`+code+`"}}]}`, &none); f != "" {
		t.Fatal(f)
	}
	want := account{"7", "0", primitives.HashBytes([]byte("no wasm")).String()}
	look := func() (got account) {
		t.Helper()
		if f := rpcOf(t, h, "query", `{"request_type":"view_account","finality":"optimistic","account_id":"new.near"}`, &got); f != "" {
			t.Fatal(f)
		}
		return got
	}
	if got := look(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	var changes struct {
		Changes []struct{ Cause struct{ Type string } }
	}
	if f := rpcOf(t, h, "changes", fmt.Sprintf(`{"changes_type":"account_changes","account_ids":["new.near"],"block_id":%d}`, h.Engine.Head().Height()), &changes); f != "" || len(changes.Changes) != 1 {
		t.Fatalf("error %s, changes %+v", f, changes)
	}
	if got := changes.Changes[0].Cause.Type; got != "migration" {
		t.Errorf("the cause is %s", got)
	}
	for _, record := range []string{
		`{"Contract":{"account_id":"nobody.near","code":""}}`, `{"Data":{"account_id":"nobody.near","data_key":"YQ","value":"YQ"}}`,
		`{"ReceivedData":{"account_id":"nobody.near","data_id":"11111111111111111111111111111111","data":""}}`,
		`{"AccessKey":{"account_id":"nobody.near","public_key":"ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr","access_key":{"nonce":0,"permission":"FullAccess"}}}`,
	} {
		if f := rpcOf(t, h, "sandbox_patch_state", "[["+record+"]]", &none); !strings.HasPrefix(f, "CANNOT_PATCH: the records cannot be written into the state: record 0 of account nobody.near: the account does not exist") {
			t.Errorf("%s of an unknown account: %s", record, f)
		}
	}
	stop(t, h)
	h = mustStart(t, dir)
	defer stop(t, h)
	if got := look(); got != want {
		t.Errorf("after a restart %+v, want %+v", got, want)
	}
	if f := rpcOf(t, h, "sandbox_patch_state", `[[{"Account":{"account_id":"new.near","account":null}}]]`, &none); f != "" {
		t.Fatal(f)
	}
	if f := rpcOf(t, h, "query", `{"request_type":"view_account","finality":"optimistic","account_id":"new.near"}`, &want); !strings.HasPrefix(f, "UNKNOWN_ACCOUNT") {
		t.Errorf("a removed account: %s", f)
	}
}

// TestPatchesOfABatchRunInOrder: a patch may write to an account that the previous patch of the
// same batch creates.
func TestPatchesOfABatchRunInOrder(t *testing.T) {
	h := mustStart(t, made(t))
	for i := range 10 {
		account := fmt.Sprintf("new%d.near", i)
		list := []string{
			`{"Account":{"account_id":"` + account + `","account":{"amount":"7","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":0}}}`,
			`{"Data":{"account_id":"` + account + `","data_key":"YQ==","value":"YQ=="}}`,
			`{"AccessKey":{"account_id":"` + account + `","public_key":"ed25519:11111111111111111111111111111111","access_key":{"nonce":0,"permission":"FullAccess"}}}`,
			`{"Contract":{"account_id":"` + account + `","code":"YQ=="}}`,
		}
		for k, record := range list {
			list[k] = `{"jsonrpc":"2.0","id":1,"method":"sandbox_patch_state","params":{"records":[` + record + `]}}`
		}
		r, err := http.Post("http://"+h.Addr.String(), "application/json", strings.NewReader("["+strings.Join(list, ",")+"]"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		const done = `{"jsonrpc":"2.0","result":{},"id":1}`
		if want := "[" + strings.Join([]string{done, done, done, done}, ",") + "]"; err != nil || string(got) != want {
			t.Fatalf("got %s, error %v", got, err)
		}
	}
}

// TestFastForwardAdvancesHeightAndTime: the head is the given number of heights higher, or one
// more, like neard's, in the right epoch, and with the time that these blocks would have taken.
// Blocks continue from there, also after a restart.
func TestFastForwardAdvancesHeightAndTime(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	var none struct{}
	var status struct {
		SyncInfo struct {
			Height uint64    `json:"latest_block_height"`
			Time   time.Time `json:"latest_block_time"`
		} `json:"sync_info"`
	}
	look := func() (uint64, time.Time) {
		t.Helper()
		if f := rpcOf(t, h, "status", `[]`, &status); f != "" {
			t.Fatal(f)
		}
		return status.SyncInfo.Height, status.SyncInfo.Time
	}
	before, at := look()
	begun := time.Now()
	const delta = 432_000 // ten epochs
	if f := rpcOf(t, h, "sandbox_fast_forward", fmt.Sprintf(`{"delta_height":%d}`, delta), &none); f != "" {
		t.Fatal(f)
	}
	after, then := look()
	// The block at that height or the next; one more may be produced, or one more in each 600 ms.
	if most := before + delta + 2 + uint64(time.Since(begun)/(600*time.Millisecond)); after < before+delta || after > most {
		t.Errorf("from %d to %d, want %d more", before, after, delta)
	}
	// 1.3 s, the mean of 0.6 and 2, for each height that was passed over: all but some five of each
	// epoch.
	if passed := then.Sub(at); passed < (delta-200)*1300*time.Millisecond || passed > delta*1300*time.Millisecond {
		t.Errorf("%v passed", passed)
	}
	var v struct {
		Height uint64 `json:"epoch_height"`
	}
	if f := rpcOf(t, h, "validators", `[null]`, &v); f != "" || v.Height < 9 || v.Height > 11 {
		t.Errorf("epoch %d, %s", v.Height, f)
	}
	if f := rpcOf(t, h, "sandbox_fast_forward", `[1000000001]`, &none); !strings.HasPrefix(f, "CANNOT_FAST_FORWARD: ") {
		t.Errorf("too far: %s", f)
	}
	stop(t, h)
	h = mustStart(t, dir)
	defer stop(t, h)
	if f := rpcOf(t, h, "sandbox_fast_forward", `[3]`, &none); f != "" {
		t.Fatal(f)
	}
	if height, now := look(); height < after+3 || now.Before(then) || now.Sub(then) > time.Minute {
		t.Errorf("after a restart %d at %v, before it %d at %v", height, now, after, then)
	}
}
