package replay

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestChunksApplyFromTheirOwnProofs applies every chunk of neard's chains, and the implicit
// transitions of missing chunks and splits, again from its own state proof, and requires the same
// results. An incomplete proof must give an error. This covers advances of the flat head and
// restarts, also with shards that miss their chunks (four, from block 486 on).
func TestChunksApplyFromTheirOwnProofs(t *testing.T) {
	for _, name := range chains("four", "reshard") {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			border, disk := atBorders(rec), storage.NewMemDisk()
			o := Options{Par: par, EpochConfig: epochConfigs(t, name), Witnesses: true,
				Restart: func(h primitives.Height) bool { return border(h) || h%5 == 0 },
				// the flat head advances whenever a block is final: the needed transitions of earlier blocks
				// are stored
				Open: func(o storage.Options) (*storage.Store, error) {
					o.FlatHeadBlocks = 1
					return storage.OpenMemory(disk, o)
				}}
			report, err := Run(rec, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range report.Findings {
				t.Errorf("difference %v", d)
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
