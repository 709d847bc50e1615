package chain

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Roots are the header fields that summarise a block's chunk headers.
type Roots struct {
	PrevStateRoot         primitives.Hash
	PrevOutcomeRoot       primitives.Hash
	PrevOutgoingReceipts  primitives.Hash
	ChunkHeaders          primitives.Hash
	ChunkTx               primitives.Hash
	PrevValidatorProposal []primitives.ValidatorStake // of new chunks, in index order
	Mask                  []bool
}

// ComputeRoots derives them for a block of the given height: each root is the Merkle root over the chunk headers' field in
// shard-index order, each leaf hashed once more; the headers root hashes (chunk hash ‖ height included) (bytes.md 3).
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

// OutgoingReceiptsRoot is a chunk's prev_outgoing_receipts_root and the group leaves it stands over: receipts are grouped by
// the shard index of their receiver with order kept, each group hashed as H(u64 shard id ‖ receipts), and those hashes
// merklized as items, hashed once more (nearcore chain.rs build_receipts_hashes).
func OutgoingReceiptsRoot(receipts []*primitives.Receipt, layout primitives.ShardLayout) (root primitives.Hash, groups []ReceiptGroup) {
	groups = GroupReceipts(receipts, layout)
	leaves := make([]primitives.Hash, len(groups))
	for i := range groups {
		leaves[i] = primitives.ReceiptsLeaf(groups[i].ShardID, groups[i].Receipts)
	}
	return primitives.MerkleRoot(leaves), groups
}

// ReceiptGroup holds a chunk's outgoing receipts to one shard.
type ReceiptGroup struct {
	ShardID  primitives.ShardID
	Receipts []*primitives.Receipt
}

// GroupReceipts splits receipts by target shard, one group for each shard of the layout in its order.
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

// ReceiptTarget is the index of the shard that a receipt goes to: its receiver's, or for a global contract distribution
// the target it names, resolved through the history of splits (nearcore receipt.rs:437).
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

// ReceiptsFor returns those receipts that go to one shard, in their order: what a shard takes of the receipts that the shard
// before it, of an older layout, did not come to apply (nearcore chain/chain/src/store/mod.rs:252).
func ReceiptsFor(receipts []*primitives.Receipt, layout primitives.ShardLayout, shard primitives.ShardIndex) (out []*primitives.Receipt) {
	for _, x := range receipts {
		if ReceiptTarget(x, layout) == shard {
			out = append(out, x)
		}
	}
	return out
}

// TxRoot is a chunk's tx_root: the Merkle root over H(borsh(SignedTransaction)).
func TxRoot(txs []*primitives.SignedTransaction) primitives.Hash {
	leaves := make([]primitives.Hash, len(txs))
	for i, t := range txs {
		leaves[i] = primitives.HashBorsh(t)
	}
	return primitives.MerkleRoot(leaves)
}
