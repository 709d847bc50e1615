package apply

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// trieChargingVM is a VM whose calls charge for trie nodes as contracts do: a write pays for the
// nodes and the value that it touches, a read does not.
type trieChargingVM struct{ cfg *parameters.RuntimeConfig }

func (v trieChargingVM) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	out, free := c.Unchanged(), func(uint32) error { return nil }
	var err error
	var n action.NodeCount
	if c.Method == "read" {
		_, _, _, err = x.Read([]byte("key"), free)
	} else {
		_, n, err = x.Write([]byte("key"), []byte(c.Method), free)
	}
	price := v.cfg.Wasm.Ext[parameters.ExtTouchingTrieNode].Gas
	for cost, count := range map[parameters.ExtCost]uint64{parameters.ExtTouchingTrieNode: n.Touched, parameters.ExtReadCachedTrieNode: n.Cached} {
		if count > 0 {
			gas := primitives.Gas(count) * price
			out.Profile = action.MergeProfiles(out.Profile, []primitives.CostEntry{{Category: "WASM_HOST_COST", Cost: cost.ProfileName(), Gas: gas}})
			out.GasBurnt += gas
		}
	}
	out.GasUsed = out.GasBurnt
	return out, err
}

// TestUnpaidReadsKeepProfilesOfEarlierCalls checks reads of one value that many accounts have. Such
// reads touch the value without paying, although they make the next touch a cached one. So they
// must not change the profile of a call that ran before its turn.
func TestUnpaidReadsKeepProfilesOfEarlierCalls(t *testing.T) {
	t.Parallel()
	accounts := make([]primitives.AccountID, 60)
	for i := range accounts {
		accounts[i] = primitives.AccountID("account" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ".near")
	}
	run := func(par Par) *Result {
		n := newNet(t, primitives.SingleShardLayout(), accounts...)
		n.cfg = freeConfig()
		n.vm, n.par = trieChargingVM{parameters.MustGet(n.cfg.Version)}, par
		give := func(salt byte, method func(i int) string) {
			for i, id := range accounts {
				n.give(n.selfReceipt(id, salt+byte(i), &primitives.FunctionCall{Method: method(i), Gas: 1_000_000_000_000}))
			}
		}
		for i, id := range accounts {
			n.give(n.selfReceipt(id, byte(i), &primitives.DeployContract{Code: []byte("code")}))
		}
		n.step()
		give(60, func(int) string { return "the same value" })
		n.step()
		give(120, func(i int) string { return []string{"read", "read", "write"}[i%3] })
		return n.step()[0]
	}
	got, want := run(goPar), run(nil)
	if got.Stats.RanInParallel == 0 {
		t.Error("nothing ran in parallel")
	}
	sameResult(t, got, want)
}
