package apply

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestMLDSAKeyStorageAndReceiptSizesTrap14: an ML-DSA key takes 33 bytes of its account's storage,
// but all 1953 in the receipt that adds it.
func TestMLDSAKeyStorageAndReceiptSizesTrap14(t *testing.T) {
	t.Parallel()
	ed, pq := testKey("x").PublicKey(), primitives.SecretKeyFromSeed(primitives.MLDSA65, "x").PublicKey()
	for _, pk := range []primitives.PublicKey{ed, pq} {
		n := newPair(t)
		before := n.account(alice).StorageUsage
		mustSucceed(t, n.do(alice, &primitives.AddKey{PublicKey: pk}))
		if got := n.account(alice).StorageUsage - before; got != 33+9+40 {
			t.Errorf("%d bytes of key take %d of storage, want %d", len(pk), got, 33+9+40)
		}
		if n.accessKey(alice, pk) == nil {
			t.Error("the key is not there")
		}
		r := &primitives.Receipt{PredecessorID: bob, ReceiverID: alice, Body: &primitives.ActionReceipt{
			SignerID: bob, SignerPublicKey: pk, Actions: []primitives.Action{&primitives.AddKey{PublicKey: pk}}}}
		if got, want := len(borsh.Marshal(r)), 2*len(pk); got < want {
			t.Errorf("a receipt with the key twice takes %d bytes, want more than %d", got, want)
		}
	}
}
