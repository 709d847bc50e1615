package vm_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// vector is a line of testdata/random: a module, how it was called, and nearcore's result of each
// call (internal/testkit/oracle).
type vector struct {
	Name        string
	Wasm        []byte
	Method      string
	Args        []byte
	View        bool
	Balance     *primitives.Balance
	Deposit     *primitives.Balance
	Results     []*[]byte // nil: failed
	Outputs     []primitives.AccountID
	MaxGasBurnt primitives.Gas `json:"max_gas_burnt"`
	Prepared    *int           // bytes of the module that nearcore compiles
	Unfit       string         // or the PrepareError
	Runs        []run
	Protocol    primitives.ProtocolVersion // of the releases; 0: june's 86
	OldLoadRule bool                       `json:"old_load_rule"`
	Predecessor primitives.AccountID
	Keep        bool // the state is what the first run of the vector before left
}

// config returns the parameters of the vector's protocol.
func (v *vector) config() *parameters.RuntimeConfig {
	if v.Protocol == 0 {
		return parameters.MustGet(parameters.June(86))
	}
	return parameters.MustGet(parameters.Release(v.Protocol))
}

// run is what came of a call. What is left out is zero.
type run struct {
	Gas, Burnt, Used primitives.Gas
	Compute          parameters.Compute
	Err              *primitives.FunctionCallError
	Logs             []string
	Value            []byte
	Receipt          *int
	Balance          *primitives.Balance
	Storage          *uint64
	Subsidized       primitives.Balance
	Promises         string
	Profile          map[string]primitives.Gas
}

// vectors calls do for each line of a file, after its header.
func vectors(t *testing.T, path string, do func(i int, v *vector)) {
	t.Helper()
	var session []byte // the module of a session stands in its first vector
	i := 0
	for v := range testutil.Vectors[vector](t, path) {
		if v.Keep && v.Wasm == nil {
			v.Wasm = session
		}
		session = v.Wasm
		do(i, v)
		i++
	}
}

// vectorFiles are those of testdata, or of the folder that TROUPE_VECTORS names.
func vectorFiles(t *testing.T) []string {
	t.Helper()
	dir, least := os.Getenv("TROUPE_VECTORS"), 1
	if dir == "" {
		dir, least = "testdata/random", 10
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
	if err != nil || len(files) < least {
		t.Fatalf("%d files of vectors in %s, %v", len(files), dir, err)
	}
	return files
}

// TestModulesPrepareAsInNearcore compares the kind of failure, or the size, of all modules.
func TestModulesPrepareAsInNearcore(t *testing.T) {
	for _, file := range vectorFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl.gz"), func(t *testing.T) {
			n, failed := 0, 0
			vectors(t, file, func(_ int, v *vector) {
				n++
				want := v.Unfit
				if want != "" {
					failed++
				}
				m, err := prep.Prepare(v.Wasm, &v.config().Wasm)
				got := ""
				var why primitives.PrepareError
				if errors.As(err, &why) {
					got = why.String()
				} else if err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("%s: %q, want %q", v.Name, got, want)
				} else if err == nil && m.Size != *v.Prepared {
					t.Errorf("%s: %d bytes, want %d", v.Name, m.Size, *v.Prepared)
				}
			})
			t.Logf("%d modules, %d of them not fit to run", n, failed)
		})
	}
}

// TestMethodsRunAsInNearcore calls the methods of every sixteenth module, or, with
// TROUPE_REPLAY=all, of all modules.
func TestMethodsRunAsInNearcore(t *testing.T) {
	every := 16
	if os.Getenv("TROUPE_REPLAY") == "all" {
		every = 1
	}
	for _, file := range vectorFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl.gz"), func(t *testing.T) {
			t.Parallel()
			m, err := vm.New(vm.Options{Memory: 64 << 20, Builders: 1, Alarm: func(err error) { t.Errorf("alarm: %v", err) }})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			cranelift, err := vm.New(vm.Options{Memory: 64 << 20, Builders: 1, Cranelift: true, Alarm: func(err error) { t.Errorf("alarm: %v", err) }})
			if err != nil {
				t.Fatal(err)
			}
			defer cranelift.Close()
			forms, turn := []*vm.VM{m, m, cranelift}, 0
			calls := 0
			u, sessions := state.NewUnrecorded(emptyTrie{}), strings.Contains(file, "contracts") || strings.Contains(file, "mathcalls")
			vectors(t, file, func(i int, v *vector) {
				// Large modules take a second each to compile.
				if !sessions && (i%every != 0 || len(v.Wasm) > 200_000 && every > 1) {
					return
				}
				by := forms[turn%len(forms)] // a third by the other generator, so that both agree with neard
				turn++
				if !v.Keep {
					u = state.NewUnrecorded(emptyTrie{})
				}
				for j := len(v.Runs) - 1; j >= 0; j-- { // the first is the one that stays
					calls++
					got, err := v.call(by, u, &v.Runs[j])
					if err != nil {
						t.Errorf("%s, gas %d: %v", v.Name, v.Runs[j].Gas, err)
					} else if d := got.differences(&v.Runs[j]); d != "" {
						t.Errorf("%s, gas %d:\n%s", v.Name, v.Runs[j].Gas, d)
					}
					if j > 0 || err != nil || got.Err != nil {
						u.Rollback()
					}
				}
				u.Commit(primitives.CauseReceiptProcessing, primitives.Hash{})
			})
			t.Logf("%d calls", calls)
		})
	}
}

// call is the call of internal/testkit/oracle/src/vm.rs: the same context, over an empty trie.
func (v *vector) call(m *vm.VM, u *state.TrieUpdate, r *run) (*run, error) {
	cfg := *v.config()
	if v.MaxGasBurnt > 0 {
		cfg.Wasm.Limits.MaxGasBurnt = v.MaxGasBurnt
	}
	if v.OldLoadRule {
		cfg.Wasm.FixContractLoadingError = false
	}
	var actionHash, seed primitives.Hash
	for i := range actionHash {
		actionHash[i], seed[i] = 7, 9
	}
	key := make([]byte, 33)
	for i := range key {
		key[i] = byte(i)
	}
	block := &action.Block{Config: &cfg, ChainID: "test", Height: 1234, EpochHeight: 3, Timestamp: 42, Stakes: stakes{}}
	c := &action.Call{
		Block: block, CodeHash: primitives.HashBytes(v.Wasm), Code: v.Wasm, Method: v.Method, Args: v.Args, View: v.View,
		CurrentAccount: "alice.near", SignerAccount: "bob.near", SignerKey: primitives.PublicKey(key),
		Predecessor: "carol.near", RefundTo: "david.near",
		Balance: primitives.MustParseBalance("10000000000000000000000000"), Locked: primitives.Yocto(5),
		Deposit: primitives.MustParseBalance("1000000000000000000000000"), StorageUsage: 100_000,
		Contract:   primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.HashBytes(v.Wasm)},
		PrepaidGas: r.Gas, RandomSeed: seed, OutputReceivers: v.Outputs,
	}
	if v.Balance != nil {
		c.Balance = *v.Balance
	}
	if v.Deposit != nil {
		c.Deposit = *v.Deposit
	}
	if v.Predecessor != "" {
		c.Predecessor = v.Predecessor
	}
	for _, p := range v.Results {
		result := action.PromiseResult{Failed: p == nil}
		if p != nil {
			result.Data = *p
		}
		c.Results = append(c.Results, result)
	}
	x := action.NewExternal(block, u, c.CurrentAccount, actionHash)
	out, err := m.Call(c, x)
	if err != nil {
		return nil, err
	}
	got := &run{
		Gas: r.Gas, Burnt: out.GasBurnt, Used: out.GasUsed, Compute: out.Compute, Err: out.Err, Logs: out.Logs,
		Profile: make(map[string]primitives.Gas),
	}
	for _, e := range out.Profile {
		got.Profile[e.Category+"."+e.Cost] = e.Gas
	}
	if out.Err != nil {
		return got, nil
	}
	got.Balance, got.Storage, got.Subsidized = &out.Balance, &out.StorageUsage, out.Subsidized
	switch out.Return.Kind {
	case action.ReturnValue:
		got.Value = out.Return.Value
	case action.ReturnReceipt:
		got.Receipt = &out.Return.Receipt
	}
	got.Promises = promises(x)
	return got, nil
}

// promises is the hash that internal/testkit/oracle/src/ext.rs makes of what a call promised.
func promises(x *action.External) string {
	made, resumes := x.Made()
	if len(made)+len(resumes) == 0 {
		return ""
	}
	var b []byte
	for _, p := range made {
		b = p.Receiver.AppendBorsh(b)
		if b = borsh.AppendBool(b, p.RefundTo != ""); p.RefundTo != "" {
			b = p.RefundTo.AppendBorsh(b)
		}
		b = borsh.AppendUint32(b, uint32(len(p.Receivers)))
		for _, r := range p.Receivers {
			b = r.ReceiverID.AppendBorsh(append(b, r.DataID[:]...))
		}
		b = borsh.AppendUint32(b, uint32(len(p.Inputs)))
		for _, id := range p.Inputs {
			b = append(b, id[:]...)
		}
		b = borsh.AppendBool(primitives.AppendActions(b, p.Actions), p.Yield)
	}
	for _, r := range resumes {
		b = borsh.AppendBytes(append(b, r.DataID[:]...), r.Data)
	}
	h := primitives.HashBytes(b)
	return hex.EncodeToString(h[:])
}

// differences returns how got differs from want; empty if it does not.
func (got *run) differences(want *run) string {
	var b strings.Builder
	differ := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			fmt.Fprintf(&b, "\t%s: %s, want %s\n", what, g, w)
		}
	}
	differ("burnt", got.Burnt, want.Burnt)
	differ("used", got.Used, want.Used)
	differ("compute", got.Compute, want.Compute)
	differ("error", errorText(got.Err), errorText(want.Err))
	differ("logs", got.Logs, want.Logs)
	if !bytes.Equal(got.Value, want.Value) {
		differ("value", hex.EncodeToString(got.Value), hex.EncodeToString(want.Value))
	}
	differ("receipt", orNone(got.Receipt), orNone(want.Receipt))
	differ("balance", orNone(got.Balance), orNone(want.Balance))
	differ("storage", orNone(got.Storage), orNone(want.Storage))
	differ("subsidized", got.Subsidized, want.Subsidized)
	differ("promises", got.Promises, want.Promises)
	differ("profile", got.Profile, want.Profile)
	return b.String()
}

func orNone[T any](p *T) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprint(*p)
}

// errorText leaves out what is the engine's own text, as the vectors do.
func errorText(e *primitives.FunctionCallError) string {
	if e == nil {
		return "none"
	}
	if e.Tag == primitives.CallCompilation && e.Compilation.Tag == primitives.CompilationWasm {
		return "WasmerCompileError"
	}
	text := string(e.AppendJSON(nil))
	if strings.Contains(text, "Loading Error") {
		return "Loading Error"
	}
	return text
}

// stakes are the validators of internal/testkit/oracle/src/vm.rs.
type stakes struct{}

func (stakes) Stake(id primitives.AccountID) primitives.Balance {
	switch id {
	case "val.near":
		return primitives.MustParseBalance("70000000000000000000000000000")
	case "bob.near":
		return primitives.Yocto(11)
	}
	return primitives.Balance{}
}

func (stakes) Total() primitives.Balance {
	return primitives.MustParseBalance("70000000000000000000000000011")
}

// emptyTrie has nothing, so no access pays for a node.
type emptyTrie struct{}

func (emptyTrie) Root() primitives.Hash                       { return primitives.Hash{} }
func (emptyTrie) NewRecording() state.Recording               { return nil }
func (emptyTrie) MemoryUsage() uint64                         { return 0 }
func (emptyTrie) Get([]byte, state.Recording) ([]byte, error) { return nil, nil }
func (emptyTrie) FindSplit(state.Recording) (primitives.TrieSplit, error) {
	return primitives.TrieSplit{}, state.ErrNoSplit
}

func (emptyTrie) Lookup([]byte, state.Recording) (ref state.ValueRef, found bool, err error) {
	return ref, false, nil
}

func (emptyTrie) Path(_ []byte, _ state.Recording, path []state.Visit) ([]state.Visit, state.ValueRef, bool, error) {
	return slices.Clip(path), state.ValueRef{}, false, nil
}

func (emptyTrie) Scan(_, _ []byte, _ state.Recording, _ func(key, value []byte) bool) error {
	return nil
}

func (emptyTrie) Update([]state.Change, state.Recording) (state.Trie, error) {
	return nil, errors.New("no call updates the trie")
}
