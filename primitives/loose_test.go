package primitives

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestUnorderedStateInitIsCanonicalized: the entries of a state init may be unordered and repeated,
// as borsh-rs reads a BTreeMap. The transaction's hash and size are those of the canonical encoding
// (nearcore core/primitives/src/transaction.rs SignedTransaction::init).
func TestUnorderedStateInitIsCanonicalized(t *testing.T) {
	t.Parallel()
	with := func(entries ...StateEntry) *SignedTransaction {
		tx := classicTransaction()
		tx.Actions = []Action{&DeterministicStateInit{Init: StateInit{Code: GlobalContractID{Hash: Hash{3}}, Data: entries}}}
		return NewSignedTransaction(tx, ZeroED25519Signature)
	}
	a, b := StateEntry{[]byte("a"), []byte("1")}, StateEntry{[]byte("b"), []byte("2")}
	want := with(a, b)
	for _, in := range []*SignedTransaction{want, with(b, a), with(b, StateEntry{[]byte("a"), []byte("0")}, a), with(a, StateEntry{[]byte("b"), nil}, b)} {
		var got SignedTransaction
		if err := borsh.Unmarshal(in.AppendBorsh(nil), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&got, want) || !bytes.Equal(got.AppendBorsh(nil), want.AppendBorsh(nil)) {
			t.Errorf("%+v, want %+v", &got, want)
		}
	}
}
