package apply

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// TestProofLimitsInParallelEqualSerial: receipts near the limits of the recorded state read, write
// and remove the same large values and call the same contracts. A receipt that runs ahead of its
// turn records other nodes than in its turn. Nevertheless the limits of receipts and of the chunk
// stop the same receipts as in serial execution, and the chunk can be applied again from its proof.
func TestProofLimitsInParallelEqualSerial(t *testing.T) {
	t.Parallel()
	const accounts, entries = 5, 6
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	names := make([]primitives.AccountID, accounts)
	for i := range names {
		names[i] = primitives.AccountID(fmt.Sprintf("reader%d.near", i))
	}
	base := newNet(t, primitives.SingleShardLayout(), names...)
	base.vm, base.limit = v, 1<<60
	code := contracts.Probe()
	base.change(func(u *state.TrieUpdate) {
		for i, id := range names {
			a := *base.account(id)
			a.SetContract(primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.HashBytes(code)})
			a.StorageUsage += uint64(len(code)) + entries*1_000_000
			u.SetAccount(id, &a)
			u.SetCode(id, primitives.HashBytes(code), code)
			for k := range entries {
				value := make([]byte, 999_750)
				value[0], value[1] = byte(k), byte(i/2) // pairs of accounts have the same values
				u.Set(primitives.AppendContractDataKey(nil, id, []byte{byte(k)}), value)
			}
			for k := range 30 {
				u.SetAccessKey(id, testKey(fmt.Sprint("existing", k)).PublicKey().Handle(), &primitives.AccessKey{})
			}
		}
	})
	ends := map[string]int{}
	ahead, again := 0, 0
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 87))
		n := base.copy()
		n.cfg = parameters.MustGet(parameters.Release(primitives.ProtocolVersion(86 + seed%3)))
		var list []*primitives.Receipt
		for i := range 4 + rng.IntN(12) {
			var actions []primitives.Action
			for range 1 + rng.IntN(4) {
				actions = append(actions, proofAction(rng, i, entries))
			}
			if rng.IntN(3) == 0 { // nearly the limit, and then what only the check after each action counts
				actions = []primitives.Action{read(0, 4)}
				for k := range 8 {
					actions = append(actions, &primitives.AddKey{PublicKey: testKey(fmt.Sprint("more", i, k)).PublicKey()})
				}
			}
			list = append(list, n.selfReceipt(names[rng.IntN(accounts)], byte(i), actions...))
		}
		n.give(list...)
		for range 6 {
			n.height++
			in := n.input(0, nil)
			n.height--
			want := n.step()[0]
			for _, most := range []int{3, 100} {
				in.Par, in.window = goPar, windowSizes{most: most, least: 1}
				got, err := Apply(in)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				sameResult(t, got, want)
				ahead, again = ahead+got.Stats.RanInParallel, again+got.Stats.RanAgain
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			for i := range want.Outcomes {
				switch o := want.Outcomes[i].Outcome.Status; {
				case strings.Contains(string(o.Failure), "ReceiptStorageProofSizeExceeded"):
					ends["action"]++
				case strings.Contains(string(o.Failure), "storage proof"):
					ends["call"]++
				case o.Kind != primitives.StatusFailure:
					ends["ok"]++
				}
			}
		}
	}
	if ahead == 0 || again == 0 || ends["action"] == 0 || ends["call"] == 0 || ends["ok"] == 0 {
		t.Errorf("%d receipts ran ahead, %d again, ends: %v", ahead, again, ends)
	}
}

// proofAction draws an action that records much.
func proofAction(rng *rand.Rand, salt, entries int) primitives.Action {
	var p contracts.Program
	switch rng.IntN(8) {
	case 0:
		return &primitives.AddKey{PublicKey: testKey(fmt.Sprint("added", salt, rng.IntN(9))).PublicKey()}
	case 1:
		return &primitives.DeleteKey{PublicKey: testKey(fmt.Sprint("existing", rng.IntN(30))).PublicKey()}
	case 2:
		return &primitives.DeployContract{Code: contracts.Version(byte(rng.IntN(4)))}
	case 3:
		for range 1 + rng.IntN(3) {
			p.Call("storage_remove", []byte{byte(rng.IntN(entries))}, 1)
		}
	case 4:
		p.Call("storage_write", []byte{byte(rng.IntN(entries))}, make([]byte, 1000), 1)
	default:
		for range 1 + rng.IntN(4) {
			p.Call("storage_read", []byte{byte(rng.IntN(entries))}, 0)
		}
	}
	return &primitives.FunctionCall{Method: "run", Args: p.Bytes(), Gas: 60_000_000_000_000}
}
