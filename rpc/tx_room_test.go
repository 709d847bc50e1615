package rpc

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// longTx is a transaction with a list of n items, each encoded by item, after what head appends.
func longTx(n int, head func(b []byte, n int) []byte, item func(b []byte, i int) []byte, tail []byte) []byte {
	key := primitives.PublicKey(append([]byte{0}, make([]byte, 32)...))
	empty := borsh.Marshal(&primitives.Transaction{SignerID: "a.near", PublicKey: key, ReceiverID: "b.near"})
	b := head(empty[:len(empty)-4:len(empty)-4], n)
	for i := range n {
		b = item(b, i)
	}
	return append(append(b, tail...), make([]byte, 65)...)
}

func creates(n int) []byte {
	return longTx(n, borsh.AppendLen, func(b []byte, _ int) []byte { return append(b, byte(primitives.TagCreateAccount)) }, nil)
}

// delegated is a delegate action with n inner ones.
func delegated(n int) []byte {
	head := func(b []byte, n int) []byte {
		b = append(borsh.AppendLen(b, 1), byte(primitives.TagDelegate))
		b = borsh.AppendString(borsh.AppendString(b, "a.near"), "b.near")
		return borsh.AppendLen(b, n)
	}
	return longTx(n, head, func(b []byte, _ int) []byte { return append(b, byte(primitives.TagCreateAccount)) }, make([]byte, 16+33+65))
}

// entries is a state init with n entries of the shortest distinct keys.
func entries(n int) []byte {
	head := func(b []byte, n int) []byte {
		b = append(borsh.AppendLen(b, 1), byte(primitives.TagDeterministicStateInit), 0, 0)
		return borsh.AppendLen(append(b, make([]byte, 32)...), n)
	}
	return longTx(n, head, func(b []byte, i int) []byte {
		return append(borsh.AppendBytes(b, binary.BigEndian.AppendUint32(nil, uint32(i))[1:]), 0, 0, 0, 0)
	}, make([]byte, 16))
}

// TestLongListsAreDecodedInBoundedMemory: nearcore decodes lists of any length and reports what is
// wrong with the transaction. So does this node, within a small multiple of the encoding's length.
func TestLongListsAreDecodedInBoundedMemory(t *testing.T) {
	rules := parameters.MustGet(parameters.June(86))
	for _, x := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"100 actions", creates(100), ""},
		{"101 actions", creates(101), `{"TotalNumberOfActionsExceeded":{"limit":100,"total_number_of_actions":101}}`},
		{"200,000 actions", creates(200_000), `{"TotalNumberOfActionsExceeded":{"limit":100,"total_number_of_actions":200000}}`},
		{"7,000,000 actions", creates(7_000_000), `{"TotalNumberOfActionsExceeded":{"limit":100,"total_number_of_actions":7000000}}`},
		{"300,000 delegated actions", delegated(300_000), `{"TotalNumberOfActionsExceeded":{"limit":100,"total_number_of_actions":300000}}`},
		{"100,000 entries", entries(100_000), `InvalidDeterministicStateInitReceiver`},
		{"600,000 entries", entries(600_000), `InvalidDeterministicStateInitReceiver`},
	} {
		t.Run(x.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tx, err := decodeTx(x.raw)
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			if used, most := after.TotalAlloc-before.TotalAlloc, uint64(8*len(x.raw)+1<<20); used > most {
				t.Errorf("%d bytes take %d in memory, more than %d", len(x.raw), used, most)
			}
			if tx.Hash() != primitives.HashBytes(x.raw[:len(x.raw)-65]) || tx.Size() != len(x.raw) {
				t.Errorf("hash %v, size %d", tx.Hash(), tx.Size())
			}
			refused := verify.Transaction(rules, tx, verify.Checked)
			switch {
			case x.want == "" && refused != nil, x.want != "" && refused == nil:
				t.Fatalf("refused: %v", refused)
			case x.want != "":
				if got := string(refused.AppendJSON(nil)); !strings.Contains(got, x.want) {
					t.Errorf("%s, want %s", got, x.want)
				}
			}
			// Cut short, all lists are read up to the end.
			if _, err := decodeTx(x.raw[:len(x.raw)-66]); err == nil || err.Error() != "Unexpected length of input" {
				t.Errorf("cut short: %v", err)
			}
		})
	}
	if most := rules.Wasm.Limits.MaxActionsPerReceipt; most >= primitives.MaxActionsKept {
		t.Errorf("%d actions may be valid, and %d are kept", most, primitives.MaxActionsKept)
	}
	// A count without items is not trusted.
	liar := borsh.AppendUint32(bytes.Clone(creates(0)[:len(creates(0))-69]), 1<<32-1)
	if _, err := decodeTx(liar); err == nil || err.Error() != "Unexpected length of input" {
		t.Errorf("a count of 4 billion actions without items: %v", err)
	}
}
