package node

import (
	"encoding/json"
	"testing"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestActorReportListsPathsAndCounters: the report has each actor with its path, and the counters
// of its kind. If the number of actors is limited, the report still has their total.
func TestActorReportListsPathsAndCounters(t *testing.T) {
	s := start(t, 2, nil)
	if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: s.tx("near", transfer(1)),
		WaitUntil: view.LevelFinal}); err != nil {
		t.Fatal(err)
	}
	read := func(most int) (out struct {
		Uptime int64   `json:"uptime_ns"`
		Bounds []int64 `json:"bounds_ns"`
		Total  int
		Kinds  []struct {
			Kind     string
			Shard    *string
			Messages uint64
			Handled  []uint64
		}
		Actors [][]any
	}) {
		t.Helper()
		if err := json.Unmarshal(s.AppendActors(nil, most), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := read(1000)
	if all.Total != len(all.Actors) || all.Total < 10 || all.Uptime <= 0 || len(all.Bounds) != len(system.Bounds) {
		t.Errorf("%+v", all)
	}
	kinds := map[string]string{}
	for _, a := range all.Actors {
		k := all.Kinds[int(a[1].(float64))]
		kinds[a[0].(string)] = k.Kind
		sum := uint64(0)
		for _, n := range k.Handled {
			sum += n
		}
		if k.Messages != sum || len(k.Handled) != len(all.Bounds)+1 {
			t.Errorf("%v: %+v", a, k)
		}
	}
	for id, kind := range map[string]string{"chain": "chain", "shards/0": "shard", "shards/1/mempool": "mempool",
		"shards/1/chunk-producer": "chunk-producer", "rpc": "rpc"} {
		if kinds[id] != kind {
			t.Errorf("%s is a %q, want %q", id, kinds[id], kind)
		}
	}
	if few := read(3); len(few.Actors) > 3 || few.Total < 10 {
		t.Errorf("%d of %d", len(few.Actors), few.Total)
	}
}
