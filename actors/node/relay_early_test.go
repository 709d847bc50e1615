package node

import (
	"fmt"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestReorderedNoncesAreAllExecuted: transactions of one key that are sent at once and arrive out
// of order are all executed, whether clients wait or not.
func TestReorderedNoncesAreAllExecuted(t *testing.T) {
	for _, until := range []view.ExecutionLevel{view.LevelFinal, view.LevelNone} {
		t.Run(fmt.Sprint(until), func(t *testing.T) {
			s := start(t, 1, nil)
			var txs []*primitives.SignedTransaction
			for range 20 {
				txs = append(txs, s.tx("near", transfer(1)))
			}
			var all sync.WaitGroup
			for i := range txs {
				tx := txs[len(txs)-1-i]
				all.Add(1)
				go func() {
					defer all.Done()
					out, err := s.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: until})
					if err == nil && until == view.LevelNone {
						out, err = s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelFinal})
					}
					if err != nil || out.Level != view.LevelFinal {
						t.Errorf("nonce %d: %+v, %v, want FINAL", tx.Nonce.Nonce, out, err)
					}
				}()
			}
			all.Wait()
		})
	}
}

// TestNonceGapIsAcceptedAfterAMoment: a nonce that stays ahead is accepted after a moment, because
// neard only requires that nonces rise.
func TestNonceGapIsAcceptedAfterAMoment(t *testing.T) {
	s := start(t, 1, nil)
	s.nonce = 40
	out, err := s.SendTx(t.Context(), &view.SendTx{Tx: s.tx("near", transfer(1)), WaitUntil: view.LevelFinal})
	if err != nil || out.Level != view.LevelFinal {
		t.Errorf("nonce 41 of a key at 0: %+v, %v, want FINAL", out, err)
	}
}

// TestNonceHoldFollowsCurrentMode: whether a nonce that is ahead is held depends on the current
// production mode, not on the initial one.
func TestNonceHoldFollowsCurrentMode(t *testing.T) {
	s := start(t, 1, func(o *Options) { o.Mode = production.Manual })
	o := s.mempool(s.shards.set.Load().list[0], false, nil)
	s.nonce = 2
	ahead := s.tx("near", transfer(1))
	for _, mode := range []production.Mode{production.Manual, production.Instant, production.Manual} {
		if _, err := s.Production(t.Context(), messages.SetProduction{Mode: new(byte(mode))}); err != nil {
			t.Fatal(err)
		}
		if got, want := o.Chain.IsAhead(ahead), mode == production.Instant; got != want {
			t.Errorf("%v: %v, want %v", mode, got, want)
		}
	}
}
