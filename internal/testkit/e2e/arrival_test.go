//go:build e2e

package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/bench"
)

// TestArrivalIsMeasured: a node gets a state of some parts from another one, is killed three times,
// and answers as the other one does. The report has the figures of both.
func TestArrivalIsMeasured(t *testing.T) {
	dir := t.TempDir()
	state, file := filepath.Join(dir, "state"), filepath.Join(dir, "arrival.json")
	for _, args := range [][]string{
		{"bench", "state", "--dir", state, "--accounts", "5000", "--values", "10000", "--value-bytes", "5000", "--epoch-length", "600"},
		{"bench", "arrival", "--state", state, "--kills", "3", "--seed", "1", "--block-time", "250ms", "--looks", "50", "--dir", dir, "--json", file},
	} {
		if out, err := troupe(t, args...); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	var r bench.ArrivalReport
	if err := json.Unmarshal(mustRead(t, file), &r); err != nil {
		t.Fatal(err)
	}
	x := &r.Result
	if len(x.KilledAt) != 3 || x.KilledAt[2] != 1 || x.Parts < 2 || x.Received < 40_000_000 || x.Disk < 40_000_000 {
		t.Errorf("%+v", x)
	}
	if x.Arriving.Peak == 0 || x.Giver.Peak == 0 || x.OfHost <= 0 || x.OfLoopback <= 0 || x.SyncSeconds <= 0 || x.SyncSeconds > x.Seconds {
		t.Errorf("%+v", x)
	}
}
