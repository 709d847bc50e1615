package primitives

import "testing"

// TestImplicitIDsVectorA29A30A31 compares with nearcore's literals: implicit and deterministic
// account ids.
func TestImplicitIDsVectorA29A30A31(t *testing.T) {
	t.Parallel()
	ed, secp := SecretKeyFromSeed(ED25519, "test").PublicKey(), SecretKeyFromSeed(SECP256K1, "test").PublicKey()
	// StateInit V1 {AccountId "ft.near", no data}
	stateInit := append([]byte{0, 1, 7, 0, 0, 0}, "ft.near\x00\x00\x00\x00"...)
	tests := []struct {
		row       string
		got, want AccountID
		kind      AccountKind
	}{
		{"A29", NearImplicitID(ed), "bb4dc639b212e075a751685b26bdcea5920a504181ff2910e8549742127092a0", NearImplicitAccount},
		{"A30", EthImplicitID(secp), "0x96791e923f8cf697ad9c3290f2c9059f0231b24c", EthImplicitAccount},
		{"A31", DeterministicID(stateInit), "0s69284a5453e7be5632b28b6a01baecf6c12c156d", DeterministicAccount},
	}
	for _, tt := range tests {
		if tt.got != tt.want || tt.got.Kind(false) != tt.kind {
			t.Errorf("%s: %s of kind %d, want %s", tt.row, tt.got, tt.got.Kind(false), tt.want)
		}
		k, ok := KeyOfNearImplicit(tt.got)
		if ok != (tt.row == "A29") || ok && k != ed {
			t.Errorf("%s: key %v, %v", tt.row, k, ok)
		}
	}
}

// TestDerivedIDVectorA31: nearcore runtime/runtime/src/action_validation.rs:1116.
func TestDerivedIDVectorA31(t *testing.T) {
	t.Parallel()
	s := StateInit{Code: GlobalContractID{Account: "ft.near"}}
	if got, want := s.DerivedAccount(), AccountID("0s69284a5453e7be5632b28b6a01baecf6c12c156d"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
