package action

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// form is an action in a form that some version refuses, with the expected error by version.
type form struct {
	name     string
	action   primitives.Action
	to       primitives.AccountID
	new      map[parameters.Version]string // errors of new receipts; absent: valid
	existing map[parameters.Version]string // errors of receipts in flight; absent: valid
}

// executable are the versions from 84 to 89 that this node has rules for. All others are refused.
var executable = []parameters.Version{
	parameters.June(85), parameters.June(86), parameters.Release(85), parameters.Release(86), parameters.Release(87), parameters.Release(88),
}

// at returns the same error text for several versions. $ in the text is replaced by the version.
func at(text string, versions ...parameters.Version) map[parameters.Version]string {
	out := map[parameters.Version]string{}
	for _, v := range versions {
		out[v] = strings.ReplaceAll(text, "$", fmt.Sprint(v.Protocol))
	}
	return out
}

// forms returns every action, in all forms that some version from 85 to 88 refuses.
func forms() []form {
	r87, r88 := parameters.Release(87), parameters.Release(88)
	before88 := executable[:5]
	empty := (&primitives.UniversalStateInitV1{}).Encode()
	universal := empty.DerivedAccount()
	deterministic := &primitives.DeterministicStateInit{}
	key := primitives.ZeroED25519Key
	delegate := func(a primitives.Action) primitives.Action {
		return &primitives.Delegate{Action: primitives.DelegateAction{SenderID: "a.near", ReceiverID: "b.near", PublicKey: key, Actions: []primitives.Action{a}}}
	}
	var list []form
	for _, a := range known() {
		f := form{name: fmt.Sprintf("%T", a), action: a, to: "b.near"}
		switch a.(type) {
		case *primitives.DelegateV2:
			f.new = at(`{"RemovedProtocolFeature":{"protocol_feature":"DelegateV2","version":$}}`, r87, r88)
		case *primitives.DeterministicStateInit:
			f.to = deterministic.Init.DerivedAccount()
		case *primitives.UniversalStateInit:
			f.action, f.to = &primitives.UniversalStateInit{Init: empty}, universal
			f.new = at(`{"UnsupportedProtocolFeature":{"protocol_feature":"UniversalAccounts","version":$}}`, before88...)
			f.existing = f.new
		default: // every version takes them
		}
		list = append(list, f)
	}
	banned := fmt.Sprintf(`{"TransferToUniversalAccountNotAllowed":{"account_id":"%s"}}`, universal)
	malformed := at(`{"UnsupportedProtocolFeature":{"protocol_feature":"UniversalAccounts","version":$}}`, before88...)
	malformed[r88] = `"MalformedUniversalStateInit"`
	bad := primitives.RawStateInit{7}
	return append(list,
		form{"call of no name", &primitives.FunctionCall{Gas: 1}, "b.near", at(`"FunctionCallEmptyMethodName"`, r87, r88), nil},
		form{"call of no name in a delegate", delegate(&primitives.FunctionCall{Gas: 1}), "b.near", at(`"FunctionCallEmptyMethodName"`, r87, r88), nil},
		form{"withdrawal in a delegate", delegate(&primitives.WithdrawFromGasKey{PublicKey: key}), "b.near", at(`"WithdrawFromGasKeyNotAllowedInDelegate"`, r87, r88), nil},
		form{"transfer to a universal id", &primitives.Transfer{}, universal, at(banned, r87), nil},
		form{"malformed state init", &primitives.UniversalStateInit{Init: bad}, bad.DerivedAccount(), malformed, malformed},
		form{"gas key", &primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 1}}}, "b.near", nil, nil},
		form{"post-quantum key", &primitives.AddKey{PublicKey: primitives.SecretKeyFromSeed(primitives.MLDSA65, "versions").PublicKey()}, "b.near", nil, nil},
	)
}

// TestEachActionIsValidatedAtEachVersion checks, for every form of every action and each version
// from 84 to 89, that a new receipt and a receipt in flight are valid or fail with the expected
// error, and that every action has fees.
func TestEachActionIsValidatedAtEachVersion(t *testing.T) {
	t.Parallel()
	rules := map[parameters.Version]bool{}
	for _, v := range executable {
		rules[v] = true
	}
	for p := primitives.ProtocolVersion(84); p <= 89; p++ {
		for _, v := range []parameters.Version{parameters.June(p), parameters.Release(p)} {
			if !rules[v] {
				if _, err := parameters.Get(v); !errors.Is(err, parameters.ErrUnsupportedVersion) {
					t.Errorf("%v: %v, want it refused by name", v, err)
				}
				continue
			}
			c := parameters.MustGet(v)
			for _, f := range forms() {
				for mode, want := range map[verify.Mode]string{verify.NewReceipt: f.new[v], verify.ExistingReceipt: f.existing[v]} {
					got := ""
					if e := verify.Actions(c, []primitives.Action{f.action}, f.to, mode); e != nil {
						got = string(e.AppendJSON(nil))
					}
					if got != want {
						t.Errorf("%s at %v, mode %d: %q, want %q", f.name, v, mode, got, want)
					}
				}
				if _, err := fees.Send(c, false, f.action, f.to); err != nil {
					t.Errorf("%s at %v: send fee: %v", f.name, v, err)
				}
				if _, err := fees.PrepaidExec(c, []primitives.Action{f.action}, f.to); err != nil {
					t.Errorf("%s at %v: execution fee: %v", f.name, v, err)
				}
			}
		}
	}
}

// TestEachActionRunsOnEachAccountForm runs every action on every form of an account at each
// version, and checks the result. Only 88 creates uninitialized accounts, by a transfer at any
// position in the list of actions.
func TestEachActionRunsOnEachAccountForm(t *testing.T) {
	t.Parallel()
	id := (&primitives.UniversalStateInitV1{}).Encode().DerivedAccount()
	contract := primitives.GlobalContract(primitives.GlobalContractID{Account: "a.near"})
	for _, a := range []primitives.Account{
		{Amount: primitives.Yocto(1), StorageUsage: 100, Version: primitives.AccountV1},
		{Amount: primitives.Yocto(1), StorageUsage: 100, Version: primitives.AccountV2, Contract: contract},
		primitives.NewUninitializedAccount(primitives.Yocto(1), 100, 5),
	} {
		var back primitives.Account
		if err := borsh.Unmarshal(a.AppendBorsh(nil), &back); err != nil || back != a {
			t.Errorf("account %+v is decoded as %+v, %v", a, back, err)
		}
		for _, v := range executable {
			for _, action := range known() {
				x := execution()
				x.Block = &Block{Config: parameters.MustGet(v)}
				x.Exists, x.Account = true, a
				var want primitives.ActionErrorTag // none, which AccountAlreadyExists is not told from
				fails := false
				switch action.(type) {
				case *primitives.CreateAccount:
					want, fails = primitives.ActionAccountAlreadyExists, true
				case *primitives.Transfer, *primitives.DeterministicStateInit, *primitives.UniversalStateInit:
				default:
					want, fails = primitives.ActionAccountNotInitialized, !a.IsInitialized()
				}
				if e := x.checkExistence(action); (e != nil) != fails || fails && e.Tag != want {
					t.Errorf("%T on %+v at %v: %v", action, a, v, e)
				}
			}
		}
	}
	for _, v := range executable {
		for n := 1; n <= 2; n++ {
			x := execution()
			x.Block = &Block{Config: parameters.MustGet(v)}
			x.Receipt.ReceiverID = id
			x.Body.Actions = make([]primitives.Action, n)
			if e, made := x.checkExistence(&primitives.Transfer{}), v == parameters.Release(88); (e == nil) != made {
				t.Errorf("a transfer to %s, one of %d actions, at %v: %v", id, n, v, e)
			}
		}
	}
}
