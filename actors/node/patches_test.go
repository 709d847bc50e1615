package node

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives/genesis"
)

// TestPatchedAccountIsReportedDuringPatch: patches.makes reports an account from the begin of the
// first patch that creates it until the end of the last one.
func TestPatchedAccountIsReportedDuringPatch(t *testing.T) {
	var p patches
	records := []genesis.Record{&genesis.AccountRecord{AccountID: "a.near"}, &genesis.DataRecord{AccountID: "b.near"}}
	var ends []func()
	for i, want := range []bool{false, true, true} {
		if got := p.makes("a.near"); got != want || p.makes("b.near") {
			t.Errorf("%d patches: %v", i, got)
		}
		ends = append(ends, p.begin(records))
	}
	for i, end := range ends {
		if !p.makes("a.near") {
			t.Errorf("%d of %d have ended: it is not made", i, len(ends))
		}
		end()
	}
	if p.makes("a.near") || len(p.making) != 0 {
		t.Errorf("all have ended: %v", p.making)
	}
}
