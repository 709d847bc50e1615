package apply

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

const (
	alice primitives.AccountID = "alice.near"
	bob   primitives.AccountID = "bob.near"
)

func newPair(t testing.TB) *net { return newNet(t, primitives.SingleShardLayout(), alice, bob) }

// do sends actions from the signer to itself and returns the receipt's outcome. The receipt runs in the same
// chunk.
func (n *net) do(who primitives.AccountID, actions ...primitives.Action) *primitives.OutcomeWithID {
	n.t.Helper()
	return n.doTo(who, who, actions...)
}

// doTo sends actions to another account and returns the receipt's outcome.
func (n *net) doTo(from, to primitives.AccountID, actions ...primitives.Action) *primitives.OutcomeWithID {
	n.t.Helper()
	tx := n.tx(from, to, actions...)
	results := n.step(tx)
	o := findOutcome(n.t, results, tx.Hash())
	if len(o.ReceiptIDs) != 1 {
		n.t.Fatalf("transaction: %s", statusText(&o.Status))
	}
	if from != to {
		results = n.step()
	}
	return findOutcome(n.t, results, o.ReceiptIDs[0])
}

// actionError returns the action error in a failed outcome.
func actionError(t testing.TB, o *primitives.OutcomeWithID) *primitives.ActionError {
	t.Helper()
	var e primitives.TxExecutionError
	if o.Status.Kind != primitives.StatusFailure {
		t.Fatalf("status %s, want a failure", statusText(&o.Status))
	}
	if err := json.Unmarshal(o.Status.Failure, &e); err != nil || e.Action == nil {
		t.Fatalf("%s: %v", o.Status.Failure, err)
	}
	return e.Action
}

func mustSucceed(t testing.TB, o *primitives.OutcomeWithID) {
	t.Helper()
	if o.Status.Kind == primitives.StatusFailure {
		t.Fatalf("failed: %s", o.Status.Failure)
	}
}

func gasKeyOf(pk primitives.PublicKey, nonces uint16) *primitives.AddKey {
	return &primitives.AddKey{PublicKey: pk, AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: nonces}}}
}

// TestGasKeyActionsMatchVectorA71 covers nearcore's tests of gas keys
// (runtime/runtime/src/access_keys.rs:438-1195).
func TestGasKeyActionsMatchVectorA71(t *testing.T) {
	t.Parallel()
	gas, other := testKey("gas_key").PublicKey(), testKey("nonexistent").PublicKey()
	full := testKey(string(alice)).PublicKey()
	milli := func(n uint64) primitives.Balance {
		v, _ := primitives.Yocto(n).Mul64(1_000_000_000_000_000_000)
		v, _ = v.Mul64(1000)
		return v
	}

	t.Run("add and delete", func(t *testing.T) {
		n := newPair(t)
		before := n.account(alice).StorageUsage
		mustSucceed(t, n.do(alice, gasKeyOf(gas, 2)))
		if got, want := n.account(alice).StorageUsage-before, uint64(100+83*2); got != want {
			t.Errorf("a gas key with 2 nonces takes %d bytes, want %d", got, want)
		}
		k := n.accessKey(alice, gas)
		if k == nil || k.Nonce != 0 || k.GasKey == nil || k.GasKey.NumNonces != 2 || !k.GasKey.Balance.IsZero() {
			t.Fatalf("key = %+v", k)
		}
		for i := range uint16(2) {
			got, found, err := n.view(alice).GasKeyNonce(alice, gas.Handle(), i)
			if want := primitives.InitialNonce(n.height); got != want || !found || err != nil {
				t.Errorf("nonce %d = %d, %v, want %d", i, got, err, want)
			}
		}
		for _, pk := range []primitives.PublicKey{gas, full} {
			if e := actionError(t, n.do(alice, gasKeyOf(pk, 2))); e.Kind.Tag != primitives.ActionAddKeyAlreadyExists || e.Kind.PublicKey != pk {
				t.Errorf("adding again: %v", e)
			}
		}
		if e := actionError(t, n.do(alice, &primitives.DeleteKey{PublicKey: other})); e.Kind.Tag != primitives.ActionDeleteKeyDoesNotExist {
			t.Errorf("deleting nothing: %v", e)
		}
		amount := primitives.Yocto(1_000_000)
		mustSucceed(t, n.do(alice, &primitives.TransferToGasKey{PublicKey: gas, Deposit: amount}))
		o := n.do(alice, &primitives.DeleteKey{PublicKey: gas})
		mustSucceed(t, o)
		if n.accessKey(alice, gas) != nil || n.account(alice).StorageUsage != before {
			t.Errorf("the key is still there, or %d bytes of it", n.account(alice).StorageUsage-before)
		}
		gasTokens, _ := n.price.MulGas(o.GasBurnt)
		if got, _ := o.TokensBurnt.Sub(gasTokens); got != amount {
			t.Errorf("burnt %v beside the gas, want %v", got, amount)
		}
		// 200 G + 38 220 384·(L+2) + 11 531 556·8 per nonce, L = 10 + 2 + 33.
		const rows = 2 * (200_000_000_000 + 38_220_384*(45+2) + 11_531_556*8)
		if got := o.ComputeUsage - o.GasBurnt; got != rows {
			t.Errorf("compute beside gas = %d, want %d", got, rows)
		}
		for i := range uint16(2) {
			if _, found, err := n.view(alice).GasKeyNonce(alice, gas.Handle(), i); found || err != nil {
				t.Errorf("nonce %d is still there: %v", i, err)
			}
		}
	})

	t.Run("transfer and withdraw", func(t *testing.T) {
		n := newPair(t)
		mustSucceed(t, n.do(alice, gasKeyOf(gas, 2)))
		for range 2 {
			// by anyone
			mustSucceed(t, n.doTo(bob, alice, &primitives.TransferToGasKey{PublicKey: gas, Deposit: primitives.Yocto(1_000_000)}))
		}
		if got := n.accessKey(alice, gas).GasKey.Balance; got != primitives.Yocto(2_000_000) {
			t.Errorf("balance = %v, want 2000000", got)
		}
		mustSucceed(t, n.do(alice, &primitives.WithdrawFromGasKey{PublicKey: gas, Amount: primitives.Yocto(400_000)}))
		if got := n.accessKey(alice, gas).GasKey.Balance; got != primitives.Yocto(1_600_000) {
			t.Errorf("balance = %v, want 1600000", got)
		}
		for _, pk := range []primitives.PublicKey{other, full} {
			for _, a := range []primitives.Action{&primitives.TransferToGasKey{PublicKey: pk, Deposit: primitives.Yocto(1)}, &primitives.WithdrawFromGasKey{PublicKey: pk}} {
				if e := actionError(t, n.do(alice, a)); e.Kind.Tag != primitives.ActionGasKeyDoesNotExist || e.Kind.PublicKey != pk {
					t.Errorf("%T: %v", a, e)
				}
			}
		}
		e := actionError(t, n.do(alice, &primitives.WithdrawFromGasKey{PublicKey: gas, Amount: primitives.Yocto(1_600_001)}))
		if e.Kind.Tag != primitives.ActionInsufficientGasKeyBalance || e.Kind.Balance != primitives.Yocto(1_600_000) || e.Kind.Required != primitives.Yocto(1_600_001) {
			t.Errorf("withdrawing too much: %v", e)
		}
		if e := actionError(t, n.doTo(bob, alice, &primitives.WithdrawFromGasKey{PublicKey: gas})); e.Kind.Tag != primitives.ActionActorNoPermission {
			t.Errorf("withdrawing by another: %v", e)
		}
	})

	t.Run("burn threshold", func(t *testing.T) {
		n := newPair(t)
		over, _ := primitives.NEAR(1).Add(primitives.Yocto(1))
		mustSucceed(t, n.do(alice, gasKeyOf(gas, 2), &primitives.TransferToGasKey{PublicKey: gas, Deposit: over}))
		e := actionError(t, n.do(alice, &primitives.DeleteKey{PublicKey: gas}))
		if e.Kind.Tag != primitives.ActionGasKeyBalanceTooHigh || e.Kind.PublicKey != gas || e.Kind.Balance != over {
			t.Errorf("deleting above the threshold: %v", e)
		}
		mustSucceed(t, n.do(alice, &primitives.WithdrawFromGasKey{PublicKey: gas, Amount: primitives.Yocto(1)}))
		// A burn that is rolled back is not reported (tests/apply.rs:3718).
		o := n.do(alice, &primitives.DeleteKey{PublicKey: gas}, &primitives.DeleteKey{PublicKey: other})
		if e := actionError(t, o); *e.Index != 1 || !o.TokensBurnt.Less(primitives.NEAR(1)) {
			t.Errorf("failed receipt burnt %v: %v", o.TokensBurnt, e)
		}
		if got := n.accessKey(alice, gas).GasKey.Balance; got != primitives.NEAR(1) {
			t.Errorf("balance after rollback = %v", got)
		}
		if o := n.do(alice, &primitives.DeleteKey{PublicKey: gas}); o.TokensBurnt.Less(primitives.NEAR(1)) {
			t.Errorf("deleting at the threshold burnt %v: %s", o.TokensBurnt, statusText(&o.Status))
		}
	})

	for _, tt := range []struct {
		name  string
		third uint64 // milliNEAR
		ok    bool
	}{{"delete account at the threshold", 200, true}, {"delete account above", 201, false}} {
		t.Run(tt.name, func(t *testing.T) {
			n := newPair(t)
			var actions []primitives.Action
			for i, m := range []uint64{400, 400, tt.third} {
				pk := testKey("gas_key_" + string(rune('0'+i))).PublicKey()
				actions = append(actions, gasKeyOf(pk, 2), &primitives.TransferToGasKey{PublicKey: pk, Deposit: milli(m)})
			}
			mustSucceed(t, n.do(alice, actions...))
			o := n.do(alice, &primitives.DeleteAccount{Beneficiary: bob})
			if !tt.ok {
				e := actionError(t, o)
				if e.Kind.Tag != primitives.ActionGasKeyBalanceTooHigh || e.Kind.PublicKey != "" || e.Kind.Balance != milli(1001) || !strings.Contains(string(o.Status.Failure), `"public_key":null`) {
					t.Errorf("error %s", o.Status.Failure)
				}
				return
			}
			mustSucceed(t, o)
			gasTokens, _ := n.price.MulGas(o.GasBurnt)
			if got, _ := o.TokensBurnt.Sub(gasTokens); got != primitives.NEAR(1) {
				t.Errorf("burnt %v, want 1 N", got)
			}
			const rows = 6 * (200_000_000_000 + 38_220_384*(45+2) + 11_531_556*8)
			if got := o.ComputeUsage - o.GasBurnt; got != rows {
				t.Errorf("compute beside gas = %d, want %d", got, rows)
			}
			left := 0
			if err := n.view(alice).Keys(primitives.AppendAccessKeyPrefix(nil, alice), func([]byte) error { left++; return nil }); left != 0 || err != nil {
				t.Errorf("%d keys remain, %v", left, err)
			}
		})
	}

	t.Run("gas refunds", func(t *testing.T) { // tests/apply.rs:3960-4090
		n := newPair(t)
		mustSucceed(t, n.do(alice, gasKeyOf(gas, 1), &primitives.TransferToGasKey{PublicKey: gas, Deposit: milli(10)}))
		n.settle()
		before := n.account(alice).Amount
		n.shards[0].incoming[0] = []*primitives.Receipt{action.GasRefund(alice, gas, milli(1)), action.GasRefund(alice, other, milli(2))}
		n.step()
		if got := n.accessKey(alice, gas).GasKey.Balance; got != milli(11) {
			t.Errorf("gas key has %v, want 0.011 N", got)
		}
		if got, _ := n.account(alice).Amount.Sub(before); got != milli(2) {
			t.Errorf("account got %v, want only the refund of an unknown key", got)
		}
	})
}

// TestGasKeyPaysGasAndAdvancesItsNonce is nearcore's tests/apply.rs test_apply_gas_key_transaction:
// the gas key pays for gas, the account for deposits, and only the nonce at the transaction's index
// advances.
func TestGasKeyPaysGasAndAdvancesItsNonce(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	key := testKey("gas_key")
	mustSucceed(t, n.do(alice, gasKeyOf(key.PublicKey(), 3), &primitives.TransferToGasKey{PublicKey: key.PublicKey(), Deposit: primitives.NEAR(1)}))
	n.settle()
	start := primitives.InitialNonce(n.height)
	n.height++ // nonces must be above the initial nonce of the key's block
	before := n.account(alice).Amount
	send := func(nonce primitives.Nonce, index uint16, amount primitives.Balance) *primitives.OutcomeWithID {
		tx := n.sign(key, primitives.Transaction{
			Version: primitives.TransactionV1, SignerID: alice, PublicKey: key.PublicKey(), ReceiverID: bob,
			Nonce: primitives.TransactionNonce{Nonce: nonce, HasIndex: true, Index: index}, Actions: []primitives.Action{transfer(amount)},
		})
		return findOutcome(t, n.step(tx), tx.Hash())
	}
	o := send(start+1, 1, primitives.NEAR(100))
	if o.Status.Kind != primitives.StatusSuccessReceiptID {
		t.Fatalf("status %s", statusText(&o.Status))
	}
	if got, _ := before.Sub(n.account(alice).Amount); got != primitives.NEAR(100) {
		t.Errorf("account paid %v, want the deposit", got)
	}
	left := n.accessKey(alice, key.PublicKey()).GasKey.Balance
	// The price of the transaction's gas.
	if paid, _ := primitives.NEAR(1).Sub(left); paid != balance("245500818750000000000") {
		t.Errorf("key paid %v", paid)
	}
	for i := range uint16(3) {
		got, _, err := n.view(alice).GasKeyNonce(alice, key.PublicKey().Handle(), i)
		if advanced := got == start+1; advanced != (i == 1) || err != nil {
			t.Errorf("row %d = %d, %v", i, got, err)
		}
	}
	// If the account cannot pay the deposit, the key still pays for the conversion and the nonce is used.
	n.settle()
	left = n.accessKey(alice, key.PublicKey()).GasKey.Balance
	o = send(start+2, 1, primitives.NEAR(10_000))
	if o.Status.Kind != primitives.StatusFailure || o.GasBurnt != 223_182_562_500 || o.TokensBurnt != balance("22318256250000000000") || len(o.ReceiptIDs) != 0 {
		t.Errorf("outcome %+v", o)
	}
	if paid, _ := left.Sub(n.accessKey(alice, key.PublicKey()).GasKey.Balance); paid != o.TokensBurnt {
		t.Errorf("key paid %v, want %v", paid, o.TokensBurnt)
	}
	if got, _, _ := n.view(alice).GasKeyNonce(alice, key.PublicKey().Handle(), 1); got != start+2 {
		t.Errorf("row = %d, want %d", got, start+2)
	}
	// If the compute of sending differs from its gas, a converted transaction counts the compute, and one
	// whose account cannot pay the deposits counts the gas (nearcore
	// core/primitives/src/transaction.rs:739 failed_with_gas_burnt).
	cfg := *n.cfg
	cfg.Fees.Action[parameters.ActionTransfer].SendNotSIR.Compute += 7
	n.cfg = &cfg
	for amount, more := range map[uint64]primitives.Gas{1: 7, 10_000: 0} {
		n.settle()
		n.height += 2
		o := send(primitives.InitialNonce(n.height)+primitives.Nonce(amount), 1, primitives.NEAR(amount))
		if o.ComputeUsage != o.GasBurnt+more || n.shards[0].last.Stats.Compute != uint64(o.ComputeUsage) {
			t.Errorf("%d NEAR: compute %d, the chunk's %d, of %d gas", amount, o.ComputeUsage, n.shards[0].last.Stats.Compute, o.GasBurnt)
		}
	}
}

// TestDelegateActionsAreCheckedAsInNearcore covers the rules of delegate actions (nearcore
// actions.rs:1868-2127 and before).
func TestDelegateActionsAreCheckedAsInNearcore(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	gas := testKey("gas_key")
	limited := testKey("limited")
	allowance := primitives.NEAR(1)
	mustSucceed(t, n.do(alice, gasKeyOf(gas.PublicKey(), 2), &primitives.AddKey{PublicKey: limited.PublicKey(), AccessKey: primitives.AccessKey{
		FunctionCall: &primitives.FunctionCallPermission{Allowance: &allowance, ReceiverID: string(bob), MethodNames: []string{"yes"}},
	}}))
	n.settle()
	call := func(method string, deposit uint64) primitives.Action {
		return &primitives.FunctionCall{Method: method, Gas: 1_000_000_000_000, Deposit: primitives.Yocto(deposit)}
	}
	base := primitives.InitialNonce(n.height+1) + 1000
	for i, tt := range []struct {
		name   string
		change func(d *primitives.DelegateActionV2) primitives.SecretKey
		want   error // nil: success
	}{
		{"plain", func(*primitives.DelegateActionV2) primitives.SecretKey { return testKey(string(alice)) }, nil},
		{"gas key", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.Nonce.HasIndex, d.Nonce.Index = true, 1
			return gas
		}, nil},
		{"wrong signature", func(d *primitives.DelegateActionV2) primitives.SecretKey { return primitives.SecretKey{} }, primitives.ActionDelegateInvalidSignature},
		{"expired", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.MaxBlockHeight = 1
			return testKey(string(alice))
		}, primitives.ActionDelegateExpired},
		{"other sender", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.SenderID = bob
			return testKey(string(bob))
		}, primitives.ActionDelegateSenderDoesNotMatchReceiver},
		{"no key", func(*primitives.DelegateActionV2) primitives.SecretKey { return testKey("none") }, primitives.KeyNotFound},
		{"gas key without index", func(*primitives.DelegateActionV2) primitives.SecretKey { return gas }, primitives.KeyDelegateRequiresNonGasKey},
		{"index without gas key", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.Nonce.HasIndex = true
			return testKey(string(alice))
		}, primitives.KeyDelegateRequiresGasKey},
		{"index too large", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.Nonce.HasIndex, d.Nonce.Index = true, 2
			return gas
		}, primitives.ActionDelegateInvalidNonceIndex},
		{"old nonce", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.Nonce.Nonce = base // of the first one
			return testKey(string(alice))
		}, primitives.ActionDelegateInvalidNonce},
		{"nonce too large", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.Nonce.Nonce = 1 << 60
			return testKey(string(alice))
		}, primitives.ActionDelegateNonceTooLarge},
		{"limited to calls", func(d *primitives.DelegateActionV2) primitives.SecretKey { return limited }, primitives.KeyRequiresFullAccess},
		{"limited: one call", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.Actions = []primitives.Action{call("yes", 0), call("yes", 0)}
			return limited
		}, primitives.KeyRequiresFullAccess},
		{"limited: deposit first", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.Actions, d.ReceiverID = []primitives.Action{call("no", 1)}, alice // the deposit counts, not what follows
			return limited
		}, primitives.KeyDepositWithFunctionCall},
		{"limited: receiver", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.Actions, d.ReceiverID = []primitives.Action{call("yes", 0)}, alice
			return limited
		}, primitives.KeyReceiverMismatch},
		{"limited: method", func(d *primitives.DelegateActionV2) primitives.SecretKey {
			d.Actions = []primitives.Action{call("no", 0)}
			return limited
		}, primitives.KeyMethodNameMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n.t = t
			d := primitives.DelegateActionV2{
				SenderID: alice, ReceiverID: bob, Actions: []primitives.Action{transfer(primitives.Yocto(5))},
				Nonce: primitives.TransactionNonce{Nonce: base + primitives.Nonce(i)}, MaxBlockHeight: n.height + 100,
			}
			key := tt.change(&d)
			signer := key
			if key.IsZero() {
				key, signer = testKey(string(alice)), testKey("none")
			}
			d.PublicKey = key.PublicKey()
			hash := d.SignedHash()
			o := n.doTo(bob, alice, &primitives.DelegateV2{Action: d, Signature: signer.Sign(hash[:])})
			if tt.want == nil {
				mustSucceed(t, o)
				results := n.step()
				inner := findOutcome(t, results, o.ReceiptIDs[0])
				mustSucceed(t, inner)
				return
			}
			if e := actionError(t, o); !errors.Is(e, tt.want) {
				t.Errorf("error %v, want %v", e, tt.want)
			}
		})
	}
	if got, _, _ := n.view(alice).GasKeyNonce(alice, gas.PublicKey().Handle(), 1); got != base+1 {
		t.Errorf("row 1 of the gas key = %d, want %d", got, base+1)
	}
}

// TestCreateAccountFollowsNearcoresRules covers nearcore's actions.rs tests of permissions to
// create accounts, and the implicit kinds.
func TestCreateAccountFollowsNearcoresRules(t *testing.T) {
	t.Parallel()
	const nearImplicit = "0011223344556677889900112233445566778899001122334455667788990011"
	for _, tt := range []struct {
		name     string
		from, to primitives.AccountID
		actions  []primitives.Action
		want     error
	}{
		{"sub-account", alice, "x.alice.near", []primitives.Action{&primitives.CreateAccount{}}, nil},
		{"of another", bob, "x.alice.near", []primitives.Action{&primitives.CreateAccount{}}, primitives.ActionCreateAccountNotAllowed},
		{"two levels", alice, "y.x.alice.near", []primitives.Action{&primitives.CreateAccount{}}, primitives.ActionCreateAccountNotAllowed},
		{"top level", alice, "short", []primitives.Action{&primitives.CreateAccount{}}, primitives.ActionCreateAccountOnlyByRegistrar},
		{"existing", alice, bob, []primitives.Action{&primitives.CreateAccount{}}, primitives.ActionAccountAlreadyExists},
		{"implicit", alice, nearImplicit, []primitives.Action{&primitives.CreateAccount{}}, primitives.ActionOnlyImplicitAccountCreationAllowed},
		{"missing", alice, "nobody.near", []primitives.Action{transfer(primitives.Yocto(1))}, primitives.ActionAccountDoesNotExist},
		{"near-implicit", alice, nearImplicit, []primitives.Action{transfer(primitives.NEAR(1))}, nil},
		{"near-implicit, two actions", alice, nearImplicit, []primitives.Action{transfer(primitives.NEAR(1)), transfer(primitives.NEAR(1))}, primitives.ActionAccountDoesNotExist},
		{"eth-implicit", alice, "0x00112233445566778899aabbccddeeff00112233", []primitives.Action{transfer(primitives.NEAR(1))}, nil},
		{"deterministic", alice, "0s00112233445566778899aabbccddeeff00112233", []primitives.Action{transfer(primitives.NEAR(1))}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newPair(t)
			o := n.doTo(tt.from, tt.to, tt.actions...)
			if tt.want != nil {
				if e := actionError(t, o); !errors.Is(e, tt.want) {
					t.Errorf("error %v, want %v", e, tt.want)
				}
				return
			}
			mustSucceed(t, o)
			a := n.account(tt.to)
			if a == nil {
				t.Fatal("not created")
			}
			switch tt.to.Kind(false) {
			case primitives.NearImplicitAccount:
				pk, err := primitives.NewPublicKey(primitives.ED25519, []byte("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\x00\x11"))
				if err != nil {
					t.Fatal(err)
				}
				if k := n.accessKey(tt.to, pk); k == nil || !k.IsFullAccess() || k.Nonce != primitives.InitialNonce(n.height) || a.StorageUsage != 182 {
					t.Errorf("account %+v, key %+v", a, k)
				}
			case primitives.EthImplicitAccount:
				if id, ok := a.Contract.GlobalID(); !ok || id.Hash != action.EthWalletHash("test-chain") || a.StorageUsage != 132 || a.Version != primitives.AccountV2 {
					t.Errorf("account %+v", a)
				}
			default:
				if a.StorageUsage != 100 || a.Contract.Kind != primitives.ContractNone {
					t.Errorf("account %+v", a)
				}
			}
		})
	}
}

// TestCallWithoutVMFailsOnlyAtExecution checks that without a VM a call that fails before execution
// has its usual error, and any other call an error that says that there is no VM.
func TestCallWithoutVMFailsOnlyAtExecution(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	call := func(method string) primitives.Action {
		return &primitives.FunctionCall{Method: method, Gas: 5_000_000_000_000}
	}
	check := func(o *primitives.OutcomeWithID, want string) {
		t.Helper()
		if e := actionError(t, o); !strings.Contains(e.Error(), want) {
			t.Errorf("error %v, want %s", e, want)
		}
	}
	check(n.doTo(bob, alice, call("m")), `{"FunctionCallError":{"CompilationError":{"CodeDoesNotExist":{"account_id":"alice.near"}}}}`)
	mustSucceed(t, n.do(alice, &primitives.DeployContract{Code: []byte("not wasm")}))
	check(n.doTo(bob, alice, call("")), `{"FunctionCallError":{"MethodResolveError":"MethodEmptyName"}}`)
	check(n.doTo(bob, alice, call("m")), `{"FunctionCallError":{"CompilationError":{"WasmerCompileError":{"msg":"`+action.NoVMText+`"}}}}`)
	// The VM burns nothing, and all attached gas is refunded.
	o := n.doTo(bob, alice, call("m"))
	cfg := parameters.MustGet(parameters.June(86))
	base := cfg.Fees.Fee(parameters.ActionFunctionCallBase).Exec.Gas + cfg.Fees.Fee(parameters.ActionFunctionCallByte).Exec.Gas + cfg.Fees.Fee(parameters.ActionNewActionReceipt).Exec.Gas
	if o.GasBurnt != base {
		t.Errorf("burnt %d, want the fees of %d", o.GasBurnt, base)
	}
}

func TestDuplicateTransactionLeavesNoOutcome(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	tx := n.tx(alice, bob, transfer(primitives.Yocto(1)))
	r := n.step(tx, tx)[0]
	if len(r.Outcomes) != 1 || len(r.Outgoing) != 1 {
		t.Errorf("%d outcomes, %d receipts of two copies", len(r.Outcomes), len(r.Outgoing))
	}
}
