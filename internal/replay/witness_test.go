package replay

import "testing"

// TestWitnesses applies every chunk of neard's chains, what missing chunks leave to do and what shards keep in a split, once more from
// its own proof, and wants the same in everything; of a part of the proof it wants an error.
func TestWitnesses(t *testing.T) {
	for _, name := range chains("four", "reshard") {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			o := Options{Par: par, EpochConfig: epochConfigs(t, name), Witnesses: true}
			if name == "reshard" { // of which no shard misses a chunk over a restart and a fold: what was kept would be gone
				o.Restart = atBorders(rec)
			}
			report, err := Run(rec, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range report.Findings {
				t.Errorf("%v", d)
			}
			if report.Splits == 0 && name == "reshard" {
				t.Error("no split was proven")
			}
			if t.Logf("%d transitions of %d blocks", report.Transitions, report.Blocks); report.Transitions < report.Blocks-1 {
				t.Errorf("%d transitions of %d blocks", report.Transitions, report.Blocks)
			}
		})
	}
}
