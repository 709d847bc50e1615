package vm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// anyWorld is an External that accepts all actions of a contract and stores only its entries.
type anyWorld struct {
	world
	receipts int
}

func (w *anyWorld) Remove(key []byte, pay func(uint32) error) (old []byte, n action.NodeCount, err error) {
	old, ok := w.entries[string(key)]
	if !ok {
		return nil, n, nil
	}
	delete(w.entries, string(key))
	return old, n, pay(uint32(len(old)))
}

func (w *anyWorld) next() int {
	w.receipts++
	return w.receipts - 1
}

func (w *anyWorld) Stake(primitives.AccountID) primitives.Balance          { return primitives.Yocto(1) }
func (w *anyWorld) TotalStake() primitives.Balance                         { return primitives.Yocto(1) }
func (w *anyWorld) Create(primitives.AccountID, []int) (int, error)        { return w.next(), nil }
func (w *anyWorld) Receiver(int) (primitives.AccountID, error)             { return "bob.near", nil }
func (w *anyWorld) SetRefundTo(int, primitives.AccountID) error            { return nil }
func (w *anyWorld) Append(int, primitives.Action) (int, error)             { return 0, nil }
func (w *anyWorld) AppendCall(int, *primitives.FunctionCall, uint64) error { return nil }
func (w *anyWorld) AddStateInitEntry(int, int, []byte, []byte) error       { return action.ErrActionIndex }
func (w *anyWorld) Yield() (int, primitives.Hash)                          { return w.next(), primitives.Hash{1} }
func (w *anyWorld) YieldWithID(primitives.Hash) (int, bool, error)         { return w.next(), true, nil }
func (w *anyWorld) Resume(primitives.Hash, []byte) (bool, error)           { return true, nil }
func (w *anyWorld) ResumeByID(primitives.Hash, []byte) (bool, error)       { return false, nil }

// FuzzCall runs arbitrary bytes as a contract. The call must end within its gas, without an error of the
// node.
func FuzzCall(f *testing.F) {
	for _, o := range oracles {
		if o.code == nil {
			f.Add(wat(f, o.wat))
		} else if len(o.code) < 4096 {
			f.Add(o.code)
		}
	}
	built, _ := filepath.Glob("../../internal/testkit/contracts/c/*.wasm")
	for _, path := range built {
		if b, err := os.ReadFile(path); err == nil && len(b) < 1<<15 {
			f.Add(b)
		}
	}
	v := newVM(f)
	f.Fuzz(func(t *testing.T, code []byte) {
		c := call(code, "main", tera)
		out, err := v.run(c, &anyWorld{})
		if err != nil {
			t.Fatal(err)
		}
		if out.GasBurnt > tera || out.GasUsed > tera || out.GasBurnt > out.GasUsed {
			t.Errorf("%s", ended(&out))
		}
		again, err := v.run(c, &anyWorld{})
		if err != nil || ended(&again) != ended(&out) {
			t.Errorf("%s, then %s, %v", ended(&out), ended(&again), err)
		}
	})
}
