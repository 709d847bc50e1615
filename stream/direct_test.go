package stream

import (
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

func (o odd) contract() primitives.AccountContract {
	return []primitives.AccountContract{{}, {Kind: primitives.ContractLocal, Hash: o.hash()}, {Kind: primitives.ContractGlobalHash, Hash: o.hash()},
		{Kind: primitives.ContractGlobalAccount, Account: "c.near"}}[o.IntN(4)]
}

// change is a random change of any kind.
func (o odd) change() *view.Change {
	c := &view.Change{Kind: view.ChangeKind(o.IntN(5)), AccountID: "b.near", Handle: o.key().Handle(), AccessKey: o.accessKey(), Index: uint16(o.Uint32()),
		Nonce: primitives.Nonce(o.number()), Key: o.bytes(), Value: o.bytes(), Cause: primitives.StateChangeCause{Kind: primitives.CauseKind(o.IntN(12)), Hash: o.hash()},
		Account: primitives.Account{Amount: o.tokens(), Locked: o.tokens(), StorageUsage: o.number(), Contract: o.contract()}}
	if o.IntN(4) == 0 {
		c.Account = primitives.NewUninitializedAccount(o.tokens(), o.number(), primitives.Nonce(o.number()))
	}
	c.Deletion = o.IntN(4) == 0 && c.Kind != view.GasKeyNonceChange
	return c
}

// TestDirectEncodersEqualSlowReference: the direct encoders write the same as package view's text
// put in order by a slow reference.
func TestDirectEncodersEqualSlowReference(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(3000) {
		o := odd{rand.New(rand.NewPCG(seed, 13))}
		r, c := o.receipt(), o.change()
		x := o.outcome(o.hash())
		x.Metadata.Contracts = []primitives.AccountContract{o.contract(), o.contract()}
		if o.IntN(4) == 0 {
			x.Metadata = primitives.ExecutionMetadata{Version: uint32(o.IntN(5))}
		}
		proven := &view.OutcomeProof{OutcomeWithID: x, BlockHash: o.hash()}
		for range o.IntN(4) {
			proven.Proof = append(proven.Proof, primitives.MerklePathItem{Hash: o.hash(), Direction: primitives.Direction(o.IntN(2))})
		}
		var e encoder
		for _, one := range []struct {
			name   string
			direct func()
			view   []byte
		}{
			{"#outcome", func() { e.outcome(proven, view.AppendHash(nil, &proven.BlockHash)) }, view.AppendOutcomeProof(nil, proven)},
			{"#receipt", func() { e.receipt(r) }, view.AppendReceipt(nil, r)},
			{"#change", func() { e.change(c) }, view.AppendChange(nil, c)},
		} {
			e.b = append(e.b[:0], "before"...)
			one.direct()
			if want := "before" + string(slowly(t, one.name, one.view)); string(e.b) != want {
				t.Fatalf("seed %d, %s:\n got %s\nwant %s", seed, one.name, e.b, want)
			}
		}
		if kinds[c.Kind.String()]++; seed < 100 {
			tx := o.transaction()
			e.b = e.b[:0]
			e.transaction(tx)
			if want := string(slowly(t, "#transaction", view.AppendSignedTransaction(nil, tx))); string(e.b) != want {
				t.Fatalf("seed %d:\n got %s\nwant %s", seed, e.b, want)
			}
		}
	}
	if len(kinds) != 5 {
		t.Errorf("changes of %d kinds, want 5: %v", len(kinds), kinds)
	}
}
