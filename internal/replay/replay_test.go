package replay

import "testing"

func TestFour(t *testing.T)   { replayShared(t, "four.jsonl.gz") }
func TestNative(t *testing.T) { replayShared(t, "native.jsonl.gz") }

func replayShared(t *testing.T, name string) *Report {
	t.Helper()
	rec := openShared(t, name)
	report, err := Run(rec, Options{})
	if report != nil {
		t.Logf("%d blocks, %d chunks, %d transactions, %d changes, %d epochs, %d light client blocks; %d calls answered from the recording",
			report.Blocks, report.Chunks, report.Transactions, report.Changes, report.Epochs, report.Lights, report.Answered)
		for _, d := range report.Findings {
			t.Errorf("%v", d)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}
