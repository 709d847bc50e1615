package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// ReceiptProof is the list of receipts from a chunk's shard to another shard, with its proof in the
// chunk's prev_outgoing_receipts_root (nearcore sharding.rs ReceiptProof).
type ReceiptProof struct {
	Receipts []*Receipt
	From, To ShardID
	Proof    MerklePath
}

// AppendBorsh appends receipts, shards and path.
func (p *ReceiptProof) AppendBorsh(b []byte) []byte {
	b = AppendReceipts(b, p.Receipts)
	b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(p.From)), uint64(p.To))
	return p.Proof.AppendBorsh(b)
}

// DecodeBorsh reads receipts, shards and path.
func (p *ReceiptProof) DecodeBorsh(r *borsh.Reader) {
	p.Receipts, p.From, p.To = ReadReceipts(r), ShardID(r.Uint64()), ShardID(r.Uint64())
	p.Proof.DecodeBorsh(r)
}

// Leaf returns the leaf of the proof: H(H(u64 shard ‖ receipts)).
func (p *ReceiptProof) Leaf() Hash { return ReceiptsLeaf(p.To, p.Receipts) }

// ReceiptsLeaf returns the Merkle leaf of a chunk's receipts to one shard.
func ReceiptsLeaf(to ShardID, receipts []*Receipt) Hash {
	h := hashOf(func(b []byte) []byte { return AppendReceipts(borsh.AppendUint64(b, uint64(to)), receipts) })
	return HashBytes(h[:])
}

// Verify returns whether the receipts belong to a chunk with this root.
func (p *ReceiptProof) Verify(root Hash) bool { return p.Proof.Verify(root, p.Leaf()) }

// minReceiptProof is the smallest encoding of a proof: no receipts, two shards, an empty path.
const minReceiptProof = 4 + 8 + 8 + 4

// AppendReceiptProofs appends a vector.
func AppendReceiptProofs(b []byte, list []ReceiptProof) []byte {
	return borsh.AppendSlice(b, list, func(b []byte, p *ReceiptProof) []byte { return p.AppendBorsh(b) })
}

// ReadReceiptProofs reads a vector.
func ReadReceiptProofs(r *borsh.Reader) []ReceiptProof {
	return borsh.Slice(r, minReceiptProof, func(r *borsh.Reader) (p ReceiptProof) {
		p.DecodeBorsh(r)
		return p
	})
}
