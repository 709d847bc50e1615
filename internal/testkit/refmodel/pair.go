package refmodel

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Kind is a kind of action in the table of action pairs. Name is its name there.
type Kind struct {
	Name string
	Make func(to primitives.AccountID) primitives.Action
}

// Place is a sender and a receiver between which pairs of actions are tested.
type Place struct {
	Name, Text string
	From, To   primitives.AccountID
	Before     []primitives.Action // valid actions that precede the pair in the same list of actions
	Receipt    bool                // true: run the pair as a receipt, because From cannot send transactions
}

// PairHeight is the height of the chunk that executes a pair of actions.
const PairHeight primitives.Height = 12

// pairInit returns the state init of the universal account in PairWorld. It has the global code of
// alice.near, two entries and two keys.
func pairInit() universal { return universals()[3] }

// UniversalPlaces returns the places for pairs that need universal accounts (from protocol 88 on).
// Their accounts are those of PairWorld(88).
func UniversalPlaces() []Place {
	id := pairInit().id
	return []Place{
		{Name: "fresh", Text: "to the account of the universal state init, no account yet", From: "bob.near", To: id},
		{Name: "paid", Text: "to it, behind a transfer that makes it", From: "bob.near", To: id, Before: []primitives.Action{
			&primitives.Transfer{Deposit: primitives.NEAR(200)},
		}},
		{Name: "ready", Text: "to it, behind the state init that makes it", From: "bob.near", To: id, Before: []primitives.Action{
			&primitives.UniversalStateInit{Init: pairInit().raw, Deposit: primitives.NEAR(1)},
		}},
		{Name: "bare", Text: "of a universal account without state to itself, in a receipt", From: BareAccount(),
			To: BareAccount(), Receipt: true},
		{Name: "named", Text: "to an id of the same form with another last symbol, which is a name", From: "bob.near", To: id[:len(id)-1] + "1"},
	}
}

// BareAccount returns the universal account without state in PairWorld(88). The state init of that
// account has one key.
func BareAccount() primitives.AccountID { return universals()[0].id }

// Places returns the places for pairs in every protocol version. Their accounts are those of
// PairWorld.
func Places() []Place {
	det := inits()[1]
	return []Place{
		{"own", "of an account to itself; it has code of its own, version 0", "alice.near", "alice.near", nil, false},
		{"other", "to another account", "bob.near", "alice.near", nil, false},
		{"child", "to a name below the sender's that is no account", "alice.near", "new.alice.near", nil, false},
		{"born", "to a name below the sender's, behind create and a transfer of 200 NEAR", "alice.near", "new.alice.near", []primitives.Action{
			&primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(200)},
		}, false},
		{"stranger", "to a name that is no account and not below the sender's", "bob.near", "new.alice.near", nil, false},
		{"hex", "to the name of a key, no account yet", "bob.near", hex, nil, false},
		{"eth", "to an Ethereum address, no account yet", "bob.near", eth, nil, false},
		{"init", "to the account of the state init, no account yet", "bob.near", det.DerivedAccount(), nil, false},
	}
}

// PairWorld returns the accounts between which pairs of actions are tested. It has alice.near with
// local code of version 0, a gas key k1 and a full access key k2; bob.near and carol.near; global
// code of version 1 by its hash, and of version 2 by the account alice.near.
func PairWorld(rules Rules) *World {
	w := NewWorld(rules)
	if rules >= 88 {
		a := newAccount()
		a.Amount, a.Bare, a.Nonce = primitives.NEAR(1000), true, 5
		w.Accounts[BareAccount()] = a
	}
	for _, id := range people[:3] {
		w.Add(id, primitives.NEAR(1000), key(string(id)).PublicKey())
	}
	alice := w.Accounts["alice.near"]
	alice.set(local(Code(0)), Code(0))
	for name, k := range map[string]*Key{
		"k1": {AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 2,
			Balance: primitives.Yocto(5_000_000)}}, Rows: []primitives.Nonce{5, 5}},
		"k2": {},
	} {
		alice.put(key(name).PublicKey().Handle(), k)
	}
	w.Global[primitives.GlobalContractID{Hash: primitives.HashBytes(Code(1))}] = Code(1)
	w.Global[primitives.GlobalContractID{Account: "alice.near"}] = Code(2)
	return w
}

// Kinds returns all kinds of actions for pairs. Each action succeeds at some places. From version
// 88 on, the universal state init is added, and delegate2 is omitted because no transaction can
// contain it.
func Kinds(rules Rules) []Kind {
	list := kinds86()
	if rules < 88 {
		return list
	}
	list = slices.DeleteFunc(list, func(k Kind) bool { return k.Name == "delegate2" })
	return append(list, Kind{"uinit", func(to primitives.AccountID) primitives.Action {
		if to == BareAccount() {
			return &primitives.UniversalStateInit{Init: universals()[0].raw, Deposit: primitives.NEAR(1)}
		}
		return &primitives.UniversalStateInit{Init: pairInit().raw, Deposit: primitives.NEAR(1)}
	}})
}

func kinds86() []Kind {
	k := func(name string) primitives.PublicKey { return key(name).PublicKey() }
	return []Kind{
		{"create", func(primitives.AccountID) primitives.Action { return &primitives.CreateAccount{} }},
		{"deploy", func(primitives.AccountID) primitives.Action { return &primitives.DeployContract{Code: Code(3)} }},
		{"call", func(primitives.AccountID) primitives.Action {
			return &primitives.FunctionCall{Method: "which", Gas: 10_000_000_000_000}
		}},
		{"transfer", func(primitives.AccountID) primitives.Action { return &primitives.Transfer{Deposit: primitives.NEAR(1)} }},
		{"stake", func(primitives.AccountID) primitives.Action {
			return &primitives.Stake{Stake: primitives.NEAR(100), PublicKey: k("k1")}
		}},
		{"addkey", func(primitives.AccountID) primitives.Action { return &primitives.AddKey{PublicKey: k("k3")} }},
		{"delkey", func(primitives.AccountID) primitives.Action { return &primitives.DeleteKey{PublicKey: k("k2")} }},
		{"delete", func(primitives.AccountID) primitives.Action {
			return &primitives.DeleteAccount{Beneficiary: "bob.near"}
		}},
		{"delegate", func(to primitives.AccountID) primitives.Action {
			d := primitives.DelegateAction{
				SenderID: to, ReceiverID: "carol.near", Actions: []primitives.Action{&primitives.Transfer{}},
				Nonce: primitives.Nonce(PairHeight-1)*noncesOfABlock + 1, MaxBlockHeight: 100, PublicKey: k(string(to)),
			}
			hash := d.SignedHash()
			return &primitives.Delegate{Action: d, Signature: key(string(to)).Sign(hash[:])}
		}},
		{"delegate2", func(to primitives.AccountID) primitives.Action {
			d := primitives.DelegateActionV2{
				SenderID: to, ReceiverID: "carol.near", Actions: []primitives.Action{&primitives.Transfer{}},
				Nonce: primitives.TransactionNonce{Nonce: 6, Index: 1, HasIndex: true}, MaxBlockHeight: 100, PublicKey: k("k1"),
			}
			hash := d.SignedHash()
			return &primitives.DelegateV2{Action: d, Signature: key("k1").Sign(hash[:])}
		}},
		{"global", func(primitives.AccountID) primitives.Action {
			return &primitives.DeployGlobalContract{Code: Code(4), Mode: primitives.GlobalByAccountID}
		}},
		{"use", func(primitives.AccountID) primitives.Action {
			return &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Hash: primitives.HashBytes(Code(1))}}
		}},
		{"init", func(primitives.AccountID) primitives.Action {
			return &primitives.DeterministicStateInit{Init: inits()[1], Deposit: primitives.NEAR(1)}
		}},
		{"togas", func(primitives.AccountID) primitives.Action {
			return &primitives.TransferToGasKey{PublicKey: k("k1"), Deposit: primitives.NEAR(1)}
		}},
		{"fromgas", func(primitives.AccountID) primitives.Action {
			return &primitives.WithdrawFromGasKey{PublicKey: k("k1"), Amount: primitives.Yocto(7)}
		}},
	}
}

// Pair returns a scenario in which the actions are sent at a place, in a transaction or in an
// incoming receipt.
func Pair(rules Rules, at Place, transaction bool, actions ...primitives.Action) *Scenario {
	s := &Scenario{World: PairWorld(rules), Height: PairHeight}
	if !transaction {
		s.Incoming = []*primitives.Receipt{{PredecessorID: at.From, ReceiverID: at.To,
			ID: primitives.HashBytes([]byte(at.Name)), Body: &primitives.ActionReceipt{
				SignerID: at.From, SignerPublicKey: key(string(at.From)).PublicKey(), Actions: actions,
			}}}
		return s
	}
	sk := key(string(at.From))
	tx := primitives.Transaction{
		SignerID: at.From, ReceiverID: at.To, PublicKey: sk.PublicKey(),
		Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(PairHeight-2)*noncesOfABlock + 1}, Actions: actions,
	}
	hash := tx.Hash()
	s.Txs = append(s.Txs, primitives.NewSignedTransaction(tx, sk.Sign(hash[:])))
	return s
}
