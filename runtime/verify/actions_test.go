package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

func fc(method string, gas primitives.Gas, args int) *primitives.FunctionCall {
	return &primitives.FunctionCall{Method: method, Args: make([]byte, args), Gas: gas}
}

func deploy(global bool, n int) primitives.Action {
	if global {
		return &primitives.DeployGlobalContract{Code: make([]byte, n)}
	}
	return &primitives.DeployContract{Code: make([]byte, n)}
}

func delegate(v2 bool, receiver primitives.AccountID, actions ...primitives.Action) primitives.Action {
	if v2 {
		return &primitives.DelegateV2{Signature: primitives.ZeroED25519Signature, Action: primitives.DelegateActionV2{
			SenderID: "bob.test.near", ReceiverID: receiver, Actions: actions, PublicKey: primitives.ZeroED25519Key,
		}}
	}
	return &primitives.Delegate{Signature: primitives.ZeroED25519Signature, Action: primitives.DelegateAction{
		SenderID: "bob.test.near", ReceiverID: receiver, Actions: actions, PublicKey: primitives.ZeroED25519Key,
	}}
}

func addKeyOf(k primitives.AccessKey) primitives.Action {
	return &primitives.AddKey{PublicKey: key.PublicKey(), AccessKey: k}
}

func perm(receiver string, methods ...string) *primitives.FunctionCallPermission {
	return &primitives.FunctionCallPermission{ReceiverID: receiver, MethodNames: methods}
}

func repeat(a primitives.Action, n int) []primitives.Action {
	out := make([]primitives.Action, n)
	for i := range out {
		out[i] = a
	}
	return out
}

func actionsJSON(e *primitives.ActionsValidationError) string {
	if e == nil {
		return "ok"
	}
	return string(e.AppendJSON(nil))
}

// TestActionsAreValidatedAsInNearcore: the cases of nearcore's action_validation.rs tests, and
// further ones.
func TestActionsAreValidatedAsInNearcore(t *testing.T) {
	t.Parallel()
	const maxGas = primitives.Gas(1_000_000_000_000_000)
	half := ^primitives.Gas(0)/2 + 1
	gasInfo := func(n uint16, balance primitives.Balance) *primitives.GasKeyInfo {
		return &primitives.GasKeyInfo{NumNonces: n, Balance: balance}
	}
	allowance := oneN
	withAllowance := perm("bob.near")
	withAllowance.Allowance = &allowance
	init := primitives.StateInit{Code: primitives.GlobalContractID{Account: "ft.near"}}
	derived := init.DerivedAccount()
	longKey := primitives.StateInit{Code: primitives.GlobalContractID{}, Data: []primitives.StateEntry{{Key: make([]byte, 2049)}}}
	longValue := primitives.StateInit{Data: []primitives.StateEntry{{Key: []byte("k"), Value: make([]byte, 4_194_305)}}}
	secp := primitives.SecretKeyFromSeed(primitives.SECP256K1, "test").PublicKey()
	wrongInit := `{"InvalidDeterministicStateInitReceiver":{"derived_id":"%s","receiver_id":"%s"}}`
	for _, c := range []struct {
		name     string
		receiver primitives.AccountID
		actions  []primitives.Action
		want     string
	}{
		{"empty", bob, nil, "ok"},
		{"call", bob, []primitives.Action{fc("hello", 100, 3)}, "ok"},
		{"call without gas", bob, []primitives.Action{fc("new", 0, 0)}, `"FunctionCallZeroAttachedGas"`},
		{"method name", bob, []primitives.Action{fc(strings.Repeat("m", 256), 1, 0)}, "ok"},
		{"long method name", bob, []primitives.Action{fc(strings.Repeat("m", 257), 1, 0)},
			`{"FunctionCallMethodNameLengthExceeded":{"length":257,"limit":256}}`},
		{"long arguments", bob, []primitives.Action{fc("m", 1, 4_194_305)},
			`{"FunctionCallArgumentsLengthExceeded":{"length":4194305,"limit":4194304}}`},
		{"all gas", bob, []primitives.Action{fc("m", maxGas-1, 0), fc("m", 1, 0)}, "ok"},
		{"too much gas", bob, []primitives.Action{fc("m", maxGas, 0), fc("m", 1, 0)},
			`{"TotalPrepaidGasExceeded":{"limit":1000000000000000,"total_prepaid_gas":1000000000000001}}`},
		{"too much gas inside", bob, []primitives.Action{fc("m", maxGas, 0), delegate(false, bob, fc("m", 1, 0))},
			`{"TotalPrepaidGasExceeded":{"limit":1000000000000000,"total_prepaid_gas":1000000000000001}}`},
		{"gas overflow", bob, []primitives.Action{fc("m", half, 0), fc("m", half, 0)}, `"IntegerOverflow"`},
		{"100 actions", bob, repeat(&primitives.CreateAccount{}, 100), "ok"},
		{"101 actions", bob, repeat(&primitives.CreateAccount{}, 101), `{"TotalNumberOfActionsExceeded":{"limit":100,"total_number_of_actions":101}}`},
		{"10 deploys", bob, repeat(deploy(false, 5), 10), "ok"},
		{"11 deploys", bob, append(repeat(deploy(false, 5), 6), repeat(deploy(true, 5), 5)...),
			`{"TotalNumberOfDeployActionsExceeded":{"limit":10,"number_of_deploy_actions":11}}`},
		{"11 deploys inside", bob, []primitives.Action{delegate(false, bob, repeat(deploy(true, 5), 11)...)},
			`{"TotalNumberOfDeployActionsExceeded":{"limit":10,"number_of_deploy_actions":11}}`},
		{"10 outside and 10 inside", bob, append(repeat(deploy(false, 5), 10), delegate(true, bob, repeat(deploy(true, 5), 10)...)), "ok"},
		{"code", bob, []primitives.Action{deploy(true, 4_194_305)}, `{"ContractSizeExceeded":{"limit":4194304,"size":4194305}}`},
		{"local code", bob, []primitives.Action{deploy(false, 4_194_305)}, `{"ContractSizeExceeded":{"limit":4194304,"size":4194305}}`},
		{"delete last", bob, []primitives.Action{&primitives.CreateAccount{}, &primitives.DeleteAccount{Beneficiary: bob}}, "ok"},
		{"delete first", bob, []primitives.Action{&primitives.DeleteAccount{Beneficiary: bob}, &primitives.CreateAccount{}}, `"DeleteActionMustBeFinal"`},
		{"beneficiary", bob, []primitives.Action{&primitives.DeleteAccount{Beneficiary: "Bad"}}, `{"InvalidAccountId":{"account_id":"Bad"}}`},
		{"two delegates", bob, []primitives.Action{delegate(false, bob), delegate(true, bob)}, `"DelegateActionMustBeOnlyOne"`},
		{"delegate and others", bob, []primitives.Action{delegate(true, bob), &primitives.CreateAccount{}}, "ok"},
		{"order: a bad action before the second delegate", bob, []primitives.Action{delegate(false, bob), fc("m", 0, 0), delegate(true, bob)},
			`"FunctionCallZeroAttachedGas"`},
		{"stake", bob, []primitives.Action{&primitives.Stake{Stake: oneN,
			PublicKey: primitives.MustParsePublicKey("ed25519:KuTCtARNzxZQ3YvXDeLjx83FDqxv2SdQTSbiq876zR7")}}, "ok"},
		{"stake with a secp256k1 key", bob, []primitives.Action{&primitives.Stake{PublicKey: secp}},
			`{"UnsuitableStakingKey":{"public_key":"` + secp.String() + `"}}`},
		{"key", bob, []primitives.Action{addKeyOf(primitives.AccessKey{})}, "ok"},
		{"call key", bob, []primitives.Action{addKeyOf(primitives.AccessKey{FunctionCall: perm("bob.near", "hello", "world")})}, "ok"},
		{"call key of nobody", bob, []primitives.Action{addKeyOf(primitives.AccessKey{FunctionCall: perm(strings.Repeat("x", 200))})},
			`{"InvalidAccountId":{"account_id":"` + strings.Repeat("x", 128) + `"}}`},
		{"cut between characters", bob, []primitives.Action{addKeyOf(primitives.AccessKey{FunctionCall: perm("a" + strings.Repeat("é", 99))})},
			`{"InvalidAccountId":{"account_id":"a` + strings.Repeat("é", 63) + `"}}`},
		{"call key's method", bob, []primitives.Action{addKeyOf(primitives.AccessKey{FunctionCall: perm("bob.near", strings.Repeat("m", 257))})},
			`{"AddKeyMethodNameLengthExceeded":{"length":257,"limit":256}}`},
		{"call key's methods", bob, []primitives.Action{addKeyOf(primitives.AccessKey{FunctionCall: perm("bob.near", many(200, 9)...)})}, "ok"},
		{"call key's methods too long", bob, []primitives.Action{addKeyOf(primitives.AccessKey{FunctionCall: perm("bob.near", append(many(200, 9), "")...)})},
			`{"AddKeyMethodNamesNumberOfBytesExceeded":{"limit":2000,"total_number_of_bytes":2001}}`},
		{"gas key", bob, []primitives.Action{addKeyOf(primitives.AccessKey{GasKey: gasInfo(1024, primitives.Balance{})})}, "ok"},
		{"gas key without rows", bob, []primitives.Action{addKeyOf(primitives.AccessKey{GasKey: gasInfo(0, oneN)})},
			`{"GasKeyInvalidNumNonces":{"limit":1024,"requested_nonces":0}}`},
		{"gas key of 1025 rows", bob, []primitives.Action{addKeyOf(primitives.AccessKey{GasKey: gasInfo(1025, primitives.Balance{})})},
			`{"GasKeyInvalidNumNonces":{"limit":1024,"requested_nonces":1025}}`},
		{"gas key with balance", bob, []primitives.Action{addKeyOf(primitives.AccessKey{GasKey: gasInfo(1, primitives.Yocto(5))})},
			`{"AddGasKeyWithNonZeroBalance":{"balance":"5"}}`},
		{"gas key with allowance", bob, []primitives.Action{addKeyOf(primitives.AccessKey{GasKey: gasInfo(0, oneN), FunctionCall: withAllowance})},
			`"GasKeyFunctionCallAllowanceNotAllowed"`},
		{"gas key's method first", bob, []primitives.Action{addKeyOf(primitives.AccessKey{GasKey: gasInfo(0, oneN), FunctionCall: perm("bob.near", strings.Repeat("m", 257))})},
			`{"AddKeyMethodNameLengthExceeded":{"length":257,"limit":256}}`},
		{"gas key transfers", bob, []primitives.Action{&primitives.TransferToGasKey{PublicKey: secp}, &primitives.WithdrawFromGasKey{PublicKey: secp}}, "ok"},
		{"global contract of nobody", bob, []primitives.Action{&primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: "Bad"}}},
			`{"InvalidAccountId":{"account_id":"Bad"}}`},
		{"state init", derived, []primitives.Action{&primitives.DeterministicStateInit{Init: init}}, "ok"},
		{"state init elsewhere", bob, []primitives.Action{&primitives.DeterministicStateInit{Init: init}}, fmt.Sprintf(wrongInit, derived, bob)},
		{"state init inside", bob, []primitives.Action{delegate(false, derived, &primitives.DeterministicStateInit{Init: init})}, "ok"},
		{"state init inside for the outer", derived, []primitives.Action{delegate(true, bob, &primitives.DeterministicStateInit{Init: init})},
			fmt.Sprintf(wrongInit, derived, bob)},
		{"state init key", longKey.DerivedAccount(), []primitives.Action{&primitives.DeterministicStateInit{Init: longKey}},
			`{"DeterministicStateInitKeyLengthExceeded":{"length":2049,"limit":2048}}`},
		{"state init value", longValue.DerivedAccount(), []primitives.Action{&primitives.DeterministicStateInit{Init: longValue}},
			`{"DeterministicStateInitValueLengthExceeded":{"length":4194305,"limit":4194304}}`},
		{"delete key", bob, []primitives.Action{&primitives.DeleteKey{PublicKey: secp}}, "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := actionsJSON(Actions(pv86, c.actions, c.receiver, NewReceipt)); got != c.want {
				t.Errorf("got %.300s, want %.300s", got, c.want)
			}
		})
	}
}

func many(n, length int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strings.Repeat("m", length)
	}
	return out
}

// TestExistingReceiptMayHaveMoreDeployActions: delayed and incoming receipts may have more deploy
// actions than new ones.
func TestExistingReceiptMayHaveMoreDeployActions(t *testing.T) {
	t.Parallel()
	actions := []primitives.Action{delegate(false, bob, repeat(deploy(true, 5), 11)...)}
	actions = append(actions, repeat(deploy(false, 5), 11)...)
	if got := actionsJSON(Actions(pv86, actions, bob, ExistingReceipt)); got != "ok" {
		t.Errorf("got %s, want ok", got)
	}
}

func TestActionsOf85AreRefusedAt84(t *testing.T) {
	t.Parallel()
	feature := `{"UnsupportedProtocolFeature":{"protocol_feature":"%s","version":84}}`
	init := primitives.StateInit{Code: primitives.GlobalContractID{Account: "ft.near"}}
	for _, c := range []struct {
		action   primitives.Action
		receiver primitives.AccountID
		want     string
	}{
		{addKeyOf(primitives.AccessKey{GasKey: &primitives.GasKeyInfo{}}), bob, fmt.Sprintf(feature, parameters.GasKeys)},
		{&primitives.TransferToGasKey{PublicKey: key.PublicKey()}, bob, fmt.Sprintf(feature, parameters.GasKeys)},
		{delegate(true, bob), bob, fmt.Sprintf(feature, parameters.DelegateV2)},
		// Before FixDelegatedDeterministicStateInit the outer receiver counted.
		{delegate(false, bob, &primitives.DeterministicStateInit{Init: init}), init.DerivedAccount(), "ok"},
	} {
		if got := actionsJSON(Actions(at84(), []primitives.Action{c.action}, c.receiver, NewReceipt)); got != c.want {
			t.Errorf("%T: got %s, want %s", c.action, got, c.want)
		}
	}
}

func TestInvalidReceiptIsRefused(t *testing.T) {
	t.Parallel()
	act := func(a primitives.ActionReceipt) *primitives.Receipt {
		a.SignerID, a.SignerPublicKey = alice, key.PublicKey()
		return &primitives.Receipt{PredecessorID: alice, ReceiverID: bob, Body: &a}
	}
	data := func(n int) *primitives.Receipt {
		return &primitives.Receipt{PredecessorID: alice, ReceiverID: bob, Body: &primitives.DataReceipt{Data: make([]byte, n)}}
	}
	huge := act(primitives.ActionReceipt{Actions: []primitives.Action{deploy(false, 4_194_304)}})
	badPredecessor, badReceiver := data(0), data(0)
	badPredecessor.PredecessorID, badReceiver.ReceiverID = "WHAT", "WHAT"
	for _, c := range []struct {
		name string
		r    *primitives.Receipt
		mode Mode
		want string
	}{
		{"good", act(primitives.ActionReceipt{}), NewReceipt, "ok"},
		{"yield", act(primitives.ActionReceipt{Yield: true, Actions: []primitives.Action{fc("m", 0, 0)}}), NewReceipt,
			`{"ActionsValidation":"FunctionCallZeroAttachedGas"}`},
		{"inputs", act(primitives.ActionReceipt{InputDataIDs: make([]primitives.Hash, 129)}), ExistingReceipt,
			`{"NumberInputDataDependenciesExceeded":{"limit":128,"number_of_input_data_dependencies":129}}`},
		{"refund to", act(primitives.ActionReceipt{V2: true, RefundTo: "NO"}), NewReceipt, `{"InvalidRefundTo":{"account_id":"NO"}}`},
		{"size", huge, NewReceipt, fmt.Sprintf(`{"ReceiptSizeExceeded":{"limit":4194304,"size":%d}}`, len(huge.AppendBorsh(nil)))},
		{"size of an existing one", huge, ExistingReceipt, "ok"},
		{"predecessor", badPredecessor, NewReceipt, `{"InvalidPredecessorId":{"account_id":"WHAT"}}`},
		{"receiver", badReceiver, NewReceipt, `{"InvalidReceiverId":{"account_id":"WHAT"}}`},
		{"data", data(100), NewReceipt, "ok"},
		{"long data", data(4_194_305), ExistingReceipt, `{"ReturnedValueLengthExceeded":{"length":4194305,"limit":4194304}}`},
		{"distribution", &primitives.Receipt{PredecessorID: alice, ReceiverID: primitives.SystemAccount,
			Body: &primitives.GlobalContractDistribution{Code: make([]byte, 100)}}, ExistingReceipt, "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := "ok"
			if err := Receipt(pv86, c.r, c.mode); err != nil {
				got = string(err.AppendJSON(nil))
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
