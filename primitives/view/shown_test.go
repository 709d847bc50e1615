package view

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestShownFails: if a shared text cannot be made, every reply that shows it fails, and none is
// empty.
func TestShownFails(t *testing.T) {
	tx := primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near", PublicKey: primitives.ZeroED25519Key}, primitives.ZeroED25519Signature)
	tx.Actions = []primitives.Action{nil}
	o := &FinalOutcome{Level: LevelFinal, Transaction: tx, Shown: new(Shown)}
	for i := range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("reply %d is made", i)
				}
			}()
			AppendFinalOutcome(nil, o, false)
		}()
	}
}
