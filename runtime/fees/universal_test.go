package fees

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

var release88 = parameters.MustGet(parameters.Release(88))

// TestUniversalAccountFeesOf88 checks the fees of 88 that no earlier version has (near-parameters
// 0.38.0 src/cost.rs:958, res/runtime_configs/88.yaml): bytes, entries and keys of a state init,
// each key as a full-access key, and transfers to universal ids, which pay for an account.
func TestUniversalAccountFeesOf88(t *testing.T) {
	t.Parallel()
	const create, fullKey, transfer = 500_000_000_000, 101_765_125_000, 115_123_062_500
	ed, secp := edKey.Handle(), secpKey.Handle()
	entries := []primitives.StateEntry{{Key: []byte("k"), Value: []byte("vw")}, {Key: []byte("l")}}
	whole := (&primitives.UniversalStateInitV1{Data: entries, AccessKeys: []primitives.PublicKeyHandle{ed, secp}}).Encode()
	twice := (&primitives.UniversalStateInitV1{
		Data: append(entries, entries...), AccessKeys: []primitives.PublicKeyHandle{ed, secp, ed},
	}).Encode()
	empty := (&primitives.UniversalStateInitV1{}).Encode()
	send := func(bytes, entries, keys primitives.Gas) primitives.Gas {
		return 500_000_000_000 + 78_000_000*bytes + 3_100_000_000*entries + fullKey*keys
	}
	run := func(bytes, entries, keys primitives.Gas) primitives.Gas {
		return 7_430_000_000_000 + 74_000_000*bytes + 200_000_000_000*entries + fullKey*keys
	}
	const wholeBytes = 1 + 1 + 4 + (4 + 1 + 4 + 2) + (4 + 1 + 4) + 4 + 33 + 65
	for _, c := range []struct {
		name      string
		a         primitives.Action
		to        primitives.AccountID
		send, run primitives.Gas
	}{
		{"nothing", &primitives.UniversalStateInit{Init: empty}, bob, send(10, 0, 0), run(10, 0, 0)},
		{"two entries and two keys", &primitives.UniversalStateInit{Init: whole}, bob, send(wholeBytes, 2, 2), run(wholeBytes, 2, 2)},
		{"each twice, counted once", &primitives.UniversalStateInit{Init: twice}, bob,
			send(wholeBytes+20+33, 2, 2), run(wholeBytes+20+33, 2, 2)},
		{"malformed: bytes alone", &primitives.UniversalStateInit{Init: make(primitives.RawStateInit, 5000)}, bob, send(5000, 0, 0), run(5000, 0, 0)},
		{"no bytes", &primitives.UniversalStateInit{}, bob, send(0, 0, 0), run(0, 0, 0)},
		{"transfer", transferOf(1), whole.DerivedAccount(), transfer + create, transfer + 7_200_000_000_000},
		{"transfer to a wrong last symbol", transferOf(1), empty.DerivedAccount()[:53] + "1", transfer, transfer},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, same := range []bool{true, false} {
				if got, err := Send(release88, same, c.a, c.to); err != nil || got != parameters.GasCost(c.send) {
					t.Errorf("sending costs %+v, want %d (%v)", got, c.send, err)
				}
			}
			if got, err := Exec(release88, c.a, c.to); err != nil || got != parameters.GasCost(c.run) {
				t.Errorf("executing costs %+v, want %d (%v)", got, c.run, err)
			}
		})
	}
	for _, v := range []parameters.Version{parameters.June(86), parameters.Release(87)} {
		if got, err := Exec(parameters.MustGet(v), transferOf(1), whole.DerivedAccount()); err != nil || got != parameters.GasCost(transfer) {
			t.Errorf("a transfer to a universal id costs %+v at %v, want that of a named one (%v)", got, v, err)
		}
	}
	if sum, err := TotalDeposit([]primitives.Action{
		&primitives.UniversalStateInit{Deposit: primitives.Yocto(3)}, delegateOf(1, edKey, &primitives.UniversalStateInit{Deposit: primitives.Yocto(4)}),
	}); err != nil || sum != primitives.Yocto(7) {
		t.Errorf("deposits of state inits are %v, %v", sum, err)
	}
}

// TestContractGetsNoRewardFrom87: from RemoveGasRewards on, a contract gets no share of the burnt
// gas.
func TestContractGetsNoRewardFrom87(t *testing.T) {
	t.Parallel()
	for v, want := range map[parameters.Version]uint64{parameters.Release(86): 30_000, parameters.Release(87): 0, parameters.Release(88): 0} {
		if got, err := Reward(parameters.MustGet(v), 1000, primitives.Yocto(100)); err != nil || got != primitives.Yocto(want) {
			t.Errorf("the reward at %v is %v, want %d (%v)", v, got, want, err)
		}
	}
}
