package primitives

import (
	"bytes"
	"encoding/json"
	"errors"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestErrorTablesMatchOpenAPI: testdata/error_variants.json lists each enum of nearcore's OpenAPI
// document (1.2.11, commit f0c7706f1), and what near-primitives 0.38.0 adds: variant -> null (a
// bare name), field -> type, or the type it wraps.
func TestErrorTablesMatchOpenAPI(t *testing.T) {
	t.Parallel()
	in, err := os.ReadFile("testdata/error_variants.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]map[string]any
	if err := json.Unmarshal(in, &want); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]any{
		"InvalidTxError":           describe(t, invalidTxRows),
		"InvalidAccessKeyError":    describe(t, invalidAccessKeyRows),
		"ActionsValidationError":   describe(t, actionsValidationRows),
		"ReceiptValidationError":   describe(t, receiptValidationRows),
		"ActionErrorKind":          describe(t, actionErrorRows),
		"StorageError":             describe(t, storageRows),
		"FunctionCallError":        describe(t, functionCallRows),
		"HostError":                describe(t, hostRows),
		"CompilationError":         describe(t, compilationRows),
		"DepositCostFailureReason": describe(t, depositReasonRows),
		"MethodResolveError":       describe(t, methodResolveRows),
		"PrepareError":             describe(t, prepareRows),
		"WasmTrap":                 describe(t, wasmTrapRows),
		"TxExecutionError":         describe(t, txExecutionRows),
	}
	for enum, variants := range want {
		for name, shape := range variants {
			if g, ok := got[enum][name]; !ok || !reflect.DeepEqual(g, shape) {
				t.Errorf("%s::%s = %v, want %v", enum, name, g, shape)
			}
		}
		if len(got[enum]) != len(variants) {
			t.Errorf("%s has %d variants, want %d", enum, len(got[enum]), len(variants))
		}
	}
}

// describe returns the shape of each variant, and checks that fields are in alphabetical order.
func describe[E any](t *testing.T, rows []errRow[E]) map[string]any {
	out := map[string]any{}
	for _, row := range rows {
		var e E
		switch {
		case row.name == "":
		case row.inner != nil:
			out[row.name] = typeOf(row.inner(&e))
		case row.fields != nil:
			shape := map[string]any{}
			var names []string
			for _, f := range row.fields(&e) {
				shape[f.name] = typeOf(f.at)
				names = append(names, f.name)
			}
			if row.name == "GasKeyBalanceTooHigh" {
				shape["public_key"] = "string/null"
			}
			if !slices.IsSorted(names) {
				t.Errorf("%s: fields %v are not in alphabetical order", row.name, names)
			}
			out[row.name] = shape
		default:
			out[row.name] = nil
		}
	}
	return out
}

func typeOf(at any) string {
	switch at.(type) {
	case *string, *AccountID, *Balance, *PublicKey, *Hash:
		return "string"
	case **uint16:
		return "integer|null"
	case *uint16, *uint32, *uint64, *Nonce, *Gas, *ProtocolVersion:
		return "integer"
	case *json.Number:
		return "number"
	case *GlobalContractID:
		return "GlobalContractIdentifier"
	}
	return reflect.TypeOf(at).Elem().Name()
}

// TestRecordedFailuresKeepTheirJSON: testdata/failures.jsonl has one failure of each shape that
// neard recorded (f0c7706f1, protocol 86), keys in alphabetical order as its RPC prints them.
func TestRecordedFailuresKeepTheirJSON(t *testing.T) {
	t.Parallel()
	in, err := os.ReadFile("testdata/failures.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(in) {
		want := string(bytes.TrimSpace(line))
		var e TxExecutionError
		if err := json.Unmarshal([]byte(want), &e); err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got := string(e.AppendJSON(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestEveryErrorSurvivesEncoding fills every field of every variant.
func TestEveryErrorSurvivesEncoding(t *testing.T) {
	t.Parallel()
	roundTrip := func(e TxExecutionError) {
		t.Helper()
		b := e.AppendJSON(nil)
		var got TxExecutionError
		if err := json.Unmarshal(b, &got); err != nil {
			t.Errorf("%s: %v", b, err)
		} else if again := got.AppendJSON(nil); !bytes.Equal(again, b) {
			t.Errorf("got %s, want %s", again, b)
		}
		if e.Error() == "" {
			t.Errorf("%s: empty text", b)
		}
		var decoded TxExecutionError
		if err := borsh.Unmarshal(e.AppendBorsh(nil), &decoded); err != nil {
			t.Errorf("%s in borsh: %v", b, err)
		} else if again := decoded.AppendJSON(nil); !bytes.Equal(again, b) {
			t.Errorf("by borsh: got %s, want %s", again, b)
		}
	}
	key := ZeroED25519Key
	for tag := range invalidTxRows {
		roundTrip(TxExecutionError{InvalidTx: &InvalidTxError{Tag: InvalidTxTag(tag), SignerID: "alice.near", ReceiverID: "Bad id",
			TxNonce: 1, KeyNonce: 2, UpperBound: 3, Balance: MaxBalance, Cost: NEAR(1), Amount: Yocto(7), Size: 8, Limit: 9, ShardID: 4,
			CongestionLevel: "0.85", MissedChunks: 5, AccessKey: &InvalidAccessKeyError{Tag: KeyRequiresFullAccess}, NumNonces: 6, Reason: DepositLackBalanceForState}})
	}
	for tag := range invalidAccessKeyRows {
		e := &InvalidAccessKeyError{Tag: InvalidAccessKeyTag(tag), AccountID: "a.near", PublicKey: key, TxReceiver: "b.near",
			KeyReceiver: "c", MethodName: "\"\\\n\x01\u2028<é", Allowance: Yocto(1), Cost: Yocto(2)}
		roundTrip(TxExecutionError{InvalidTx: &InvalidTxError{Tag: TxInvalidAccessKey, AccessKey: e}})
		roundTrip(TxExecutionError{Action: NewActionError(3, &ActionErrorKind{Tag: ActionDelegateAccessKeyError, AccessKey: e})})
	}
	for tag := range actionsValidationRows {
		e := &ActionsValidationError{Tag: ActionsValidationTag(tag), AccountID: "?", PublicKey: key, Feature: "f", Version: 85,
			ReceiverID: "a.near", DerivedID: "b.near", Balance: Yocto(1), Count: 1, Limit: 2, Length: 3, Size: 4}
		roundTrip(TxExecutionError{InvalidTx: &InvalidTxError{Tag: TxActionsValidation, Actions: e}})
	}
	for tag := range receiptValidationRows {
		e := &ReceiptValidationError{Tag: ReceiptValidationTag(tag), AccountID: "a"}
		roundTrip(TxExecutionError{Action: NewActionError(0, &ActionErrorKind{Tag: ActionNewReceiptValidationError, Receipt: e})})
	}
	for tag := range storageRows {
		e := &StorageError{Tag: StorageTag(tag), Trie: MissingTrieValue{Context: "TrieStorage"}, Text: "t"}
		roundTrip(TxExecutionError{InvalidTx: &InvalidTxError{Tag: TxStorageError, Storage: e}})
	}
	for tag := range actionErrorRows {
		roundTrip(TxExecutionError{Action: &ActionError{Kind: ActionErrorKind{Tag: ActionErrorTag(tag), AccountID: "a.near", PublicKey: key,
			RegistrarID: "b.near", PredecessorID: "c.near", ActorID: "d.near", SenderID: "e.near", ReceiverID: "f.near",
			Identifier: GlobalContractID{Account: "g.near"}, FunctionCall: &FunctionCallError{Tag: CallExecution}, AccessKey: &InvalidAccessKeyError{Tag: KeyRequiresFullAccess},
			Receipt: &ReceiptValidationError{}, Stake: Yocto(1), Locked: Yocto(2), Balance: Yocto(3), Size: 4, Limit: 5}}})
	}
	// Without a key.
	roundTrip(TxExecutionError{Action: &ActionError{Kind: ActionErrorKind{Tag: ActionGasKeyBalanceTooHigh, AccountID: "a.near"}}})
	for tag := range hostRows {
		e := &FunctionCallError{Tag: CallHost, Host: &HostError{Tag: HostErrorTag(tag), Text: "a\"b", Number: 1 << 60, Limit: 7}}
		roundTrip(TxExecutionError{Action: NewActionError(0, &ActionErrorKind{Tag: ActionFunctionCallError, FunctionCall: e})})
	}
	for tag, row := range functionCallRows {
		if row.name != "" {
			e := &FunctionCallError{Tag: FunctionCallTag(tag), Compilation: &CompilationError{AccountID: "a.near"}, Message: "Smart contract panicked: \"x\"\n", Trap: TrapGeneric, Method: MethodNotFound}
			roundTrip(TxExecutionError{Action: NewActionError(0, &ActionErrorKind{Tag: ActionFunctionCallError, FunctionCall: e})})
		}
	}
}

func TestMalformedErrorJSONIsRefused(t *testing.T) {
	t.Parallel()
	for _, in := range []string{``, `null`, `{}`, `"Nope"`, `""`, `{"InvalidTxError":"InvalidNonce"}`, `{"InvalidTxError":{"Expired":{}}}`,
		`{"InvalidTxError":{"InvalidNonce":{"ak_nonce":1}}}`, `{"InvalidTxError":{"InvalidNonce":{"ak_nonce":-1,"tx_nonce":1}}}`,
		`{"InvalidTxError":"Expired","ActionError":{}}`, `{"ActionError":{"index":0}}`, `[]`} {
		var e TxExecutionError
		if err := json.Unmarshal([]byte(in), &e); err == nil {
			t.Errorf("%s: decoded to %s, want an error", in, e.AppendJSON(nil))
		}
	}
}

func TestErrorsIsFindsNestedTags(t *testing.T) {
	t.Parallel()
	var err error = &TxExecutionError{Action: NewActionError(1, &ActionErrorKind{Tag: ActionNewReceiptValidationError,
		Receipt: &ReceiptValidationError{Tag: ReceiptActionsValidation, Actions: &ActionsValidationError{Tag: ActionsIntegerOverflow}}})}
	for _, tag := range []error{ActionNewReceiptValidationError, ReceiptActionsValidation, ActionsIntegerOverflow} {
		if !errors.Is(err, tag) {
			t.Errorf("errors.Is(%v, %v) = false, want true", err, tag)
		}
	}
	var action *ActionError
	if !errors.As(err, &action) || *action.Index != 1 {
		t.Errorf("errors.As = %v, want the action error of index 1", action)
	}
	if errors.Is(err, ActionDelegateExpired) || errors.Is(err, TxExpired) {
		t.Errorf("errors.Is is true for a tag that the error lacks")
	}
}

func TestJSONStringsAreEscapedLikeSerde(t *testing.T) {
	t.Parallel()
	if got, want := string(AppendJSONString(nil, "a\"\\\b\f\n\r\t\x00\x1f\x7f<>&\u2028é")), `"a\"\\\b\f\n\r\t\u0000\u001f`+"\x7f<>&\u2028é\""; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, s := range []string{"", "plain", "ünï", strings.Repeat("\"", 100)} {
		var back string
		if err := json.Unmarshal(AppendJSONString(nil, s), &back); err != nil || back != s {
			t.Errorf("%q check back as %q, %v", s, back, err)
		}
	}
}
