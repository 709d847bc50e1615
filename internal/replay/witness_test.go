package replay

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestWitnesses applies every chunk of neard's chains, what missing chunks leave to do and what
// shards keep in a split, once more from its own proof, and wants the same in everything; of a part
// of the proof it wants an error. So it does over folds and restarts, also of shards that miss
// their chunks meanwhile (four, from block 486 on).
func TestWitnesses(t *testing.T) {
	for _, name := range chains("four", "reshard") {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			border, disk := atBorders(rec), storage.NewMemDisk()
			o := Options{Par: par, EpochConfig: epochConfigs(t, name), Witnesses: true,
				Restart: func(h primitives.Height) bool { return border(h) || h%5 == 0 },
				// a fold whenever a block is final: of those before, what is needed is kept
				Open: func(o storage.Options) (*storage.Store, error) {
					o.FlatHeadBlocks = 1
					return storage.OpenMemory(disk, o)
				}}
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
			if t.Logf("%d witnesses with %d implicit transitions", report.Witnesses, report.Implicit); report.Witnesses == 0 || report.Implicit == 0 {
				t.Errorf("%d witnesses, %d implicit transitions", report.Witnesses, report.Implicit)
			}
			if t.Logf("%d transitions of %d blocks", report.Transitions, report.Blocks); report.Transitions < report.Blocks-1 {
				t.Errorf("%d transitions of %d blocks", report.Transitions, report.Blocks)
			}
		})
	}
}
