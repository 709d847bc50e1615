package apply

import (
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// wildVM is a VM whose calls do random things, drawn from their arguments and inputs. It pays for
// promises as a contract would, so that no token is made or lost.
type wildVM struct{ cfg *parameters.RuntimeConfig }

type wildCall struct {
	*action.Call
	x      *action.External
	cfg    *parameters.RuntimeConfig
	rng    *primitives.ChaChaRng
	out    action.CallOutcome
	gas    primitives.Gas // left to give away
	made   []int
	yields []primitives.Hash
	nodes  action.NodeCount
}

func (w *wildCall) count(n action.NodeCount) {
	w.nodes.Touched += n.Touched
	w.nodes.Cached += n.Cached
}

func (vm wildVM) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	seed := primitives.HashBytes(append([]byte(c.Method), c.Args...))
	for i := range c.Results {
		seed = primitives.CombineHash(seed, primitives.HashBytes(c.Results[i].Data))
	}
	w := &wildCall{Call: c, x: x, cfg: vm.cfg, rng: primitives.NewStdRng(seed), out: c.Unchanged()}
	w.out.GasBurnt = min(c.PrepaidGas, primitives.Gas(w.rng.UniformUint64(2_000_000_000_000)))
	w.gas = c.PrepaidGas - w.out.GasBurnt
	w.out.Compute = parameters.Compute(w.out.GasBurnt)
	w.out.Logs = []string{"called " + c.Method}
	for range w.rng.UniformUint32(6) {
		if err := w.step(); err != nil {
			return w.out, err
		}
	}
	w.out.GasUsed = c.PrepaidGas - w.gas
	price := vm.cfg.Wasm.Ext[parameters.ExtTouchingTrieNode].Gas
	if n := w.nodes.Cached; n > 0 {
		w.out.Profile = append(w.out.Profile, primitives.CostEntry{Category: "WASM_HOST_COST", Cost: parameters.ExtReadCachedTrieNode.ProfileName(), Gas: primitives.Gas(n) * price})
	}
	if n := w.nodes.Touched; n > 0 {
		w.out.Profile = append(w.out.Profile, primitives.CostEntry{Category: "WASM_HOST_COST", Cost: parameters.ExtTouchingTrieNode.ProfileName(), Gas: primitives.Gas(n) * price})
	}
	switch w.rng.UniformUint32(5) {
	case 0:
		w.out.Err = &primitives.FunctionCallError{Tag: primitives.CallExecution, Message: "wild"}
	case 1:
		w.out.Return = action.Return{Kind: action.ReturnValue, Value: []byte("result")}
	case 2:
		if len(w.made) > 0 {
			w.out.Return = action.Return{Kind: action.ReturnReceipt, Receipt: w.made[len(w.made)-1]}
		}
	}
	return w.out, nil
}

func (w *wildCall) key() []byte {
	return binary.LittleEndian.AppendUint16(nil, uint16(w.rng.UniformUint32(12)))
}

// step does one thing.
func (w *wildCall) step() error {
	free := func(uint32) error { return nil }
	switch w.rng.UniformUint32(9) {
	case 0, 1:
		k, v := w.key(), make([]byte, w.rng.UniformUint32(300))
		old, n, err := w.x.Write(k, v, free)
		w.count(n)
		if old == nil {
			w.out.StorageUsage += 40 + uint64(len(k))
		}
		w.out.StorageUsage += uint64(len(v)) - uint64(len(old)) // wraps and back
		return err
	case 2:
		k := w.key()
		old, n, err := w.x.Remove(k, free)
		w.count(n)
		if old != nil {
			w.out.StorageUsage -= 40 + uint64(len(k)) + uint64(len(old))
		}
		return err
	case 3:
		_, _, _, err := w.x.Read(w.key(), free) // a read pays no nodes
		return err
	case 4, 5:
		return w.promise()
	case 6:
		if i, data := w.x.Yield(); w.fund(i, &primitives.FunctionCall{Method: "resumed", Gas: 1_000_000_000_000}) {
			w.made, w.yields = append(w.made, i), append(w.yields, data)
		} else {
			w.out.Err = &primitives.FunctionCallError{Tag: primitives.CallExecution, Message: "no gas"}
		}
		return nil
	case 7:
		if len(w.yields) > 0 {
			_, err := w.x.Resume(w.yields[0], []byte("payload"))
			return err
		}
	case 8:
		id := primitives.HashBytes(w.key())
		if w.rng.UniformUint32(2) == 0 {
			_, err := w.x.ResumeByID(id, []byte("by id"))
			return err
		}
		i, ok, err := w.x.YieldWithID(id)
		if ok && !w.fund(i, &primitives.FunctionCall{Method: "resumed2", Gas: 1_000_000_000_000}) {
			w.out.Err = &primitives.FunctionCallError{Tag: primitives.CallExecution, Message: "no gas"}
		}
		return err
	}
	return nil
}

// fund pays for the receipt and an action of it.
func (w *wildCall) fund(promise int, a primitives.Action) bool {
	to, _ := w.x.Receiver(promise)
	exec, _ := fees.Exec(w.cfg, a, to)
	need := exec.Gas + fees.NewReceiptExec(w.cfg).Gas
	if call, ok := a.(*primitives.FunctionCall); ok {
		need += call.Gas
	}
	deposit := fees.Deposit(a)
	rest, ok := w.out.Balance.Sub(deposit)
	if need > w.gas || !ok {
		return false
	}
	w.gas -= need
	w.out.Balance = rest
	if call, ok := a.(*primitives.FunctionCall); ok {
		_ = w.x.AppendCall(promise, call, uint64(w.rng.UniformUint32(3)))
	} else {
		_, _ = w.x.Append(promise, a)
	}
	return true
}

// promise makes one, perhaps behind an earlier one. One that cannot be paid for fails the call.
func (w *wildCall) promise() error {
	var after []int
	if len(w.made) > 0 && w.rng.UniformUint32(2) == 0 {
		after = []int{w.made[0]}
	}
	to := wildNames[w.rng.UniformUint32(uint32(len(wildNames)))]
	var a primitives.Action
	switch w.rng.UniformUint32(4) {
	case 0:
		a = &primitives.Transfer{Deposit: primitives.Yocto(uint64(w.rng.UniformUint32(1000)))}
	case 1:
		a = &primitives.DeleteAccount{Beneficiary: "alice.near"} // only of the contract itself, or it fails
	default:
		a = &primitives.FunctionCall{Method: "m", Args: w.key(), Gas: primitives.Gas(w.rng.UniformUint64(20_000_000_000_000)) + 1}
	}
	i, err := w.x.Create(to, after)
	if err != nil {
		return err
	}
	if !w.fund(i, a) {
		w.out.Err = &primitives.FunctionCallError{Tag: primitives.CallExecution, Message: "no gas"}
	}
	w.made = append(w.made, i)
	return nil
}
