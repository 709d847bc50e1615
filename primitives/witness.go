package primitives

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ChunkKey identifies a chunk to be produced: of a shard, in an epoch, at a height (nearcore
// ChunkProductionKey).
type ChunkKey struct {
	ShardID       ShardID
	EpochID       EpochID
	HeightCreated Height
}

// AppendBorsh appends the fields.
func (k *ChunkKey) AppendBorsh(b []byte) []byte {
	return borsh.AppendUint64(append(borsh.AppendUint64(b, uint64(k.ShardID)), k.EpochID[:]...), uint64(k.HeightCreated))
}

// DecodeBorsh reads the fields.
func (k *ChunkKey) DecodeBorsh(r *borsh.Reader) {
	k.ShardID, k.EpochID, k.HeightCreated = ShardID(r.Uint64()), ReadHash(r), Height(r.Uint64())
}

// StateTransition is one transition of a shard's state in a witness: its proof, and the resulting
// state root (nearcore ChunkStateTransition).
type StateTransition struct {
	Block     Hash
	Base      [][]byte // nodes and values of the state before, ascending
	PostState Hash
}

// AppendBorsh appends the block, tag 0 with the strings, and the root.
func (s *StateTransition) AppendBorsh(b []byte) []byte {
	b = AppendByteStrings(append(append(b, s.Block[:]...), 0), s.Base)
	return append(b, s.PostState[:]...)
}

// DecodeBorsh reads what AppendBorsh writes.
func (s *StateTransition) DecodeBorsh(r *borsh.Reader) {
	s.Block.DecodeBorsh(r)
	if tag := r.Byte(); tag != 0 {
		r.BadTag("PartialState", tag)
		return
	}
	s.Base = ReadByteStrings(r)
	s.PostState.DecodeBorsh(r)
}

// minStateTransition is the smallest encoding of a transition.
const minStateTransition = 32 + 1 + 4 + 32

// SourceProof is the list of receipts from one chunk to the shard of a witness.
type SourceProof struct {
	Chunk Hash
	ReceiptProof
}

// ChunkStateWitness replaces the state for a chunk's validators (nearcore state_witness.rs
// ChunkStateWitness V2). It contains the transitions of the shard's last new chunk and of the
// blocks since, which together prove the previous state root that Header claims.
type ChunkStateWitness struct {
	EpochID         EpochID // of the block after the chunk's parent
	Header          ChunkHeader
	Main            StateTransition
	Sources         []SourceProof // ascending by chunk
	AppliedReceipts Hash          // H(Vec<Receipt>) in the order of application
	Transactions    []*SignedTransaction
	Implicit        []StateTransition // oldest first
	NewTransactions []*SignedTransaction
}

// Key returns the key of the chunk.
func (w *ChunkStateWitness) Key() ChunkKey {
	return ChunkKey{ShardID: w.Header.ShardID, EpochID: w.EpochID, HeightCreated: w.Header.HeightCreated}
}

// AppendBorsh appends tag 1 and the fields. Sources must be in order.
func (w *ChunkStateWitness) AppendBorsh(b []byte) []byte {
	b = w.Header.AppendBorsh(append(append(b, 1), w.EpochID[:]...))
	b = w.Main.AppendBorsh(b)
	b = borsh.AppendSlice(b, w.Sources, func(b []byte, s *SourceProof) []byte { return s.ReceiptProof.AppendBorsh(append(b, s.Chunk[:]...)) })
	b = AppendTransactions(append(b, w.AppliedReceipts[:]...), w.Transactions)
	b = borsh.AppendSlice(b, w.Implicit, func(b []byte, s *StateTransition) []byte { return s.AppendBorsh(b) })
	return AppendTransactions(b, w.NewTransactions)
}

// DecodeBorsh reads what AppendBorsh writes. Sources may come in any order, and of equal chunks the
// last one counts, as in a map.
func (w *ChunkStateWitness) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 1 {
		r.BadTag("ChunkStateWitness", tag)
		return
	}
	w.EpochID.DecodeBorsh(r)
	w.Header.DecodeBorsh(r)
	w.Main.DecodeBorsh(r)
	w.Sources = borsh.Slice(r, 32+minReceiptProof, func(r *borsh.Reader) (s SourceProof) {
		s.Chunk.DecodeBorsh(r)
		s.ReceiptProof.DecodeBorsh(r)
		return s
	})
	w.Sources = asMap(r, w.Sources, func(a, b SourceProof) int { return a.Chunk.Compare(b.Chunk) })
	w.AppliedReceipts.DecodeBorsh(r)
	w.Transactions = ReadTransactions(r)
	w.Implicit = borsh.Slice(r, minStateTransition, func(r *borsh.Reader) (s StateTransition) {
		s.DecodeBorsh(r)
		return s
	})
	w.NewTransactions = ReadTransactions(r)
}

// asMap sorts what was read of a map or set: borsh-rs accepts any order, and of equal keys the last
// one counts.
func asMap[T any](r *borsh.Reader, list []T, compare func(a, b T) int) []T {
	ascending := func(i int) bool { return i == 0 || compare(list[i-1], list[i]) < 0 }
	for i := range list {
		if ascending(i) {
			continue
		}
		r.Loosen()
		slices.SortStableFunc(list, compare)
		out := list[:0]
		for i := range list {
			if i+1 == len(list) || compare(list[i], list[i+1]) != 0 {
				out = append(out, list[i])
			}
		}
		return out
	}
	return list
}

// WitnessAck tells a chunk's producer that its witness was received completely (nearcore
// ChunkStateWitnessAck).
type WitnessAck struct{ ChunkHash Hash }

// AppendBorsh appends the hash.
func (a *WitnessAck) AppendBorsh(b []byte) []byte { return append(b, a.ChunkHash[:]...) }

// DecodeBorsh reads the hash.
func (a *WitnessAck) DecodeBorsh(r *borsh.Reader) { a.ChunkHash.DecodeBorsh(r) }
