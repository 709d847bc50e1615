package replay

import (
	"os"
	"testing"
)

// all tells whether the whole recordings are to be replayed too, where they are beside the checkout.
func all() bool { return os.Getenv("TROUPE_REPLAY") == "all" }

// TestCutRecordings replays the first blocks of neard's chains, which the project carries.
func TestCutRecordings(t *testing.T) {
	for name := range cuts {
		t.Run(name, func(t *testing.T) {
			rec, err := Open("testdata/" + name + ".jsonl.gz")
			if err != nil {
				t.Fatal(err)
			}
			check(t, rec, name)
		})
	}
}

// TestWholeRecordings replays the chains whole.
func TestWholeRecordings(t *testing.T) {
	if !all() {
		t.Skip("TROUPE_REPLAY=all replays the whole recordings too")
	}
	for name := range cuts {
		t.Run(name, func(t *testing.T) { check(t, openShared(t, name+".jsonl.gz"), name) })
	}
}

func check(t *testing.T, rec *Recording, name string) {
	t.Helper()
	report, err := Run(rec, Options{Par: par})
	if report != nil {
		t.Logf("%d blocks, %d chunks, %d transactions, %d changes, %d epochs, %d light client blocks",
			report.Blocks, report.Chunks, report.Transactions, report.Changes, report.Epochs, report.Lights)
		for _, d := range report.Findings {
			t.Errorf("%v", d)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
