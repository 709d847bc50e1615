package txscript

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// TestMemoryOfEachCallIsZeroed: no call finds data that an earlier call left in its memory: in the
// first pages, which stay with the process between calls, in later pages, and in pages that the
// call added.
func TestMemoryOfEachCallIsZeroed(t *testing.T) {
	w, err := New(Options{Accounts: []primitives.AccountID{"alice", "probe"}, Shards: 1, VM: testVM(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	run := func(actions ...primitives.Action) *happened {
		tx := w.Sign("alice", "probe", actions...)
		if actions[0].Tag() == primitives.TagDeployContract {
			tx = w.Sign("probe", "probe", actions...)
		}
		if err := w.Run(tx); err != nil {
			t.Fatal(err)
		}
		return w.outcomes[w.outcomes[tx.Hash()].ReceiptIDs[0]]
	}
	call := func(p *contracts.Program) *happened {
		return run(&primitives.FunctionCall{Method: "run", Args: p.Bytes(), Gas: 300_000_000_000_000})
	}
	run(&primitives.DeployContract{Code: contracts.Probe()})
	// 1024 to 9216 has the results of a program, its code lies at 65,536.
	const grown = 1024 << 16 // contracts have 1024 pages
	places := []struct{ from, n uint64 }{{20_000, 40_000}, {70_000, 100_000}, {contracts.ProbeScratch, 100_000}, {grown + 10, 50_000}}
	for range 3 {
		var dirty contracts.Program
		dirty.Grow(2)
		for _, p := range places {
			dirty.Fill(p.from, 0xee, p.n)
		}
		dirty.Call("value_return", 1, uint64(places[0].from))
		if got := call(&dirty); !bytes.Equal(got.Status.Value, []byte{0xee}) {
			t.Fatalf("filling ends with %s", status(&got.Status))
		}
		for _, p := range places {
			var look contracts.Program
			look.Grow(2)
			look.Call("value_return", p.n, p.from)
			got := call(&look).Status
			if uint64(len(got.Value)) != p.n || bytes.ContainsFunc(got.Value, func(r rune) bool { return r != 0 }) {
				t.Errorf("%d bytes at %d, returned %d, are not all zero: %s", p.n, p.from, len(got.Value), status(&got))
			}
		}
	}
}
