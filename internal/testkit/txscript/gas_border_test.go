package txscript

import (
	"bytes"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// TestStateInitsFailWithOneGasLess: a call that promises state inits succeeds with exactly the gas
// that it needs, and fails with one gas less. In that case nothing is promised, and no more than
// the attached gas is burnt. The promised receipt has all the gas that it burns, whether its bytes
// are valid or are refused.
func TestStateInitsFailWithOneGasLess(t *testing.T) {
	w, err := New(Options{Accounts: []primitives.AccountID{"alice"}, Shards: 1, VM: testVM(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	l := &lab{w, t}
	l.do(&primitives.DeployContract{Code: contracts.NewestProbe()})
	small, id := w.Universal("u")
	var large primitives.UniversalStateInitV1
	for i := range 40 {
		large.Data = append(large.Data, primitives.StateEntry{Key: []byte{byte(i)}, Value: bytes.Repeat([]byte{7}, i)})
		large.AccessKeys = append(large.AccessKeys, primitives.PublicKeyHandle(append([]byte{3}, bytes.Repeat([]byte{byte(i)}, 32)...)))
	}
	twice := append(bytes.Clone(small[:len(small)-37]), 2, 0, 0, 0)
	twice = append(append(twice, small[len(small)-33:]...), small[len(small)-33:]...)
	unsorted := primitives.RawStateInit(twice)
	for name, c := range map[string]struct {
		to      primitives.AccountID
		raw     primitives.RawStateInit
		deposit primitives.Balance
		fails   string // when there is enough gas
	}{
		"key":        {id, small, primitives.Balance{}, ""},
		"large":      {large.DerivedAccount(), large.Encode(), primitives.NEAR(1), ""},
		"repeated":   {id, small, primitives.NEAR(2), ""},
		"twice":      {unsorted.DerivedAccount(), unsorted, primitives.Balance{}, "MalformedUniversalStateInit"},
		"of another": {"alice", small, primitives.NEAR(1), "InvalidUniversalStateInitReceiver"},
		"no bytes":   {primitives.RawStateInit(nil).DerivedAccount(), nil, primitives.Balance{}, "MalformedUniversalStateInit"},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(gas primitives.Gas) *happened {
				o, _ := l.do(program(gas, func(p *contracts.Program) {
					b := p.Call("promise_batch_create", string(c.to))
					p.Call("promise_batch_action_universal_state_init", b, []byte(c.raw), contracts.Amount(c.deposit))
					p.Call("promise_batch_action_universal_state_init", b, []byte(c.raw), contracts.Amount(c.deposit))
				}))
				return o
			}
			enough := func(o *happened) bool { return !strings.Contains(string(o.Status.Failure), "Exceeded the prepaid gas") }
			low, high := primitives.Gas(1), primitives.Gas(300*tera)
			for low < high {
				if mid := low + (high-low)/2; enough(run(mid)) {
					high = mid
				} else {
					low = mid + 1
				}
			}
			o := run(low)
			if got := string(o.Status.Failure); c.fails == "" && o.Status.Kind == primitives.StatusFailure || !strings.Contains(got, c.fails) {
				t.Errorf("%s, with %d gas: %s, want %q", name, low, got, c.fails)
			}
			for _, r := range o.ReceiptIDs {
				if got := l.outcomes[r]; got.Status.Kind == primitives.StatusFailure {
					t.Errorf("the promised receipt: %s", got.Status.Failure)
				}
			}
			base := run(1).GasBurnt
			if o := run(low - 1); enough(o) || o.GasBurnt > base+low-1 {
				t.Errorf("%s, with %d gas: %d burnt, of which %d before the call; %s", name, low-1, o.GasBurnt, base, o.Status.Failure)
			}
		})
	}
}
