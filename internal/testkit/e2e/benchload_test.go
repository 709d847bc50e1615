//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestBenchLoadFinishesOnItsCluster: every workload of bench load runs to its end on a cluster of
// two validators that the command starts. Every due transaction is done, the report names the
// workload, and no process or folder is left.
func TestBenchLoadFinishesOnItsCluster(t *testing.T) {
	for _, what := range []string{"native", "ft", "storage-heavy", "cross-shard", "mixed", "reads"} {
		t.Run(what, func(t *testing.T) {
			dir, file := t.TempDir(), filepath.Join(t.TempDir(), "report.json")
			out, err := troupe(t, "bench", "load", "--target", "cluster", "--nodes", "2", "--shards", "2", "--workload", what, "--rate", "10", "--accounts", "40", "--warm", "1s",
				"--duration", "5s", "--timeout", "60s", "--dir", dir, "--json", file)
			if err != nil {
				t.Fatalf("error %v\noutput:\n%s", err, tail(out, 4000))
			}
			var r struct {
				Target struct{ Kind string }
				Phases []struct {
					Offered, Done, Failed int
					Latency               struct {
						P50 float64 `json:"p50_seconds"`
						P99 float64 `json:"p99_seconds"`
					}
					Errors map[string]int
				}
				Broken string
			}
			if err := json.Unmarshal(mustRead(t, file), &r); err != nil {
				t.Fatal(err)
			}
			p := &r.Phases[0]
			t.Logf("%d of %d done, p50 %v s, p99 %v s", p.Done, p.Offered, p.Latency.P50, p.Latency.P99)
			if r.Target.Kind != "cluster" || r.Broken != "" || p.Failed > 0 || p.Done != p.Offered || p.Done < 20 || p.Latency.P50 <= 0 {
				t.Errorf("%d of %d done, %d failed: %v", p.Done, p.Offered, p.Failed, p.Errors)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%s is left, want no file", left[0].Name())
			}
		})
	}
}
