package primitives

import "testing"

// nearcore runtime/runtime/src/action_validation.rs:1116.
func TestVectorA31(t *testing.T) {
	s := StateInit{Code: GlobalContractID{Account: "ft.near"}}
	if got, want := s.DerivedAccount(), AccountID("0s69284a5453e7be5632b28b6a01baecf6c12c156d"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
