package logic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// mockExternal implements action.External with entries in a map, no trie nodes, and receipts in a
// list (nearcore logic/mocks/mock_external.rs).
type mockExternal struct {
	entries    map[string][]byte
	validators map[primitives.AccountID]primitives.Balance
	receipts   []*mockReceipt
	byID       map[primitives.Hash]primitives.Hash
	resumed    []action.Resume
	ids        byte

	nodes    action.NodeCount // returned by every write and removal
	recorded uint64
	grow     uint64 // bytes that every access records
	broken   error  // returned by every access; nil: none
}

type mockReceipt struct {
	receiver, refundTo primitives.AccountID
	after              []int
	actions            []primitives.Action
	weights            []uint64 // gas weights of calls
	yield              primitives.Hash
}

func (w *mockExternal) access(key []byte, pay func(uint32) error) ([]byte, bool, error) {
	w.recorded += w.grow
	old, found := w.entries[string(key)]
	if w.broken != nil || !found {
		return nil, false, w.broken
	}
	if old == nil {
		old = []byte{}
	}
	return old, true, pay(uint32(len(old)))
}

func (w *mockExternal) Read(key []byte, pay func(uint32) error) ([]byte, bool, action.NodeCount, error) {
	v, found, err := w.access(key, pay)
	return v, found, w.nodes, err
}

func (w *mockExternal) Has(key []byte) (bool, error) {
	_, found, err := w.access(key, func(uint32) error { return nil })
	return found, err
}

func (w *mockExternal) Write(key, value []byte, pay func(uint32) error) ([]byte, action.NodeCount, error) {
	old, _, err := w.access(key, pay)
	if err != nil {
		return nil, action.NodeCount{}, err
	}
	w.entries[string(key)] = bytes.Clone(value)
	return old, w.nodes, nil
}

func (w *mockExternal) Remove(key []byte, pay func(uint32) error) ([]byte, action.NodeCount, error) {
	old, _, err := w.access(key, pay)
	if err != nil {
		return nil, action.NodeCount{}, err
	}
	delete(w.entries, string(key))
	return old, w.nodes, nil
}

func (w *mockExternal) RecordedBound() uint64 { return w.recorded }
func (w *mockExternal) ProofStart() uint64    { return w.recorded }

func (w *mockExternal) Stake(id primitives.AccountID) primitives.Balance { return w.validators[id] }

func (w *mockExternal) TotalStake() (sum primitives.Balance) {
	for _, v := range w.validators {
		sum, _ = sum.Add(v)
	}
	return sum
}

func (w *mockExternal) Create(to primitives.AccountID, after []int) (int, error) {
	w.receipts = append(w.receipts, &mockReceipt{receiver: to, after: slices.Clone(after)})
	return len(w.receipts) - 1, nil
}

func (w *mockExternal) Receiver(i int) (primitives.AccountID, error) {
	return w.receipts[i].receiver, nil
}

func (w *mockExternal) SetRefundTo(i int, id primitives.AccountID) error {
	w.receipts[i].refundTo = id
	return nil
}

func (w *mockExternal) Append(i int, a primitives.Action) (int, error) {
	r := w.receipts[i]
	r.actions = append(r.actions, a)
	return len(r.actions) - 1, nil
}

func (w *mockExternal) AppendCall(i int, a *primitives.FunctionCall, weight uint64) error {
	w.receipts[i].weights = append(w.receipts[i].weights, weight)
	_, err := w.Append(i, a)
	return err
}

func (w *mockExternal) AddStateInitEntry(i, at int, key, value []byte) error {
	if at >= len(w.receipts[i].actions) {
		return action.ErrActionIndex
	}
	init, ok := w.receipts[i].actions[at].(*primitives.DeterministicStateInit)
	if !ok {
		return action.ErrActionIndex
	}
	for _, e := range init.Init.Data {
		if bytes.Equal(e.Key, key) {
			return action.ErrEntryExists
		}
	}
	init.Init.Data = append(init.Init.Data, primitives.StateEntry{Key: bytes.Clone(key), Value: bytes.Clone(value)})
	return nil
}

func (w *mockExternal) Yield() (int, primitives.Hash) {
	w.ids++
	id := primitives.HashBytes([]byte{w.ids})
	w.receipts = append(w.receipts, &mockReceipt{receiver: "alice.near", yield: id})
	return len(w.receipts) - 1, id
}

func (w *mockExternal) YieldWithID(id primitives.Hash) (int, bool, error) {
	if _, taken := w.byID[id]; taken {
		return 0, false, nil
	}
	i, data := w.Yield()
	w.byID[id] = data
	return i, true, nil
}

func (w *mockExternal) Resume(data primitives.Hash, payload []byte) (bool, error) {
	for _, r := range w.receipts {
		if r.yield == data {
			w.resumed = append(w.resumed, action.Resume{DataID: data, Data: bytes.Clone(payload)})
			return true, nil
		}
	}
	return false, nil
}

func (w *mockExternal) ResumeByID(id primitives.Hash, payload []byte) (bool, error) {
	data, ok := w.byID[id]
	if !ok {
		return false, nil
	}
	return w.Resume(data, payload)
}

// harness is a call whose host functions a test invokes directly (nearcore
// logic/tests/vm_logic_builder.rs), with the fees of nearcore's tests and 64 KiB of memory.
type harness struct {
	*Logic
	t    *testing.T
	w    *mockExternal
	cfg  parameters.RuntimeConfig
	c    action.Call
	at   uint64 // where put writes next
	paid [parameters.NumExtCosts]primitives.Gas
}

func newHarness(t *testing.T, set ...func(*harness)) *harness {
	r := &harness{t: t, cfg: *parameters.MustGet(parameters.Release(88))}
	r.w = &mockExternal{
		entries: map[string][]byte{}, validators: map[primitives.AccountID]primitives.Balance{},
		byID: map[primitives.Hash]primitives.Hash{},
	}
	setTestFees(&r.cfg.Fees)
	r.c = action.Call{
		Block:          &action.Block{ChainID: "test", Height: 10, Timestamp: 42, EpochHeight: 1},
		CurrentAccount: "alice.near", SignerAccount: "bob.near", Predecessor: "carol.near", RefundTo: "david.near",
		SignerKey: primitives.PublicKey([]byte{0, 1, 2, 3, 4}), Args: []byte{0, 1, 2, 3, 4}, RandomSeed: primitives.Hash{0, 1, 2},
		Balance: primitives.Yocto(100), Locked: primitives.Yocto(50), Deposit: primitives.Yocto(10),
		PrepaidGas: 100_000_000_000_000,
	}
	for _, f := range set {
		f(r)
	}
	r.Logic = New(&r.c, r.w, &r.cfg)
	r.Memory = make([]byte, 1<<16)
	return r
}

// view makes the call a view with the gas limit of a call.
func view(r *harness) { r.c.View, r.c.PrepaidGas = true, r.cfg.Wasm.Limits.MaxGasBurnt }

// free sets all prices to zero.
func free(r *harness) {
	r.cfg.Wasm.Ext = [parameters.NumExtCosts]parameters.Cost{}
	r.cfg.Wasm.RegularOpCost, r.cfg.Wasm.Limits.MaxGasBurnt = 0, ^primitives.Gas(0)
	r.cfg.Fees.Action = [parameters.NumActionCosts]parameters.Fee{}
}

// setTestFees sets the fees of nearcore's tests (near-parameters 0.38.0 src/cost.rs:660), which no
// protocol version has.
func setTestFees(f *parameters.Fees) {
	fee := func(self, other, exec uint64) parameters.Fee {
		return parameters.Fee{
			SendSIR: parameters.GasCost(primitives.Gas(self)), SendNotSIR: parameters.GasCost(primitives.Gas(other)),
			Exec: parameters.GasCost(primitives.Gas(exec)),
		}
	}
	same := func(v uint64) parameters.Fee { return fee(v, v, v) }
	f.Action = [parameters.NumActionCosts]parameters.Fee{
		parameters.ActionCreateAccount:               fee(500_000_000_000, 500_000_000_000, 7_200_000_000_000),
		parameters.ActionDeleteAccount:               same(147_489_000_000),
		parameters.ActionDeployContractBase:          same(184_765_750_000),
		parameters.ActionDeployContractByte:          same(6_812_999),
		parameters.ActionFunctionCallBase:            same(2_319_861_500_000),
		parameters.ActionFunctionCallByte:            same(2_235_934),
		parameters.ActionTransfer:                    same(115_123_062_500),
		parameters.ActionStake:                       fee(141_715_687_500, 141_715_687_500, 102_217_625_000),
		parameters.ActionAddFullAccessKey:            same(101_765_125_000),
		parameters.ActionAddFunctionCallKeyBase:      same(102_217_625_000),
		parameters.ActionAddFunctionCallKeyByte:      same(1_925_331),
		parameters.ActionDeleteKey:                   same(94_946_625_000),
		parameters.ActionNewActionReceipt:            same(108_059_500_000),
		parameters.ActionNewDataReceiptBase:          same(4_697_339_419_375),
		parameters.ActionNewDataReceiptByte:          same(59_357_464),
		parameters.ActionDelegate:                    same(200_000_000_000),
		parameters.ActionDeployGlobalContractBase:    same(184_765_750_000),
		parameters.ActionDeployGlobalContractByte:    fee(6_812_999, 6_812_999, 70_000_000),
		parameters.ActionUseGlobalContractBase:       same(184_765_750_000),
		parameters.ActionUseGlobalContractByte:       fee(6_812_999, 47_683_715, 64_572_944),
		parameters.ActionDeterministicStateInitBase:  fee(3_850_000_000_000, 3_850_000_000_000, 4_080_000_000_000),
		parameters.ActionDeterministicStateInitByte:  fee(72_000_000, 72_000_000, 70_000_000),
		parameters.ActionDeterministicStateInitEntry: fee(0, 0, 200_000_000_000),
		parameters.ActionGasKeyTransferBase:          fee(115_123_062_500, 115_123_062_500, 235_676_644_250),
		parameters.ActionGasKeyByte:                  fee(59_357_464, 59_357_464, 101_435_400),
		parameters.ActionGasKeyNonceWriteBase:        fee(0, 0, 64_196_736_000),
		parameters.ActionUniversalStateInitBase:      fee(500_000_000_000, 500_000_000_000, 7_430_000_000_000),
		parameters.ActionUniversalStateInitByte:      fee(78_000_000, 78_000_000, 74_000_000),
		parameters.ActionUniversalStateInitEntry:     fee(3_100_000_000, 3_100_000_000, 200_000_000_000),
	}
}

// slice is a range of the memory.
type slice struct{ ptr, len uint64 }

func (r *harness) put(b []byte) slice {
	s := slice{r.at, uint64(len(b))}
	copy(r.Memory[r.at:], b)
	r.at += s.len
	return s
}

func (r *harness) putString(s string) slice { return r.put([]byte(s)) }

func (r *harness) putBalance(v uint64) uint64 {
	return r.put(primitives.Yocto(v).AppendBorsh(nil)).ptr
}

func (r *harness) putIndex(i uint64) uint64 {
	return r.put(binary.LittleEndian.AppendUint64(nil, i)).ptr
}

// do calls a host function. Unlike a module, it can do so after an error.
func (r *harness) do(name string, args ...uint64) (uint64, error) {
	r.t.Helper()
	i, ok := Index(name)
	if !ok || !Functions[i].In(&r.cfg.Wasm) {
		r.t.Fatalf("no host function %s", name)
	}
	r.Logic.err = nil
	return r.Invoke(i, args)
}

// must is do for a function that must succeed.
func (r *harness) must(name string, args ...uint64) uint64 {
	r.t.Helper()
	v, err := r.do(name, args...)
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	return v
}

// fails is do for a function that must fail with this error.
func (r *harness) fails(want HostError, name string, args ...uint64) {
	r.t.Helper()
	if _, err := r.do(name, args...); !errors.Is(err, &want) {
		r.t.Errorf("%s: err = %v, want %v", name, err, &want)
	}
}

// setReg puts b into a register as a host function would.
func (r *harness) setReg(id uint64, b []byte) error { return r.copyToRegister(id, b) }

// wantReg reads a register with host functions, as a contract would, into the end of the memory.
func (r *harness) wantReg(id uint64, want []byte) {
	r.t.Helper()
	n := r.must("register_len", id)
	ptr := uint64(len(r.Memory)) - n
	r.must("read_register", id, ptr)
	if got := r.Memory[ptr:]; !bytes.Equal(got, want) {
		r.t.Errorf("register %d = %x, want %x", id, got, want)
	}
}

type costs map[parameters.ExtCost]uint64

// wantCosts compares how many units of each cost were charged since the previous call. Zero units
// are not recorded.
func (r *harness) wantCosts(want costs) {
	r.t.Helper()
	got := costs{}
	for c, gas := range r.gas.ext {
		if gas != r.paid[c] {
			got[parameters.ExtCost(c)] = uint64((gas - r.paid[c]) / r.cfg.Wasm.Ext[c].Gas)
		}
	}
	r.paid = r.gas.ext
	maps.DeleteFunc(want, func(_ parameters.ExtCost, n uint64) bool { return n == 0 })
	if !maps.Equal(got, want) {
		r.t.Errorf("costs = %v, want %v", got, want)
	}
}

func (r *harness) wantUsed(want uint64) {
	r.t.Helper()
	if got := r.must("used_gas"); got != want {
		r.t.Errorf("used_gas = %d, want %d", got, want)
	}
}
