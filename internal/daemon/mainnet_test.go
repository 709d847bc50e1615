package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/home"
)

// TestMainnetStartsFromItsGenesis: a node of mainnet starts and restarts with the built-in genesis.
// It answers for the genesis block, waits for peers, and neither produces nor accepts anything.
func TestMainnetStartsFromItsGenesis(t *testing.T) {
	const hash = "EPnLgE7iEq9s7yTkos96M3cWymH5avBAPm3qx3NXqR8H"
	dir := made(t)
	mainnet(t, dir)
	for _, run := range []string{"first", "second"} {
		hm, err := home.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Restarts: true})
		if err != nil {
			t.Fatalf("%s start: %v", run, err)
		}
		for _, x := range []struct{ method, params, want string }{
			{"status", `[]`, `"genesis_hash":"` + hash + `"`},
			{"status", `[]`, `"latest_block_height":9820210`},
			{"status", `[]`, `"syncing":true`},
			{"block", `{"block_id":9820210}`, `"hash":"` + hash + `"`},
			{"block", `{"block_id":"` + hash + `"}`, `"chunk_hash":"CUc7UcYGcXwu5Y6UqEkkS6UbffHN4NNHhh5XLRHV8kLu"`},
			{"block", `{"finality":"final"}`, `NOT_SYNCED_YET`},
			{"chunk", `{"block_id":9820210,"shard_id":0}`, `"prev_state_root":"8EhZRfDTYujfZoUZtZ3eSMB9gJyFo5zjscR12dEcaxGU"`},
			{"query", `{"block_id":9820210,"request_type":"view_account","account_id":"near"}`, `"amount":"8700003991476791004803600000"`},
			{"query", `{"finality":"final","request_type":"view_account","account_id":"near"}`, `NO_SYNCED_BLOCKS`},
			{"EXPERIMENTAL_protocol_config", `{"block_id":9820210}`, `"protocol_version":29`},
		} {
			if got := replyOf(t, h, x.method, x.params); !strings.Contains(got, x.want) {
				t.Errorf("%s start, %s %s: %s, want %s", run, x.method, x.params, got, x.want)
			}
		}
		if _, halted := h.Node.Halted(); halted || !strings.Contains(h.Obstacle(), "only the genesis of mainnet") {
			t.Errorf("%s start: halted %v, obstacle %q", run, halted, h.Obstacle())
		}
		stop(t, h)
	}
}

// replyOf sends a JSON-RPC request to a node and returns the body of the reply.
func replyOf(t *testing.T, h *Daemon, method, params string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": json.RawMessage(params)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post("http://"+h.Addr.String(), "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	reply, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}
