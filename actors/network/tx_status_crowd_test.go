package network

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// TestManyUnknownStatusesDelayNoOtherClient: a client that asks about thousands of unknown
// transactions keeps no other client from asking or from getting an answer.
func TestManyUnknownStatusesDelayNoOtherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTxStatuses(nil, new(Status), "", 0)
		asked := uint64(0)
		crowd := func() {
			var h primitives.Hash
			for range 5000 {
				asked++
				binary.LittleEndian.PutUint64(h[:], asked)
				s.Ask("crowd", h, "a")
			}
		}
		for n := range 20 {
			hash := primitives.HashBytes([]byte{byte(n)})
			crowd()
			if _, news := s.Ask("honest", hash, "a"); news == nil {
				t.Fatalf("round %d: the honest client's question is not sent", n)
			}
			crowd()
			time.Sleep(statusRetry / 2) // until an answer could have arrived
			crowd()
			if len(s.asking(hash)) != 1 {
				t.Fatalf("round %d: the answer to the honest client is not accepted", n)
			}
			time.Sleep(statusRetry / 2)
			if len(s.asked) > maxStatuses {
				t.Fatalf("%d questions are kept", len(s.asked))
			}
		}
	})
}
