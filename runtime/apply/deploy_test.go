package apply

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// These tests follow nearcore test-loop-tests/src/tests/deploy_compute_cost.rs: the compute of deployments
// bounds the compilations of a chunk.

func TestDeployComputeLimitsDeploymentsPerChunk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		row         string
		size, chunk int            // bytes of code; number of deployments that fit into a chunk
		each        primitives.Gas // compute of one deployment
	}{
		{"deploy_compute_cost.rs:28", 34, 50, 20_116_559_500_000},
		{"deploy_compute_cost.rs:39", 1_000_000, 4, 270_108_059_500_000},
	} {
		t.Run(test.row, func(t *testing.T) {
			n := newPair(t)
			for i := range test.chunk + 1 {
				n.give(n.selfReceipt(alice, byte(i), &primitives.DeployContract{Code: make([]byte, test.size)}))
			}
			r := n.step()[0]
			if len(r.Outcomes) != test.chunk || r.Stats.DelayedLen != 1 {
				t.Errorf("%d deployments, %d delayed, want %d and 1", len(r.Outcomes), r.Stats.DelayedLen, test.chunk)
			}
			for i := range r.Outcomes {
				if o := &r.Outcomes[i]; o.ComputeUsage != test.each || o.Status.Kind == primitives.StatusFailure {
					t.Errorf("compute %d, want %d, %s", o.ComputeUsage, test.each, statusText(&o.Status))
				}
			}
			if r = n.step()[0]; len(r.Outcomes) != 1 || r.Stats.DelayedLen != 0 {
				t.Errorf("then %d deployments, %d delayed", len(r.Outcomes), r.Stats.DelayedLen)
			}
		})
	}
}

// TestDistributionComputeLimitsChunk is deploy_compute_cost.rs:124: a chunk whose limit equals the
// compute of one distribution of 1,000 bytes runs one distribution.
func TestDistributionComputeLimitsChunk(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	n.limit = 20_250_000_000_000
	var ids []primitives.GlobalContractID
	for i := range 2 {
		code := bytes.Repeat([]byte{'x'}, 1000+i)
		ids = append(ids, primitives.GlobalContractID{Hash: primitives.HashBytes(code)})
		n.give(&primitives.Receipt{PredecessorID: alice, ReceiverID: primitives.SystemAccount, ID: primitives.HashBytes(code[:i+1]),
			Body: &primitives.GlobalContractDistribution{ID: ids[i], TargetShard: n.layout.ShardIDs()[0], Code: code, V2: true, Nonce: 1}})
	}
	for want := 1; want <= 2; want++ {
		r := n.step()[0]
		got := 0
		for i := range ids {
			if has, err := n.view(alice).HasGlobalCode(&ids[i]); err != nil {
				t.Fatal(err)
			} else if has {
				got++
			}
		}
		if got != want || int(r.Stats.DelayedLen) != 2-want {
			t.Errorf("%d contracts, %d delayed, want %d and %d", got, r.Stats.DelayedLen, want, 2-want)
		}
	}
}
