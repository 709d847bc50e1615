package replay

import (
	"bytes"
	"maps"
	"testing"
)

// TestRecordingWithoutSeedsIsCompared: a chain with unknown validator keys is executed and
// compared, and the report says that nothing was produced again. Its recorded states are compared
// with the computed ones.
func TestRecordingWithoutSeedsIsCompared(t *testing.T) {
	rec := openWay(t, "storm")
	seeded, err := Run(rec, Options{Par: par})
	if err != nil || seeded.Unkeyed != "" {
		t.Fatalf("with seeds: %v, %q", err, seeded.Unkeyed)
	}
	rec.Meta.ValidatorSeeds = nil
	got, err := Run(rec, Options{Par: par})
	if err != nil {
		t.Fatal(err)
	}
	if got.Unkeyed != "test.near" || len(got.Findings) > 0 || got.Blocks != seeded.Blocks || got.Chunks != seeded.Chunks || got.Changes != seeded.Changes {
		t.Errorf("%+v, and with seeds %+v", got, seeded)
	}
	rec.Chunks = maps.Clone(rec.Chunks)
	for h, lines := range rec.Chunks {
		for i := range lines {
			if gas := []byte(`"gas_used":`); bytes.Contains(lines[i].Raw, gas) && h > 20 {
				lines[i].Raw = bytes.Replace(lines[i].Raw, gas, []byte(`"gas_used":1`), 1)
			}
		}
	}
	if got, err = Run(rec, Options{Par: par}); err != nil || len(got.Findings) == 0 {
		t.Errorf("with other gas: %v, %+v", err, got)
	}
}
