package engine

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/primitives"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// sized is a value whose encoding has that many bytes.
type sized int

func (n sized) AppendBorsh(b []byte) []byte {
	for range n {
		b = append(b, byte(n))
	}
	return b
}

var _ borsh.Appender = sized(0)

// TestEncodingsShareSlabsWithoutOverlap: few small values use little memory, many share slabs, a
// large one gets its exact size, and no value overwrites another.
func TestEncodingsShareSlabsWithoutOverlap(t *testing.T) {
	var few encodings
	if few.of(sized(100)); cap(few.slab) > firstEncodings {
		t.Errorf("a value of 100 bytes allocates %d", cap(few.slab))
	}
	if b := few.of(sized(1_000_000)); cap(b) > 1_100_000 || cap(few.slab) > firstEncodings {
		t.Errorf("a value of 1,000,000 bytes allocates %d", cap(b))
	}
	var many encodings
	var all [][]byte
	if n := testing.AllocsPerRun(1, func() {
		all = all[:0]
		for i := range 10_000 {
			all = append(all, many.of(sized(i%200)))
		}
	}); n > 100 && !testutil.Racing { // the race detector allocates too
		t.Errorf("%v allocations for 10,000 values", n)
	}
	for i, b := range all {
		if want := sized(i % 200).AppendBorsh(nil); !bytes.Equal(b, want) || cap(b) > len(b) && len(b) > 0 {
			t.Fatalf("value %d is %d bytes with room for %d", i, len(b), cap(b))
		}
	}
}

// FuzzOrigin fuzzes readOrigin: an accepted input must be the encoding of its result.
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
