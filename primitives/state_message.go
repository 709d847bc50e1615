package primitives

import (
	"net/netip"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Messages of state sync between nodes (nearcore state_sync.rs, state_part.rs,
// network_protocol/mod.rs).

// AppendSocketAddr appends 0 ‖ 4 bytes ‖ port, or 1 ‖ 16 bytes ‖ port. An IPv4-mapped IPv6 address
// stays IPv6.
func AppendSocketAddr(b []byte, a netip.AddrPort) []byte {
	if ip := a.Addr(); ip.Is4() {
		four := ip.As4()
		b = append(append(b, 0), four[:]...)
	} else {
		sixteen := ip.As16()
		b = append(append(b, 1), sixteen[:]...)
	}
	return borsh.AppendUint16(b, a.Port())
}

// ReadSocketAddr reads what AppendSocketAddr writes.
func ReadSocketAddr(r *borsh.Reader) netip.AddrPort {
	var ip netip.Addr
	switch tag := r.Byte(); tag {
	case 0:
		var four [4]byte
		copy(four[:], r.Take(4))
		ip = netip.AddrFrom4(four)
	case 1:
		var sixteen [16]byte
		copy(sixteen[:], r.Take(16))
		ip = netip.AddrFrom16(sixteen)
	default:
		r.BadTag("SocketAddr", tag)
	}
	return netip.AddrPortFrom(ip, r.Uint16())
}

// StateHeaderRequest asks for the header of a shard's state at a sync block. The answer is sent
// over a connection to Addr.
type StateHeaderRequest struct {
	ShardID  ShardID
	SyncHash Hash
	Addr     netip.AddrPort
}

// AppendBorsh appends the fields.
func (q *StateHeaderRequest) AppendBorsh(b []byte) []byte {
	return AppendSocketAddr(append(borsh.AppendUint64(b, uint64(q.ShardID)), q.SyncHash[:]...), q.Addr)
}

// DecodeBorsh reads the fields.
func (q *StateHeaderRequest) DecodeBorsh(r *borsh.Reader) {
	q.ShardID, q.SyncHash, q.Addr = ShardID(r.Uint64()), ReadHash(r), ReadSocketAddr(r)
}

// StatePartRequest asks for a part of a shard's state at a sync block.
type StatePartRequest struct {
	ShardID  ShardID
	SyncHash Hash
	Part     uint64
	Addr     netip.AddrPort
}

// AppendBorsh appends the fields.
func (q *StatePartRequest) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64(append(borsh.AppendUint64(b, uint64(q.ShardID)), q.SyncHash[:]...), q.Part)
	return AppendSocketAddr(b, q.Addr)
}

// DecodeBorsh reads the fields.
func (q *StatePartRequest) DecodeBorsh(r *borsh.Reader) {
	q.ShardID, q.SyncHash, q.Part, q.Addr = ShardID(r.Uint64()), ReadHash(r), r.Uint64(), ReadSocketAddr(r)
}

// StateAckBody is the status of a request for state.
type StateAckBody byte

// The acknowledgements.
const (
	StateWillRespond StateAckBody = iota
	StateBusy
	StateError
)

// StateRequestAck acknowledges a request for a part, or for the header.
type StateRequestAck struct {
	ShardID  ShardID
	SyncHash Hash
	Header   bool
	Part     uint64 // number of the part, unless Header is set
	Body     StateAckBody
}

// AppendBorsh appends the fields.
func (a *StateRequestAck) AppendBorsh(b []byte) []byte {
	b = append(borsh.AppendUint64(b, uint64(a.ShardID)), a.SyncHash[:]...)
	if a.Header {
		b = append(b, 1)
	} else {
		b = borsh.AppendUint64(append(b, 0), a.Part)
	}
	return append(b, byte(a.Body))
}

// DecodeBorsh reads the fields.
func (a *StateRequestAck) DecodeBorsh(r *borsh.Reader) {
	*a = StateRequestAck{ShardID: ShardID(r.Uint64()), SyncHash: ReadHash(r)}
	switch tag := r.Byte(); tag {
	case 0:
		a.Part = r.Uint64()
	case 1:
		a.Header = true
	default:
		r.BadTag("PartIdOrHeader", tag)
	}
	if a.Body = StateAckBody(r.Byte()); a.Body > StateError {
		r.BadTag("StateRequestAckBody", byte(a.Body))
	}
}

// BlockReceipts are the receipts from the new chunks of a block to a shard (nearcore
// ReceiptProofResponse).
type BlockReceipts struct {
	Block  Hash
	Proofs []ReceiptProof
}

// RootProof proves one chunk's prev_outgoing_receipts_root in its block's header.
type RootProof struct {
	Root Hash
	Path MerklePath
}

// StateRootNode is the root node of a state, and the memory usage of the state.
type StateRootNode struct {
	Data        []byte // aliases the decoded input
	MemoryUsage uint64
}

// StateHeader is the header of a shard's state at a sync block (nearcore
// ShardStateSyncResponseHeaderV2). The state is that before Chunk, the shard's last new chunk
// before the sync block.
type StateHeader struct {
	Chunk           Chunk
	ChunkProof      MerklePath
	PrevChunkHeader *ChunkHeader // nil if Chunk is the first
	PrevChunkProof  *MerklePath
	Incoming        []BlockReceipts
	RootProofs      [][]RootProof // parallel to Incoming, and to the Proofs of each
	Root            StateRootNode
}

// AppendBorsh appends the fields.
func (h *StateHeader) AppendBorsh(b []byte) []byte {
	b = h.ChunkProof.AppendBorsh(h.Chunk.AppendBorsh(b))
	if h.PrevChunkHeader == nil {
		b = append(b, 0)
	} else {
		b = h.PrevChunkHeader.AppendBorsh(append(b, 1))
	}
	if h.PrevChunkProof == nil {
		b = append(b, 0)
	} else {
		b = h.PrevChunkProof.AppendBorsh(append(b, 1))
	}
	b = borsh.AppendSlice(b, h.Incoming, func(b []byte, x *BlockReceipts) []byte {
		return AppendReceiptProofs(append(b, x.Block[:]...), x.Proofs)
	})
	b = borsh.AppendSlice(b, h.RootProofs, func(b []byte, x *[]RootProof) []byte {
		return borsh.AppendSlice(b, *x, func(b []byte, p *RootProof) []byte { return p.Path.AppendBorsh(append(b, p.Root[:]...)) })
	})
	return borsh.AppendUint64(borsh.AppendBytes(b, h.Root.Data), h.Root.MemoryUsage)
}

// DecodeBorsh reads the fields.
func (h *StateHeader) DecodeBorsh(r *borsh.Reader) {
	*h = StateHeader{}
	h.Chunk.DecodeBorsh(r)
	h.ChunkProof.DecodeBorsh(r)
	if r.Option() {
		h.PrevChunkHeader = new(ChunkHeader)
		h.PrevChunkHeader.decodeRecent(r)
	}
	if r.Option() {
		h.PrevChunkProof = new(MerklePath)
		h.PrevChunkProof.DecodeBorsh(r)
	}
	h.Incoming = borsh.Slice(r, 32+4, func(r *borsh.Reader) BlockReceipts {
		return BlockReceipts{Block: ReadHash(r), Proofs: ReadReceiptProofs(r)}
	})
	h.RootProofs = borsh.Slice(r, 4, func(r *borsh.Reader) []RootProof {
		return borsh.Slice(r, 32+4, func(r *borsh.Reader) (p RootProof) {
			p.Root.DecodeBorsh(r)
			p.Path.DecodeBorsh(r)
			return p
		})
	})
	h.Root.Data, h.Root.MemoryUsage = r.Bytes(), r.Uint64()
}

// StatePart is one part: the borsh form of a PartialState (tag 0, Vec<bytes>), compressed or not.
type StatePart struct {
	Number     uint64
	Compressed bool   // compressed by zstd
	Body       []byte // aliases the decoded input
}

// StateResponse is a host's answer (nearcore StateResponseInfo V2 with ShardStateSyncResponse V4).
// A StateResponse without header and part means that the host could not produce the requested
// header or part.
type StateResponse struct {
	ShardID  ShardID
	SyncHash Hash
	Header   *StateHeader
	Part     *StatePart
}

// AppendBorsh appends tag 1, the fields, tag 3, and the header and part if present.
func (s *StateResponse) AppendBorsh(b []byte) []byte {
	b = append(append(borsh.AppendUint64(append(b, 1), uint64(s.ShardID)), s.SyncHash[:]...), 3)
	if s.Header == nil {
		b = append(b, 0)
	} else {
		b = s.Header.AppendBorsh(append(b, 1))
	}
	if s.Part == nil {
		return append(b, 0)
	}
	b = borsh.AppendBool(borsh.AppendUint64(append(b, 1), s.Part.Number), s.Part.Compressed)
	return borsh.AppendBytes(b, s.Part.Body)
}

// DecodeBorsh reads what AppendBorsh writes.
func (s *StateResponse) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 1 {
		r.BadTag("StateResponseInfo", tag)
		return
	}
	*s = StateResponse{ShardID: ShardID(r.Uint64()), SyncHash: ReadHash(r)}
	if tag := r.Byte(); tag != 3 {
		r.BadTag("ShardStateSyncResponse", tag)
		return
	}
	if r.Option() {
		s.Header = new(StateHeader)
		s.Header.DecodeBorsh(r)
	}
	if !r.Option() {
		return
	}
	s.Part = &StatePart{Number: r.Uint64()}
	switch tag := r.Byte(); tag {
	case 0:
	case 1:
		s.Part.Compressed = true
	default:
		r.BadTag("StatePart", tag)
		return
	}
	s.Part.Body = r.Bytes()
}
