package apply

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestTransferAndCreationCostWorkedExample checks the costs of a transfer and of the creation of an
// account at a gas price of 10^8 (nearcore
// test-loop-tests/src/tests/account_cost_increase_diff.rs).
func TestTransferAndCreationCostWorkedExample(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                           string
		to                             primitives.AccountID
		actions                        []primitives.Action
		txGas, receiptGas              primitives.Gas
		txBurnt, deducted, tokensBurnt string
		refund                         string
	}{
		{
			"transfer", "bob.near", []primitives.Action{transfer(primitives.NEAR(1))},
			223_182_562_500, 223_182_562_500,
			"22318256250000000000", "245500818750000000000", "22318256250000000000", "200864306250000000000",
		},
		{
			"create", "new.alice.near", []primitives.Action{
				&primitives.CreateAccount{}, transfer(primitives.NEAR(1)), &primitives.AddKey{PublicKey: testKey("new").PublicKey()},
			},
			824_947_687_500, 7_524_947_687_500,
			"82494768750000000000", "7607442456250000000000", "7032494768750000000000", "492452918750000000000",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNet(t, primitives.SingleShardLayout(), "alice.near", "bob.near")
			before := n.account("alice.near").Amount
			tx := n.tx("alice.near", tt.to, tt.actions...)
			results := n.step(tx)
			o := findOutcome(t, results, tx.Hash())
			if o.GasBurnt != tt.txGas || o.TokensBurnt != balance(tt.txBurnt) {
				t.Errorf("transaction burnt %d gas, %v, want %d, %s", o.GasBurnt, o.TokensBurnt, tt.txGas, tt.txBurnt)
			}
			spent, _ := before.Sub(n.account("alice.near").Amount)
			want, _ := balance(tt.deducted).Add(primitives.NEAR(1))
			if spent != want {
				t.Errorf("deducted %v, want %v", spent, want)
			}
			results = n.step()
			o = findOutcome(t, results, o.ReceiptIDs[0])
			if o.Status.Kind != primitives.StatusSuccessValue || o.GasBurnt != tt.receiptGas || o.TokensBurnt != balance(tt.tokensBurnt) {
				t.Errorf("receipt: %s, %d gas, %v tokens, want %d, %s", statusText(&o.Status), o.GasBurnt, o.TokensBurnt, tt.receiptGas, tt.tokensBurnt)
			}
			if len(o.ReceiptIDs) != 1 {
				t.Fatalf("receipt made %d receipts, want a refund", len(o.ReceiptIDs))
			}
			beforeRefund := n.account("alice.near").Amount
			results = n.step()
			refund := findOutcome(t, results, o.ReceiptIDs[0])
			if refund.GasBurnt != 223_182_562_500 || !refund.TokensBurnt.IsZero() { // A17
				t.Errorf("refund burnt %d gas, %v", refund.GasBurnt, refund.TokensBurnt)
			}
			back, _ := n.account("alice.near").Amount.Sub(beforeRefund)
			if back != balance(tt.refund) {
				t.Errorf("refund = %v, want %s", back, tt.refund)
			}
			if a := n.account(tt.to); a == nil {
				t.Errorf("%s does not exist", tt.to)
			} else if tt.name == "create" && (a.StorageUsage != 182 || a.Amount != primitives.NEAR(1)) {
				t.Errorf("new account = %+v", a)
			}
		})
	}
}
