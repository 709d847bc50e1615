package backend

import (
	"encoding/binary"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestTaggedTransactionsAreBounded: the transactions of one tag and of all tags are bounded.
// Dropping a tag makes room.
func TestTaggedTransactionsAreBounded(t *testing.T) {
	b := new(Backend)
	hashes := make([]primitives.Hash, maxTagged+1)
	for i := range hashes {
		binary.LittleEndian.PutUint32(hashes[i][:], uint32(i))
	}
	for i := range maxOfAll / maxTagged {
		if got, err := b.Tag(string(rune('a'+i)), hashes); err != nil || got.Transactions != maxTagged || got.Omitted != 1 {
			t.Fatalf("tag %d: %+v, %v", i, got, err)
		}
	}
	if got, err := b.Tag("more", hashes[:2]); err != nil || got.Transactions != 0 || got.Omitted != 2 {
		t.Errorf("beyond all: %+v, %v", got, err)
	}
	if err := b.DropTag("a"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Tag("more", hashes[:2]); err != nil || got.Transactions != 2 {
		t.Errorf("after a tag was dropped: %+v, %v", got, err)
	}
}
