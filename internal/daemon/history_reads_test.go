package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// TestReadsOfImportedBlocksAreMetrics: /metrics shows the limits of the requests that imported blocks answer,
// among them the configured one, and how much of them is used.
func TestReadsOfImportedBlocksAreMetrics(t *testing.T) {
	h := new(Daemon)
	if b := h.olderMetrics(nil); len(b) > 0 {
		t.Errorf("before the start: %s", b)
	}
	h.back = backend.New(backend.Options{Genesis: &genesis.Config{}, Now: time.Now, OlderWaits: 7})
	text := string(h.olderMetrics(nil))
	for _, want := range []string{
		"troupe_history_waits_limit 7\n", "troupe_history_waits 0\n", "troupe_history_waits_refused_total 0\n",
		"troupe_history_lookups_limit 16\n", "troupe_history_reads_limit 4\n", "troupe_history_read_waits 0\n",
		"# TYPE troupe_history_read_waits_late_total counter\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
