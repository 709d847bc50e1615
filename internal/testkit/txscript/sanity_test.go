package txscript

import (
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
)

// TestVectorA63 is nearcore's integration-tests/src/tests/runtime/sanity_checks.rs:96: nearly all
// host functions in one call, how its receipts end, as in snapshot ..receipts_status.snap, and
// what each burns for loading contracts, as in ..receipts_gas_profile.snap. The probe stands for
// nearcore's test contract, whose wasm is not here: its callbacks are programs in place of
// methods, and it does not import gas. TestSanityCheckCostsMatchNearcore of runtime/vm/logic checks
// the gas of the host calls. bar stakes more than in nearcore's test, because the minimum stake of
// this chain is higher.
func TestVectorA63(t *testing.T) {
	l := newLab(t)
	key := gasKey("alice").PublicKey()
	trivial := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x08\x01\x04main\x00\x00\x0a\x04\x01\x02\x00\x0b")
	then := func(calls func(p *contracts.Program)) []byte {
		var p contracts.Program
		calls(&p)
		return p.Bytes()
	}
	none := contracts.Amount(primitives.Balance{})
	const gas = uint64(5 * tera)
	o, tx := l.do(program(300*tera, func(p *contracts.Program) {
		p.Call("input", 0)
		for _, name := range []string{"current_account_id", "signer_account_pk", "signer_account_id", "predecessor_account_id", "random_seed"} {
			p.Call(name, 1)
		}
		for _, name := range []string{"block_index", "block_timestamp", "epoch_height", "storage_usage", "prepaid_gas", "used_gas"} {
			p.Call(name)
		}
		p.Call("account_balance", contracts.ProbeScratch)
		p.Call("attached_deposit", contracts.ProbeScratch)
		p.Call("sha256", "hello", 1)
		p.Call("value_return", "hello")
		p.Call("promise_create", "alice", "then", then(func(p *contracts.Program) { p.Call("panic") }), none, gas)
		p.Call("promise_create", "alice", "then", then(func(p *contracts.Program) { p.Call("panic_utf8", "xyz") }), none, gas)
		p.Call("log_utf8", "hello")
		p.Call("log_utf16", "h\x00e\x00l\x00l\x00o\x00")
		p.Call("promise_create", "alice", "noop", "", none, gas)
		p.Call("promise_then", 2, "alice", "noop", "", none, gas)
		p.Call("promise_then", 2, "alice", "noop", "", none, gas)
		p.Call("promise_and", contracts.Pointer("\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00"), 2)
		p.Call("promise_batch_create", "alice")
		p.Call("promise_batch_then", 4, "alice")

		foo := p.Call("promise_batch_create", "foo.alice")
		p.Call("promise_batch_action_create_account", foo)
		p.Call("promise_batch_action_transfer", foo, contracts.Amount(milliNEAR(50)))
		p.Call("promise_batch_action_deploy_contract", foo, trivial)
		p.Call("promise_batch_action_deploy_global_contract", foo, trivial)
		p.Call("promise_batch_action_deploy_global_contract_by_account_id", foo, trivial)
		p.Call("promise_batch_action_function_call", foo, "main", "", none, gas)
		p.Call("promise_batch_action_function_call_weight", foo, "main", "", none, 0, 1)
		p.Call("promise_batch_action_add_key_with_full_access", foo, []byte(key), 0)
		p.Call("promise_batch_action_delete_key", foo, []byte(key))
		p.Call("promise_batch_action_add_key_with_function_call", foo, []byte(key), 1, none, "foo.alice", "main")
		p.Call("promise_batch_action_delete_account", foo, "alice")

		bar := p.Call("promise_batch_create", "bar.alice")
		p.Call("promise_batch_action_create_account", bar)
		p.Call("promise_batch_action_transfer", bar, contracts.Amount(primitives.NEAR(500_000)))
		p.Call("promise_batch_action_stake", bar, contracts.Amount(primitives.NEAR(300_000)), []byte(key))

		p.Call("promise_create", "alice", "noop", "", none, gas)
		results := then(func(p *contracts.Program) { p.Call("promise_results_count"); p.Call("promise_result", 0, 0) })
		p.Call("promise_return", p.Call("promise_then", 10, "alice", "then", results, none, gas))

		p.Call("storage_write", "hi", "hello", 1)
		p.Call("storage_write", "hi", "hello", 1)
		for _, name := range []string{"storage_read", "storage_remove"} {
			p.Call(name, "abcdefg", 1)
			p.Call(name, "hi", 1)
		}
		p.Call("storage_has_key", "abcdefg")
		p.Call("validator_stake", string(workload.Validator), contracts.ProbeScratch)
		p.Call("validator_total_stake", contracts.ProbeScratch)
		p.Call("ripemd160", "AAAAAAAAAA", 1)
		p.Call("alt_bn128_g1_multiexp", "", 1)
		p.Call("alt_bn128_g1_sum", "", 1)
		p.Call("alt_bn128_pairing_check", "")
	}))
	var got []string
	var loading []primitives.Gas
	var visit func(o *happened)
	visit = func(o *happened) {
		text := status(&o.Status)
		if o.Status.Kind == primitives.StatusSuccessReceiptID {
			text = "a receipt"
		} else if o.Status.Kind == primitives.StatusSuccessValue && len(o.Status.Value) == 0 {
			text = ""
		}
		loads := primitives.Gas(0)
		for _, e := range o.Metadata.Profile {
			if e.Cost == "CONTRACT_LOADING_BASE" {
				loads = e.Gas
			}
		}
		got, loading = append(got, text), append(loading, loads)
		for _, id := range o.ReceiptIDs {
			visit(l.outcomes[id])
		}
	}
	visit(o)
	want := make([]string, 25)
	want[0] = "a receipt"
	want[1] = `failed {"ActionError":{"index":0,"kind":{"FunctionCallError":{"ExecutionError":"Smart contract panicked: explicit guest panic"}}}}`
	want[3] = `failed {"ActionError":{"index":0,"kind":{"FunctionCallError":{"ExecutionError":"Smart contract panicked: xyz"}}}}`
	if len(got) != len(want) {
		t.Fatalf("%d receipts, want %d\n%s", len(got), len(want), l.Tree(tx))
	}
	const once = 35_445_963
	loads := map[int]primitives.Gas{0: once, 1: once, 3: once, 5: once, 7: once, 9: once, 15: 70_891_926, 20: once, 22: once}
	for i := range want {
		if loading[i] != loads[i] {
			t.Errorf("receipt %d: loading %d, want %d", i, loading[i], loads[i])
		}
		if got[i] != want[i] {
			t.Errorf("receipt %d: %s, want %s\n%s", i, got[i], want[i], l.Tree(tx))
		}
	}
}
