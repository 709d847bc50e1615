package network

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// TestMakers: who makes the chunks of a shard is looked up once for each head: for the transactions behind the first nobody waits for the epochs, which the chain has
// for itself while it judges blocks.
func TestMakers(t *testing.T) {
	a, _ := alone(t)
	for _, account := range []primitives.AccountID{"", "test.near", "b.near"} {
		a.o.Account, a.routes = account, txRoutes{}
		to, own, within := a.chunkProducersAt(a.o.Engine.Head(), "alice.near")
		if !within || own != (account == "test.near") || !own && !slices.Equal(to, []primitives.AccountID{"test.near"}) {
			t.Fatalf("as %q: %v, %v, %v", account, to, own, within)
		}
		if got, mine := a.chunkProducers("alice.near"); !slices.Equal(got, to) || mine != own {
			t.Errorf("as %q: %v, %v, want %v, %v", account, got, mine, to, own)
		}
		err := a.o.Engine.Epochs(func(*epoch.Manager) error { // who asks here for the epochs asks for ever
			for _, signer := range []primitives.AccountID{"alice.near", "zoe.near"} {
				if got, mine := a.chunkProducers(signer); !slices.Equal(got, to) || mine != own {
					t.Errorf("as %q, of %s: %v, %v, want %v, %v", account, signer, got, mine, to, own)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
