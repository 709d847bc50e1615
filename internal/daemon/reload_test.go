package daemon

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestReloadAppliesOnlyRuntimeKeys: keys that can change at run time take effect. For others the
// log says that they need a restart, until there is one. An invalid file, or one with which the
// node could not start, changes nothing.
func TestReloadAppliesOnlyRuntimeKeys(t *testing.T) {
	dir := made(t)
	path := filepath.Join(dir, "config.json")
	plain, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	with := func(more string) { // keys of the file stay as they are
		t.Helper()
		text := plain
		if more != "" {
			text = []byte(strings.TrimSuffix(strings.TrimSpace(string(plain)), "}") + "," + more + "}")
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	with(`"troupe":{"rpc":{"max_requests_per_address":1000,"api_keys":["first"]}}`)
	h := mustStart(t, dir)
	defer stop(t, h)
	get := func(path string) int {
		t.Helper()
		r, err := http.Post("http://"+h.Addr.String()+path, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"health","params":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		return r.StatusCode
	}
	refused := func() (n int) { // of 50 at once
		for range 50 {
			if get("/") == http.StatusTooManyRequests {
				n++
			}
		}
		return n
	}
	check := func(what string, taken, restart []string) {
		t.Helper()
		r, err := h.Reload()
		if err != nil || !slices.Equal(r.Taken, taken) || !slices.Equal(r.Restart, restart) {
			t.Errorf("%s: %+v, %v; want %v and %v", what, r, err, taken, restart)
		}
	}
	check("unchanged", nil, nil)
	if get("/first") != 200 || get("/second") != 404 || refused() != 0 {
		t.Error("before")
	}
	with(`"gc_blocks_limit":7,"troupe":{"gc_min_age":{"secs":7,"nanos":0},"block_production":"manual","rpc":{"max_requests_per_address":2,"api_keys":["second"]}}`)
	if strings.Contains(string(plain), `"gc_blocks_limit"`) { // init's own
		with(`"troupe":{"gc_min_age":{"secs":7,"nanos":0},"block_production":"manual","rpc":{"max_requests_per_address":2,"api_keys":["second"]}}`)
	}
	check("changed", []string{"troupe.gc_min_age", "troupe.rpc.api_keys", "troupe.rpc.max_requests_per_address"}, []string{"troupe.block_production"})
	if n := refused(); n < 25 {
		t.Errorf("%d of 50 requests were refused at 2 a second", n)
	}
	if got := h.live.minAge().Seconds(); got != 7 {
		t.Errorf("blocks are kept %v s", got)
	}
	check("once more", nil, []string{"troupe.block_production"})
	key := filepath.Join(dir, "validator_key.json")
	theirs, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	other := primitives.KeyFile{AccountID: h.home.ValidatorKey.AccountID, SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, "other")}
	if err := os.WriteFile(key, other.MarshalIndent(), 0o600); err != nil {
		t.Fatal(err)
	}
	check("the key of a validator that is alone", nil, []string{"troupe.block_production", "validator_key.json"})
	if err := os.WriteFile(key, theirs, 0o600); err != nil {
		t.Fatal(err)
	}
	check("its own again", nil, []string{"troupe.block_production"})
	for what, text := range map[string]string{"no JSON": "{", "no such value": `{"troupe":{"rpc":{"max_requests_per_address":"many"}}}`, "no such key": `{"troupe":{"rpc":{"api_keys":["status"]}}}`} {
		t.Run(what, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if r, err := h.Reload(); err == nil {
				t.Errorf("got %+v", r)
			}
		})
	}
	with(`"troupe":{"rpc":{"api_keys":["second"]}}`)
	check("back", []string{"troupe.gc_min_age", "troupe.rpc.max_requests_per_address"}, nil)
	if n := refused(); n > 0 {
		t.Errorf("%d of 50 requests were refused without a limit", n)
	}
	if get("/second") != 200 || get("/first") != 404 {
		t.Error("the keys are not those of the file")
	}
}

// TestReloadedValuesSurviveRestart: a node that restarts within the process keeps reloaded values
// and knows the values before them.
func TestReloadedValuesSurviveRestart(t *testing.T) {
	dir := made(t)
	path := filepath.Join(dir, "config.json")
	plain, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(more string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.TrimSuffix(strings.TrimSpace(string(plain)), "}")+","+more+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`"troupe":{"rpc":{"api_keys":["first"]}}`)
	o := Options{Home: loaded(t, dir), Listen: "127.0.0.1:0"}
	h, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	write(`"troupe":{"gc_min_age":{"secs":7,"nanos":0},"rpc":{"api_keys":["second"]}}`)
	if r, err := h.Reload(); err != nil || len(r.Taken) != 2 {
		t.Errorf("got %+v, error %v", r, err)
	}
	stop(t, h)
	h.UpdateOptions(&o)
	if h, err = Start(o); err != nil {
		t.Fatal(err)
	}
	defer func() { stop(t, h) }()
	for key, want := range map[string]int{"first": 404, "second": 200} {
		r, err := http.Get("http://" + h.Addr.String() + "/" + key + "/health")
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", key, r.StatusCode, want)
		}
	}
	if got := h.live.minAge().Seconds(); got != 7 {
		t.Errorf("blocks are kept %v s", got)
	}
	if r, err := h.Reload(); err != nil || len(r.Taken)+len(r.Restart) > 0 {
		t.Errorf("the same file: %+v, %v", r, err)
	}
	write(`"troupe":{"rpc":{"api_keys":["first"]}}`)
	if r, err := h.Reload(); err != nil || len(r.Taken) != 2 {
		t.Errorf("back: %+v, %v", r, err)
	}
}
