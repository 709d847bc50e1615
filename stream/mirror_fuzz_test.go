package stream

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// anyKey is a key of any of the three schemes.
func (o odd) anyKey() primitives.PublicKey {
	switch o.IntN(4) {
	case 0:
		return primitives.PublicKey(append([]byte{byte(primitives.SECP256K1)}, o.fill(64)...))
	case 1:
		return primitives.PublicKey(append([]byte{byte(primitives.MLDSA65)}, o.fill(1952)...))
	}
	return o.key()
}

func (o odd) fill(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(o.Uint32())
	}
	return b
}

// rekey gives actions keys of all schemes, and empty or odd names of methods and accounts.
func (o odd) rekey(as []primitives.Action) []primitives.Action {
	for _, a := range as {
		switch a := a.(type) {
		case *primitives.Stake:
			a.PublicKey = o.anyKey()
		case *primitives.AddKey:
			a.PublicKey = o.anyKey()
			if f := a.AccessKey.FunctionCall; f != nil {
				f.ReceiverID = o.text() // any text: testnet's genesis has such
				if o.IntN(3) == 0 {
					f.MethodNames = nil
				}
			}
		case *primitives.DeleteKey:
			a.PublicKey = o.anyKey()
		case *primitives.TransferToGasKey:
			a.PublicKey = o.anyKey()
		case *primitives.WithdrawFromGasKey:
			a.PublicKey = o.anyKey()
		case *primitives.DeterministicStateInit:
			if o.IntN(2) == 0 {
				a.Init.Code = primitives.GlobalContractID{Account: "g.near"}
			}
			// As in a map: the 65th may begin as the first does.
			if a.Init.Data = a.Init.Data[:min(len(a.Init.Data), 64)]; o.IntN(3) == 0 {
				a.Init.Data = nil
			}
		case *primitives.Delegate:
			a.Action.PublicKey, a.Action.MaxBlockHeight, a.Action.Actions = o.anyKey(), primitives.Height(o.number()), o.some(o.rekey(a.Action.Actions))
		case *primitives.DelegateV2:
			a.Action.PublicKey, a.Action.MaxBlockHeight, a.Action.Actions = o.anyKey(), primitives.Height(o.number()), o.some(o.rekey(a.Action.Actions))
		}
	}
	return as
}

// some returns a few of them, in any order; it is never nil.
func (o odd) some(as []primitives.Action) []primitives.Action {
	o.Shuffle(len(as), func(i, k int) { as[i], as[k] = as[k], as[i] })
	if n := o.IntN(len(as) + 1); n > 0 {
		return as[:n]
	}
	return nil
}

// mirrorOf compares one of each with its mirror.
func mirrorOf(t *testing.T, o odd, e *view.Encoder) {
	t.Helper()
	held := func(what string, encode func(b []byte) []byte, want any) {
		text, err := mirrored(want)
		if err != nil {
			t.Fatal(err)
		}
		const before = "before"
		if got := encode([]byte(before)); string(got) != before+string(text) {
			got, i := got[len(before):], 0
			for i < min(len(got), len(text)) && got[i] == text[i] {
				i++
			}
			t.Fatalf("%s, at %d:\n got %.300s\nwant %.300s", what, i, got[max(0, i-100):], text[max(0, i-100):])
		}
	}
	tx := o.transaction().Transaction
	tx.Actions, tx.PublicKey = o.some(o.rekey(tx.Actions)), o.anyKey()
	signed := primitives.NewSignedTransaction(tx, primitives.ZeroED25519Signature)
	held("transaction", func(b []byte) []byte { return e.Transaction(b, signed) }, transactionOf(signed))
	r := o.receipt()
	switch x := r.Body.(type) {
	case *primitives.ActionReceipt:
		x.Actions, x.SignerPublicKey = o.some(o.rekey(x.Actions)), o.anyKey()
		if o.IntN(2) == 0 {
			x.RefundTo, x.InputDataIDs, x.OutputDataReceivers = "", nil, nil
		}
	case *primitives.GlobalContractDistribution:
		x.TargetShard = primitives.ShardID(o.number())
		if o.IntN(2) == 0 {
			x.ID, x.AlreadyDelivered = primitives.GlobalContractID{Account: "g.near"}, nil
		}
	}
	held("receipt", func(b []byte) []byte { return e.Receipt(b, r) }, receiptOf(r))
	c := o.change()
	c.Handle = o.anyKey().Handle()
	held("change", func(b []byte) []byte { return e.Change(b, c) }, changeOf(c))
	x := &view.OutcomeProof{OutcomeWithID: o.outcome(o.hash()), BlockHash: o.hash()}
	for range o.IntN(4) {
		x.Proof = append(x.Proof, primitives.MerklePathItem{Hash: o.hash(), Direction: primitives.Direction(o.IntN(2))})
		x.Metadata.Contracts = append(x.Metadata.Contracts, o.contract())
	}
	if o.IntN(4) == 0 {
		x.Metadata, x.Status = primitives.ExecutionMetadata{Version: uint32(o.IntN(5))}, primitives.ExecutionStatus{}
	}
	held("outcome", func(b []byte) []byte { return e.OutcomeProof(b, x) }, outcomeOf(x))
}

// TestEncodingEqualsEncodingJSON: transactions, receipts, outcomes and changes of every form are
// written as encoding/json writes nearcore's structs.
func TestEncodingEqualsEncodingJSON(t *testing.T) {
	e := view.NewEncoder(view.StructOrder)
	for seed := range uint64(500) {
		mirrorOf(t, odd{rand.New(rand.NewPCG(seed, 21))}, e)
	}
}

// FuzzMirror is TestEncodingEqualsEncodingJSON on the fuzzer's seeds.
func FuzzMirror(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		mirrorOf(t, odd{rand.New(rand.NewPCG(a, b))}, view.NewEncoder(view.StructOrder))
	})
}

// TestInvalidUTF8IsEncodedAsValidJSON: a text that is not UTF-8, which no decoder accepts, is still
// encoded as valid JSON.
func TestInvalidUTF8IsEncodedAsValidJSON(t *testing.T) {
	for _, s := range []string{"\xff", "a\xc3", "\xed\xa0\x80", strings.Repeat("\x80", 70)} {
		if text := view.AppendString(nil, s); !json.Valid(text) {
			t.Errorf("%q: text %q", s, text)
		}
	}
}
