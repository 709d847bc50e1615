package engine

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/prom"
)

// TestWitnessChecksAreMeasured: the chunks that a witness check applies and codes count under the
// label of validation, and not those whose result is known.
func TestWitnessChecksAreMeasured(t *testing.T) {
	n, first, _ := missedChunk(t, 0)
	count := func() (applied, coded float64) {
		m, err := prom.Read(strings.NewReader(string(n.Times().Applied.AppendText(nil))))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range m.Samples["near_applying_chunks_time_count"] {
			if s.Labels["apply_reason"] == "validate_chunk" {
				applied += s.Value
			}
		}
		coded, _ = m.Sum("near_validate_chunk_with_encoded_merkle_root_time_count")
		return applied, coded
	}
	_, before := count()
	for _, want := range []float64{float64(len(first)), float64(len(first))} {
		for _, w := range first {
			if err := n.Witnesses().CheckWitness(w, nil); err != nil {
				t.Fatal(err)
			}
		}
		if applied, _ := count(); applied != want {
			t.Errorf("%v chunks were applied to check witnesses, want %v", applied, want)
		}
	}
	if _, coded := count(); coded-before != 2*float64(len(first)) {
		t.Errorf("the coding of %v chunks was measured, want %d", coded-before, 2*len(first))
	}
}
