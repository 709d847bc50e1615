package apply

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// newReader returns a chain in which alice has the probe contract, the given number of entries of the given
// size, and additional access keys.
func newReader(t *testing.T, entries, size, keys int) *net {
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	n := newPair(t)
	n.vm, n.limit = v, 1<<60
	n.change(func(u *state.TrieUpdate) {
		code := contracts.Probe()
		a := *n.account(alice)
		a.SetContract(primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.HashBytes(code)})
		a.StorageUsage += uint64(len(code))
		u.SetAccount(alice, &a)
		u.SetCode(alice, primitives.HashBytes(code), code)
		for i := range entries {
			value := make([]byte, size)
			value[0] = byte(i) // equal values would be recorded only once
			u.Set(primitives.AppendContractDataKey(nil, alice, []byte{byte(i)}), value)
		}
		for i := range keys {
			u.SetAccessKey(alice, testKey(fmt.Sprintf("existing%d", i)).PublicKey().Handle(), &primitives.AccessKey{})
		}
	})
	return n
}

// read returns a call that reads the entries from index from up to index to.
func read(from, to int) *primitives.FunctionCall {
	var p contracts.Program
	for i := from; i < to; i++ {
		p.Call("storage_read", []byte{byte(i)}, 0)
	}
	return &primitives.FunctionCall{Method: "run", Args: p.Bytes(), Gas: 100_000_000_000_000}
}

// run applies one receipt of alice to herself at a version, both serially and speculatively. It returns the
// outcome and the chain after it.
func (n *net) run(v parameters.Version, actions ...primitives.Action) (*primitives.OutcomeWithID, *net) {
	n.t.Helper()
	m := n.copy()
	m.cfg = parameters.MustGet(v)
	r := m.selfReceipt(alice, 1, actions...)
	m.give(r)
	m.height++
	in := m.input(0, nil)
	m.height--
	results := m.step()
	in.Par, in.window = goPar, windowSizes{most: 5, least: 1}
	ahead, err := Apply(in)
	if err != nil {
		n.t.Fatal(err)
	}
	sameResult(n.t, ahead, results[0])
	return findOutcome(n.t, results, r.ID), m
}

// TestProofLimitCoversWholeReceiptFrom86: five calls of one receipt read a megabyte each. Each call
// stays below the limit of 4 MB. The limit applies to a single call before 86, and to the whole
// receipt from 86 on (nearcore 2.14.0-rc.1 runtime/runtime/src/tests/apply.rs,
// test_per_receipt_storage_proof_limit).
func TestProofLimitCoversWholeReceiptFrom86(t *testing.T) {
	t.Parallel()
	n := newReader(t, 5, 1_000_000, 0)
	calls := []primitives.Action{read(0, 1), read(1, 2), read(2, 3), read(3, 4), read(4, 5)}
	for _, v := range []parameters.Version{parameters.Release(85), parameters.June(86)} {
		o, _ := n.run(v, calls...)
		if o.Status.Kind == primitives.StatusFailure {
			t.Errorf("at %v: %s", v, o.Status.Failure)
		}
	}
	for _, v := range []parameters.Version{parameters.Release(86), parameters.Release(87), parameters.Release(88)} {
		o, _ := n.run(v, calls...)
		if e := actionError(t, o); *e.Index != 3 || e.Kind.Tag != primitives.ActionFunctionCallError || !strings.Contains(e.Error(), "storage proof") {
			t.Errorf("at %v: %v", v, e)
		}
	}
}

// TestProofLimitCountsActionsAfterCallFrom87: a call reads nearly 4 MB, and actions that add keys
// then read some more. From 87 on that exceeds the limit, although those actions have no check of
// their own: the receipt fails after the action that exceeded the limit, and has no effect.
func TestProofLimitCountsActionsAfterCallFrom87(t *testing.T) {
	t.Parallel()
	n := newReader(t, 4, 999_750, 16)
	var add []primitives.Action
	for i := range 6 {
		add = append(add, &primitives.AddKey{PublicKey: testKey(fmt.Sprintf("added%d", i)).PublicKey()})
	}
	all := append([]primitives.Action{read(0, 4)}, add...)
	for _, v := range []parameters.Version{parameters.Release(86), parameters.Release(87), parameters.Release(88)} {
		if o, _ := n.run(v, read(0, 4)); o.Status.Kind == primitives.StatusFailure {
			t.Errorf("the call alone at %v: %s", v, o.Status.Failure)
		}
	}
	o, m := n.run(parameters.Release(86), all...)
	mustSucceed(t, o)
	if m.accessKey(alice, testKey("added5").PublicKey()) == nil {
		t.Error("no key was added at 86")
	}
	for _, v := range []parameters.Version{parameters.Release(87), parameters.Release(88)} {
		o, m := n.run(v, all...)
		e := actionError(t, o)
		if *e.Index == 0 || e.Kind.Tag != primitives.ActionReceiptStorageProofSizeExceeded || e.Kind.Limit != 4_000_000 {
			t.Errorf("at %v: %v", v, e)
		}
		if want := `"kind":{"ReceiptStorageProofSizeExceeded":{"limit":4000000}}`; !strings.Contains(string(o.Status.Failure), want) {
			t.Errorf("%s, want %s", o.Status.Failure, want)
		}
		for i := range add {
			if m.accessKey(alice, testKey(fmt.Sprintf("added%d", i)).PublicKey()) != nil {
				t.Errorf("at %v: key %d was added", v, i)
			}
		}
		if len(o.Logs) != 0 || len(o.ReceiptIDs) != 1 || o.GasBurnt == 0 {
			t.Errorf("at %v: outcome %+v, want its gas and the refund", v, o.Outcome)
		}
	}
	// The same actions without the call are within the limit.
	o, _ = n.run(parameters.Release(88), add...)
	mustSucceed(t, o)
}
