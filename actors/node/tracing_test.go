package node

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// TestOldTracesAreRemovedAtLimit: when there is no room for another trace, old ones are removed:
// after some seconds if no client waits and no chunk has the transaction, else after minutes. That
// is done at most once a second.
func TestOldTracesAreRemovedAtLimit(t *testing.T) {
	s := newTracer(1, func(*Trace) {})
	nonce := primitives.Nonce(0)
	add := func(wait bool, age time.Duration, took bool) primitives.Hash {
		nonce++
		var plain primitives.Transaction
		plain.SignerID, plain.ReceiverID, plain.Nonce.Nonce = "a", "b", nonce
		plain.PublicKey = primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey()
		tx := primitives.NewSignedTransaction(plain, primitives.ZeroED25519Signature)
		s.begin(tx, wait)
		if p := s.open[tx.Hash()]; p != nil {
			p.at[submitted] = p.at[submitted].Add(-age)
			if took {
				p.at[chosen] = time.Now()
			}
		}
		return tx.Hash()
	}
	refused, waited, took := add(false, time.Minute, false), add(true, time.Minute, false), add(false, time.Minute, true)
	for len(s.open) < maxOpen {
		add(false, 0, false)
	}
	last := add(false, 0, false)
	for id, want := range map[primitives.Hash]bool{refused: false, waited: true, took: true, last: true} {
		if _, has := s.open[id]; has != want {
			t.Errorf("transaction %v is open: %v, want %v", id, has, want)
		}
	}
	s.open[waited].at[submitted] = time.Now().Add(-time.Hour)
	if again := add(false, 0, false); s.open[again] != nil || s.open[waited] == nil {
		t.Error("it is looked through twice in a second")
	}
	s.swept = s.swept.Add(-sweepPeriod)
	if again := add(false, 0, false); s.open[again] == nil || s.open[waited] != nil {
		t.Error("a trace that is open for an hour is not removed")
	}
}
