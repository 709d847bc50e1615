package action

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// alienAction is an action with a tag that this version does not have, alienBody a receipt body of an unknown
// kind.
type alienAction struct{ primitives.Action }

type alienBody struct{ primitives.ReceiptBody }

func (alienAction) Tag() primitives.ActionTag { return 16 }

// known returns one action of each tag.
func known() []primitives.Action {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "tags").PublicKey()
	inner := primitives.DelegateAction{SenderID: "a.near", ReceiverID: "b.near", PublicKey: key}
	innerV2 := primitives.DelegateActionV2{SenderID: "a.near", ReceiverID: "b.near", PublicKey: key}
	signature := primitives.SecretKeyFromSeed(primitives.ED25519, "tags").Sign([]byte("tags"))
	return []primitives.Action{
		&primitives.CreateAccount{}, &primitives.DeployContract{}, &primitives.FunctionCall{Method: "f", Gas: 1},
		&primitives.Transfer{}, &primitives.Stake{PublicKey: key}, &primitives.AddKey{PublicKey: key},
		&primitives.DeleteKey{PublicKey: key}, &primitives.DeleteAccount{Beneficiary: "a.near"},
		&primitives.Delegate{Action: inner, Signature: signature}, &primitives.DeployGlobalContract{},
		&primitives.UseGlobalContract{}, &primitives.DeterministicStateInit{}, &primitives.TransferToGasKey{PublicKey: key},
		&primitives.WithdrawFromGasKey{PublicKey: key}, &primitives.DelegateV2{Action: innerV2, Signature: signature},
		&primitives.UniversalStateInit{},
	}
}

// doors are functions that reach every switch over the types of actions, in the order in which a node calls
// them.
var doors = map[string]func(a primitives.Action){
	"verify": func(a primitives.Action) {
		verify.Actions(parameters.MustGet(parameters.Release(88)), []primitives.Action{a}, "b.near", verify.NewReceipt)
	},
	"verify, old": func(a primitives.Action) {
		verify.Actions(parameters.MustGet(parameters.Release(88)), []primitives.Action{a}, "b.near", verify.ExistingReceipt)
	},
	"verify, keys": func(a primitives.Action) { // this version has no post-quantum keys, so each action is checked for them
		c := *parameters.MustGet(parameters.Release(88))
		c.Version = parameters.June(84)
		verify.Actions(&c, []primitives.Action{a}, "b.near", verify.NewReceipt)
	},
	"send": func(a primitives.Action) {
		_, _ = fees.Send(parameters.MustGet(parameters.Release(88)), false, a, "b.near")
	},
	"exec": func(a primitives.Action) { _, _ = fees.Exec(parameters.MustGet(parameters.Release(88)), a, "b.near") },
	"prepaid": func(a primitives.Action) {
		_, _ = fees.PrepaidExec(parameters.MustGet(parameters.Release(88)), []primitives.Action{a}, "b.near")
	},
	"deposit": func(a primitives.Action) { fees.Deposit(a) },
	"total":   func(a primitives.Action) { _, _ = fees.TotalDeposit([]primitives.Action{a}) },
	"weight": func(a primitives.Action) {
		_, _ = fees.ReceiptGas(parameters.MustGet(parameters.Release(88)), receiptOf(&primitives.ActionReceipt{Actions: []primitives.Action{a}}))
	},
	"existence":  func(a primitives.Action) { execution().checkExistence(a) },
	"permission": func(a primitives.Action) { execution().checkPermission(a) },
	"view":       func(a primitives.Action) { view.AppendAction(nil, a) },
	"view, raw": func(a primitives.Action) {
		view.AppendAction(nil, &primitives.Delegate{Action: primitives.DelegateAction{Actions: []primitives.Action{a}, PublicKey: known()[4].(*primitives.Stake).PublicKey}, Signature: known()[8].(*primitives.Delegate).Signature})
	},
	"genesis": func(a primitives.Action) {
		body := &primitives.ActionReceipt{Actions: []primitives.Action{a}, SignerPublicKey: known()[4].(*primitives.Stake).PublicKey}
		genesis.AppendRecord(nil, &genesis.PostponedReceiptRecord{Receipt: receiptOf(body)})
	},
}

func receiptOf(body primitives.ReceiptBody) *primitives.Receipt {
	return &primitives.Receipt{PredecessorID: "a.near", ReceiverID: "b.near", Body: body}
}

func execution() *Execution {
	r := receiptOf(&primitives.ActionReceipt{})
	return &Execution{Block: &Block{Config: parameters.MustGet(parameters.Release(88))}, Receipt: r, Body: r.Body.(*primitives.ActionReceipt)}
}

// refusal returns the value with which f panics; empty if it does not panic.
func refusal(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

// TestEveryActionIsKnownToEverySwitch checks that every switch accepts each action of this protocol
// and panics for an unknown one. If a switch lacks a new action, the node stops, rather than
// creating tokens, keys or rights out of nothing.
func TestEveryActionIsKnownToEverySwitch(t *testing.T) {
	t.Parallel()
	all := known()
	for tag, a := range all {
		if int(a.Tag()) != tag {
			t.Fatalf("action %d has tag %d", tag, a.Tag())
		}
		if r := borsh.NewReader(primitives.AppendAction(nil, a)); primitives.ReadAction(r) == nil || r.Close() != nil {
			t.Errorf("%T does not come back: %v", a, r.Err())
		}
		for name, door := range doors {
			_, v1 := a.(*primitives.Delegate)
			_, v2 := a.(*primitives.DelegateV2)
			nested := name == "view, raw" && (v1 || v2) // a delegate cannot contain delegates
			if text := refusal(func() { door(a) }); (text != "") != nested {
				t.Errorf("%s of %T: %q", name, a, text)
			}
		}
	}
	for tag := len(all); tag < 256; tag++ {
		if r := borsh.NewReader(append([]byte{byte(tag)}, make([]byte, 100)...)); primitives.ReadAction(r) != nil || r.Err() == nil {
			t.Errorf("tag %d is read", tag)
		}
	}
	alien := alienAction{&primitives.Transfer{Deposit: primitives.Yocto(1)}}
	for name, door := range doors {
		text := refusal(func() { door(alien) })
		if !strings.Contains(text, "alienAction") && !strings.Contains(text, "index out of range [16]") {
			t.Errorf("%s of an unknown action: %q, want a panic that names it", name, text)
		}
	}
}

// TestEveryReceiptIsKnownToEverySwitch is TestEveryActionIsKnownToEverySwitch for receipts.
func TestEveryReceiptIsKnownToEverySwitch(t *testing.T) {
	t.Parallel()
	c := parameters.MustGet(parameters.Release(88))
	key := known()[4].(*primitives.Stake).PublicKey
	doors := map[string]func(r *primitives.Receipt){
		"verify":  func(r *primitives.Receipt) { verify.Receipt(c, r, verify.ExistingReceipt) },
		"view":    func(r *primitives.Receipt) { view.AppendReceipt(nil, r) },
		"genesis": func(r *primitives.Receipt) { genesis.AppendRecord(nil, &genesis.DelayedReceiptRecord{Receipt: r}) },
	}
	for name, door := range doors {
		for _, body := range []primitives.ReceiptBody{
			&primitives.ActionReceipt{SignerPublicKey: key}, &primitives.DataReceipt{}, &primitives.GlobalContractDistribution{},
		} {
			if text := refusal(func() { door(receiptOf(body)) }); text != "" {
				t.Errorf("%s of %T: %s", name, body, text)
			}
		}
		text := refusal(func() { door(receiptOf(alienBody{&primitives.DataReceipt{}})) })
		if !strings.Contains(text, "alienBody") {
			t.Errorf("%s of an unknown receipt: %q, want a panic that names it", name, text)
		}
	}
}

// TestUnknownContractOrOutcomeKindPanics checks that an unknown kind of contract or outcome panics,
// rather than entering a hash, a fee or a reply.
func TestUnknownContractOrOutcomeKindPanics(t *testing.T) {
	t.Parallel()
	contract := primitives.AccountContract{Kind: 4}
	outcome := primitives.OutcomeWithID{Outcome: primitives.Outcome{Status: primitives.ExecutionStatus{Kind: 9}}}
	for name, f := range map[string]func(){
		"usage":        func() { contract.IdentifierUsage() },
		"global":       func() { contract.GlobalID() },
		"borsh":        func() { contract.AppendBorsh(nil) },
		"outcome hash": func() { outcome.Hashes() },
		"genesis": func() {
			genesis.AppendRecord(nil, &genesis.AccountRecord{AccountID: "a.near", Account: primitives.Account{Contract: contract}})
		},
	} {
		if refusal(f) == "" {
			t.Errorf("%s of an unknown kind does not panic", name)
		}
	}
}
