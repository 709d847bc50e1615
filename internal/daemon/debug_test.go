package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/troupe-chain/troupe/internal/config"
)

// get reads a path.
func get(t *testing.T, h *Daemon, path string) (status int, body string) {
	t.Helper()
	r, err := http.Get("http://" + h.Addr.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// TestDebugPagesHaveNeardsFormat: with enable_debug_rpc the data of neard's debug pages is served
// in neard's formats. Unsupported pages get status 405, an invalid epoch 400. Without the switch
// the paths do not exist.
func TestDebugPagesHaveNeardsFormat(t *testing.T) {
	dir := made(t)
	off := mustStart(t, dir)
	if status, _ := get(t, off, "/debug/api/status"); status != 404 {
		t.Errorf("switched off: %d", status)
	}
	stop(t, off)
	hm := loaded(t, dir)
	hm.Config.Production, hm.Config.RPC.Debug = config.Manual, true
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	must(t, h, "sandbox_mine", `[3]`)
	before := h.Engine.Head().Height()
	done(t, h, "sandbox_fast_forward", `[5]`) // one block, and five heights without
	must(t, h, "sandbox_mine", `[1]`)
	head := h.Engine.Head()
	var s struct {
		Chain  string `json:"chain_id"`
		Detail struct {
			Head struct {
				Height uint64
				Hash   string
			} `json:"current_head_status"`
			Network struct {
				Max *int `json:"peer_max_count"`
			} `json:"network_info"`
			Sync  string `json:"sync_status"`
			Delay uint64 `json:"block_production_delay_millis"`
		} `json:"detailed_debug_status"`
	}
	page := func(path string, into any) {
		t.Helper()
		status, body := get(t, h, path)
		if err := json.Unmarshal([]byte(body), into); status != 200 || err != nil {
			t.Errorf("%s: status %d, reply %s, error %v", path, status, body, err)
		}
	}
	page("/debug/api/status", &s)
	if d := &s.Detail; s.Chain != "sandbox" || d.Head.Height != uint64(head.Height()) || d.Head.Hash != head.Hash.String() || d.Network.Max == nil || d.Sync != "NoSync" || d.Delay == 0 {
		t.Errorf("got %+v", s)
	}
	var all struct {
		Status struct {
			EpochInfo []struct {
				Height  uint64 `json:"epoch_height"`
				ID      string `json:"epoch_id"`
				First   *[]any `json:"first_block"`
				Info    *struct{ Current_validators []any }
				Chunks  []string `json:"chunk_producers"`
				Version int      `json:"protocol_version"`
			}
			BlockStatus struct {
				Blocks []struct {
					Height   uint64 `json:"block_height"`
					Producer string `json:"block_producer"`
					Chunks   []struct {
						Hash string `json:"chunk_hash"`
					}
					Price json.Number `json:"gas_price_ratio"`
				}
				Missed []struct {
					Height   uint64 `json:"block_height"`
					Producer string `json:"block_producer"`
				} `json:"missed_heights"`
				Head string
			}
			TrackedShards struct {
				This []bool `json:"shards_tracked_this_epoch"`
			}
			ValidatorStatus struct {
				Name       string `json:"validator_name"`
				Validators [][2]any
			}
			SyncStatus       string
			SplitStoreStatus struct {
				Head uint64 `json:"head_height"`
			}
			ChainProcessingStatus *struct{}
			CatchupStatus         *[]any
			RequestedStateParts   *[]any
		} `json:"status_response"`
	}
	for _, name := range []string{"epoch_info", "block_status", "tracked_shards", "validator_status", "sync_status", "split_store_info", "chain_processing_status", "catchup_status", "requested_state_parts"} {
		page("/debug/api/"+name, &all)
	}
	x := &all.Status
	if e := x.EpochInfo; len(e) != 2 || e[0].First != nil || e[1].First == nil || e[1].ID != head.Header().EpochID.String() || len(e[1].Chunks) != 1 || e[1].Version != 88 {
		t.Errorf("epochs: %+v", e)
	}
	y := &x.BlockStatus
	if len(y.Missed) != 5 || y.Missed[4].Height != uint64(before)+1 || y.Missed[0].Producer != "test.near" || y.Head != head.Hash.String() || len(y.Blocks) != int(before)+2 ||
		y.Blocks[0].Height != uint64(head.Height()) || y.Blocks[0].Producer != "test.near" || len(y.Blocks[0].Chunks) != 1 || y.Blocks[0].Price != "1.0" {
		t.Errorf("blocks: %+v", y)
	}
	if len(x.TrackedShards.This) != 1 || !x.TrackedShards.This[0] || x.ValidatorStatus.Name != "test.near" || len(x.ValidatorStatus.Validators) != 1 || x.SyncStatus != "NoSync" ||
		x.SplitStoreStatus.Head != uint64(head.Height()) || x.ChainProcessingStatus == nil || x.CatchupStatus == nil || x.RequestedStateParts == nil {
		t.Errorf("got %+v", x)
	}
	page(fmt.Sprintf("/debug/api/block_status/%d", before), &all)
	if y.Blocks[0].Height != uint64(before) {
		t.Errorf("from block %d: %+v", before, y.Blocks[0])
	}
	page("/debug/api/block_status?starting_height=2&num_blocks=1", &all)
	if len(y.Blocks) != 1 || y.Blocks[0].Height != 2 {
		t.Errorf("one: %+v", y.Blocks)
	}
	page("/debug/api/epoch_info_light/"+head.Header().EpochID.String(), &all)
	page("/debug/client_config", &struct{}{})
	for path, want := range map[string]int{"/debug/api/nothing": 405, "/debug/nothing": 405, "/debug/api/epoch_info/x": 400, "/debug/api/block_status/x": 400} {
		if status, _ := get(t, h, path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}
