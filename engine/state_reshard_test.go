package engine

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// FuzzOrigin fuzzes the decoder of the location of a shard's outgoing receipts: what it accepts is
// the only encoding of its result.
func FuzzOrigin(f *testing.F) {
	at := primitives.HashBytes([]byte("block"))
	for _, s := range []ShardState{{ID: 3, OutgoingAt: at, OutgoingOf: 3}, {ID: 3, OutgoingAt: at, OutgoingOf: 1}, {ID: 3, OutgoingOf: 3},
		{ID: 3, OutgoingAt: at, OutgoingOf: 3, brought: []primitives.ReceiptProof{{From: 1, To: 3}}}} {
		f.Add(appendOrigin(nil, &s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := ShardState{ID: 3}
		if s.readOrigin(in) == nil && !bytes.Equal(appendOrigin(nil, &s), in) {
			t.Errorf("%x became %x", in, appendOrigin(nil, &s))
		}
	})
}
