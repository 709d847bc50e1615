package state

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestPeekNonceReadsWithoutRecording checks that PeekNonce returns the nonce at the index for a
// transaction with an index, else that of the access key, that it sees writes, and that it records
// nothing.
func TestPeekNonceReadsWithoutRecording(t *testing.T) {
	t.Parallel()
	plain, gas := primitives.ZeroED25519Key.Handle(), primitives.SecretKeyFromSeed(primitives.SECP256K1, "s").PublicKey().Handle()
	u := NewUnrecorded(fakeTrie{})
	u.SetAccessKey("alice", plain, &primitives.AccessKey{Nonce: 5})
	u.SetAccessKey("alice", gas, &primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 2}})
	u.SetGasKeyNonce("alice", gas, 0, 10)
	u.SetGasKeyNonce("alice", gas, 1, 11)
	commit(u)
	u = New(finalize(t, u).Trie, 0)
	for _, tt := range []struct {
		handle primitives.PublicKeyHandle
		n      primitives.TransactionNonce
		want   primitives.Nonce
		ok     bool
	}{
		{gas, primitives.TransactionNonce{HasIndex: true, Index: 1}, 11, true}, {gas, primitives.TransactionNonce{HasIndex: true, Index: 2}, 0, false},
		{gas, primitives.TransactionNonce{}, 0, true}, {plain, primitives.TransactionNonce{}, 5, true},
		{plain, primitives.TransactionNonce{HasIndex: true}, 0, false},
	} {
		if got, ok, err := u.PeekNonce("alice", tt.handle, tt.n); got != tt.want || ok != tt.ok || err != nil {
			t.Errorf("PeekNonce(%+v) = %d, %v, %v, want %d, %v", tt.n, got, ok, err, tt.want, tt.ok)
		}
	}
	if _, ok, err := u.PeekNonce("bob", plain, primitives.TransactionNonce{}); ok || err != nil {
		t.Errorf("PeekNonce of an unknown account: %v, %v", ok, err)
	}
	if got := u.RecordedSize(); got != 0 {
		t.Errorf("%d bytes were recorded", got)
	}
}
