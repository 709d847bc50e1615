package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/primitives"
)

// TestTagSumEqualsBurntGas: transactions that are submitted while a tag is open, and those that are
// named, belong to it. Its profile has their gas by host function and by function, and its sum is
// the gas burnt in the outcomes.
func TestTagSumEqualsBurntGas(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	a := tokenWorld(t, h)
	var tag struct {
		Name         string
		Open         bool
		Transactions int
	}
	call := func(method, params string, result any) {
		t.Helper()
		if f := rpcOf(t, h, method, params, result); f != "" {
			t.Fatalf("%s: error %s", method, f)
		}
	}
	if call("sandbox_tag", `{"name":"transfers"}`, &tag); !tag.Open || tag.Transactions != 0 {
		t.Errorf("tag %+v", tag)
	}
	gas := uint64(0)
	burnt := func(s *txStatus) {
		gas += s.Tx.Outcome.Gas
		for _, r := range s.Receipts {
			gas += r.Outcome.Gas
		}
	}
	for range 3 {
		_, s := a.calls("alice.near", "token.near", "ft_transfer", `{"receiver_id":"bob.near","amount":"1"}`, primitives.Yocto(1))
		burnt(&s)
	}
	_, s := a.calls("alice.near", "token.near", "ft_transfer_call", `{"receiver_id":"defi.near","amount":"100","msg":"promise:30"}`, primitives.Yocto(1))
	burnt(&s)
	call("sandbox_tag", `null`, new(struct{}))
	other, _ := a.calls("alice.near", "token.near", "ft_transfer", `{"receiver_id":"bob.near","amount":"1"}`, primitives.Yocto(1))
	var sum trace.Sum
	call("sandbox_profile", `["transfers"]`, &sum)
	if sum.Transactions != 4 || sum.Unknown != 0 || sum.Waiting != 0 || sum.Gas != gas || sum.Calls < 3+4 {
		t.Errorf("%d transactions, %d unknown, %d receipts wait, %d calls, %d gas, want 4, 0, 0, 7 or more and %d", sum.Transactions, sum.Unknown, sum.Waiting, sum.Calls, sum.Gas, gas)
	}
	host, own, total := uint64(0), uint64(0), map[string]uint64{}
	calls := map[string]int{}
	for i, x := range sum.Host {
		host += x.Gas
		calls[x.Name] = x.Calls
		if i > 0 && x.Gas > sum.Host[i-1].Gas {
			t.Errorf("%s is listed after an entry that burnt less", x.Name)
		}
	}
	for _, x := range sum.Functions {
		own += x.Gas
		total[x.Account+" "+x.Name] = x.Total
		if x.Gas > x.Total {
			t.Errorf("%s of %s burnt %d, %d with what it called", x.Name, x.Account, x.Gas, x.Total)
		}
	}
	if host+own != sum.CallGas || sum.CallGas >= sum.Gas {
		t.Errorf("host functions burnt %d, functions %d, all calls %d, all outcomes %d", host, own, sum.CallGas, sum.Gas)
	}
	if calls["storage_write"] < 8 || total["token.near method_ft_transfer"] == 0 || total["defi.near method_ft_on_transfer"] == 0 || total["token.near method_ft_resolve_transfer"] == 0 {
		t.Errorf("host functions %v, functions %v", calls, total)
	}
	if call("sandbox_tag", fmt.Sprintf(`{"name":"one","tx_hashes":[%q,"11111111111111111111111111111111"]}`, other), &tag); tag.Open || tag.Transactions != 2 {
		t.Errorf("tag %+v", tag)
	}
	call("sandbox_profile", `{"name":"one"}`, &sum)
	if sum.Transactions != 1 || sum.Unknown != 1 || sum.Calls != 1 {
		t.Errorf("sum %+v", sum)
	}
	var list []struct{ Name string }
	if call("sandbox_tags", `null`, &list); len(list) != 2 || list[0].Name != "transfers" || list[1].Name != "one" {
		t.Errorf("list %+v", list)
	}
	call("sandbox_drop_tag", `{"name":"one"}`, new(struct{}))
	if f := rpcOf(t, h, "sandbox_profile", `["one"]`, &sum); f != "SANDBOX_REFUSED: the chain has no such tag" {
		t.Errorf("of none: %s", f)
	}
	for i := range 300 {
		if f := rpcOf(t, h, "sandbox_tag", fmt.Sprintf(`["t%d"]`, i), &tag); f != "" {
			if i != 255 || !strings.HasPrefix(f, "SANDBOX_REFUSED: the chain has 256 tags") {
				t.Errorf("tag %d: %s", i, f)
			}
			break
		}
	}
}
