package network

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// TestChunkProducersAreLookedUpOncePerHead: the chunk producers of a shard are looked up once for
// each head. Later transactions do not wait for the epoch manager, which the chain locks while it
// validates blocks.
func TestChunkProducersAreLookedUpOncePerHead(t *testing.T) {
	a, _ := newLoneActor(t)
	for _, account := range []primitives.AccountID{"", "test.near", "b.near"} {
		a.o.Account, a.routes = account, txRoutes{}
		to, own, within := a.chunkProducersAt(a.o.Engine.Head(), "alice.near")
		if !within || own != (account == "test.near") || !own && !slices.Equal(to, []primitives.AccountID{"test.near"}) {
			t.Fatalf("as %q: %v, %v, %v", account, to, own, within)
		}
		if got, mine := a.chunkProducers("alice.near"); !slices.Equal(got, to) || mine != own {
			t.Errorf("as %q: %v, %v, want %v, %v", account, got, mine, to, own)
		}
		// Using the epoch manager inside this call would block forever.
		err := a.o.Engine.Epochs(func(*epoch.Manager) error {
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
