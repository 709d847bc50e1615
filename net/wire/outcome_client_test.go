package wire

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestReceivedOutcomeIsShownToClients: a transaction outcome from a peer decodes, and clients see
// what the peer shows them, for each kind of action and error. Input that neard refuses is refused.
func TestReceivedOutcomeIsShownToClients(t *testing.T) {
	t.Parallel()
	try := func(name string, in []byte) *view.FinalOutcome {
		t.Helper()
		o, err := view.ReadFinalOutcome(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return nil
		}
		for cut := range in {
			if _, err := view.ReadFinalOutcome(in[:cut]); err == nil {
				t.Fatalf("%s: read though it ends at byte %d of %d", name, cut, len(in))
			}
		}
		if len(view.AppendFinalOutcome(nil, o, false)) == 0 {
			t.Errorf("%s: the view is empty", name)
		}
		return o
	}
	try("plain", sampleOutcome())
	for _, a := range actionViews() {
		try("an action", outcomeOf([]byte{0}, [][]byte{a}, []byte{0}))
	}
	for name, f := range failures() {
		o := try(name, outcomeOf(append([]byte{2}, f...), nil, append([]byte{1}, f...)))
		if o == nil {
			continue
		}
		var e primitives.TxExecutionError
		if err := e.UnmarshalJSON(o.Status.Failure); err != nil {
			t.Errorf("%s: %s: %v", name, o.Status.Failure, err)
		} else if again := e.AppendBorsh(nil); !bytes.Equal(again, f) {
			t.Errorf("%s: %x became %x by %s", name, f, again, o.Status.Failure)
		}
	}
}

// TestSentOutcomeDecodesInNeardsForms: an outcome that this node sends decodes in neard's forms,
// and gives what clients see here.
func TestSentOutcomeDecodesInNeardsForms(t *testing.T) {
	t.Parallel()
	key := keyA.PublicKey()
	allowance := primitives.Yocto(5)
	call := &primitives.FunctionCallPermission{Allowance: &allowance, ReceiverID: "b.near", MethodNames: []string{"m", "n"}}
	gas := &primitives.GasKeyInfo{Balance: primitives.Yocto(9), NumNonces: 3}
	inner := []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}}
	delegate := primitives.DelegateAction{SenderID: "a.near", ReceiverID: "b.near", Actions: inner, Nonce: 4, MaxBlockHeight: 5, PublicKey: key}
	delegate2 := primitives.DelegateActionV2{SenderID: "a.near", ReceiverID: "b.near", Actions: inner, MaxBlockHeight: 5, PublicKey: key}
	tx := primitives.Transaction{SignerID: "a.near", PublicKey: key, Nonce: primitives.TransactionNonce{Nonce: 7}, ReceiverID: "b.near", Actions: []primitives.Action{
		&primitives.CreateAccount{}, &primitives.DeployContract{Code: []byte("code")}, &primitives.FunctionCall{Method: "m", Args: []byte{1, 2}, Gas: 3, Deposit: primitives.Yocto(4)},
		&primitives.Transfer{Deposit: primitives.NEAR(1)}, &primitives.Stake{Stake: primitives.NEAR(2), PublicKey: key},
		&primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{Nonce: 1}}, &primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{FunctionCall: call}},
		&primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{GasKey: gas}}, &primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{FunctionCall: call, GasKey: gas}},
		&primitives.DeleteKey{PublicKey: key}, &primitives.DeleteAccount{Beneficiary: "c.near"},
		&primitives.Delegate{Action: delegate, Signature: keyA.Sign(nil)}, &primitives.DelegateV2{Action: delegate2, Signature: keyA.Sign(nil)},
		&primitives.DeployGlobalContract{Code: []byte("x")}, &primitives.DeployGlobalContract{Code: []byte("y"), Mode: primitives.GlobalByAccountID},
		&primitives.UseGlobalContract{ID: primitives.GlobalContractID{Hash: primitives.Hash{1}}}, &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: "g.near"}},
		&primitives.DeterministicStateInit{Init: primitives.StateInit{Code: primitives.GlobalContractID{Hash: primitives.Hash{2}}, Data: []primitives.StateEntry{{Key: []byte("k"), Value: []byte("v")}}}},
		&primitives.UniversalStateInit{Init: new(primitives.UniversalStateInitV1).Encode(), Deposit: primitives.Yocto(3)},
		&primitives.TransferToGasKey{PublicKey: key, Deposit: primitives.Yocto(1)}, &primitives.WithdrawFromGasKey{PublicKey: key, Amount: primitives.Yocto(2)},
	}}
	signed := primitives.NewSignedTransaction(tx, keyA.Sign(nil))
	failure := (&primitives.TxExecutionError{Action: primitives.NewActionError(0, &primitives.ActionErrorKind{Tag: primitives.ActionTriesToStake, AccountID: "a.near",
		Stake: primitives.NEAR(1), Locked: primitives.NEAR(2), Balance: primitives.NEAR(3)})}).AppendJSON(nil)
	proof := func(s primitives.ExecutionStatus, m primitives.ExecutionMetadata) view.OutcomeProof {
		o := view.OutcomeProof{BlockHash: primitives.Hash{3}, Proof: primitives.MerklePath{{Hash: primitives.Hash{4}, Direction: primitives.Left}, {Hash: primitives.Hash{5}, Direction: primitives.Right}}}
		o.ID, o.Logs, o.ReceiptIDs, o.GasBurnt, o.TokensBurnt, o.ExecutorID, o.Status, o.Metadata = primitives.Hash{6}, []string{"log"}, []primitives.Hash{{7}}, 8, primitives.Yocto(9), "a.near", s, m
		return o
	}
	for _, s := range []view.FinalStatus{{}, {Kind: view.FinalStarted}, {Kind: view.FinalFailure, Failure: failure}, {Kind: view.FinalSuccessValue, Value: []byte("v")}} {
		o := &view.FinalOutcome{Status: s, Transaction: signed, Outcome: proof(primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID, ReceiptID: primitives.Hash{7}}, primitives.ExecutionMetadata{Version: 1}),
			Outcomes: []view.OutcomeProof{
				proof(primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: failure}, primitives.ExecutionMetadata{Version: 3, Profile: []primitives.CostEntry{{Category: "ACTION_COST", Cost: "TRANSFER", Gas: 1}}}),
				proof(primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue}, primitives.ExecutionMetadata{Version: 4, Contracts: []primitives.AccountContract{{}, {Kind: primitives.ContractLocal},
					{Kind: primitives.ContractGlobalHash}, {Kind: primitives.ContractGlobalAccount, Account: "g.near"}}}),
				proof(primitives.ExecutionStatus{}, primitives.ExecutionMetadata{Version: 2}),
			}}
		raw, err := view.AppendFinalOutcomeBorsh(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		var m TxStatusResponse
		if err := borsh.Unmarshal(raw, &m); err != nil || !bytes.Equal(m.Outcome, raw) {
			t.Fatalf("a neard does not read it as it is: %v", err)
		}
		back, err := view.ReadFinalOutcome(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := view.AppendFinalOutcome(nil, back, false), view.AppendFinalOutcome(nil, o, false); !bytes.Equal(got, want) {
			t.Errorf("status %d:\n got %s\nwant %s", s.Kind, got, want)
		}
	}
}
