package node

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/net/near"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// TestEveryFormIsHandledAtEveryVersion sends every action, key type, account form, form of a
// transaction, header version and form of a message about a chunk to validators of a chain of each
// protocol version from 84 to 89, and reads every parameter. The variants are those that decoding
// knows, so a new variant without a test case fails the test. Each variant is handled, or refused
// with a named error. Versions 84 and 89 themselves are refused.
func TestEveryFormIsHandledAtEveryVersion(t *testing.T) {
	t.Parallel()
	for p := primitives.ProtocolVersion(84); p <= 89; p++ {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			v := parameters.Release(p)
			if !v.Supported() {
				refuseVersion(t, v)
				return
			}
			everyParameter(t, v)
			c := kickoutCluster(t, p, 1000, func(_ int, o *Options) { o.Vote = p })
			code, err := vm.New(vm.Options{Alarm: func(err error) { t.Error(err) }})
			if err != nil {
				t.Fatal(err)
			}
			c.open = func(_ int, o *engine.Options) { o.VM = code }
			c.start(0) // alone, so that the head stays the genesis
			wrong := everyMessage(t, c.members[0], p)
			everyHeader(t, c.members[0], p)
			for i := range 3 {
				c.start(i + 1)
			}
			c.reach(2, 120*time.Second)
			everyTransaction(t, c.members[0], p)
			for i, m := range c.members {
				if n := m.bans(t); n != 0 {
					t.Errorf("node %d has banned %d peers", i, n)
				}
				if got := m.counted(wrongForms); got != wrong {
					t.Errorf("node %d: %d messages are of a wrong form, want %d", i, got, wrong)
				}
				wrong = 0 // only the first node got them
			}
		})
	}
}

// variants returns the tags of an enum that read knows. read gets input that begins with the tag.
func variants(t *testing.T, enum string, read func(*borsh.Reader)) (list []byte) {
	t.Helper()
	for tag := range 256 {
		r := borsh.NewReader([]byte{byte(tag)})
		read(r)
		var unknown *borsh.TagError
		switch err := r.Err(); {
		case err == nil, errors.Is(err, borsh.ErrEOF), errors.Is(err, borsh.ErrFill):
			list = append(list, byte(tag))
		case errors.As(err, &unknown) && unknown.Tag != byte(tag):
			t.Errorf("tag %d of %s is refused as %v", tag, enum, err)
		}
	}
	return list
}

// refuseVersion requires that nothing runs with a version, and that the error says which.
func refuseVersion(t *testing.T, v parameters.Version) {
	t.Helper()
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, parameters.ErrUnsupportedVersion) || !strings.Contains(err.Error(), fmt.Sprint(v.Protocol)) {
			t.Errorf("%s of %v: %v", what, v, err)
		}
	}
	_, err := parameters.Get(v)
	refused("parameters", err)
	g, err := genesis.Localnet(genesis.LocalnetOptions{ChainID: "test", Time: 1, Accounts: []primitives.AccountID{voter(0)},
		Validators: 1, Shards: 2, Protocol: parameters.Newest(primitives.NumberingRelease)})
	if err != nil {
		t.Fatal(err)
	}
	g.Config.ProtocolVersion = v.Protocol
	of, err := testnode.Spec(&g.Config, primitives.NumberingRelease, nil, g.Records)
	if err == nil {
		var e *engine.Engine
		if e, err = testnode.TryOpen(testnode.Options{Chain: of}); err == nil {
			testnode.Close(t, e)
		}
	}
	refused("a chain", err)
}

// hasNone are the parameters that are 0, false or empty at versions from 85 to 88, with the first and the
// last version at which they have a value; {}: at none.
var hasNone = map[string][2]primitives.ProtocolVersion{
	"Fees.Action.deterministic_state_init_entry.SendSIR":    {},
	"Fees.Action.deterministic_state_init_entry.SendNotSIR": {},
	"Fees.Action.gas_key_nonce_write_base.SendSIR":          {},
	"Fees.Action.gas_key_nonce_write_base.SendNotSIR":       {},
	"Fees.Action.universal_state_init_entry.SendSIR":        {88, 88},
	"Fees.Action.universal_state_init_entry.SendNotSIR":     {88, 88},
	"Fees.BurntGasReward.Num":                               {85, 86},
	"Fees.GasRefundPenalty.Num":                             {},
	"Fees.MinGasRefundPenalty":                              {},
	"Fees.SignatureVerification.ed25519":                    {},
	"Fees.SignatureVerification.secp256k1":                  {},
	"Wasm.SHA3HostFns":                                      {87, 88},
	"Wasm.MLDSAVerifyHostFn":                                {87, 88},
	"Wasm.BLS12381NotInGroupFix":                            {},
	"Wasm.FixContractLoadingCost":                           {},
	"Wasm.FixContractLoadingError":                          {87, 88},
	"Wasm.UniversalAccounts":                                {88, 88},
	"Wasm.CanonicalUniversalStateInit":                      {88, 88},
	"Wasm.Limits.MinContractSizePerLocal":                   {87, 88},
}

// everyParameter requires that each parameter has a value, or is in hasNone. The host functions that
// iterate over storage do not exist and cost nothing.
func everyParameter(t *testing.T, v parameters.Version) {
	t.Helper()
	c, err := parameters.Get(v)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{} // whether it has a value
	var walk func(name string, x reflect.Value)
	walk = func(name string, x reflect.Value) {
		leaf := x.Type() == reflect.TypeFor[primitives.Balance]() || x.Type() == reflect.TypeFor[parameters.Cost]()
		switch {
		case x.Kind() == reflect.Struct && !leaf:
			for i := range x.NumField() {
				walk(strings.TrimPrefix(name+"."+x.Type().Field(i).Name, "."), x.Field(i))
			}
		case x.Kind() == reflect.Array && !leaf:
			for i := range x.Len() {
				of := fmt.Sprint(i)
				switch name {
				case "Fees.Action":
					of = parameters.ActionCost(i).String()
				case "Wasm.Ext":
					of = parameters.ExtCost(i).String()
				case "Fees.SignatureVerification":
					of = primitives.KeyType(i).String()
				}
				walk(name+"."+of, x.Index(i))
			}
		default:
			if _, twice := all[name]; twice {
				t.Errorf("two parameters %s", name)
			}
			all[name] = !x.IsZero()
		}
	}
	walk("", reflect.ValueOf(*c))
	for name, has := range all {
		want := !strings.HasPrefix(name, "Wasm.Ext.storage_iter_")
		if of, listed := hasNone[name]; listed {
			want = of[0] <= v.Protocol && v.Protocol <= of[1]
		}
		if has != want {
			t.Errorf("parameter %s has a value: %t", name, has)
		}
	}
	for name := range hasNone {
		if _, is := all[name]; !is {
			t.Errorf("no parameter %s", name)
		}
	}
}

// everyMessage sends a node whose head is the genesis each message about a chunk, in each form, and
// bodies of each other kind that do not decode. It returns how many are of a wrong form.
func everyMessage(t *testing.T, m *member, p primitives.ProtocolVersion) (wrong uint64) {
	t.Helper()
	x := attack(t, "sender", m, "test")
	until(t, x.connected)
	send := func(body peerwire.Body) { x.Post(near.RouteTo{Target: peerwire.ToPeer(m.info.ID), Body: body}) }
	forms := func(place chunkPlace, anchored bool, salt int) []peerwire.Body {
		key, prev, by := place.key, place.at.PrevBlock, place.by
		if !anchored {
			return append(bodiesAt(key, nil, by, salt), chunkAt(m.e.Head(), key, prev, nil, by, salt))
		}
		at := &primitives.PartialChunkAnchor{PrevPrevBlock: place.at.PrevPrevBlock, EpochID: key.EpochID}
		return append(bodiesAt(key, &place.at, by, salt), chunkAt(m.e.Head(), key, prev, at, by, salt))
	}
	kinds, places := map[peerwire.BodyKind]bool{}, placesOn(t, m, m.e.Head())
	for salt, anchored := range []bool{p < 87, p >= 87} { // the wrong forms first
		for _, place := range places {
			for _, body := range forms(place, anchored, salt) {
				kinds[body.BodyKind()] = true
				if body.BodyKind() == peerwire.BodyPartialChunk && place.by == voter(0) {
					continue // the node has its own chunk there
				}
				if salt == 0 {
					wrong++
				}
				send(body)
			}
		}
	}
	for kind := range 256 {
		if k := peerwire.BodyKind(kind); !kinds[k] {
			send(badBytes{k, nil})
		}
	}
	until(t, func() bool { return m.counted(wrongForms) >= wrong })
	if n := m.counted(wrongPlaces); n != 0 {
		t.Errorf("%d messages of wrong places", n)
	}
	if h, is := m.Halted(); is || !x.connected() {
		t.Errorf("halted %t %s, the peer is connected: %t", is, h.Reason, x.connected())
	}
	return wrong
}

// everyHeader offers a node whose head is the genesis a block of each header version.
func everyHeader(t *testing.T, m *member, p primitives.ProtocolVersion) {
	t.Helper()
	head := m.e.Head()
	by, err := m.e.BlockProducer(head.Hash, head.Height()+1)
	if err != nil {
		t.Fatal(err)
	}
	known := variants(t, "headers", func(r *borsh.Reader) { new(primitives.BlockHeader).DecodeBorsh(r) })
	for _, tag := range known {
		made := proposed(t, m, head, uint64(tag)+1, func(*engine.Proposal) {})
		h := *made.Header
		h.Version = primitives.HeaderVersion(tag)
		h.Init()
		made = &primitives.Block{Header: &h, Body: made.Body}
		chain.SignBlock(made, keyOf(by.AccountID))
		var came primitives.Block
		if err := borsh.Unmarshal(made.AppendBorsh(nil), &came); err != nil {
			t.Errorf("header tag %d: %v", tag, err)
			continue
		}
		var want error
		switch h.Version {
		case primitives.HeaderV5, primitives.HeaderV6:
		case primitives.HeaderV7:
			if p >= 87 {
				want = chain.InvalidProtocolVersion
			}
		case primitives.HeaderV1, primitives.HeaderV2, primitives.HeaderV3, primitives.HeaderV4, primitives.HeaderV8:
			want = chain.InvalidHeaderVersion
		default:
			t.Errorf("header tag %d is decoded and has no case", tag)
		}
		if err := m.e.ValidateForGossip(&came); !errors.Is(err, want) {
			t.Errorf("header tag %d: %v, want %v", tag, err, want)
		}
	}
}

// sentCase is a transaction and how it ends.
type sentCase struct {
	name string
	tx   primitives.Transaction // the rest is set before it is sent
	key  primitives.SecretKey   // a new full access key of payer 0 if it is not set
	want string                 // in the error; "": it succeeds
}

// everyTransaction sends transactions with each action, key type, form of a transaction, kind of a
// receiver and form of a signer's account.
func everyTransaction(t *testing.T, m *member, p primitives.ProtocolVersion) {
	t.Helper()
	ends := func(from, to primitives.ProtocolVersion, text string) string { // an error from a version to another one
		if from <= p && p <= to {
			return text
		}
		return ""
	}
	all := func(list ...primitives.Action) []primitives.Action { return list }
	near := func(n uint64) primitives.Balance { return primitives.NEAR(n) }
	full := func(k primitives.SecretKey) primitives.Action { return &primitives.AddKey{PublicKey: k.PublicKey()} }
	nonce := func() primitives.Nonce { return primitives.Nonce(m.e.Final().Height)*1_000_000 + 1 }
	me := payer(0)
	sub := func(name string) primitives.AccountID { return primitives.AccountID(name) + "." + me }

	signing := map[primitives.KeyType]primitives.SecretKey{}
	for _, tag := range variants(t, "public keys", func(r *borsh.Reader) { primitives.ReadPublicKey(r) }) {
		signing[primitives.KeyType(tag)] = primitives.SecretKeyFromSeed(primitives.KeyType(tag), "every key")
	}
	gas := primitives.SecretKeyFromSeed(primitives.ED25519, "gas key")
	own := primitives.SecretKeyFromSeed(primitives.ED25519, "universal")
	var handles []primitives.PublicKeyHandle
	for _, tag := range slices.Sorted(maps.Keys(signing)) {
		handles = append(handles, signing[tag].PublicKey().Handle())
	}
	slices.Sort(handles)
	code := primitives.GlobalContractID{Account: me}
	data := []primitives.StateEntry{{Key: []byte("k"), Value: []byte("v")}}
	deterministic := primitives.StateInit{Code: code, Data: data}
	universal := (&primitives.UniversalStateInitV1{Code: &code, AccessKeys: handles}).Encode()
	alone := []primitives.PublicKeyHandle{own.PublicKey().Handle()}
	later := (&primitives.UniversalStateInitV1{AccessKeys: alone}).Encode()
	idle := (&primitives.UniversalStateInitV1{AccessKeys: alone, Data: data}).Encode()
	// module exports f, which does nothing
	module := []byte("\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" +
		"\x07\x05\x01\x01f\x00\x00" + "\x0a\x04\x01\x02\x00\x0b")

	inner := primitives.DelegateAction{SenderID: payer(1), ReceiverID: payer(2), Actions: all(transfer(1)),
		Nonce: nonce(), MaxBlockHeight: 1 << 40, PublicKey: keyOf(payer(1)).PublicKey()}
	hash := inner.SignedHash()
	delegate := &primitives.Delegate{Action: inner, Signature: keyOf(payer(1)).Sign(hash[:])}
	innerV2 := primitives.DelegateActionV2{SenderID: payer(2), ReceiverID: payer(1), Actions: all(transfer(1)),
		Nonce: primitives.TransactionNonce{Nonce: nonce()}, MaxBlockHeight: 1 << 40, PublicKey: keyOf(payer(2)).PublicKey()}
	hash = innerV2.SignedHash()
	delegateV2 := &primitives.DelegateV2{Action: innerV2, Signature: keyOf(payer(2)).Sign(hash[:])}

	by := func(from, to primitives.AccountID, list ...primitives.Action) primitives.Transaction {
		return primitives.Transaction{SignerID: from, ReceiverID: to, Actions: list}
	}
	to := func(id primitives.AccountID, list ...primitives.Action) primitives.Transaction {
		return by(me, id, list...)
	}
	newer := func(tx primitives.Transaction, n primitives.TransactionNonce, mode primitives.NonceMode) primitives.Transaction {
		tx.Version, tx.Nonce, tx.NonceMode = primitives.TransactionV1, n, mode
		return tx
	}
	call, pay := &primitives.FunctionCall{Method: "f", Gas: 1e13}, &primitives.Transfer{Deposit: near(1)}
	missing := ends(85, 86, "AccountDoesNotExist") + ends(87, 87, "TransferToUniversalAccountNotAllowed")
	first := []sentCase{
		{name: "make an account", tx: to(sub("new"), &primitives.CreateAccount{}, pay)},
		{name: "remove an account", tx: to(sub("old"), &primitives.CreateAccount{}, pay,
			&primitives.DeleteAccount{Beneficiary: me})},
		{name: "contract", tx: to(me, &primitives.DeployContract{Code: module}, call)},
		{name: "stake", tx: to(me, &primitives.Stake{Stake: primitives.Yocto(1), PublicKey: own.PublicKey()}),
			want: "InsufficientStake"},
		{name: "keys", tx: to(me, full(own), &primitives.DeleteKey{PublicKey: own.PublicKey()})},
		{name: "gas keys", tx: to(me, &primitives.AddKey{PublicKey: gas.PublicKey(),
			AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 2}}},
			&primitives.TransferToGasKey{PublicKey: gas.PublicKey(), Deposit: near(2)},
			&primitives.WithdrawFromGasKey{PublicKey: gas.PublicKey(), Amount: near(1)})},
		{name: "delegate", tx: to(payer(1), delegate)},
		{name: "delegate V2", tx: to(payer(2), delegateV2), want: ends(87, 88, "RemovedProtocolFeature")},
		{name: "global contract",
			tx: to(me, &primitives.DeployGlobalContract{Code: module, Mode: primitives.GlobalByAccountID})},
	}
	of, receivers := map[primitives.AccountKind]bool{}, map[primitives.AccountID]string{
		payer(3): "", "nobody": "AccountDoesNotExist",
		primitives.AccountID(strings.Repeat("ab", 32)):        "",
		primitives.AccountID("0x" + strings.Repeat("ab", 20)): "",
		primitives.AccountID("0s" + strings.Repeat("ab", 20)): "",
		later.DerivedAccount():                                missing,
		idle.DerivedAccount():                                 missing,
	}
	for id, want := range receivers {
		first = append(first, sentCase{name: "transfer to " + string(id), tx: to(id, pay), want: want})
		of[id.Kind(true)] = true
	}
	for kind := range primitives.UniversalAccount + 1 {
		if !of[kind] {
			t.Errorf("no transfer to an account of kind %d", kind)
		}
	}

	malformed := primitives.RawStateInit{7}
	unknown := ends(85, 87, "UnsupportedProtocolFeature")
	second := []sentCase{
		{name: "call of no name", tx: to(me, &primitives.FunctionCall{Gas: 1e13}),
			want: ends(85, 86, "MethodEmptyName") + ends(87, 88, "FunctionCallEmptyMethodName")},
		{name: "use the global contract", key: keyOf(payer(1)),
			tx: by(payer(1), payer(1), &primitives.UseGlobalContract{ID: code})},
		{name: "deterministic account",
			tx: to(deterministic.DerivedAccount(), &primitives.DeterministicStateInit{Init: deterministic, Deposit: near(1)})},
		{name: "universal account", tx: to(universal.DerivedAccount(), &primitives.UniversalStateInit{Init: universal}, pay),
			want: unknown},
		{name: "malformed state init", tx: to(malformed.DerivedAccount(), &primitives.UniversalStateInit{Init: malformed}),
			want: unknown + ends(88, 88, "MalformedUniversalStateInit")},
		{name: "V1", tx: newer(to(me, transfer(1)), primitives.TransactionNonce{}, primitives.NonceMonotonic)},
		{name: "strict nonce", key: keyOf(payer(3)),
			tx: newer(by(payer(3), me, transfer(1)), primitives.TransactionNonce{Nonce: 1}, primitives.NonceStrict)},
		{name: "gas key", key: gas,
			tx: newer(to(me, transfer(1)), primitives.TransactionNonce{Index: 1, HasIndex: true}, primitives.NonceMonotonic)},
	}
	for tag, key := range signing {
		first = append(first, sentCase{name: "add " + tag.String(), tx: to(me, full(key))})
		second = append(second, sentCase{name: "sign with " + tag.String(), key: key, tx: to(payer(1), transfer(1))})
	}

	tags := map[primitives.ActionTag]bool{}
	var added []primitives.Action
	for _, round := range [][]sentCase{first, second} {
		for i, c := range round {
			for _, a := range c.tx.Actions {
				tags[a.Tag()] = true
			}
			if c.key.IsZero() {
				round[i].key = primitives.SecretKeyFromSeed(primitives.ED25519, c.name)
				added = append(added, full(round[i].key))
			}
		}
	}
	for _, tag := range variants(t, "actions", func(r *borsh.Reader) { primitives.ReadAction(r) }) {
		if !tags[primitives.ActionTag(tag)] {
			t.Errorf("action %d is decoded and has no case", tag)
		}
	}
	everyEnd(t, m, []sentCase{{name: "keys of the cases", key: keyOf(me), tx: to(me, added...)}})
	everyEnd(t, m, first)
	everyEnd(t, m, second)

	// Of what the others made.
	initializes := by(later.DerivedAccount(), later.DerivedAccount(), &primitives.UniversalStateInit{Init: later})
	initializes.Nonce.Nonce = accountOf(t, m, later.DerivedAccount()).BootstrapNonce + 1
	noSigner := ends(85, 87, "SignerDoesNotExist")
	everyEnd(t, m, []sentCase{
		{name: "account V2", key: keyOf(payer(1)), tx: by(payer(1), payer(1), call)},
		{name: "code of a state init", key: keyOf(payer(2)), tx: by(payer(2), deterministic.DerivedAccount(), call)},
		{name: "uninitialized account that initializes itself", key: own, tx: initializes, want: unknown},
		{name: "uninitialized account", key: own, tx: by(idle.DerivedAccount(), me, transfer(1)),
			want: noSigner + ends(88, 88, "AccessKeyNotFound")},
		{name: "account with a post-quantum key", key: signing[primitives.MLDSA65],
			tx: by(universal.DerivedAccount(), me, transfer(1)), want: noSigner},
	})

	want, got := map[string]bool{"V1": true, "V2": true}, map[string]bool{}
	if p >= 88 {
		want["uninitialized"] = true
	}
	for _, id := range []primitives.AccountID{me, payer(1), later.DerivedAccount(), idle.DerivedAccount()} {
		if a := accountOf(t, m, id); a.Version == 0 {
			continue
		} else if !a.IsInitialized() {
			got["uninitialized"] = true
		} else {
			got[fmt.Sprintf("V%d", a.Version)] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("accounts of the forms %v, want %v", got, want)
	}
	head := slices.Repeat([]byte{0xff}, 16)
	if tags := variants(t, "accounts", func(r *borsh.Reader) {
		inner := borsh.NewReader(append(slices.Clone(head), r.Take(1)...))
		new(primitives.Account).DecodeBorsh(inner)
		r.Fail(inner.Err())
	}); !bytes.Equal(tags, []byte{0, 1}) { // and V1 without a tag
		t.Errorf("forms of accounts %v have no case", tags)
	}
}

// accountOf returns an account in the final state; without a version if it does not exist.
func accountOf(t *testing.T, m *member, id primitives.AccountID) (a primitives.Account) {
	t.Helper()
	ids := []primitives.AccountID{id}
	if err := m.e.EachAccount(t.Context(), m.e.Final().Hash, ids, func(r *genesis.AccountRecord) error {
		a = r.Account
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return a
}

// everyEnd submits transactions, waits until they are final, and checks how they end. They come in any
// order, so each has a key of its own.
func everyEnd(t *testing.T, m *member, list []sentCase) {
	t.Helper()
	hashes := make([]primitives.Hash, len(list))
	ends := make([]error, len(list))
	for i, c := range list {
		c.tx.PublicKey, c.tx.BlockHash = c.key.PublicKey(), m.e.Final().Hash
		if c.tx.Nonce.Nonce == 0 {
			c.tx.Nonce.Nonce = primitives.Nonce(m.e.Final().Height)*1_000_000 + 1
		}
		hashes[i] = c.tx.Hash()
		_, ends[i] = m.Submit(primitives.NewSignedTransaction(c.tx, c.key.Sign(hashes[i][:])))
	}
	for i, c := range list {
		var s view.FinalStatus
		if ends[i] == nil {
			out, err := m.Tx(t.Context(), &view.GetTx{Hash: hashes[i], Sender: c.tx.SignerID, WaitUntil: view.LevelFinal})
			if ends[i] = err; err == nil {
				s = out.Status
			}
		}
		checkEnd(t, c, s, ends[i])
	}
}

// checkEnd requires that a transaction ended as wanted.
func checkEnd(t *testing.T, c sentCase, s view.FinalStatus, err error) {
	t.Helper()
	got := ""
	var invalid *primitives.InvalidTxError
	switch {
	case errors.As(err, &invalid):
		got = string(invalid.AppendJSON(nil))
	case err != nil:
		got = err.Error()
	case s.Kind == view.FinalFailure:
		got = string(s.Failure)
	case s.Kind != view.FinalSuccessValue:
		got = fmt.Sprint("status ", s.Kind)
	}
	if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
		t.Errorf("%s: %q, want %q", c.name, got, c.want)
	}
}
