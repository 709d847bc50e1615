package primitives

// Mocks say what contracts are told of signatures in place of the truth. Only a sandbox has any:
// those who validate a chain together would not agree. nil is none.
type Mocks struct {
	Ed25519 bool `json:"ed25519_verify,omitempty"` // every signature of the right form is good
	P256    bool `json:"p256_verify,omitempty"`    // as well
	// ECRecover is the key that ecrecover finds for every signature of the right form: SECP256K1;
	// empty: the true one.
	ECRecover PublicKey `json:"ecrecover,omitempty"`
}

// Any tells whether there is one.
func (m *Mocks) Any() bool { return m != nil && *m != Mocks{} }

// Names are the host functions that are mocked.
func (m *Mocks) Names() (out []string) {
	if m == nil {
		return nil
	}
	for i, on := range []bool{m.ECRecover != "", m.Ed25519, m.P256} {
		if on {
			out = append(out, []string{"ecrecover", "ed25519_verify", "p256_verify"}[i])
		}
	}
	return out
}
