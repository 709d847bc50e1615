package wire

import (
	"fmt"
	"net/netip"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// BodyKind is the tag of a routed body in RoutedMessageBody, which is the one that hashes and signatures cover.
type BodyKind byte

// The bodies in use. 33 and 35 to 39 belong to a protocol of later; the numbers between are of deleted bodies. Neither is decoded.
const (
	BodyBlockApproval         BodyKind = 0
	BodyForwardTx             BodyKind = 1
	BodyTxStatusRequest       BodyKind = 2
	BodyTxStatusResponse      BodyKind = 3
	BodyChunkRequest          BodyKind = 11
	BodyChunkResponse         BodyKind = 12
	BodyPing                  BodyKind = 14
	BodyPong                  BodyKind = 15
	BodyPartialChunk          BodyKind = 16
	BodyChunkForward          BodyKind = 18
	BodyWitnessAck            BodyKind = 21
	BodyPartialWitness        BodyKind = 22 // without the tag of its version
	BodyPartialWitnessForward BodyKind = 23 // likewise
	BodyChunkEndorsement      BodyKind = 24
	BodyStatePartRequest      BodyKind = 27
	BodyContractAccesses      BodyKind = 28
	BodyContractCodeRequest   BodyKind = 29
	BodyContractCodeResponse  BodyKind = 30
	BodyContractDeploys       BodyKind = 31
	BodyStateHeaderRequest    BodyKind = 32
	BodyStateRequestAck       BodyKind = 34
	BodyVersionedWitness      BodyKind = 40
	BodyVersionedForward      BodyKind = 41
)

// Body is what a routed message carries.
type Body interface {
	BodyKind() BodyKind
	AppendBorsh(b []byte) []byte // without the tag
}

// bodySpec is a row of the table of bodies.
type bodySpec struct {
	name  string
	t1    bool // of T1MessageBody, else of T2MessageBody
	inner byte // the tag there, in routed_v3
	read  func(*borsh.Reader) Body
}

// bodies has a row for each body. `carry` rows pass bytes of a checked form on; who gives such a body a type of its own puts its reader
// there, and nothing else changes.
var bodies = map[BodyKind]bodySpec{
	BodyBlockApproval:         {"BlockApproval", true, 0, decoded[BlockApproval]},
	BodyPartialChunk:          {"VersionedPartialEncodedChunk", true, 1, carry(BodyPartialChunk, passPartialChunk)},
	BodyChunkForward:          {"PartialEncodedChunkForward", true, 2, carry(BodyChunkForward, passChunkForward)},
	BodyPartialWitness:        {"PartialEncodedStateWitness", true, 3, carry(BodyPartialWitness, passPartialWitness)},
	BodyPartialWitnessForward: {"PartialEncodedStateWitnessForward", true, 4, carry(BodyPartialWitnessForward, passPartialWitness)},
	BodyChunkEndorsement:      {"VersionedChunkEndorsement", true, 5, decoded[ChunkEndorsement]},
	BodyContractAccesses:      {"ChunkContractAccesses", true, 6, carry(BodyContractAccesses, passContractAccesses)},
	BodyContractCodeRequest:   {"ContractCodeRequest", true, 7, carry(BodyContractCodeRequest, passCodeRequest)},
	BodyContractCodeResponse:  {"ContractCodeResponse", true, 8, carry(BodyContractCodeResponse, passCodeResponse)},
	BodyVersionedWitness:      {"VersionedPartialEncodedStateWitness", true, 15, carry(BodyVersionedWitness, passVersionedWitness)},
	BodyVersionedForward:      {"VersionedPartialEncodedStateWitnessForward", true, 16, carry(BodyVersionedForward, passVersionedWitness)},
	BodyForwardTx:             {"ForwardTx", false, 0, decoded[ForwardTx]},
	BodyTxStatusRequest:       {"TxStatusRequest", false, 1, decoded[TxStatusRequest]},
	BodyTxStatusResponse:      {"TxStatusResponse", false, 2, carry(BodyTxStatusResponse, passOutcomeView)},
	BodyChunkRequest:          {"PartialEncodedChunkRequest", false, 3, carry(BodyChunkRequest, passChunkRequest)},
	BodyChunkResponse:         {"PartialEncodedChunkResponse", false, 4, carry(BodyChunkResponse, passChunkResponse)},
	BodyPing:                  {"Ping", false, 5, decoded[Ping]},
	BodyPong:                  {"Pong", false, 6, decoded[Pong]},
	BodyWitnessAck:            {"ChunkStateWitnessAck", false, 7, decoded[WitnessAck]},
	BodyStatePartRequest:      {"StatePartRequest", false, 8, decoded[RoutedStatePartRequest]},
	BodyContractDeploys:       {"PartialEncodedContractDeploys", false, 9, carry(BodyContractDeploys, passContractDeploys)},
	BodyStateHeaderRequest:    {"StateHeaderRequest", false, 10, decoded[RoutedStateHeaderRequest]},
	BodyStateRequestAck:       {"StateRequestAck", false, 11, decoded[StateRequestAck]},
}

// tiered finds the body of a tag of routed_v3.
var tiered = func() map[[2]byte]BodyKind {
	out := make(map[[2]byte]BodyKind, len(bodies))
	for kind, s := range bodies {
		out[s.tieredTag()] = kind
	}
	return out
}()

func (s bodySpec) tieredTag() [2]byte {
	if s.t1 {
		return [2]byte{0, s.inner}
	}
	return [2]byte{1, s.inner}
}

// String returns neard's name of the body.
func (k BodyKind) String() string {
	if s, ok := bodies[k]; ok {
		return s.name
	}
	return fmt.Sprintf("body %d", byte(k))
}

// IsT1 tells whether the body may go on every tier, and goes over T1 where there is a connection; others go over T2 only.
func (k BodyKind) IsT1() bool { return bodies[k].t1 }

// ExpectsResponse tells whether the hops of a message keep the way back.
func (k BodyKind) ExpectsResponse() bool {
	return k == BodyPing || k == BodyTxStatusRequest || k == BodyChunkRequest
}

// Copies is how often a message is sent over T2, where it may get lost and nobody can ask for it again.
func (k BodyKind) Copies() int {
	if k == BodyBlockApproval || k == BodyPartialChunk {
		return 3
	}
	return 1
}

// MayGoToSelf tells whether a message to one's own account is handled, not dropped.
func (k BodyKind) MayGoToSelf() bool {
	switch k {
	case BodyPartialWitness, BodyPartialWitnessForward, BodyVersionedWitness, BodyVersionedForward, BodyChunkEndorsement:
		return true
	}
	return false
}

// decoded reads a body that has a type.
func decoded[T any, P interface {
	*T
	Body
	borsh.Decoder
}](r *borsh.Reader) Body {
	v := P(new(T))
	v.DecodeBorsh(r)
	return v
}

// carry returns a reader that passes over the bytes of a body with pass, which refuses what does not decode, and keeps them.
func carry(kind BodyKind, pass func(*borsh.Reader)) func(*borsh.Reader) Body {
	return func(r *borsh.Reader) Body {
		in := r.Rest()
		pass(r)
		if r.Err() != nil {
			return nil
		}
		return &Carried{kind, in[:len(in)-r.Remaining()]}
	}
}

// Carried is a body of a form that was checked, as bytes.
type Carried struct {
	Of    BodyKind
	Borsh []byte // without the tag
}

// The bodies with types of their own.
type (
	// BlockApproval is a vote for a block.
	BlockApproval struct{ primitives.Approval }
	// ChunkEndorsement is a vote for a chunk.
	ChunkEndorsement struct{ primitives.ChunkEndorsement }
	// ForwardTx hands a transaction to a producer of its signer's shard.
	ForwardTx struct{ primitives.SignedTransaction }
	// TxStatusRequest asks what became of a transaction.
	TxStatusRequest struct {
		Signer primitives.AccountID
		Hash   primitives.Hash
	}
	// Ping asks for a Pong with the same nonce.
	Ping struct {
		Nonce  uint64
		Source PeerID
	}
	// Pong answers a Ping.
	Pong Ping
	// WitnessAck tells a chunk's producer that its witness arrived.
	WitnessAck struct{ ChunkHash primitives.Hash }
	// RoutedStatePartRequest asks for a part of a state, to be sent to Addr over T3.
	RoutedStatePartRequest struct {
		ShardID  primitives.ShardID
		SyncHash primitives.Hash
		Part     uint64
		Addr     netip.AddrPort
	}
	// RoutedStateHeaderRequest asks for a state header, to be sent to Addr over T3.
	RoutedStateHeaderRequest struct {
		ShardID  primitives.ShardID
		SyncHash primitives.Hash
		Addr     netip.AddrPort
	}
	// StateRequestAck says what a host is going to do about a request.
	StateRequestAck struct {
		ShardID  primitives.ShardID
		SyncHash primitives.Hash
		IsHeader bool
		Part     uint64 // unless IsHeader
		Answer   AckAnswer
	}
)

// AckAnswer is what a host says of a request.
type AckAnswer byte

// The answers.
const (
	WillRespond AckAnswer = 0
	Busy        AckAnswer = 1
	AckError    AckAnswer = 2
)

// BodyKind returns the tag.
func (c *Carried) BodyKind() BodyKind                { return c.Of }
func (*BlockApproval) BodyKind() BodyKind            { return BodyBlockApproval }
func (*ChunkEndorsement) BodyKind() BodyKind         { return BodyChunkEndorsement }
func (*ForwardTx) BodyKind() BodyKind                { return BodyForwardTx }
func (*TxStatusRequest) BodyKind() BodyKind          { return BodyTxStatusRequest }
func (*Ping) BodyKind() BodyKind                     { return BodyPing }
func (*Pong) BodyKind() BodyKind                     { return BodyPong }
func (*WitnessAck) BodyKind() BodyKind               { return BodyWitnessAck }
func (*RoutedStatePartRequest) BodyKind() BodyKind   { return BodyStatePartRequest }
func (*RoutedStateHeaderRequest) BodyKind() BodyKind { return BodyStateHeaderRequest }
func (*StateRequestAck) BodyKind() BodyKind          { return BodyStateRequestAck }

// AppendBorsh appends the bytes.
func (c *Carried) AppendBorsh(b []byte) []byte { return append(b, c.Borsh...) }

// AppendBorsh appends account and hash.
func (q *TxStatusRequest) AppendBorsh(b []byte) []byte {
	return q.Hash.AppendBorsh(q.Signer.AppendBorsh(b))
}

// DecodeBorsh reads account and hash.
func (q *TxStatusRequest) DecodeBorsh(r *borsh.Reader) {
	q.Signer, q.Hash = primitives.ReadAccountID(r), primitives.ReadHash(r)
}

// AppendBorsh appends nonce and source.
func (p *Ping) AppendBorsh(b []byte) []byte {
	return p.Source.AppendBorsh(borsh.AppendUint64(b, p.Nonce))
}

// DecodeBorsh reads nonce and source.
func (p *Ping) DecodeBorsh(r *borsh.Reader) {
	p.Nonce, p.Source = r.Uint64(), primitives.ReadPublicKey(r)
}

// AppendBorsh appends nonce and source.
func (p *Pong) AppendBorsh(b []byte) []byte { return (*Ping)(p).AppendBorsh(b) }

// DecodeBorsh reads nonce and source.
func (p *Pong) DecodeBorsh(r *borsh.Reader) { (*Ping)(p).DecodeBorsh(r) }

// AppendBorsh appends the hash.
func (a *WitnessAck) AppendBorsh(b []byte) []byte { return a.ChunkHash.AppendBorsh(b) }

// DecodeBorsh reads the hash.
func (a *WitnessAck) DecodeBorsh(r *borsh.Reader) { a.ChunkHash = primitives.ReadHash(r) }

// AppendBorsh appends the fields.
func (q *RoutedStatePartRequest) AppendBorsh(b []byte) []byte {
	b = q.SyncHash.AppendBorsh(borsh.AppendUint64(b, uint64(q.ShardID)))
	return AppendSocketAddr(borsh.AppendUint64(b, q.Part), q.Addr)
}

// DecodeBorsh reads the fields.
func (q *RoutedStatePartRequest) DecodeBorsh(r *borsh.Reader) {
	q.ShardID, q.SyncHash = primitives.ShardID(r.Uint64()), primitives.ReadHash(r)
	q.Part, q.Addr = r.Uint64(), ReadSocketAddr(r)
}

// AppendBorsh appends the fields.
func (q *RoutedStateHeaderRequest) AppendBorsh(b []byte) []byte {
	return AppendSocketAddr(q.SyncHash.AppendBorsh(borsh.AppendUint64(b, uint64(q.ShardID))), q.Addr)
}

// DecodeBorsh reads the fields.
func (q *RoutedStateHeaderRequest) DecodeBorsh(r *borsh.Reader) {
	q.ShardID, q.SyncHash, q.Addr = primitives.ShardID(r.Uint64()), primitives.ReadHash(r), ReadSocketAddr(r)
}

// AppendBorsh appends shard, hash, 0 ‖ part or 1, and the answer.
func (a *StateRequestAck) AppendBorsh(b []byte) []byte {
	b = a.SyncHash.AppendBorsh(borsh.AppendUint64(b, uint64(a.ShardID)))
	if a.IsHeader {
		return append(b, 1, byte(a.Answer))
	}
	return append(borsh.AppendUint64(append(b, 0), a.Part), byte(a.Answer))
}

// DecodeBorsh reads it.
func (a *StateRequestAck) DecodeBorsh(r *borsh.Reader) {
	a.ShardID, a.SyncHash = primitives.ShardID(r.Uint64()), primitives.ReadHash(r)
	switch tag := r.Byte(); tag {
	case 0:
		a.Part = r.Uint64()
	case 1:
		a.IsHeader = true
	default:
		r.BadTag("PartIdOrHeader", tag)
	}
	if a.Answer = AckAnswer(r.Byte()); a.Answer > AckError {
		r.BadTag("StateRequestAckBody", byte(a.Answer))
	}
}
