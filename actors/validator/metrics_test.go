package validator

import (
	"strings"
	"testing"
)

// TestMetricsOfAnchoredMessages: each counter is published for both kinds of messages, with help and
// type.
func TestMetricsOfAnchoredMessages(t *testing.T) {
	var l Life
	l.Counters.Chunks.NoAnchor.Add(3)
	l.Counters.Witnesses.Queued.Add(4)
	l.Counters.Witnesses.WaitingBytes.Store(500)
	got := string(l.Metrics(nil))
	for _, want := range []string{
		"# TYPE near_anchored_chunk_producer_lookup_total counter\n",
		`near_anchored_chunk_producer_lookup_total{message_type="chunk",result="miss_anchor_block"} 3` + "\n",
		`near_anchored_chunk_producer_lookup_total{message_type="witness",result="hit"} 0` + "\n",
		`troupe_anchored_messages_total{message_type="witness",result="queued"} 4` + "\n",
		`troupe_anchored_messages_waiting_bytes{message_type="witness"} 500` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 4*2+2*(4+8+1+1) {
		t.Errorf("%d lines", n)
	}
}
