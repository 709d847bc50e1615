package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

// TestBlockDocumentWaitsForNextBlock: an indexer written for neardata reads from the first block
// on, height by height, without pauses of its own. A request for a block that comes soon waits, and
// one for a far block is answered at once.
func TestBlockDocumentWaitsForNextBlock(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	defer stop(t, h)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 30 * time.Second}
	get := func(path string) (status int, body, where string) {
		t.Helper()
		r, err := client.Get("http://" + h.Addr.String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b), r.Request.URL.Path
	}
	_, _, first := get("/v0/first_block")
	var height primitives.Height
	if _, err := fmt.Sscanf(first, "/v0/block/%d", &height); err != nil || height != h.Engine.Genesis().Height() {
		t.Fatalf("the first block is at %s", first)
	}
	for i := range 3 {
		act(t, h, key, primitives.Nonce(i+1), &primitives.Transfer{Deposit: primitives.Yocto(1)})
	}
	if status, _, at := get("/v0/last_block/optimistic/headers"); status != http.StatusOK || !strings.HasSuffix(at, "/headers") || !strings.HasPrefix(at, "/v0/block_opt/") {
		t.Errorf("the last block: %d, %s", status, at)
	}
	// The request is answered when the block is produced.
	next := h.Engine.Head().Height() + 2
	waited := make(chan string, 1)
	go func() {
		_, body, _ := get(fmt.Sprintf("/v0/block_opt/%d", next))
		waited <- body
	}()
	select {
	case body := <-waited:
		t.Fatalf("there was no block yet: %.200s", body)
	case <-time.After(100 * time.Millisecond):
	}
	var mined json.RawMessage
	if cause := ask(t, h, "sandbox_mine", []int{8}, &mined); cause != "" {
		t.Fatal(cause)
	}
	if body := <-waited; !strings.Contains(body, fmt.Sprintf(`"height":%d,`, next)) {
		t.Errorf("waited for %d: %.300s", next, body)
	}
	txs := 0
	for last := h.Engine.Final().Height; height <= last; height++ {
		status, body, _ := get(fmt.Sprintf("/v0/block/%d", height))
		if status != http.StatusOK {
			t.Fatalf("block %d: %d %.200s", height, status, body)
		}
		if body == "null" {
			continue
		}
		var m struct {
			Block struct {
				Header struct{ Height primitives.Height }
			}
			Shards []struct {
				Executed []struct {
					Tx *string `json:"tx_hash"`
				} `json:"receipt_execution_outcomes"`
			}
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil || m.Block.Header.Height != height {
			t.Fatalf("block %d: %v, %.200s", height, err, body)
		}
		for _, s := range m.Shards {
			for _, x := range s.Executed {
				if x.Tx == nil {
					t.Errorf("block %d: a receipt without a transaction", height)
				}
				txs++
			}
		}
	}
	if txs == 0 {
		t.Error("no receipt was executed")
	}
	for path, want := range map[string]string{
		"/v0/block/999999999":        `404 {"error":"The block is too far in the future","type":"BLOCK_DOES_NOT_EXIST"}`,
		"/v0/block/1000000000000001": `404 {"error":"Block height is too high","type":"BLOCK_HEIGHT_TOO_HIGH"}`,
		"/v0/block/x":                `400 "Invalid argument"`,
		"/v0/block/-1":               `400 "Invalid argument"`,
		"/v0/block":                  `400 "Invalid argument"`,
		"/v0/block/1/chunk":          `400 "Invalid argument"`,
		"/v0/block/1/headers/2":      `400 "Invalid argument"`,
		"/v0/block/1/code":           `400 "Invalid argument"`,
		"/v0/block/1/code/0":         `400 "Invalid argument"`,
		"/v0/block/1/code/11111111111111111111111111111111": `200 null`,
		"/v0/last_block/near-final":                         `400 "Invalid argument"`,
		"/v0/":                                              `400 "Invalid argument"`,
		"/v0/block/1/shard/77":                              `200 null`,
		"/v0/block_opt/1/chunk/77777":                       `200 null`,
	} {
		if status, body, _ := get(path); fmt.Sprintf("%d %s", status, body) != want {
			t.Errorf("%s: %d %.200s, want %s", path, status, body, want)
		}
	}
	if r, err := client.Post("http://"+h.Addr.String()+"/v0/block/1", "application/json", strings.NewReader("{}")); err != nil || r.StatusCode != http.StatusMethodNotAllowed && r.StatusCode != http.StatusNotFound {
		t.Errorf("POST: %v, %v", r, err)
	} else {
		_ = r.Body.Close()
	}
}
