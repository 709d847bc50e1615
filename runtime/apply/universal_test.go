package apply

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// The cases of nearcore 2.14.0-rc.1 runtime/runtime/src/tests/apply.rs, modules
// self_signed_state_init and relayer_funded_state_init, and of
// test-loop-tests/src/tests/universal_account_id.rs, with the deposit rule of 2.14.0.

// creationHeight is the height at which uninitialized accounts of these tests were made.
const creationHeight = 1

// bootstrapNonce is the only nonce that such an account's first transaction may have.
var bootstrapNonce = primitives.InitialNonce(creationHeight) + 1

// newUniversal returns a chain at 88 with alice and bob, and uninitialized accounts of 10 NEAR.
func newUniversal(t *testing.T, ids ...primitives.AccountID) *net {
	n := newPair(t)
	n.cfg, n.height = parameters.MustGet(parameters.Release(88)), creationHeight+1
	n.change(func(u *state.TrieUpdate) {
		for _, id := range ids {
			n.bare(u, id, primitives.NEAR(10))
		}
	})
	return n
}

// bare writes an uninitialized account.
func (n *net) bare(u *state.TrieUpdate, id primitives.AccountID, amount primitives.Balance) {
	a := primitives.NewUninitializedAccount(amount, 100, primitives.InitialNonce(creationHeight))
	u.SetAccount(id, &a)
}

// change writes to the state of the only shard.
func (n *net) change(write func(u *state.TrieUpdate)) {
	n.t.Helper()
	u := state.NewUnrecorded(n.shards[0].trie)
	write(u)
	u.Commit(primitives.CauseInitialState, primitives.Hash{})
	f, err := u.Finalize()
	if err != nil {
		n.t.Fatal(err)
	}
	n.shards[0].trie = f.Trie
}

// keyInit is a state init of nothing but keys.
func keyInit(names ...string) primitives.RawStateInit {
	var s primitives.UniversalStateInitV1
	for _, name := range names {
		s.AccessKeys = append(s.AccessKeys, testKey(name).PublicKey().Handle())
	}
	slices.Sort(s.AccessKeys)
	return s.Encode()
}

func initAction(raw primitives.RawStateInit, deposit primitives.Balance) *primitives.UniversalStateInit {
	return &primitives.UniversalStateInit{Init: raw, Deposit: deposit}
}

// bootstrap is a transaction of a universal account to itself.
func (n *net) bootstrap(key string, id primitives.AccountID, nonce primitives.Nonce, actions ...primitives.Action) *primitives.SignedTransaction {
	sk := testKey(key)
	return n.sign(sk, primitives.Transaction{
		SignerID: id, ReceiverID: id, PublicKey: sk.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce}, Actions: actions,
	})
}

// converted returns the outcome of a transaction's receipt, which ran in its chunk.
func (n *net) converted(results []*Result, tx *primitives.SignedTransaction) *primitives.OutcomeWithID {
	n.t.Helper()
	o := findOutcome(n.t, results, tx.Hash())
	if len(o.ReceiptIDs) != 1 {
		n.t.Fatalf("transaction: %s", statusText(&o.Status))
	}
	return findOutcome(n.t, results, o.ReceiptIDs[0])
}

// refused returns why a transaction became no receipt.
func (n *net) refused(results []*Result, tx *primitives.SignedTransaction) *primitives.InvalidTxError {
	n.t.Helper()
	o := findOutcome(n.t, results, tx.Hash())
	var e primitives.TxExecutionError
	if err := json.Unmarshal(o.Status.Failure, &e); err != nil || e.InvalidTx == nil {
		n.t.Fatalf("transaction: %s, want a refusal", statusText(&o.Status))
	}
	return e.InvalidTx
}

func wantRefusal(t *testing.T, got *primitives.InvalidTxError, want primitives.InvalidTxTag) {
	t.Helper()
	if got.Tag != want {
		t.Errorf("refused for %v, want %v", got, want)
	}
}

// wantBare checks that an account is uninitialized with this nonce.
func (n *net) wantBare(id primitives.AccountID, nonce primitives.Nonce) *primitives.Account {
	n.t.Helper()
	a := n.account(id)
	if a == nil || a.IsInitialized() || a.BootstrapNonce != nonce {
		n.t.Fatalf("account %+v, want an uninitialized one with nonce %d", a, nonce)
	}
	return a
}

// TestSelfSignedInitCreatesKeysAndRunsOnce: an account without keys signs its own state init. The
// state init creates the account's keys and removes the account's own nonce. The same transaction
// is refused afterwards.
func TestSelfSignedInitCreatesKeysAndRunsOnce(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1")
	id := raw.DerivedAccount()
	n := newUniversal(t, id)
	tx := n.bootstrap("u1", id, bootstrapNonce, initAction(raw, primitives.Balance{}))
	mustSucceed(t, n.converted(n.step(tx), tx))
	a := n.account(id)
	if !a.IsInitialized() || a.BootstrapNonce != 0 || a.StorageUsage != 182 {
		t.Errorf("account %+v, want an initialized one of 182 bytes", a)
	}
	k := n.accessKey(id, testKey("u1").PublicKey())
	if k == nil || !k.IsFullAccess() || k.GasKey != nil || k.Nonce != primitives.InitialNonce(n.height) {
		t.Errorf("key %+v, want one of full access with nonce %d", k, primitives.InitialNonce(n.height))
	}
	wantRefusal(t, n.refused(n.step(tx), tx), primitives.TxInvalidNonce)
}

// TestSelfSignedInitAcceptsOnlyNextNonce: only the next nonce is valid, not the current one and
// none further ahead.
func TestSelfSignedInitAcceptsOnlyNextNonce(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1")
	id := raw.DerivedAccount()
	n := newUniversal(t, id)
	for _, nonce := range []primitives.Nonce{bootstrapNonce - 1, bootstrapNonce + 1, bootstrapNonce + 999} {
		tx := n.bootstrap("u1", id, nonce, initAction(raw, primitives.Balance{}))
		wantRefusal(t, n.refused(n.step(tx), tx), primitives.TxInvalidNonce)
		n.wantBare(id, bootstrapNonce-1)
	}
	tx := n.bootstrap("u1", id, bootstrapNonce, initAction(raw, primitives.Balance{}))
	mustSucceed(t, n.converted(n.step(tx), tx))
}

// TestSecondSelfSignedInitOfNonceIsRefused: of two transactions with the same nonce the second is
// refused. If they have consecutive nonces both are accepted, and the second state init does
// nothing.
func TestSecondSelfSignedInitOfNonceIsRefused(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1", "u2")
	id := raw.DerivedAccount()
	n := newUniversal(t, id)
	first := n.bootstrap("u1", id, bootstrapNonce, initAction(raw, primitives.Balance{}))
	for _, second := range []*primitives.SignedTransaction{
		n.bootstrap("u1", id, bootstrapNonce, initAction(raw, primitives.Balance{}), transfer(primitives.Yocto(1))),
		n.bootstrap("u2", id, bootstrapNonce, initAction(raw, primitives.Balance{})),
	} {
		m := n.copy()
		results := m.step(first, second)
		mustSucceed(t, m.converted(results, first))
		wantRefusal(t, m.refused(results, second), primitives.TxInvalidNonce)
	}
	m := n.copy()
	second := m.bootstrap("u2", id, bootstrapNonce+1, initAction(raw, primitives.Balance{}))
	results := m.step(first, second)
	mustSucceed(t, m.converted(results, first))
	mustSucceed(t, m.converted(results, second))
	if a := m.account(id); !a.IsInitialized() || a.StorageUsage != 100+2*82 {
		t.Errorf("got account %+v, want an initialized one with storage usage %d", a, 100+2*82)
	}
	// In the next chunk the account has keys: the second key's nonce is above the transaction's.
	n.step(first)
	late := n.bootstrap("u2", id, bootstrapNonce, initAction(raw, primitives.Balance{}))
	wantRefusal(t, n.refused(n.step(late), late), primitives.TxInvalidNonce)
}

// TestTransactionsLikeSelfSignedInitAreRefused: transactions that only resemble a self-signed state
// init are refused.
func TestTransactionsLikeSelfSignedInitAreRefused(t *testing.T) {
	t.Parallel()
	raw, other := keyInit("u1"), keyInit("outsider")
	id, victim := raw.DerivedAccount(), keyInit("victim").DerivedAccount()
	n := newUniversal(t, id, victim)
	init := initAction(raw, primitives.Balance{})
	notFound := func(name string, tx *primitives.SignedTransaction) {
		t.Helper()
		if e := n.refused(n.step(tx), tx); e.Tag != primitives.TxInvalidAccessKey || e.AccessKey.Tag != primitives.KeyNotFound {
			t.Errorf("%s: refused for %v", name, e)
		}
	}
	indexed := primitives.Transaction{
		SignerID: id, ReceiverID: id, PublicKey: testKey("u1").PublicKey(), Version: primitives.TransactionV1,
		Nonce: primitives.TransactionNonce{Nonce: bootstrapNonce, HasIndex: true}, Actions: []primitives.Action{init},
	}
	notFound("a gas key's nonce", n.sign(testKey("u1"), indexed))
	notFound("a foreign key", n.bootstrap("outsider", id, bootstrapNonce, init))
	tx := n.bootstrap("outsider", victim, bootstrapNonce, initAction(other, primitives.Balance{}))
	if e := n.refused(n.step(tx), tx); e.Tag != primitives.TxActionsValidation || e.Actions.Tag != primitives.ActionsInvalidUniversalStateInitReceiver {
		t.Errorf("the state init of another account: refused for %v", e)
	}
	missing := keyInit("missing")
	tx = n.bootstrap("missing", missing.DerivedAccount(), bootstrapNonce, initAction(missing, primitives.Balance{}))
	wantRefusal(t, n.refused(n.step(tx), tx), primitives.TxInvalidSignerID)
	for _, id := range []primitives.AccountID{id, victim} {
		if a := n.wantBare(id, bootstrapNonce-1); a.Amount != primitives.NEAR(10) {
			t.Errorf("%s has %v", id, a.Amount)
		}
	}
	// An account whose committed key was deleted after its state init.
	n.change(func(u *state.TrieUpdate) {
		a := *n.account(id)
		a.Initialize()
		u.SetAccount(id, &a)
	})
	notFound("a deleted key", n.bootstrap("u1", id, bootstrapNonce, init))
}

// TestUnaffordableSelfSignedInitUsesNonce: a state init whose storage the account cannot pay for
// fails, and still uses up the nonce: 100,000 bytes on half a NEAR.
func TestUnaffordableSelfSignedInitUsesNonce(t *testing.T) {
	t.Parallel()
	s := primitives.UniversalStateInitV1{
		Data: []primitives.StateEntry{{Key: []byte("k"), Value: make([]byte, 100_000)}}, AccessKeys: []primitives.PublicKeyHandle{testKey("u1").PublicKey().Handle()},
	}
	raw := s.Encode()
	id := raw.DerivedAccount()
	n := newUniversal(t)
	half := balance("500000000000000000000000")
	n.change(func(u *state.TrieUpdate) { n.bare(u, id, half) })
	tx := n.bootstrap("u1", id, bootstrapNonce, initAction(raw, primitives.Balance{}))
	e := actionError(t, n.converted(n.step(tx), tx))
	if e.Kind.Tag != primitives.ActionLackBalanceForState || *e.Index != 0 {
		t.Errorf("got %v, want LackBalanceForState of action 0", e)
	}
	if a := n.wantBare(id, bootstrapNonce); !a.Amount.Less(half) || a.StorageUsage != 100 {
		t.Errorf("got account %+v, want storage usage 100 and less than half a NEAR", a)
	}
	wantRefusal(t, n.refused(n.step(tx), tx), primitives.TxInvalidNonce)
	// With a deposit of its own money the transaction costs more than the account has.
	again := n.bootstrap("u1", id, bootstrapNonce+1, initAction(raw, primitives.NEAR(1)))
	wantRefusal(t, n.refused(n.step(again), again), primitives.TxNotEnoughBalance)
}

// TestAddedKeyMayRepeatSelfSignedInit: a key that was added later may send the state init again.
func TestAddedKeyMayRepeatSelfSignedInit(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1")
	id := raw.DerivedAccount()
	n := newUniversal(t, id)
	n.change(func(u *state.TrieUpdate) {
		a := *n.account(id)
		a.Initialize()
		u.SetAccount(id, &a)
		u.SetAccessKey(id, testKey("added").PublicKey().Handle(), &primitives.AccessKey{Nonce: primitives.InitialNonce(creationHeight)})
	})
	tx := n.bootstrap("added", id, bootstrapNonce, initAction(raw, primitives.Balance{}))
	mustSucceed(t, n.converted(n.step(tx), tx))
}

// TestActionsBeforeSelfSignedInitFailSafely: actions that need the account's state fail before the
// state init, without harm, and succeed after it.
func TestActionsBeforeSelfSignedInitFailSafely(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1")
	id := raw.DerivedAccount()
	pk := testKey("u1").PublicKey()
	n := newUniversal(t, id)
	init := initAction(raw, primitives.Balance{})
	for _, a := range []primitives.Action{
		&primitives.DeployContract{}, &primitives.UseGlobalContract{}, &primitives.Stake{Stake: primitives.Yocto(1), PublicKey: pk},
		&primitives.AddKey{PublicKey: pk},
	} {
		m := n.copy()
		tx := m.bootstrap("u1", id, bootstrapNonce, a, init)
		e := actionError(t, m.converted(m.step(tx), tx))
		if e.Kind.Tag != primitives.ActionAccountNotInitialized || e.Kind.AccountID != id || *e.Index != 0 {
			t.Errorf("%T: %v", a, e)
		}
		m.wantBare(id, bootstrapNonce)
		if m.accessKey(id, pk) != nil {
			t.Errorf("%T: the account has a key, want none", a)
		}
	}
	m := n.copy()
	tx := m.bootstrap("u1", id, bootstrapNonce, init, &primitives.AddKey{PublicKey: testKey("more").PublicKey()})
	mustSucceed(t, m.converted(m.step(tx), tx))
	if m.accessKey(id, testKey("more").PublicKey()) == nil {
		t.Error("the key that follows the state init is missing")
	}
	m = n.copy()
	tx = m.bootstrap("u1", id, bootstrapNonce, init, &primitives.DeleteAccount{Beneficiary: bob})
	mustSucceed(t, m.converted(m.step(tx), tx))
	if a := m.account(id); a != nil {
		t.Errorf("account %+v after its deletion", a)
	}
}

// TestRecreatedUniversalAccountHasHigherNonce: an account that is created again after a deletion
// has a nonce above all that it used before, so that the transaction with its first state init is
// refused.
func TestRecreatedUniversalAccountHasHigherNonce(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1")
	id := raw.DerivedAccount()
	n := newUniversal(t, id)
	init := initAction(raw, primitives.Balance{})
	old := n.bootstrap("u1", id, bootstrapNonce, init, &primitives.DeleteAccount{Beneficiary: bob})
	mustSucceed(t, n.converted(n.step(old), old))
	mustSucceed(t, n.doTo(alice, id, transfer(primitives.NEAR(5))))
	seed := primitives.InitialNonce(n.height)
	n.wantBare(id, seed)
	wantRefusal(t, n.refused(n.step(old), old), primitives.TxInvalidNonce)
	again := n.bootstrap("u1", id, seed+1, init)
	mustSucceed(t, n.converted(n.step(again), again))
}

// TestCreatingTransferSetsNonceFromHeight: the nonce of an account depends on the height at which a
// transfer creates it.
func TestCreatingTransferSetsNonceFromHeight(t *testing.T) {
	t.Parallel()
	id := keyInit("u1").DerivedAccount()
	for height, want := range map[primitives.Height]primitives.Nonce{5: 4_000_000, 10: 9_000_000} {
		n := newUniversal(t)
		n.height = height - 2
		mustSucceed(t, n.doTo(alice, id, transfer(primitives.NEAR(1))))
		if n.height != height {
			t.Fatalf("height %d", n.height)
		}
		if a := n.wantBare(id, want); a.Amount != primitives.NEAR(1) || a.StorageUsage != 100 {
			t.Errorf("got account %+v, want 1 NEAR and storage usage 100", a)
		}
	}
}

// TestRelayerMayPayForStateInit: transactions of a relayer with several actions, for an account
// that exists and one that does not.
func TestRelayerMayPayForStateInit(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1")
	id := raw.DerivedAccount()
	five := transfer(primitives.NEAR(5))
	init := initAction(raw, primitives.Balance{})
	add := &primitives.AddKey{PublicKey: testKey("relayer").PublicKey()}
	for _, c := range []struct {
		name    string
		actions []primitives.Action
		fails   primitives.ActionErrorTag // 0: it succeeds
		index   uint64
		amount  uint64 // NEAR
		bare    bool
	}{
		{"transfer", []primitives.Action{five}, 0, 0, 5, true},
		{"two transfers", []primitives.Action{five, five}, 0, 0, 10, true},
		{"transfer, init", []primitives.Action{five, init}, 0, 0, 5, false},
		{"init, transfer", []primitives.Action{init, five}, 0, 0, 5, false},
		{"init with a deposit that is not needed", []primitives.Action{initAction(raw, primitives.NEAR(1))}, 0, 0, 0, false},
		{"transfer, init, key of the relayer", []primitives.Action{five, init, add}, primitives.ActionActorNoPermission, 2, 0, false},
		{"transfer, init, deletion", []primitives.Action{five, init, &primitives.DeleteAccount{Beneficiary: alice}}, primitives.ActionActorNoPermission, 2, 0, false},
		{"init, key of the relayer", []primitives.Action{init, add}, primitives.ActionActorNoPermission, 1, 0, false},
		{"transfer, key", []primitives.Action{five, add}, primitives.ActionAccountNotInitialized, 1, 0, false},
		{"create", []primitives.Action{&primitives.CreateAccount{}}, primitives.ActionOnlyImplicitAccountCreationAllowed, 0, 0, false},
		{"key", []primitives.Action{add}, primitives.ActionAccountDoesNotExist, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newUniversal(t)
			o := n.doTo(alice, id, c.actions...)
			a := n.account(id)
			switch {
			case c.fails != 0:
				if e := actionError(t, o); e.Kind.Tag != c.fails || *e.Index != c.index {
					t.Errorf("got %v, want error %v of action %d", e, c.fails, c.index)
				}
				if a != nil {
					t.Errorf("got account %+v, want none", a)
				}
			case o.Status.Kind == primitives.StatusFailure || a == nil:
				t.Errorf("got %s with account %+v, want success", statusText(&o.Status), a)
			case a.IsInitialized() == c.bare || a.Amount != primitives.NEAR(c.amount):
				t.Errorf("got account %+v, want %d NEAR, uninitialized: %v", a, c.amount, c.bare)
			}
		})
	}
}

// TestRefundCreatesNoAccount: refunds create no account, and implicit accounts of other kinds are
// only created by a transfer that is the only action.
func TestRefundCreatesNoAccount(t *testing.T) {
	t.Parallel()
	n := newUniversal(t)
	id := keyInit("u1").DerivedAccount()
	refund := &primitives.Receipt{
		PredecessorID: primitives.SystemAccount, ReceiverID: id, ID: primitives.HashBytes([]byte("refund")),
		Body: &primitives.ActionReceipt{SignerID: primitives.SystemAccount, SignerPublicKey: primitives.ZeroED25519Key, Actions: []primitives.Action{transfer(primitives.NEAR(5))}},
	}
	n.give(refund)
	r := n.step()
	if e := actionError(t, findOutcome(t, r, refund.ID)); e.Kind.Tag != primitives.ActionAccountDoesNotExist {
		t.Errorf("refund: %v", e)
	}
	if n.account(id) != nil || r[0].BalanceBurnt != primitives.NEAR(5) {
		t.Errorf("after the refund: account %+v, burnt %v", n.account(id), r[0].BalanceBurnt)
	}
	near := primitives.NearImplicitID(testKey("near").PublicKey())
	for _, to := range []primitives.AccountID{near, "0x00112233445566778899aabbccddeeff00112233", "0s00112233445566778899aabbccddeeff00112233", id[:53] + "1"} {
		o := n.doTo(alice, to, transfer(primitives.NEAR(5)), transfer(primitives.NEAR(5)))
		if e := actionError(t, o); e.Kind.Tag != primitives.ActionAccountDoesNotExist || *e.Index != 0 {
			t.Errorf("%s: %v", to, e)
		}
	}
}

// TestUninitializedAccountRefuses: every action but a transfer and the state init fails on an
// uninitialized account, and its balance stays.
func TestUninitializedAccountRefuses(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1")
	id := raw.DerivedAccount()
	n := newUniversal(t, id)
	pk := testKey("u1").PublicKey()
	inner := primitives.DelegateAction{
		SenderID: id, ReceiverID: bob, Actions: []primitives.Action{transfer(primitives.Yocto(1))}, Nonce: bootstrapNonce, MaxBlockHeight: 1000, PublicKey: pk,
	}
	hash := inner.SignedHash()
	for _, a := range []primitives.Action{
		&primitives.AddKey{PublicKey: pk}, gasKeyOf(pk, 1), &primitives.DeleteKey{PublicKey: pk}, &primitives.Stake{Stake: primitives.NEAR(20), PublicKey: pk},
		&primitives.DeployContract{Code: []byte("code")}, &primitives.FunctionCall{Method: "m", Gas: 1}, &primitives.DeleteAccount{Beneficiary: bob},
		&primitives.UseGlobalContract{}, &primitives.DeployGlobalContract{Code: []byte("code")},
		&primitives.TransferToGasKey{PublicKey: pk, Deposit: primitives.Yocto(1)}, &primitives.WithdrawFromGasKey{PublicKey: pk},
		&primitives.Delegate{Action: inner, Signature: testKey("u1").Sign(hash[:])},
	} {
		if e := actionError(t, n.doTo(alice, id, a)); e.Kind.Tag != primitives.ActionAccountNotInitialized || e.Kind.AccountID != id {
			t.Errorf("%T: %v", a, e)
		}
	}
	if e := actionError(t, n.doTo(alice, id, &primitives.CreateAccount{})); e.Kind.Tag != primitives.ActionAccountAlreadyExists {
		t.Errorf("create: %v", e)
	}
	if a := n.wantBare(id, bootstrapNonce-1); a.Amount != primitives.NEAR(10) {
		t.Errorf("got account %+v, want 10 NEAR", a)
	}
}

// TestRepeatedStateInitRefundsDeposit: the whole deposit of a state init for an initialized account
// is refunded, to the refund receiver if there is one. Without a deposit there is no refund.
func TestRepeatedStateInitRefundsDeposit(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1")
	id := raw.DerivedAccount()
	n := newUniversal(t)
	n.price = primitives.Yocto(1_000_000_000) // gas is refunded only if it is unused
	mustSucceed(t, n.doTo(alice, id, transfer(primitives.NEAR(3))))
	mustSucceed(t, n.doTo(alice, id, initAction(raw, primitives.NEAR(1))))
	n.settle()
	if a := n.account(id); a.Amount != primitives.NEAR(3) || a.StorageUsage != 182 {
		t.Errorf("after the first init: %+v", a)
	}
	for i, c := range []struct {
		deposit  uint64
		refundTo primitives.AccountID
		want     primitives.AccountID
	}{{1, "", alice}, {1, bob, bob}, {0, "", ""}, {0, bob, ""}} {
		receipt := &primitives.Receipt{
			PredecessorID: alice, ReceiverID: id, ID: primitives.HashBytes([]byte{byte(i)}),
			Body: &primitives.ActionReceipt{
				SignerID: bob, SignerPublicKey: testKey(string(bob)).PublicKey(), V2: true, RefundTo: c.refundTo,
				Actions: []primitives.Action{initAction(raw, primitives.NEAR(c.deposit))}, GasPrice: n.price,
			},
		}
		n.give(receipt)
		r := n.step()
		mustSucceed(t, findOutcome(t, r, receipt.ID))
		if a := n.account(id); a.Amount != primitives.NEAR(3) {
			t.Errorf("%d: account %+v", i, a)
		}
		if c.want == "" {
			if len(r[0].Outgoing) != 0 {
				t.Errorf("%d: %d receipts leave", i, len(r[0].Outgoing))
			}
			continue
		}
		if len(r[0].Outgoing) != 1 || r[0].Outgoing[0].ReceiverID != c.want || r[0].Outgoing[0].PredecessorID != primitives.SystemAccount {
			t.Errorf("%d: refunds %+v", i, r[0].Outgoing)
		}
		n.settle()
	}
	// An initialized account whose balance is below its storage stake: the deposit of a repeated
	// state init does not help, and the check at the end of the receipt fails. Only the deposit is
	// refunded.
	n.change(func(u *state.TrieUpdate) {
		a := *n.account(id)
		a.Amount, a.StorageUsage = primitives.Yocto(1), 1000
		u.SetAccount(id, &a)
	})
	e := actionError(t, n.doTo(alice, id, initAction(raw, primitives.NEAR(1))))
	if e.Kind.Tag != primitives.ActionLackBalanceForState || e.Index != nil {
		t.Errorf("an account below its stake: %v", e)
	}
}

// TestStateInitKeepsOnlyMissingStorageBalance: of a deposit the account keeps what its balance
// lacks for its storage, and no more. A deposit that is too small is an error of the action.
func TestStateInitKeepsOnlyMissingStorageBalance(t *testing.T) {
	t.Parallel()
	s := primitives.UniversalStateInitV1{Data: []primitives.StateEntry{{Key: []byte("key"), Value: make([]byte, 1000)}}}
	raw := s.Encode()
	id := raw.DerivedAccount()
	need := balance("11430000000000000000000") // 100 + 3 + 1000 + 40 bytes
	for _, c := range []struct {
		funded, deposit, after primitives.Balance
		fails                  bool
	}{
		{primitives.Balance{}, need, need, false},
		{primitives.Balance{}, primitives.NEAR(1), need, false},
		{primitives.NEAR(1), primitives.NEAR(1), primitives.NEAR(1), false},
		{primitives.NEAR(1), primitives.Balance{}, primitives.NEAR(1), false},
		{primitives.Yocto(5), need, need, false},
		{primitives.Balance{}, balance("11429999999999999999999"), primitives.Balance{}, true},
	} {
		n := newUniversal(t)
		if !c.funded.IsZero() {
			mustSucceed(t, n.doTo(alice, id, transfer(c.funded)))
		}
		o := n.doTo(alice, id, initAction(raw, c.deposit))
		if c.fails {
			if e := actionError(t, o); e.Kind.Tag != primitives.ActionLackBalanceForState || *e.Index != 0 || e.Kind.Amount != need {
				t.Errorf("got %v, want LackBalanceForState of action 0 with amount %v", e, need)
			}
			continue
		}
		mustSucceed(t, o)
		if a := n.account(id); a.Amount != c.after || a.StorageUsage != 1143 {
			t.Errorf("%v funded, %v with the init: %+v", c.funded, c.deposit, a)
		}
	}
}

// TestStateInitInstallsCodeDataAndKeys: a state init writes code, data and keys of every scheme and
// counts their storage usage, and a call in the same receipt runs the code.
func TestStateInitInstallsCodeDataAndKeys(t *testing.T) {
	t.Parallel()
	code := primitives.GlobalContractID{Account: alice}
	secp := primitives.SecretKeyFromSeed(primitives.SECP256K1, "u1").PublicKey()
	quantum := primitives.SecretKeyFromSeed(primitives.MLDSA65, "u1").PublicKey()
	s := primitives.UniversalStateInitV1{
		Code: &code, Data: []primitives.StateEntry{{Value: []byte("of the empty key")}, {Key: []byte("k")}},
		AccessKeys: []primitives.PublicKeyHandle{testKey("u1").PublicKey().Handle(), secp.Handle(), quantum.Handle()},
	}
	raw := s.Encode()
	id := raw.DerivedAccount()
	n := newUniversal(t)
	n.vm = echoVM{}
	call := &primitives.FunctionCall{Method: "m", Gas: 1_000_000_000_000}
	if e := actionError(t, n.doTo(alice, id, initAction(raw, primitives.NEAR(1)))); e.Kind.Tag != primitives.ActionGlobalContractDoesNotExist {
		t.Errorf("before the code is installed: %v", e)
	}
	n.give(distribution(code, "shared", 1))
	n.step()
	o := n.doTo(alice, id, initAction(raw, primitives.NEAR(1)), call)
	mustSucceed(t, o)
	if string(o.Status.Value) != "shared" {
		t.Errorf("the call ran %q", o.Status.Value)
	}
	a := n.account(id)
	const usage = 100 + len(alice) + (16 + 40) + (1 + 40) + (33 + 9 + 40) + (65 + 9 + 40) + (33 + 9 + 40)
	if a.StorageUsage != uint64(usage) || a.Contract != primitives.GlobalContract(code) || a.Version != primitives.AccountV2 {
		t.Errorf("account %+v, want %d bytes", a, usage)
	}
	for _, pk := range []primitives.PublicKey{testKey("u1").PublicKey(), secp, quantum} {
		if k := n.accessKey(id, pk); k == nil || *k != (primitives.AccessKey{Nonce: primitives.InitialNonce(n.height)}) {
			t.Errorf("%v key %+v", pk.Type(), k)
		}
	}
	v, err := n.view(id).Get(primitives.AppendContractDataKey(nil, id, nil))
	if string(v) != "of the empty key" || err != nil {
		t.Errorf("entry %q, %v", v, err)
	}
	// A post-quantum key of the account, committed to by its hash, signs from the start.
	bare := (&primitives.UniversalStateInitV1{AccessKeys: []primitives.PublicKeyHandle{quantum.Handle()}}).Encode()
	mustSucceed(t, n.doTo(alice, bare.DerivedAccount(), transfer(primitives.NEAR(1))))
	sk := primitives.SecretKeyFromSeed(primitives.MLDSA65, "u1")
	tx := n.sign(sk, primitives.Transaction{
		SignerID: bare.DerivedAccount(), ReceiverID: bare.DerivedAccount(), PublicKey: quantum,
		Nonce:   primitives.TransactionNonce{Nonce: primitives.InitialNonce(n.height) + 1},
		Actions: []primitives.Action{initAction(bare, primitives.Balance{})},
	})
	results := n.step(tx)
	mustSucceed(t, n.converted(results, tx))
	if gas := findOutcome(t, results, tx.Hash()).GasBurnt; gas < 100_000_000_000 {
		t.Errorf("the conversion burnt %d gas, want the verification of the signature in it", gas)
	}
}

// TestCreatingReceiptPaysForUniversalAccount: the receipt that creates the account is charged 0.007
// NEAR, whether by a transfer or by a state init for an account that does not exist. A state init
// for a funded account is not charged.
func TestCreatingReceiptPaysForUniversalAccount(t *testing.T) {
	t.Parallel()
	raw := keyInit("u1")
	id := raw.DerivedAccount()
	n := newUniversal(t)
	charged := func(o *primitives.OutcomeWithID) primitives.Balance {
		mustSucceed(t, o)
		plain, _ := n.price.MulGas(o.GasBurnt)
		rest, ok := o.TokensBurnt.Sub(plain)
		if !ok {
			t.Fatalf("burnt %v", o.TokensBurnt)
		}
		return rest
	}
	// 7·10^21 less what the execution of an account's creation burns at 10^8.
	charge := balance("6280000000000000000000")
	if got := charged(n.doTo(alice, id, transfer(primitives.NEAR(1)))); got != charge {
		t.Errorf("transfer: charged %v", got)
	}
	if got := charged(n.doTo(alice, id, transfer(primitives.NEAR(1)))); !got.IsZero() {
		t.Errorf("second transfer: charged %v", got)
	}
	if got := charged(n.doTo(alice, id, initAction(raw, primitives.Balance{}))); !got.IsZero() {
		t.Errorf("init of a funded account: charged %v", got)
	}
	if got := charged(n.doTo(alice, keyInit("u2").DerivedAccount(), initAction(keyInit("u2"), primitives.Balance{}))); got != charge {
		t.Errorf("init of no account: charged %v", got)
	}
}

// TestInvalidUniversalActionsAreRefused: actions that a transaction cannot contain, in addition to
// the cases of runtime/verify.
func TestInvalidUniversalActionsAreRefused(t *testing.T) {
	t.Parallel()
	n := newUniversal(t)
	zeros := make(primitives.RawStateInit, 10)
	wrong := n.tx(alice, zeros.DerivedAccount(), initAction(keyInit("u1"), primitives.NEAR(1)))
	if e := n.refused(n.step(wrong), wrong); e.Tag != primitives.TxActionsValidation || e.Actions.Tag != primitives.ActionsInvalidUniversalStateInitReceiver {
		t.Errorf("another receiver: %v", e)
	}
	unsorted := (&primitives.UniversalStateInitV1{Data: []primitives.StateEntry{{Key: []byte("b")}, {Key: []byte("a")}}}).Encode()
	tx := n.tx(alice, unsorted.DerivedAccount(), initAction(unsorted, primitives.NEAR(1)))
	if e := n.refused(n.step(tx), tx); e.Tag != primitives.TxActionsValidation || e.Actions.Tag != primitives.ActionsMalformedUniversalStateInit {
		t.Errorf("entries out of order: %v", e)
	}
	n.cfg = parameters.MustGet(parameters.Release(87))
	banned := n.tx(alice, zeros.DerivedAccount(), transfer(primitives.NEAR(1)))
	if e := n.refused(n.step(banned), banned); e.Tag != primitives.TxActionsValidation || e.Actions.Tag != primitives.ActionsTransferToUniversalAccount {
		t.Errorf("transfer at 87: %v", e)
	}
	// At 86 the id is a name like others.
	n.cfg = parameters.MustGet(parameters.Release(86))
	if e := actionError(t, n.doTo(alice, zeros.DerivedAccount(), transfer(primitives.NEAR(1)))); e.Kind.Tag != primitives.ActionAccountDoesNotExist {
		t.Errorf("transfer at 86: %v", e)
	}
}

// TestReceiptsOfOlderRulesRunAfterUpgrade: receipts that were made under older rules run under
// newer rules that would refuse to make them: calls without a name, delegates of version 2,
// withdrawals in delegates, transfers to universal ids.
func TestReceiptsOfOlderRulesRunAfterUpgrade(t *testing.T) {
	t.Parallel()
	n := newUniversal(t)
	n.cfg = parameters.MustGet(parameters.Release(86))
	gas := testKey("gas")
	mustSucceed(t, n.do(alice, gasKeyOf(gas.PublicKey(), 1), &primitives.TransferToGasKey{PublicKey: gas.PublicKey(), Deposit: primitives.NEAR(1)}))
	delegated := func(actions ...primitives.Action) primitives.Action {
		key := testKey(string(alice))
		n.nonces["delegate"] = max(n.nonces["delegate"]+1, primitives.InitialNonce(n.height)+500_000)
		d := primitives.DelegateAction{
			SenderID: alice, ReceiverID: alice, Actions: actions, Nonce: n.nonces["delegate"], MaxBlockHeight: 1000, PublicKey: key.PublicKey(),
		}
		hash := d.SignedHash()
		return &primitives.Delegate{Action: d, Signature: key.Sign(hash[:])}
	}
	second := func() primitives.Action {
		d := primitives.DelegateActionV2{
			SenderID: alice, ReceiverID: bob, Actions: []primitives.Action{transfer(primitives.Yocto(1))}, MaxBlockHeight: 1000, PublicKey: gas.PublicKey(),
			Nonce: primitives.TransactionNonce{Nonce: primitives.InitialNonce(n.height) + 1, HasIndex: true},
		}
		hash := d.SignedHash()
		return &primitives.DelegateV2{Action: d, Signature: gas.Sign(hash[:])}
	}
	withdraw := &primitives.WithdrawFromGasKey{PublicKey: gas.PublicKey(), Amount: primitives.Yocto(7)}
	txs := []*primitives.SignedTransaction{
		n.tx(bob, alice, &primitives.FunctionCall{Gas: 1_000_000_000_000}), n.tx(bob, alice, second()), n.tx(bob, alice, delegated(withdraw)),
		n.tx(bob, keyInit("u1").DerivedAccount(), transfer(primitives.NEAR(1))),
	}
	results := n.step(txs...)
	n.cfg = parameters.MustGet(parameters.Release(87))
	again := n.step()
	for i, want := range []string{"CodeDoesNotExist", "ok", "", "AccountDoesNotExist"} {
		o := findOutcome(t, results, txs[i].Hash())
		if len(o.ReceiptIDs) != 1 {
			t.Fatalf("transaction %d: %s", i, statusText(&o.Status))
		}
		switch o := findOutcome(t, again, o.ReceiptIDs[0]); {
		case want == "ok":
			mustSucceed(t, o)
		case want == "": // the receipt that it makes is a new one; withdrawals are legal outside of delegates
			mustSucceed(t, o)
		case !strings.Contains(statusText(&o.Status), want):
			t.Errorf("receipt %d: %s, want %s", i, statusText(&o.Status), want)
		}
	}
	n.settle()
	var k primitives.AccessKey
	if _, err := n.view(alice).AccessKey(alice, gas.PublicKey().Handle(), &k); err != nil || k.GasKey.Balance != primitives.NEAR(1).SaturatingSub(primitives.Yocto(7)) {
		t.Errorf("gas key %+v, %v", k.GasKey, err)
	}
	for i, tx := range []*primitives.SignedTransaction{
		n.tx(bob, alice, &primitives.FunctionCall{Gas: 1_000_000_000_000}), n.tx(bob, alice, second()), n.tx(bob, alice, delegated(withdraw)),
		n.tx(bob, keyInit("u1").DerivedAccount(), transfer(primitives.NEAR(1))),
	} {
		want := []primitives.ActionsValidationTag{
			primitives.ActionsFunctionCallEmptyMethodName, primitives.ActionsRemovedProtocolFeature, primitives.ActionsWithdrawFromGasKeyInDelegate,
			primitives.ActionsTransferToUniversalAccount,
		}[i]
		if e := n.refused(n.step(tx), tx); !errors.Is(e.Actions, want) {
			t.Errorf("transaction %d at 87: %v, want %v", i, e, want)
		}
	}
}

// TestUninitializedValidatorHasNoStakeToReturn: an account that was a validator, was deleted, and
// has received a transfer since has no stake to return. The first block of the epoch can be applied
// nevertheless.
func TestUninitializedValidatorHasNoStakeToReturn(t *testing.T) {
	t.Parallel()
	id := keyInit("u1").DerivedAccount()
	n := newUniversal(t, id)
	for _, c := range []struct {
		most  primitives.Balance
		fails bool
	}{{primitives.Balance{}, false}, {primitives.NEAR(1), true}} {
		n.height++
		in := n.input(0, nil)
		in.Validators = &ValidatorUpdate{Stakes: []AccountAmount{{id, c.most}}, Rewards: []AccountAmount{{id, primitives.NEAR(3)}}}
		r, err := Apply(in)
		if errors.Is(err, state.ErrInconsistent) != c.fails {
			t.Errorf("a stake of %v: %v", c.most, err)
		}
		if err == nil {
			n.shards[0].trie = r.Trie
		}
		if a := n.wantBare(id, bootstrapNonce-1); a.Amount != primitives.NEAR(10) {
			t.Errorf("got account %+v, want 10 NEAR", a)
		}
	}
}
