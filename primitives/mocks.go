package primitives

// Mocks replace the results of signature checks in contracts. Only a sandbox may have Mocks,
// because validators with different mocks would disagree. A nil *Mocks mocks nothing.
type Mocks struct {
	Ed25519 bool `json:"ed25519_verify,omitempty"` // every well-formed signature is valid
	P256    bool `json:"p256_verify,omitempty"`    // every well-formed signature is valid
	// ECRecover is the SECP256K1 key that ecrecover returns for every well-formed signature. If it
	// is empty, ecrecover is not mocked.
	ECRecover PublicKey `json:"ecrecover,omitempty"`
}

// Any returns whether any function is mocked.
func (m *Mocks) Any() bool { return m != nil && *m != Mocks{} }

// Names returns the mocked host functions.
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
