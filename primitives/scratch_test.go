package primitives

import (
	"bytes"
	"crypto/sha256"
	"sync"
	"testing"
)

// filled is a value of n equal bytes that encodes itself again while it is encoded, as some values
// do.
type filled struct {
	n    int
	with byte
	deep int
}

func (v filled) AppendBorsh(b []byte) []byte {
	from := len(b)
	for range v.n {
		b = append(b, v.with)
	}
	if v.deep > 0 {
		inner := filled{v.n / 2, v.with + 1, v.deep - 1}
		if HashBorsh(inner) != sha256.Sum256(inner.AppendBorsh(nil)) {
			panic("another hash within")
		}
	}
	for _, x := range b[from:] {
		if x != v.with {
			panic("another has written into it")
		}
	}
	return b
}

// TestScratchBufferHasOneBorrower: a lent buffer is used by one borrower only, at any size,
// concurrently and when nested; long buffers are not kept.
func TestScratchBufferHasOneBorrower(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 255, 256, 4095, 64 << 10, maxScratch - 1, maxScratch, maxScratch + 1, 3 * maxScratch}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 40 {
				v := filled{sizes[(i+g)%len(sizes)], byte(16*g + i), i % 3}
				want := bytes.Repeat([]byte{v.with}, v.n)
				if HashBorsh(v) != sha256.Sum256(want) {
					t.Errorf("a hash of %d bytes is that of another value", v.n)
				}
				Encoded(v, func(b []byte) {
					Encoded(filled{v.n / 3, v.with + 1, 0}, func([]byte) {})
					if !bytes.Equal(b, want) {
						t.Errorf("an encoding of %d bytes is that of another value", v.n)
					}
				})
			}
		})
	}
	all.Wait()
	for range 100 {
		if s := scratch.Get().(*[]byte); cap(*s) > maxScratch {
			t.Fatalf("%d bytes are kept", cap(*s))
		}
	}
}

// TestSameReceiptsComparesEveryByte: lists are the same if every receipt is, to the last byte.
func TestSameReceiptsComparesEveryByte(t *testing.T) {
	t.Parallel()
	list := func(change func(*Receipt)) []*Receipt {
		a := &Receipt{PredecessorID: "a", ReceiverID: "b", ID: Hash{1}, Body: &DataReceipt{Data: make([]byte, 5)}}
		b := &Receipt{PredecessorID: "a", ReceiverID: "b", ID: Hash{2}, Body: &DataReceipt{Data: []byte{}}}
		if change != nil {
			change(b)
		}
		return []*Receipt{a, b}
	}
	x := list(nil)
	for name, tt := range map[string]struct {
		a, b []*Receipt
		want bool
	}{
		"none":            {nil, []*Receipt{}, true},
		"itself":          {x, x, true},
		"equal":           {x, list(nil), true},
		"one less":        {x, x[:1], false},
		"one and none":    {x[:1], nil, false},
		"in another turn": {x, []*Receipt{x[1], x[0]}, false},
		"another id":      {x, list(func(r *Receipt) { r.ID[31] = 1 }), false},
		"another sender":  {x, list(func(r *Receipt) { r.PredecessorID = "c" }), false},
		"no data":         {x, list(func(r *Receipt) { r.Body.(*DataReceipt).Data = nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SameReceipts(tt.a, tt.b); got != tt.want {
				t.Errorf("got %v", got)
			}
			if got := SameReceipts(tt.b, tt.a); got != tt.want {
				t.Errorf("the other way: %v", got)
			}
		})
	}
}
