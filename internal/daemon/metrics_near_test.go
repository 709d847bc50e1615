package daemon

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/runtime/parameters"
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
