package chain

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestWholeChunkIsNotEncodedAgain: a body that is known to encode to its header is compared with
// this node's receipts and not encoded again. All differences are still found.
func TestWholeChunkIsNotEncodedAgain(t *testing.T) {
	t.Parallel()
	r := newValidCase(t)
	x := r.extras[0]
	receipt := func(to primitives.AccountID, b byte) *primitives.Receipt {
		return &primitives.Receipt{PredecessorID: "aa", ReceiverID: to, ID: primitives.Hash{b}, Body: &primitives.DataReceipt{Data: []byte{b}}}
	}
	// Each call returns new values with the same contents. The receipts go to the first and to the
	// last shard.
	ours := func() []*primitives.Receipt {
		return []*primitives.Receipt{receipt("aa", 1), receipt("zz", 2), receipt("aa", 3)}
	}
	tx := primitives.NewSignedTransaction(primitives.Transaction{SignerID: "aa", PublicKey: primitives.ZeroED25519Key, ReceiverID: "bb"}, primitives.ZeroED25519Signature)
	build := func(outgoing []*primitives.Receipt) *primitives.Chunk {
		c, _, err := BuildChunk(&ChunkInput{PrevBlock: r.j.Parent.Hash(), Height: 1, Extra: x, Outgoing: outgoing,
			Transactions: []*primitives.SignedTransaction{tx}, Layout: r.layout, Coding: r.coding}, key("p"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := build(ours())
	if err := ValidateChunk(c, x, ours(), r.layout, nil); err != nil { // without a code, nothing can be encoded
		t.Errorf("a whole chunk: %v", err)
	}
	if err := ValidateChunkAgain(c, x); err != nil {
		t.Errorf("a chunk that was validated before: %v", err)
	}
	loose := *c
	loose.Whole = primitives.Hash{}
	if err := ValidateChunk(&loose, x, ours(), r.layout, r.coding); err != nil {
		t.Errorf("a chunk of which nobody has headersOnly: %v", err)
	}
	wrong := *c
	wrong.Transactions = nil
	for name, err := range map[string]error{"": ValidateChunk(&wrong, x, ours(), r.layout, nil), " again": ValidateChunkAgain(&wrong, x)} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(err, InvalidTxRoot) {
				t.Errorf("other transactions%s: %v", name, err)
			}
		})
	}
	changed := *x
	changed.GasUsed++
	if err := ValidateChunkAgain(c, &changed); !errors.Is(err, InvalidGasUsed) {
		t.Errorf("another extra, again: %v", err)
	}
	wrong = *c
	wrong.Header.GasLimit++
	if err := ValidateChunkAgain(&wrong, x); !errors.Is(err, InvalidChunk) {
		t.Errorf("another header, again: %v", err)
	}
	for name, tt := range map[string]struct {
		want   Invalid
		change func([]*primitives.Receipt) []*primitives.Receipt
	}{
		"in another order of shards": {InvalidEncodedMerkleRoot, func(l []*primitives.Receipt) []*primitives.Receipt { return []*primitives.Receipt{l[1], l[0], l[2]} }},
		"one less":                   {InvalidReceiptsProof, func(l []*primitives.Receipt) []*primitives.Receipt { return l[:2] }},
		"one more":                   {InvalidReceiptsProof, func(l []*primitives.Receipt) []*primitives.Receipt { return append(l, receipt("zz", 4)) }},
		"another of that id": {InvalidReceiptsProof, func(l []*primitives.Receipt) []*primitives.Receipt {
			l[2].PredecessorID = "bb"
			return l
		}},
		"another id": {InvalidReceiptsProof, func(l []*primitives.Receipt) []*primitives.Receipt {
			l[0].ID[5]++
			return l
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := ValidateChunk(build(tt.change(ours())), x, ours(), r.layout, r.coding); !errors.Is(err, tt.want) {
				t.Errorf("receipts %s: error = %v, want %q", name, err, tt.want)
			}
		})
	}
}

// BenchmarkValidateChunk measures a body that this node has decoded from parts (Whole), and one
// that it has to encode.
func BenchmarkValidateChunk(b *testing.B) {
	coding, err := primitives.NewReedSolomon(primitives.ChunkPartCounts(100))
	if err != nil {
		b.Fatal(err)
	}
	layout, err := primitives.MultiShardLayout(2)
	if err != nil {
		b.Fatal(err)
	}
	var ours, theirs []*primitives.Receipt
	for i := range 1000 {
		for _, list := range []*[]*primitives.Receipt{&ours, &theirs} {
			*list = append(*list, &primitives.Receipt{PredecessorID: "aa", ReceiverID: "zz", ID: primitives.Hash{byte(i), byte(i >> 8)}, Body: &primitives.DataReceipt{Data: make([]byte, 1000)}})
		}
	}
	c, _, err := BuildChunk(&ChunkInput{Height: 1, Extra: new(ChunkExtra), Outgoing: theirs, Layout: layout, Coding: coding}, key("p"))
	if err != nil {
		b.Fatal(err)
	}
	loose := *c
	loose.Whole = primitives.Hash{}
	for name, x := range map[string]*primitives.Chunk{"whole=true": c, "whole=false": &loose} {
		b.Run(name+"/parts=100/bytes=1MB", func(b *testing.B) {
			for b.Loop() {
				if err := ValidateChunk(x, new(ChunkExtra), ours, layout, coding); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
