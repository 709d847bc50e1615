package rpc

import (
	"errors"
	"runtime"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestListsAreBounded: lists of a transaction take no more memory than those of valid ones could, whatever they say.
func TestListsAreBounded(t *testing.T) {
	key := primitives.PublicKey(append([]byte{0}, make([]byte, 32)...))
	empty := borsh.Marshal(&primitives.Transaction{SignerID: "a.near", PublicKey: key, ReceiverID: "b.near"})
	// create is so many actions of one byte each, among those of the transaction.
	create := func(n int) []byte {
		b := borsh.AppendUint32(empty[:len(empty)-4:len(empty)-4], uint32(n))
		b = append(b, make([]byte, n)...)
		return append(b, make([]byte, 65)...)
	}
	for _, x := range []struct {
		actions int
		fits    bool
	}{{100, true}, {60_000, true}, {200_000, false}, {7_000_000, false}} {
		raw := create(x.actions)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tx, err := decodeTx(raw)
		runtime.ReadMemStats(&after)
		switch {
		case x.fits && (err != nil || len(tx.Actions) != x.actions):
			t.Errorf("%d actions: %v", x.actions, err)
		case !x.fits && (err == nil || err.Error() != "Too many items"):
			t.Errorf("%d actions: %v", x.actions, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%d actions: %d bytes", x.actions, used)
		}
	}
	if err := borsh.Unmarshal(create(200_000), new(primitives.SignedTransaction)); err != nil {
		t.Errorf("where nothing bounds it: %v", err)
	}
	if err := borsh.UnmarshalWithin(create(10), new(primitives.SignedTransaction), 9*16); !errors.Is(err, borsh.ErrTooMuch) {
		t.Errorf("10 actions in room for 9: %v", err)
	}
	if err := borsh.UnmarshalWithin(create(10), new(primitives.SignedTransaction), 10*16); err != nil {
		t.Errorf("10 actions in room for 10: %v", err)
	}
}
