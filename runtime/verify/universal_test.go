package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

func at87() *parameters.RuntimeConfig { return parameters.MustGet(parameters.Release(87)) }
func at88() *parameters.RuntimeConfig { return parameters.MustGet(parameters.Release(88)) }

// universal returns the id 0u... for the given hash bytes.
func universal(raw primitives.RawStateInit) primitives.AccountID { return raw.DerivedAccount() }

func universalInit(raw primitives.RawStateInit) primitives.Action {
	return &primitives.UniversalStateInit{Init: raw}
}

// keyInit returns a state init with only the given keys.
func keyInit(keys ...primitives.PublicKey) primitives.RawStateInit {
	var s primitives.UniversalStateInitV1
	for _, k := range keys {
		s.AccessKeys = append(s.AccessKeys, k.Handle())
	}
	slices.Sort(s.AccessKeys)
	return s.Encode()
}

// dataInit returns a state init with entries that have the given keys, in this order.
func dataInit(keys ...string) primitives.RawStateInit {
	var s primitives.UniversalStateInitV1
	for _, k := range keys {
		s.Data = append(s.Data, primitives.StateEntry{Key: []byte(k)})
	}
	return s.Encode()
}

// numbers returns n keys for entries, in ascending order.
func numbers(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%04d", i))
	}
	return list
}

// manyKeys returns a state init with n access keys.
func manyKeys(n int) primitives.RawStateInit {
	var s primitives.UniversalStateInitV1
	for i := range n {
		raw := make([]byte, 33)
		raw[1], raw[2] = byte(i>>8), byte(i)
		s.AccessKeys = append(s.AccessKeys, primitives.PublicKeyHandle(raw))
	}
	return s.Encode()
}

// TestRulesOf87SpareReceiptsInFlight checks the rules that 87 adds for new receipts and
// transactions, at their position in the order of checks, and that they do not apply to receipts in
// flight (nearcore 2.14.0-rc.1 runtime/runtime/src/action_validation.rs).
func TestRulesOf87SpareReceiptsInFlight(t *testing.T) {
	t.Parallel()
	withdraw := &primitives.WithdrawFromGasKey{PublicKey: primitives.ZeroED25519Key}
	long := strings.Repeat("m", 257)
	transfer := &primitives.Transfer{}
	zero := universal(make(primitives.RawStateInit, 10))
	removed := `{"RemovedProtocolFeature":{"protocol_feature":"DelegateV2","version":87}}`
	banned := fmt.Sprintf(`{"TransferToUniversalAccountNotAllowed":{"account_id":"%s"}}`, zero)
	entries := func(n int) primitives.Action {
		a := &primitives.DeterministicStateInit{}
		for _, k := range numbers(n) {
			a.Init.Data = append(a.Init.Data, primitives.StateEntry{Key: []byte(k)})
		}
		return a
	}
	deterministic := entries(1501).(*primitives.DeterministicStateInit).Init.DerivedAccount()
	half := entries(751).(*primitives.DeterministicStateInit).Init.DerivedAccount()
	for _, c := range []struct {
		name     string
		actions  []primitives.Action
		to       primitives.AccountID
		want     string // new
		existing string
	}{
		{"empty method name", []primitives.Action{fc("", 1, 0)}, bob, `"FunctionCallEmptyMethodName"`, "ok"},
		{"zero gas goes first", []primitives.Action{fc("", 0, 0)}, bob, `"FunctionCallZeroAttachedGas"`, `"FunctionCallZeroAttachedGas"`},
		{"and it goes before the lengths", []primitives.Action{fc("", 1, 4_194_305)}, bob, `"FunctionCallEmptyMethodName"`,
			`{"FunctionCallArgumentsLengthExceeded":{"length":4194305,"limit":4194304}}`},
		{"a long name", []primitives.Action{fc(long, 1, 0)}, bob,
			`{"FunctionCallMethodNameLengthExceeded":{"length":257,"limit":256}}`, `{"FunctionCallMethodNameLengthExceeded":{"length":257,"limit":256}}`},
		{"in a delegate", []primitives.Action{delegate(false, bob, fc("", 1, 0))}, bob, `"FunctionCallEmptyMethodName"`, "ok"},

		{"delegate of version 2", []primitives.Action{delegate(true, bob, transfer)}, bob, removed, "ok"},
		{"before its content", []primitives.Action{delegate(true, bob, fc("", 0, 0))}, bob, removed, `"FunctionCallZeroAttachedGas"`},
		{"after an earlier action", []primitives.Action{fc("m", 0, 0), delegate(true, bob, transfer)}, bob,
			`"FunctionCallZeroAttachedGas"`, `"FunctionCallZeroAttachedGas"`},
		{"the second delegate", []primitives.Action{delegate(false, bob, transfer), delegate(true, bob, transfer)}, bob,
			`"DelegateActionMustBeOnlyOne"`, `"DelegateActionMustBeOnlyOne"`},

		{"withdrawal in a delegate", []primitives.Action{delegate(false, bob, withdraw)}, bob, `"WithdrawFromGasKeyNotAllowedInDelegate"`, "ok"},
		{"not the first inside", []primitives.Action{delegate(false, bob, transfer, withdraw)}, bob, `"WithdrawFromGasKeyNotAllowedInDelegate"`, "ok"},
		{"before the inner checks", []primitives.Action{delegate(false, bob, fc("", 0, 0), withdraw)}, bob,
			`"WithdrawFromGasKeyNotAllowedInDelegate"`, `"FunctionCallZeroAttachedGas"`},
		{"after the inner count", []primitives.Action{delegate(false, bob, repeat(withdraw, 101)...)}, bob,
			`{"TotalNumberOfActionsExceeded":{"limit":100,"total_number_of_actions":101}}`, `{"TotalNumberOfActionsExceeded":{"limit":100,"total_number_of_actions":101}}`},
		{"legal at top level", []primitives.Action{withdraw}, bob, "ok", "ok"},

		{"transfer to a universal id", []primitives.Action{transfer}, zero, banned, "ok"},
		{"with others", []primitives.Action{fc("m", 1, 0), transfer}, zero, banned, "ok"},
		{"in a delegate", []primitives.Action{delegate(false, zero, transfer)}, bob, banned, "ok"},
		{"the outer receiver of a delegate", []primitives.Action{delegate(false, bob, transfer)}, zero, "ok", "ok"},
		{"an id with a wrong last symbol", []primitives.Action{transfer}, zero[:len(zero)-1] + "1", "ok", "ok"},
		{"an id one symbol short", []primitives.Action{transfer}, zero[:len(zero)-1], "ok", "ok"},
		{"an id with a symbol that base32 lacks", []primitives.Action{transfer}, "0ul" + zero[3:], "ok", "ok"},
		{"not a transfer", []primitives.Action{fc("m", 1, 0)}, zero, "ok", "ok"},

		{"entries of a deterministic init", []primitives.Action{entries(1501)}, deterministic,
			`{"TotalNumberOfStateInitEntriesExceeded":{"limit":1500,"number_of_entries":1501}}`, "ok"},
		{"entries of two together", []primitives.Action{entries(751), entries(751)}, half,
			`{"TotalNumberOfStateInitEntriesExceeded":{"limit":1500,"number_of_entries":1502}}`, "ok"},
		{"just so many", []primitives.Action{entries(1500)}, entries(1500).(*primitives.DeterministicStateInit).Init.DerivedAccount(), "ok", "ok"},
		{"before the checks of actions", []primitives.Action{fc("", 0, 0), entries(1501)}, bob,
			`{"TotalNumberOfStateInitEntriesExceeded":{"limit":1500,"number_of_entries":1501}}`, `"FunctionCallZeroAttachedGas"`},
		{"after the number of deploys", append(repeat(deploy(false, 1), 11), entries(1501)), bob,
			`{"TotalNumberOfDeployActionsExceeded":{"limit":10,"number_of_deploy_actions":11}}`,
			fmt.Sprintf(`{"InvalidDeterministicStateInitReceiver":{"derived_id":"%s","receiver_id":"bob.near"}}`, deterministic)},

		{"universal state init", []primitives.Action{universalInit(keyInit())}, universal(keyInit()),
			`{"UnsupportedProtocolFeature":{"protocol_feature":"UniversalAccounts","version":87}}`,
			`{"UnsupportedProtocolFeature":{"protocol_feature":"UniversalAccounts","version":87}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := actionsJSON(Actions(at87(), c.actions, c.to, NewReceipt)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got := actionsJSON(Actions(at87(), c.actions, c.to, ExistingReceipt)); got != c.existing {
				t.Errorf("in flight: got %s, want %s", got, c.existing)
			}
			// 86 has none of these rules.
			old := c.existing
			if strings.Contains(old, `"UniversalAccounts"`) {
				old = strings.Replace(old, "87", "86", 1)
			}
			if strings.Contains(c.want, "Deploy") {
				old = c.want
			}
			for _, v := range []parameters.Version{parameters.June(86), parameters.Release(86)} {
				if got := actionsJSON(Actions(parameters.MustGet(v), c.actions, c.to, NewReceipt)); got != old {
					t.Errorf("at %v: got %s, want %s", v, got, old)
				}
			}
		})
	}
	if got := actionsJSON(Actions(at88(), []primitives.Action{transfer}, zero, NewReceipt)); got != "ok" {
		t.Errorf("transfer to a universal id at 88: %s", got)
	}
}

// TestDeletionRefundMayGoToUniversalAccount: the refund of a deleted account is no new transfer, so
// the ban of 87 does not make the deletion fail.
func TestDeletionRefundMayGoToUniversalAccount(t *testing.T) {
	t.Parallel()
	r := &primitives.Receipt{
		PredecessorID: primitives.SystemAccount, ReceiverID: universal(keyInit()),
		Body: &primitives.ActionReceipt{SignerID: primitives.SystemAccount, SignerPublicKey: primitives.ZeroED25519Key, Actions: transfer(oneN)},
	}
	if err := Receipt(at87(), r, NewReceipt); err != nil {
		t.Error(err)
	}
	if r.PredecessorID = bob; Receipt(at87(), r, NewReceipt) == nil {
		t.Error("another receipt is not refused")
	}
}

// TestUniversalStateInitIsCheckedInOrder checks the order of the rules at 88: totals, derived id,
// encoding, code, entries.
func TestUniversalStateInitIsCheckedInOrder(t *testing.T) {
	t.Parallel()
	one := key.PublicKey()
	good := keyInit(one)
	longKey, longValue := dataInit(strings.Repeat("k", 2049)), (&primitives.UniversalStateInitV1{
		Data: []primitives.StateEntry{{Key: []byte("k"), Value: make([]byte, 4_194_305)}},
	}).Encode()
	malformed := `"MalformedUniversalStateInit"`
	code := primitives.GlobalContractID{Account: "alice.near"}
	for _, c := range []struct {
		name string
		raw  primitives.RawStateInit
		want string
	}{
		{"one key", good, "ok"},
		{"nothing", keyInit(), "ok"},
		{"code of an account", (&primitives.UniversalStateInitV1{Code: &code}).Encode(), "ok"},
		{"entries in order", dataInit("", "a", "aa", "b"), "ok"},
		{"no bytes", nil, malformed},
		{"ten zero bytes", make(primitives.RawStateInit, 10), "ok"},
		{"eleven zero bytes", make(primitives.RawStateInit, 11), malformed},
		{"a byte less", good[:len(good)-1], malformed},
		{"another version", append(primitives.RawStateInit{1}, good[1:]...), malformed},
		{"entries out of order", dataInit("b", "a"), malformed},
		{"an entry twice", dataInit("a", "a"), malformed},
		{"a key twice", (&primitives.UniversalStateInitV1{AccessKeys: []primitives.PublicKeyHandle{one.Handle(), one.Handle()}}).Encode(), malformed},
		{"code of no account id", (&primitives.UniversalStateInitV1{Code: &primitives.GlobalContractID{Account: "A"}}).Encode(), malformed},
		{"a long key", longKey, `{"UniversalStateInitKeyLengthExceeded":{"length":2049,"limit":2048}}`},
		{"the longest key", dataInit(strings.Repeat("k", 2048)), "ok"},
		{"a long value", longValue, `{"UniversalStateInitValueLengthExceeded":{"length":4194305,"limit":4194304}}`},
		{"1500 entries", dataInit(numbers(1500)...), "ok"},
		{"1501 entries", dataInit(numbers(1501)...), `{"TotalNumberOfStateInitEntriesExceeded":{"limit":1500,"number_of_entries":1501}}`},
		{"1024 keys", manyKeys(1024), "ok"},
		{"1025 keys", manyKeys(1025), `{"TotalNumberOfStateInitKeysExceeded":{"limit":1024,"number_of_keys":1025}}`},
		{"one entry 2000 times", dataInit(slices.Repeat([]string{"a"}, 2000)...), malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := universal(c.raw)
			if got := actionsJSON(Actions(at88(), []primitives.Action{universalInit(c.raw)}, to, NewReceipt)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			want := c.want
			if strings.Contains(want, "TotalNumber") {
				want = "ok" // totals are for new receipts only
			}
			if got := actionsJSON(Actions(at88(), []primitives.Action{universalInit(c.raw)}, to, ExistingReceipt)); got != want {
				t.Errorf("in flight: got %s, want %s", got, want)
			}
			if got := actionsJSON(Actions(at88(), []primitives.Action{delegate(false, to, universalInit(c.raw))}, bob, NewReceipt)); got != c.want {
				t.Errorf("in a delegate: got %s, want %s", got, c.want)
			}
			wrong := fmt.Sprintf(`{"InvalidUniversalStateInitReceiver":{"derived_id":"%s","receiver_id":"bob.near"}}`, to)
			if strings.Contains(c.want, "TotalNumber") {
				wrong = c.want
			}
			if got := actionsJSON(Actions(at88(), []primitives.Action{universalInit(c.raw)}, bob, NewReceipt)); got != wrong {
				t.Errorf("for another account: got %s, want %s", got, wrong)
			}
		})
	}
	// The id of ten zero bytes is not that of a state init with keys.
	zero := universal(make(primitives.RawStateInit, 10))
	if zero != "0u1kajgpx8a97y8ap8y03pvt8kbm2p2cn9k5h17bgw1wa21j88865g" {
		t.Errorf("ten zero bytes make %s", zero)
	}
	// Totals count every copy, those in delegates too; keys go before entries.
	both := []primitives.Action{universalInit(manyKeys(513)), delegate(false, bob, universalInit(manyKeys(512)), universalInit(dataInit(numbers(1501)...)))}
	if got := actionsJSON(Actions(at88(), both, bob, NewReceipt)); got != `{"TotalNumberOfStateInitKeysExceeded":{"limit":1024,"number_of_keys":1025}}` {
		t.Errorf("both totals: %s", got)
	}
}

// TestUninitializedAccountMaySendOnlyStateInit checks which transactions an uninitialized account
// may send itself (near-primitives 0.38.0 src/transaction.rs:1309, nearcore 2.14.0-rc.1
// runtime/runtime/src/verifier.rs:164, 424).
func TestUninitializedAccountMaySendOnlyStateInit(t *testing.T) {
	t.Parallel()
	other := primitives.SecretKeyFromSeed(primitives.ED25519, "other").PublicKey()
	quantum := primitives.SecretKeyFromSeed(primitives.MLDSA65, "quantum").PublicKey()
	raw := keyInit(key.PublicKey(), quantum)
	id := universal(raw)
	const seed = 4_000_000
	bare := primitives.NewUninitializedAccount(oneN, 100, seed)
	full := *account(oneN)
	tx := func(change func(*primitives.Transaction)) *primitives.Transaction {
		tx := &primitives.Transaction{
			SignerID: id, ReceiverID: id, PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: seed + 1},
			Actions: []primitives.Action{universalInit(raw)},
		}
		if change != nil {
			change(tx)
		}
		return tx
	}
	notFound := func(k primitives.PublicKey, id primitives.AccountID) string {
		return fmt.Sprintf(`{"InvalidAccessKeyError":{"AccessKeyNotFound":{"account_id":"%s","public_key":"%s"}}}`, id, k)
	}
	nonce := func(n primitives.Nonce) string {
		return fmt.Sprintf(`{"InvalidNonce":{"ak_nonce":4000000,"tx_nonce":%d}}`, n)
	}
	for _, c := range []struct {
		name   string
		tx     *primitives.Transaction
		signer *primitives.Account
		want   string
	}{
		{"recognized", tx(nil), &bare, "ok"},
		{"more actions", tx(func(tx *primitives.Transaction) { tx.Actions = append(transfer(primitives.Yocto(1)), tx.Actions...) }), &bare, "ok"},
		{"a post-quantum key by its hash", tx(func(tx *primitives.Transaction) { tx.PublicKey = quantum }), &bare, "ok"},
		{"a second state init that fits", tx(func(tx *primitives.Transaction) {
			tx.Actions = append([]primitives.Action{universalInit(keyInit(other))}, tx.Actions...)
		}), &bare, "ok"},
		{"a key that is not in it", tx(func(tx *primitives.Transaction) { tx.PublicKey = other }), &bare, notFound(other, id)},
		{"the state init of another account", tx(func(tx *primitives.Transaction) {
			tx.Actions = []primitives.Action{universalInit(keyInit(key.PublicKey()))}
		}), &bare, notFound(key.PublicKey(), id)},
		{"paid by a relayer", tx(func(tx *primitives.Transaction) { tx.SignerID = bob }), &full, notFound(key.PublicKey(), bob)},
		{"to another receiver", tx(func(tx *primitives.Transaction) { tx.ReceiverID = bob }), &bare, notFound(key.PublicKey(), id)},
		{"a nonce index", tx(func(tx *primitives.Transaction) { tx.Version, tx.Nonce.HasIndex = primitives.TransactionV1, true }), &bare, notFound(key.PublicKey(), id)},
		{"in a delegate", tx(func(tx *primitives.Transaction) { tx.Actions = []primitives.Action{delegate(false, id, tx.Actions...)} }), &bare,
			notFound(key.PublicKey(), id)},
		{"no action", tx(func(tx *primitives.Transaction) { tx.Actions = nil }), &bare, notFound(key.PublicKey(), id)},
		{"an account that has its state", tx(nil), &full, notFound(key.PublicKey(), id)},
		{"no account", tx(nil), nil, fmt.Sprintf(`{"InvalidSignerId":{"signer_id":"%s"}}`, id)},

		{"the nonce itself", tx(func(tx *primitives.Transaction) { tx.Nonce.Nonce = seed }), &bare, nonce(seed)},
		{"a gap", tx(func(tx *primitives.Transaction) { tx.Nonce.Nonce = seed + 2 }), &bare, nonce(seed + 2)},
		{"a gap, monotonic by its own word", tx(func(tx *primitives.Transaction) {
			tx.Version, tx.NonceMode, tx.Nonce.Nonce = primitives.TransactionV1, primitives.NonceMonotonic, seed+999
		}), &bare, nonce(seed + 999)},
		{"strict", tx(func(tx *primitives.Transaction) {
			tx.Version, tx.NonceMode = primitives.TransactionV1, primitives.NonceStrict
		}), &bare, "ok"},
		{"too large for the height", tx(func(tx *primitives.Transaction) { tx.Nonce.Nonce = 10_000_000 }),
			&primitives.Account{Amount: oneN, StorageUsage: 100, Version: primitives.AccountV1, State: primitives.AccountUninitialized, BootstrapNonce: 9_999_999},
			`{"NonceTooLarge":{"tx_nonce":10000000,"upper_bound":10000000}}`},
		{"a poor account", tx(func(tx *primitives.Transaction) { tx.Actions = append(tx.Actions, transfer(oneN)...) }), &bare,
			fmt.Sprintf(`{"NotEnoughBalance":{"balance":"1000000000000000000000000","cost":"1015205600893750000000000","signer_id":"%s"}}`, id)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Signer{Account: c.signer}
			err := MissingSigner(at88(), c.tx, s, InChunk)
			if err == nil {
				cost, e := Cost(at88(), c.tx, price)
				if e != nil {
					t.Fatal(e)
				}
				v := Charge(at88(), c.tx, &cost, s, 10)
				if err = v.Err; v.Charged {
					got := *c.signer
					v.Charges.Apply(&got, nil)
					rest, _ := c.signer.Amount.Sub(cost.TotalCost)
					want := primitives.NewUninitializedAccount(rest, 100, c.tx.Nonce.Nonce)
					if got != want {
						t.Errorf("the account is %+v, want %+v", got, want)
					}
				}
			}
			if got := jsonOf(err); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got := jsonOf(MissingSigner(at87(), c.tx, s, InChunk)); got == "ok" {
				t.Error("an account signs without a key at 87")
			}
		})
	}
}
