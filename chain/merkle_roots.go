package chain

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Roots are the header fields that a block's chunk headers determine.
type Roots struct {
	PrevStateRoot         primitives.Hash
	PrevOutcomeRoot       primitives.Hash
	PrevOutgoingReceipts  primitives.Hash
	ChunkHeaders          primitives.Hash
	ChunkTx               primitives.Hash
	PrevValidatorProposal []primitives.ValidatorStake // proposals of the new chunks, in the order of the shards
	Mask                  []bool
}

// ComputeRoots returns the roots of a block of the given height. Each root is the Merkle root over
// one field of the chunk headers, by shard index; a leaf is the hash of the field. A leaf of
// ChunkHeaders is the hash of the chunk hash and the height included (nearcore
// core/primitives/src/block.rs compute_chunk_headers_root).
func ComputeRoots(chunks []*primitives.ChunkHeader, height primitives.Height) Roots {
	n := len(chunks)
	r := Roots{Mask: make([]bool, n)}
	leaves := make([]primitives.Hash, n)
	root := func(field func(*primitives.ChunkHeader) *primitives.Hash) primitives.Hash {
		for i, c := range chunks {
			leaves[i] = primitives.HashBytes(field(c)[:])
		}
		return primitives.MerkleRoot(leaves)
	}
	r.PrevStateRoot = root(func(c *primitives.ChunkHeader) *primitives.Hash { return &c.PrevStateRoot })
	r.PrevOutcomeRoot = root(func(c *primitives.ChunkHeader) *primitives.Hash { return &c.PrevOutcomeRoot })
	r.PrevOutgoingReceipts = root(func(c *primitives.ChunkHeader) *primitives.Hash { return &c.PrevOutgoingReceiptsRoot })
	r.ChunkTx = root(func(c *primitives.ChunkHeader) *primitives.Hash { return &c.TxRoot })
	for i, c := range chunks {
		h := c.ChunkHash()
		leaves[i] = primitives.HashBytes(borsh.AppendUint64(h[:], uint64(c.HeightIncluded)))
		if r.Mask[i] = c.HeightIncluded == height; r.Mask[i] {
			r.PrevValidatorProposal = append(r.PrevValidatorProposal, c.PrevValidatorProposals...)
		}
	}
	r.ChunkHeaders = primitives.MerkleRoot(leaves)
	return r
}

// OutgoingReceiptsRoot returns a chunk's prev_outgoing_receipts_root and its receipts in groups,
// one for each target shard of the layout. The leaf of a group is the hash of the pair (shard ID as
// u64, receipts), and the root is the Merkle root over these leaves (nearcore chain.rs
// build_receipts_hashes).
func OutgoingReceiptsRoot(receipts []*primitives.Receipt,
	layout primitives.ShardLayout) (root primitives.Hash, groups []ReceiptGroup) {
	groups = GroupReceipts(receipts, layout)
	leaves := make([]primitives.Hash, len(groups))
	for i := range groups {
		leaves[i] = primitives.ReceiptsLeaf(groups[i].ShardID, groups[i].Receipts)
	}
	return primitives.MerkleRoot(leaves), groups
}

// ReceiptGroup contains the outgoing receipts of a chunk to one shard.
type ReceiptGroup struct {
	ShardID  primitives.ShardID
	Receipts []*primitives.Receipt
}

// GroupReceipts groups receipts by target shard. It returns one group for each shard, by shard
// index in layout. A group keeps the order of its receipts.
func GroupReceipts(receipts []*primitives.Receipt, layout primitives.ShardLayout) []ReceiptGroup {
	ids := layout.ShardIDs()
	groups := make([]ReceiptGroup, len(ids))
	for i, id := range ids {
		groups[i].ShardID = id
	}
	for _, x := range receipts {
		i := ReceiptTarget(x, layout)
		groups[i].Receipts = append(groups[i].Receipts, x)
	}
	return groups
}

// ReceiptTarget returns the index of the shard to which a receipt goes. This is the receiver's
// shard, except for a global contract distribution. Such a receipt goes to the shard that the
// receipt names or, if that shard was split, to the child that replaces the shard (nearcore
// receipt.rs:437).
func ReceiptTarget(x *primitives.Receipt, layout primitives.ShardLayout) primitives.ShardIndex {
	id := layout.ShardOf(x.ReceiverID)
	if g, ok := x.Body.(*primitives.GlobalContractDistribution); ok {
		if now, ok := layout.ResolveToCurrent(g.TargetShard); layout.Has(g.TargetShard) {
			id = g.TargetShard
		} else if ok {
			id = now
		}
	}
	i, err := layout.Index(id)
	if err != nil {
		panic(fmt.Sprintf("chain: shard %d of the layout's own map is not in it: %v", id, err))
	}
	return i
}

// ReceiptsFor returns the receipts that go to one shard, in order. After a split, a child shard
// also gets those receipts to its parent shard that the parent did not execute (nearcore
// chain/chain/src/store/mod.rs:252).
func ReceiptsFor(receipts []*primitives.Receipt, layout primitives.ShardLayout,
	shard primitives.ShardIndex) (out []*primitives.Receipt) {
	for _, x := range receipts {
		if ReceiptTarget(x, layout) == shard {
			out = append(out, x)
		}
	}
	return out
}

// TxRoot returns a chunk's tx_root: the Merkle root over the hashes of the borsh encodings of
// SignedTransaction.
func TxRoot(txs []*primitives.SignedTransaction) primitives.Hash {
	leaves := make([]primitives.Hash, len(txs))
	for i, t := range txs {
		leaves[i] = primitives.HashBorsh(t)
	}
	return primitives.MerkleRoot(leaves)
}
