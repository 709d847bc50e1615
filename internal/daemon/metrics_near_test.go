package daemon

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

func TestEarlyKickoutMetricsHaveNearcoreNames(t *testing.T) {
	got := string(appendEarlyKickout(nil, []epoch.EarlyKickoutStats{{Shard: 2, Reassigned: 3, Kept: 4, Candidates: 5}, {Shard: 10}}))
	for _, want := range []string{
		"# TYPE near_early_kickout_chunk_producer_reassigned_total counter\n" +
			"near_early_kickout_chunk_producer_reassigned_total{shard_id=\"2\"} 3\n" +
			"near_early_kickout_chunk_producer_reassigned_total{shard_id=\"10\"} 0\n",
		"# TYPE near_early_kickout_safety_valve_fired_total counter\n" +
			"near_early_kickout_safety_valve_fired_total{shard_id=\"2\"} 4\n",
		"# TYPE near_early_kickout_blacklist_size gauge\n" +
			"near_early_kickout_blacklist_size{shard_id=\"2\"} 5\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestEarlyKickoutIsMeasuredFrom87: a node serves the counters for each shard.
func TestEarlyKickoutIsMeasuredFrom87(t *testing.T) {
	parameters.SupportForTest(t, 87)
	hm, err := home.Load(made(t))
	if err != nil {
		t.Fatal(err)
	}
	hm.Genesis.ProtocolVersion, hm.Config.Production = 87, config.Manual
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	mineBy(t, h, `{"blocks":3}`)
	r, err := http.Get("http://" + h.Addr.String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"chunk_producer_reassigned_total", "safety_valve_fired_total", "blacklist_size"} {
		if line := "\nnear_early_kickout_" + want + "{shard_id=\"0\"} 0\n"; !strings.Contains(string(text), line) {
			t.Errorf("no %q", line)
		}
	}
}

// TestStateOfOperationIsMeasured: a node serves neard's metrics of the data folder's format, of
// garbage collection and of the configuration. A reload with a wrong file shows until it is
// corrected.
func TestStateOfOperationIsMeasured(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	defer stop(t, h)
	want := func(lines ...string) {
		t.Helper()
		_, text := get(t, h, "/metrics")
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("no line %q", line)
			}
		}
	}
	h.gcStop.Store(17)
	want(fmt.Sprint("near_node_db_version ", storage.FormatVersion), "near_gc_stop_height 17", "near_config_correct 1",
		"near_config_reloads_total 1", "# TYPE near_num_invalid_blocks gauge", "near_block_missing_chunks_delay_count 0")
	path := filepath.Join(dir, "config.json")
	right, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h.measured.Put(configReloadTime, 1)
	for _, c := range []struct{ text, correct, reloads, at string }{
		{"{", "near_config_correct 0", "near_config_reloads_total 1", "near_config_reload_timestamp_seconds 1"},
		{string(right), "near_config_correct 1", "near_config_reloads_total 2", ""},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Reload(); (err == nil) != (c.text != "{") {
			t.Errorf("reload: %v", err)
		}
		if want(c.correct, c.reloads); c.at != "" {
			want(c.at)
		}
	}
	if h.measured.Value(configReloadTime) <= 1 {
		t.Error("the time of the second reload is missing")
	}
}

// TestStageOfEachCatchupIsMeasured: the stages of catchups have neard's numbers.
func TestStageOfEachCatchupIsMeasured(t *testing.T) {
	m := &validator.Moved{Incoming: []engine.CatchupProgress{{Shard: 7, Stage: engine.StageBlocks}, {Shard: 2, Stage: engine.StageHeader},
		{Shard: 10, Stage: engine.StageParts}}}
	const want = "# HELP near_state_sync_stage Stage of state sync per shard\n# TYPE near_state_sync_stage gauge\n" +
		"near_state_sync_stage{shard_id=\"2\"} 0\nnear_state_sync_stage{shard_id=\"7\"} 5\nnear_state_sync_stage{shard_id=\"10\"} 1\n"
	if got := string(new(Daemon).appendSyncStages(nil, m)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
