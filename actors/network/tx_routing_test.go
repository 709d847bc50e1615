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
		w, within := a.txRouteAt(a.o.Engine.Head(), "alice.near")
		to, own := w.to, w.own
		if !within || w.soon != own || own != (account == "test.near") || !own && !slices.Equal(to, []primitives.AccountID{"test.near"}) {
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

// TestForwardedTransactionToNoProducerIsCounted: a transaction that a peer forwarded to a node which
// is not about to produce a chunk has its own count.
func TestForwardedTransactionToNoProducerIsCounted(t *testing.T) {
	a, _ := newLoneActor(t)
	tx := func(nonce primitives.Nonce) *primitives.SignedTransaction {
		return primitives.NewSignedTransaction(primitives.Transaction{SignerID: "alice.near", ReceiverID: "b.near",
			Nonce: primitives.TransactionNonce{Nonce: nonce}}, primitives.ZeroED25519Signature)
	}
	for nonce, account := range []primitives.AccountID{"", "b.near", "test.near"} {
		a.o.Account, a.routes, a.o.Route.Off = account, txRoutes{}, true
		x := tx(primitives.Nonce(nonce))
		a.txs.foreign[x.Hash()] = true
		a.pooled(x, false)
	}
	a.pooled(tx(9), true) // not checked
	s := a.o.Status
	if got, want := [3]uint64{s.txValidator.Load(), s.txOther.Load(), s.txForwarded.Load()}, [3]uint64{1, 0, 2}; got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
}
