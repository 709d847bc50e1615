package replay

import (
	"os"
	"path/filepath"
	"testing"
)

// all returns whether the whole recordings are to be replayed too, if they exist.
func all() bool { return os.Getenv("TROUPE_REPLAY") == "all" || modes() }

// modes returns whether they are to be replayed in every mode: in orders of arrival, shard by
// shard, from headers, from state parts and from witnesses. It takes about an hour.
func modes() bool { return os.Getenv("TROUPE_REPLAY") == "modes" }

// TestCutRecordingsReplay replays the first blocks of neard's chains, which the project carries.
func TestCutRecordingsReplay(t *testing.T) {
	for name := range cuts {
		t.Run(name, func(t *testing.T) {
			rec := openCut(t, name)
			check(t, rec, name)
		})
	}
}

// TestWholeRecordingsReplay replays the chains whole.
func TestWholeRecordingsReplay(t *testing.T) {
	if !all() {
		t.Skip("TROUPE_REPLAY=all replays the whole recordings too")
	}
	for name := range cuts {
		t.Run(name, func(t *testing.T) {
			beyond := 0
			if name == "globals" { // its chain went on while it was asked for light client blocks and validators
				beyond = 3
			}
			if got := check(t, openShared(t, name+".jsonl.gz"), name).Beyond; got != beyond {
				t.Errorf("%d answers are not compared, want %d", got, beyond)
			}
		})
	}
}

// epochConfigs returns the epoch configs of a recording, nil if it has none of its own.
func epochConfigs(t testing.TB, name string) map[string][]byte {
	t.Helper()
	files, err := readEpochConfigs(name)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readEpochConfigs(name string) (map[string][]byte, error) {
	names, err := filepath.Glob("testdata/" + name + "-epoch-configs/*.json")
	if err != nil || len(names) == 0 {
		return nil, err
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func check(t *testing.T, rec *Recording, name string) *Report {
	t.Helper()
	report, err := Run(rec, Options{Par: par, EpochConfig: epochConfigs(t, name)})
	if report != nil {
		t.Logf("%d blocks, %d chunks, %d transactions, %d changes, %d epochs, %d light client blocks",
			report.Blocks, report.Chunks, report.Transactions, report.Changes, report.Epochs, report.Lights)
		for _, d := range report.Findings {
			t.Errorf("difference %v", d)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}
