package txscript

import (
	"bytes"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// The cases of nearcore's test-loop-tests/src/tests/gas_keys.rs and yield_resume.rs that need
// contracts, here with the probe as the contract.

const tera = 1_000_000_000_000

// lab is a chain with an account alice that has the probe.
type lab struct {
	*World
	t *testing.T
}

func newLab(t *testing.T) *lab {
	w, err := New(Options{Accounts: []primitives.AccountID{"alice"}, Shards: 1, VM: testVM(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	l := &lab{w, t}
	l.do(&primitives.DeployContract{Code: contracts.Probe()})
	return l
}

// receipt is how the one receipt of a transaction ended.
func (l *lab) receipt(tx primitives.Hash) *happened {
	l.t.Helper()
	o := l.outcomes[tx]
	if o == nil || len(o.ReceiptIDs) != 1 || l.outcomes[o.ReceiptIDs[0]] == nil {
		l.t.Fatalf("no receipt: %s", l.Tree(tx))
	}
	return l.outcomes[o.ReceiptIDs[0]]
}

// do sends a transaction of alice to herself and runs it to its end.
func (l *lab) do(actions ...primitives.Action) (*happened, primitives.Hash) {
	l.t.Helper()
	tx := l.Sign("alice", "alice", actions...)
	if err := l.Run(tx); err != nil {
		l.t.Fatal(err)
	}
	return l.receipt(tx.Hash()), tx.Hash()
}

func program(gas primitives.Gas, calls func(p *contracts.Program)) *primitives.FunctionCall {
	var p contracts.Program
	calls(&p)
	return &primitives.FunctionCall{Method: "run", Args: p.Bytes(), Gas: gas}
}

// promise makes a contract's promise to alice of one action, and returns how that ended.
func (l *lab) promise(name string, args ...any) *happened {
	l.t.Helper()
	o, tx := l.do(program(100*tera, func(p *contracts.Program) {
		p.Call(name, append([]any{p.Call("promise_batch_create", "alice")}, args...)...)
	}))
	if len(o.ReceiptIDs) == 0 || l.outcomes[o.ReceiptIDs[0]] == nil {
		l.t.Fatalf("no promise: %s", l.Tree(tx))
	}
	return l.outcomes[o.ReceiptIDs[0]]
}

// key reads an access key of alice; nil: there is none.
func (l *lab) key(public primitives.PublicKey) (k *primitives.AccessKey, nonces []primitives.Nonce) {
	l.t.Helper()
	err := l.read("alice", func(trie state.Trie) error {
		u := state.New(trie, 4_000_000)
		var got primitives.AccessKey
		found, err := u.AccessKey("alice", public.Handle(), &got)
		if !found || err != nil {
			return err
		}
		k = &got
		for i := uint16(0); ; i++ {
			n, found, err := u.GasKeyNonce("alice", public.Handle(), i)
			if !found || err != nil {
				return err
			}
			nonces = append(nonces, n)
		}
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return k, nonces
}

func (l *lab) balance() (b primitives.Balance) {
	l.t.Helper()
	err := l.read("alice", func(trie state.Trie) error {
		var a primitives.Account
		_, err := state.New(trie, 4_000_000).Account("alice", &a)
		b = a.Amount
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

func milliNEAR(n uint64) primitives.Balance {
	b, _ := primitives.NEAR(n).DivMod64(1000)
	return b
}

// gasKey is a key that no account has yet.
func gasKey(word string) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, word)
}

// TestGasKeyBalanceGrowsByTransfers is gas_keys.rs:638.
func TestGasKeyBalanceGrowsByTransfers(t *testing.T) {
	l := newLab(t)
	public := gasKey("gas_key").PublicKey()
	l.do(&primitives.AddKey{PublicKey: public, AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 3}}})
	l.do(&primitives.TransferToGasKey{PublicKey: public, Deposit: milliNEAR(100)})
	l.promise("promise_batch_action_transfer_to_gas_key", []byte(public), contracts.Amount(milliNEAR(10)))
	if k, _ := l.key(public); k == nil || k.GasKey.Balance != milliNEAR(110) {
		t.Errorf("key %+v, want 110 milliNEAR", k)
	}
}

// TestGasKeyIsAddedByContract is gas_keys.rs:735 and :784.
func TestGasKeyIsAddedByContract(t *testing.T) {
	l := newLab(t)
	full, calls := gasKey("full").PublicKey(), gasKey("calls").PublicKey()
	l.promise("promise_batch_action_add_gas_key_with_full_access", []byte(full), 3)
	k, nonces := l.key(full)
	if k == nil || k.Nonce != 0 || k.FunctionCall != nil || *k.GasKey != (primitives.GasKeyInfo{NumNonces: 3}) || len(nonces) != 3 {
		t.Errorf("key %+v, %d nonces", k, len(nonces))
	}
	l.promise("promise_batch_action_add_gas_key_with_function_call", []byte(calls), 2, contracts.Amount(primitives.Balance{}), "alice", "method1,method2")
	k, nonces = l.key(calls)
	if k == nil || k.Nonce != 0 || *k.GasKey != (primitives.GasKeyInfo{NumNonces: 2}) || len(nonces) != 2 {
		t.Fatalf("key %+v, %d nonces", k, len(nonces))
	}
	if f := k.FunctionCall; f == nil || f.Allowance != nil || f.ReceiverID != "alice" || strings.Join(f.MethodNames, ",") != "method1,method2" {
		t.Errorf("permission %+v", f)
	}
}

// TestGasKeyAllowanceIsRefused is gas_keys.rs:844.
func TestGasKeyAllowanceIsRefused(t *testing.T) {
	l := newLab(t)
	public := gasKey("calls").PublicKey()
	o, _ := l.do(program(100*tera, func(p *contracts.Program) {
		p.Call("promise_batch_action_add_gas_key_with_function_call", p.Call("promise_batch_create", "alice"), []byte(public), 1,
			contracts.Amount(primitives.Yocto(999)), "alice", "method1")
	}))
	const want = `failed {"ActionError":{"index":0,"kind":{"NewReceiptValidationError":{"ActionsValidation":"GasKeyFunctionCallAllowanceNotAllowed"}}}}`
	if got := status(&o.Status); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if k, _ := l.key(public); k != nil {
		t.Errorf("key %+v", k)
	}
}

// TestGasKeyPaysForItsTransaction is gas_keys.rs:910.
func TestGasKeyPaysForItsTransaction(t *testing.T) {
	l := newLab(t)
	secret := gasKey("gas_key")
	public := secret.PublicKey()
	l.promise("promise_batch_action_add_gas_key_with_full_access", []byte(public), 3)
	l.do(&primitives.TransferToGasKey{PublicKey: public, Deposit: milliNEAR(100)})
	_, nonces := l.key(public)
	before := l.balance()
	at := l.Base()
	tx := primitives.Transaction{
		Version: primitives.TransactionV1, SignerID: "alice", PublicKey: public, ReceiverID: "alice", BlockHash: at.Hash,
		Nonce:   primitives.TransactionNonce{Nonce: nonces[0] + 1, HasIndex: true},
		Actions: []primitives.Action{&primitives.Transfer{Deposit: milliNEAR(1)}},
	}
	hash := tx.Hash()
	if err := l.Run(primitives.NewSignedTransaction(tx, secret.Sign(hash[:]))); err != nil {
		t.Fatal(err)
	}
	o := l.receipt(hash)
	if o.Status.Kind != primitives.StatusSuccessValue {
		t.Fatalf("status %s", status(&o.Status))
	}
	burnt, _ := l.outcomes[hash].TokensBurnt.Add(o.TokensBurnt)
	for _, id := range o.ReceiptIDs {
		burnt, _ = burnt.Add(l.outcomes[id].TokensBurnt)
	}
	want, _ := milliNEAR(100).Sub(burnt)
	k, after := l.key(public)
	if burnt.IsZero() || k.GasKey.Balance != want || after[0] != nonces[0]+1 || after[1] != nonces[1] {
		t.Errorf("burnt %v, key has %v, want %v; nonces %v, before %v", burnt, k.GasKey.Balance, want, after, nonces)
	}
	if got := l.balance(); got != before {
		t.Errorf("alice has %v, had %v", got, before)
	}
}

// TestGasKeyFeesAreEqualByContract is gas_keys.rs:1026: a receipt burns the same whether a
// transaction or a contract made it.
func TestGasKeyFeesAreEqualByContract(t *testing.T) {
	for _, kind := range []string{"full access", "function call"} {
		l := newLab(t)
		a, b := gasKey("a").PublicKey(), gasKey("b").PublicKey()
		same := func(what string, by *happened, contract *happened) {
			t.Helper()
			if by.Status.Kind == primitives.StatusFailure || by.GasBurnt != contract.GasBurnt || by.TokensBurnt != contract.TokensBurnt {
				t.Errorf("%s, %s: by transaction %d %v %s, by contract %d %v %s", kind, what,
					by.GasBurnt, by.TokensBurnt, status(&by.Status), contract.GasBurnt, contract.TokensBurnt, status(&contract.Status))
			}
		}
		k := primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 4}}
		add := func() *happened { return l.promise("promise_batch_action_add_gas_key_with_full_access", []byte(b), 4) }
		if kind == "function call" {
			k.FunctionCall = &primitives.FunctionCallPermission{ReceiverID: "alice", MethodNames: []string{"method1", "method2"}}
			add = func() *happened {
				return l.promise("promise_batch_action_add_gas_key_with_function_call", []byte(b), 4, contracts.Amount(primitives.Balance{}),
					"alice", "method1,method2")
			}
		}
		o, _ := l.do(&primitives.AddKey{PublicKey: a, AccessKey: k})
		same("add", o, add())
		o, _ = l.do(&primitives.TransferToGasKey{PublicKey: a, Deposit: milliNEAR(10)})
		same("fund", o, l.promise("promise_batch_action_transfer_to_gas_key", []byte(b), contracts.Amount(milliNEAR(10))))
		o, _ = l.do(&primitives.DeleteKey{PublicKey: a})
		same("delete", o, l.promise("promise_batch_action_delete_key", []byte(b)))
		for _, public := range []primitives.PublicKey{a, b} {
			if k, _ := l.key(public); k != nil {
				t.Errorf("%s: key %+v", kind, k)
			}
		}
	}
}

// Calls of the probe: one that yields and stores the id of the yield, and one that resumes the
// yield with the stored id.
const fromRegister = ^uint64(0)

func asks(gas primitives.Gas) *primitives.FunctionCall {
	return program(gas, func(p *contracts.Program) {
		var then contracts.Program
		then.Call("promise_result", 0, 0)
		then.Call("value_return", fromRegister, 0)
		yield := p.Call("promise_yield_create", "then", then.Bytes(), uint64(20*tera), 0, 7)
		p.Call("storage_write", "id", fromRegister, 7, 8)
		p.Call("promise_return", yield)
	})
}

func answers(gas primitives.Gas) *primitives.FunctionCall {
	return program(gas, func(p *contracts.Program) {
		p.Call("storage_read", "id", 7)
		p.Call("promise_yield_resume", fromRegister, 7, "payload")
		p.GiveResults()
	})
}

// found and resumed: what answers gives.
var answered = []byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}

// wantNoYield wants that nothing of yields is left in the state.
func (l *lab) wantNoYield() {
	l.t.Helper()
	for _, c := range []primitives.TrieColumn{primitives.ColPromiseYieldReceipt, primitives.ColPromiseYieldStatus} {
		err := l.read("alice", func(trie state.Trie) error {
			return trie.Scan([]byte{byte(c)}, nil, trie.NewRecording(), func(key, _ []byte) bool {
				l.t.Errorf("column %d has %q", c, key)
				return true
			})
		})
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

// end follows the results of a transaction to the last.
func (l *lab) end(tx primitives.Hash) *happened {
	o := l.outcomes[tx]
	for o != nil && o.Status.Kind == primitives.StatusSuccessReceiptID {
		o = l.outcomes[o.Status.ReceiptID]
	}
	return o
}

func (l *lab) block(txs ...*primitives.SignedTransaction) {
	l.t.Helper()
	if _, err := l.Block(txs...); err != nil {
		l.t.Fatal(err)
	}
}

// TestYieldResumesInALaterBlock is yield_resume.rs:137: the resume comes some blocks later, and the
// callback runs in the block after it.
func TestYieldResumesInALaterBlock(t *testing.T) {
	l := newLab(t)
	ask := l.Sign("alice", "alice", asks(250*tera))
	l.block(ask)
	l.block()
	if o := l.end(ask.Hash()); o != nil {
		t.Fatalf("ended: %s", l.Tree(ask.Hash()))
	}
	answer := l.Sign("alice", "alice", answers(250*tera))
	l.block(answer)
	if o := l.end(answer.Hash()); o == nil || !bytes.Equal(o.Status.Value, answered) {
		t.Errorf("answer: %s", l.Tree(answer.Hash()))
	}
	if o := l.end(ask.Hash()); o != nil {
		t.Errorf("ended before the next block: %s", l.Tree(ask.Hash()))
	}
	l.block()
	if o := l.end(ask.Hash()); o == nil || string(o.Status.Value) != "payload" {
		t.Errorf("tree %s", l.Tree(ask.Hash()))
	}
	l.wantNoYield()
}

// TestYieldAndResumeInOneBlock is yield_resume.rs:225.
func TestYieldAndResumeInOneBlock(t *testing.T) {
	l := newLab(t)
	ask, answer := l.Sign("alice", "alice", asks(250*tera)), l.Sign("alice", "alice", answers(250*tera))
	l.block(ask, answer)
	l.block()
	if o := l.end(ask.Hash()); o == nil || string(o.Status.Value) != "payload" {
		t.Errorf("tree %s", l.Tree(ask.Hash()))
	}
	if o := l.end(answer.Hash()); o == nil || !bytes.Equal(o.Status.Value, answered) {
		t.Errorf("tree %s", l.Tree(answer.Hash()))
	}
	l.wantNoYield()
}

// TestYieldAndResumeInOneReceipt is yield_resume.rs:303, and :355, where an action between the two
// fails.
func TestYieldAndResumeInOneReceipt(t *testing.T) {
	l := newLab(t)
	_, tx := l.do(asks(100*tera), answers(100*tera))
	if o := l.end(tx); o == nil || !bytes.Equal(o.Status.Value, answered) {
		t.Errorf("tree %s", l.Tree(tx))
	}
	l.wantNoYield()
	_, tx = l.do(asks(100*tera), program(50*tera, func(p *contracts.Program) { p.Call("panic") }), answers(100*tera))
	if o := l.end(tx); o == nil || o.Status.Kind != primitives.StatusFailure {
		t.Errorf("tree %s", l.Tree(tx))
	}
	l.wantNoYield()
}
