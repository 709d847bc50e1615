package primitives

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ChunkKey identifies the right to produce one chunk: a shard, an epoch and a height (nearcore
// ChunkProductionKey). Two chunks with the same key have the same producer and the same validators.
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

// StateTransition describes how a block changes the state of a shard (nearcore
// ChunkStateTransition). A validator without the state executes the transition on Base and compares
// the result with PostState.
type StateTransition struct {
	Block     Hash     // the block in which the chunk is executed
	Base      [][]byte // the trie nodes and values that the execution reads, sorted bytewise
	PostState Hash     // the state root after the execution
}

// AppendBorsh appends the fields. Base is a nearcore PartialState: tag 0 and the list.
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

// minStateTransition is the size in bytes of the shortest encoding of a StateTransition.
const minStateTransition = 32 + 1 + 4 + 32

// SourceProof contains the receipts that one chunk sent to the shard of a witness, with their
// Merkle proof.
type SourceProof struct {
	Chunk Hash
	ReceiptProof
}

// ChunkStateWitness contains all that a validator needs to check a chunk without the shard's state
// (nearcore state_witness.rs ChunkStateWitness V2). The transitions of the witness execute the
// shard's previous chunk and the blocks since that chunk. Together the transitions prove the state
// root that Header claims before the chunk.
type ChunkStateWitness struct {
	EpochID         EpochID              // epoch of the block that may include the chunk
	Header          ChunkHeader          // header of the chunk to validate
	Main            StateTransition      // executes the shard's previous chunk
	Sources         []SourceProof        // the incoming receipts of Main, sorted by chunk hash
	AppliedReceipts Hash                 // SHA-256 of the borsh list of these receipts, in execution order
	Transactions    []*SignedTransaction // transactions of the previous chunk
	Implicit        []StateTransition    // blocks without a chunk and shard splits since then, oldest first
	NewTransactions []*SignedTransaction // transactions of the chunk to validate
}

// Key returns the key of the chunk.
func (w *ChunkStateWitness) Key() ChunkKey {
	return ChunkKey{ShardID: w.Header.ShardID, EpochID: w.EpochID, HeightCreated: w.Header.HeightCreated}
}

// AppendBorsh appends tag 1 and the fields. Sources must be sorted by chunk hash.
func (w *ChunkStateWitness) AppendBorsh(b []byte) []byte {
	b, _ = w.AppendMeasured(b)
	return b
}

// WitnessFieldSizes are the sizes in bytes of encoded fields of a ChunkStateWitness.
type WitnessFieldSizes struct{ Main, Sources int }

// AppendMeasured does the same as AppendBorsh, and returns the sizes of two fields.
func (w *ChunkStateWitness) AppendMeasured(b []byte) ([]byte, WitnessFieldSizes) {
	var n WitnessFieldSizes
	b = w.Header.AppendBorsh(append(append(b, 1), w.EpochID[:]...))
	at := len(b)
	b = w.Main.AppendBorsh(b)
	n.Main, at = len(b)-at, len(b)
	b = borsh.AppendSlice(b, w.Sources, func(b []byte, s *SourceProof) []byte { return s.ReceiptProof.AppendBorsh(append(b, s.Chunk[:]...)) })
	n.Sources = len(b) - at
	b = AppendTransactions(append(b, w.AppliedReceipts[:]...), w.Transactions)
	b = borsh.AppendSlice(b, w.Implicit, func(b []byte, s *StateTransition) []byte { return s.AppendBorsh(b) })
	return AppendTransactions(b, w.NewTransactions), n
}

// DecodeBorsh reads what AppendBorsh writes, and also encodings with Sources in another order or
// with duplicates. DecodeBorsh sorts Sources and keeps the last SourceProof of each chunk (see
// asMap).
func (w *ChunkStateWitness) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 1 {
		r.BadTag("ChunkStateWitness", tag)
		return
	}
	w.EpochID.DecodeBorsh(r)
	w.Header.decodeRecent(r)
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

// asMap sorts the entries of a borsh map or set that was read as a list, and keeps the last of
// several entries with equal keys. borsh-rs accepts such input too. If the entries were not sorted
// and unique, asMap calls r.Loosen.
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

// WitnessAck is a validator's message to a chunk's producer: it has received the whole witness
// (nearcore ChunkStateWitnessAck).
type WitnessAck struct{ ChunkHash Hash }

// AppendBorsh appends the hash.
func (a *WitnessAck) AppendBorsh(b []byte) []byte { return append(b, a.ChunkHash[:]...) }

// DecodeBorsh reads the hash.
func (a *WitnessAck) DecodeBorsh(r *borsh.Reader) { a.ChunkHash.DecodeBorsh(r) }
