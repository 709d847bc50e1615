package chain

import (
	"bytes"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// sending returns a chunk that sends receipts to some of the layout's shards.
func sending(f testing.TB) (*primitives.Chunk, primitives.ShardLayout) {
	layout, err := primitives.MultiShardLayoutAt([]primitives.AccountID{"ff", "mm", "ss"})
	if err != nil {
		f.Fatal(err)
	}
	c := new(primitives.Chunk)
	for i, to := range []primitives.AccountID{"aa", "zz", "ab", "nn", "ac"} {
		c.PrevOutgoingReceipts = append(c.PrevOutgoingReceipts, &primitives.Receipt{PredecessorID: "system", ReceiverID: to, ID: primitives.Hash{byte(i)},
			Body: &primitives.ActionReceipt{SignerID: "aa", SignerPublicKey: primitives.ZeroED25519Key}})
	}
	c.Header.Version, c.Header.ShardID = primitives.ChunkInnerV4, layout.ShardIDs()[2]
	c.Header.PrevOutgoingReceiptsRoot, _ = OutgoingReceiptsRoot(c.PrevOutgoingReceipts, layout)
	c.Hash = c.Header.ChunkHash()
	return c, layout
}

// TestReceiptsAreProvenToEachShard: ProveReceipts returns a valid proof for each shard, in layouts
// of any size.
func TestReceiptsAreProvenToEachShard(t *testing.T) {
	t.Parallel()
	c, layout := sending(t)
	ids := layout.ShardIDs()
	whole := CutChunk(c, layout, ids)
	if err := ValidateProofs(whole); err != nil || !Proves(whole, ids) || len(whole.Proofs) != len(ids) {
		t.Fatalf("%d proofs: %v", len(whole.Proofs), err)
	}
	_, groups := OutgoingReceiptsRoot(c.PrevOutgoingReceipts, layout)
	for i, g := range groups {
		p := ProofTo(whole, g.ShardID)
		if !bytes.Equal(primitives.AppendReceipts(nil, p.Receipts), primitives.AppendReceipts(nil, g.Receipts)) || p.From != c.Header.ShardID {
			t.Errorf("receipts to shard %d differ", ids[i])
		}
	}
	some := CutChunk(c, layout, ids[1:2])
	if Proves(some, ids) || !Proves(some, ids[1:2]) || len(some.Proofs) != 1 || len(some.Proofs[0].Receipts) != 0 {
		t.Error("the absence of receipts is not proven")
	}
	some.Proofs = append(some.Proofs, some.Proofs[0])
	if err := ValidateProofs(some); !errors.Is(err, InvalidReceiptsProof) {
		t.Errorf("a repeated proof: %v, want InvalidReceiptsProof", err)
	}
	for n := 1; n <= 9; n++ {
		layout, err := primitives.MultiShardLayout(n)
		if err != nil {
			t.Fatal(err)
		}
		c.Header.PrevOutgoingReceiptsRoot, _ = OutgoingReceiptsRoot(c.PrevOutgoingReceipts, layout)
		c.Hash = c.Header.ChunkHash()
		if err := ValidateProofs(CutChunk(c, layout, layout.ShardIDs())); err != nil {
			t.Errorf("%d shards: %v", n, err)
		}
	}
}

// FuzzValidateProofs: arbitrary proofs are refused, unless they contain exactly the chunk's
// receipts.
func FuzzValidateProofs(f *testing.F) {
	c, layout := sending(f)
	good := CutChunk(c, layout, layout.ShardIDs())
	f.Add(primitives.AppendReceiptProofs(nil, good.Proofs))
	for i := range good.Proofs {
		f.Add(primitives.AppendReceiptProofs(nil, good.Proofs[i:i+1]))
		moved := good.Proofs[i]
		moved.To = good.Proofs[(i+1)%len(good.Proofs)].To
		f.Add(primitives.AppendReceiptProofs(nil, []primitives.ReceiptProof{moved}))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := borsh.NewReader(in)
		came := &primitives.Chunk{Hash: c.Hash, Header: c.Header, Proofs: primitives.ReadReceiptProofs(r)}
		if r.Close() != nil || ValidateProofs(came) != nil {
			return
		}
		if len(came.Proofs) > len(good.Proofs) {
			t.Errorf("%d proofs pass", len(came.Proofs))
		}
		for i := range came.Proofs {
			want := ProofTo(good, came.Proofs[i].To)
			if want == nil || !bytes.Equal(came.Proofs[i].AppendBorsh(nil), want.AppendBorsh(nil)) {
				t.Errorf("a proof that is none passes: %x", in)
			}
		}
	})
}
