package consensus

import "github.com/troupe-chain/troupe/primitives"

// Verifier verifies signatures of validators, and may remember valid ones. Safe for concurrent
// use. Package engine/signature has an implementation with a cache.
type Verifier interface {
	// Verify returns whether s is a valid signature of data by key.
	Verify(s primitives.Signature, data []byte, key primitives.PublicKey) bool
	// Add is called with each signature that this node makes, so that it need not be verified.
	Add(s primitives.Signature, data []byte, key primitives.PublicKey)
}

// PlainVerifier verifies every signature and remembers none.
type PlainVerifier struct{}

// Verify implements Verifier.
func (PlainVerifier) Verify(s primitives.Signature, data []byte, key primitives.PublicKey) bool {
	return s.Verify(data, key)
}

// Add implements Verifier.
func (PlainVerifier) Add(primitives.Signature, []byte, primitives.PublicKey) {}
