package view

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestFailedTextIsNotReused renders an outcome whose transaction has an invalid action, twice, with
// a shared Shown. Both calls must panic. The second must not reuse an empty or incomplete text of
// the first.
func TestFailedTextIsNotReused(t *testing.T) {
	t.Parallel()
	tx := primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near", PublicKey: primitives.ZeroED25519Key}, primitives.ZeroED25519Signature)
	tx.Actions = []primitives.Action{nil}
	o := &FinalOutcome{Level: LevelFinal, Transaction: tx, Shown: new(Shown)}
	for i := range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("reply %d does not panic", i)
				}
			}()
			AppendFinalOutcome(nil, o, false)
		}()
	}
}
