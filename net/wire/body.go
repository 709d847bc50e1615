package wire

import (
	"fmt"

	"github.com/troupe-chain/troupe/net/wire/outcome"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// BodyKind is the tag of a routed body in RoutedMessageBody. Hashes and signatures cover this tag.
type BodyKind byte

// Supported bodies. 33 and 35 to 39 belong to later protocol versions; the other gaps belong to
// removed bodies. Decode rejects all these numbers.
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
	BodyPartialWitnessForward BodyKind = 23 // without the tag of its version
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

// Body is the body of a routed message.
type Body interface {
	BodyKind() BodyKind
	AppendBorsh(b []byte) []byte // appends the body without its tag
}

// bodySpec describes a body.
type bodySpec struct {
	name  string
	t1    bool // true: the body is a variant of T1MessageBody; false: of T2MessageBody
	inner byte // tag of the variant in T1MessageBody or T2MessageBody, for RoutedV3
	read  func(*borsh.Reader) Body
}

// bodies describes each body.
var bodies = map[BodyKind]bodySpec{
	BodyBlockApproval:         {"BlockApproval", true, 0, decoded[BlockApproval]},
	BodyPartialChunk:          {"VersionedPartialEncodedChunk", true, 1, decoded[PartialChunk]},
	BodyChunkForward:          {"PartialEncodedChunkForward", true, 2, decoded[ChunkForward]},
	BodyPartialWitness:        {"PartialEncodedStateWitness", true, 3, decoded[PartialWitness]},
	BodyPartialWitnessForward: {"PartialEncodedStateWitnessForward", true, 4, decoded[PartialWitnessForward]},
	BodyChunkEndorsement:      {"VersionedChunkEndorsement", true, 5, decoded[ChunkEndorsement]},
	BodyContractAccesses:      {"ChunkContractAccesses", true, 6, decoded[ContractAccesses]},
	BodyContractCodeRequest:   {"ContractCodeRequest", true, 7, decoded[ContractCodeRequest]},
	BodyContractCodeResponse:  {"ContractCodeResponse", true, 8, decoded[ContractCodeResponse]},
	BodyVersionedWitness:      {"VersionedPartialEncodedStateWitness", true, 15, decoded[VersionedWitness]},
	BodyVersionedForward:      {"VersionedPartialEncodedStateWitnessForward", true, 16, decoded[VersionedWitnessForward]},
	BodyForwardTx:             {"ForwardTx", false, 0, decoded[ForwardTx]},
	BodyTxStatusRequest:       {"TxStatusRequest", false, 1, decoded[TxStatusRequest]},
	BodyTxStatusResponse:      {"TxStatusResponse", false, 2, decoded[TxStatusResponse]},
	BodyChunkRequest:          {"PartialEncodedChunkRequest", false, 3, decoded[ChunkRequest]},
	BodyChunkResponse:         {"PartialEncodedChunkResponse", false, 4, decoded[ChunkResponse]},
	BodyPing:                  {"Ping", false, 5, decoded[Ping]},
	BodyPong:                  {"Pong", false, 6, decoded[Pong]},
	BodyWitnessAck:            {"ChunkStateWitnessAck", false, 7, decoded[WitnessAck]},
	BodyStatePartRequest:      {"StatePartRequest", false, 8, decoded[RoutedStatePartRequest]},
	BodyContractDeploys:       {"PartialEncodedContractDeploys", false, 9, decoded[ContractDeploys]},
	BodyStateHeaderRequest:    {"StateHeaderRequest", false, 10, decoded[RoutedStateHeaderRequest]},
	BodyStateRequestAck:       {"StateRequestAck", false, 11, decoded[StateRequestAck]},
}

// tiered maps a tag of routed_v3 to its body.
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

// IsT1 returns whether the body is allowed on every tier and preferably sent over T1. Bodies for
// which IsT1 is false use T2 only.
func (k BodyKind) IsT1() bool { return bodies[k].t1 }

// ExpectsResponse returns whether each hop remembers the origin of the message, so that a response
// can be routed back.
func (k BodyKind) ExpectsResponse() bool {
	return k == BodyPing || k == BodyTxStatusRequest || k == BodyChunkRequest
}

// Copies returns the number of copies that are sent over T2. The number is above 1 for messages
// that no node requests again after a loss.
func (k BodyKind) Copies() int {
	if k == BodyBlockApproval || k == BodyPartialChunk {
		return 3
	}
	return 1
}

// MayGoToSelf returns whether this node delivers a message to its own account; otherwise it drops
// the message.
func (k BodyKind) MayGoToSelf() bool {
	switch k {
	case BodyPartialWitness, BodyPartialWitnessForward, BodyVersionedWitness, BodyVersionedForward, BodyChunkEndorsement:
		return true
	}
	return false
}

// decoded decodes a body of a given type.
func decoded[T any, P interface {
	*T
	Body
	borsh.Decoder
}](r *borsh.Reader) Body {
	v := P(new(T))
	v.DecodeBorsh(r)
	return v
}

// The body types.
type (
	// BlockApproval is an approval of a block (Doomslug).
	BlockApproval struct{ primitives.Approval }
	// ChunkEndorsement is an endorsement of a chunk.
	ChunkEndorsement struct{ primitives.ChunkEndorsement }
	// ForwardTx forwards a transaction to a chunk producer of the signer's shard.
	ForwardTx struct{ primitives.SignedTransaction }
	// TxStatusRequest requests the outcome of a transaction.
	TxStatusRequest struct {
		Signer primitives.AccountID
		Hash   primitives.Hash
	}
	// TxStatusResponse contains the outcome of a transaction: a FinalExecutionOutcomeView in borsh,
	// as neard encodes it.
	TxStatusResponse struct{ Outcome []byte }
	// Ping requests a Pong with the same nonce.
	Ping struct {
		Nonce  uint64
		Source PeerID
	}
	// Pong answers a Ping.
	Pong Ping
	// PartialChunk contains the receiver's parts of a chunk.
	PartialChunk struct{ primitives.PartialChunk }
	// ChunkForward forwards parts of a chunk to nodes that need them.
	ChunkForward struct{ primitives.ChunkForward }
	// ChunkRequest requests parts of a chunk.
	ChunkRequest struct{ primitives.ChunkRequest }
	// ChunkResponse answers a ChunkRequest.
	ChunkResponse struct{ primitives.ChunkResponse }
	// WitnessAck acknowledges a witness to the chunk's producer.
	WitnessAck struct{ primitives.WitnessAck }
	// PartialWitness contains the witness part that the receiver owns. PartialWitnessForward
	// contains the part that the sender owns.
	PartialWitness        struct{ primitives.PartialWitness }
	PartialWitnessForward struct{ primitives.PartialWitness }
	// VersionedWitness and VersionedWitnessForward contain witness parts with a version. This node
	// sends version 2 from protocol version 87 on. This node accepts version 1, but does not send
	// it.
	VersionedWitness struct {
		primitives.VersionedPartialWitness
	}
	VersionedWitnessForward struct {
		primitives.VersionedPartialWitness
	}
	// ContractAccesses lists the contracts that a witness needs.
	ContractAccesses struct{ primitives.ContractAccesses }
	// ContractCodeRequest requests contracts.
	ContractCodeRequest struct{ primitives.ContractCodeRequest }
	// ContractCodeResponse answers a ContractCodeRequest.
	ContractCodeResponse struct {
		primitives.ContractCodeResponse
	}
	// ContractDeploys contains a part of the code that a chunk deploys.
	ContractDeploys struct {
		primitives.PartialContractDeploys
	}
	// RoutedStatePartRequest requests a state part, to be sent over T3.
	RoutedStatePartRequest struct{ primitives.StatePartRequest }
	// RoutedStateHeaderRequest requests a state header, to be sent over T3.
	RoutedStateHeaderRequest struct{ primitives.StateHeaderRequest }
	// StateRequestAck says what a host will do about a state request.
	StateRequestAck struct{ primitives.StateRequestAck }
)

// BodyKind returns the tag.
func (*BlockApproval) BodyKind() BodyKind            { return BodyBlockApproval }
func (*ChunkEndorsement) BodyKind() BodyKind         { return BodyChunkEndorsement }
func (*ForwardTx) BodyKind() BodyKind                { return BodyForwardTx }
func (*TxStatusRequest) BodyKind() BodyKind          { return BodyTxStatusRequest }
func (*TxStatusResponse) BodyKind() BodyKind         { return BodyTxStatusResponse }
func (*Ping) BodyKind() BodyKind                     { return BodyPing }
func (*Pong) BodyKind() BodyKind                     { return BodyPong }
func (*PartialChunk) BodyKind() BodyKind             { return BodyPartialChunk }
func (*ChunkForward) BodyKind() BodyKind             { return BodyChunkForward }
func (*ChunkRequest) BodyKind() BodyKind             { return BodyChunkRequest }
func (*ChunkResponse) BodyKind() BodyKind            { return BodyChunkResponse }
func (*PartialWitness) BodyKind() BodyKind           { return BodyPartialWitness }
func (*PartialWitnessForward) BodyKind() BodyKind    { return BodyPartialWitnessForward }
func (*VersionedWitness) BodyKind() BodyKind         { return BodyVersionedWitness }
func (*VersionedWitnessForward) BodyKind() BodyKind  { return BodyVersionedForward }
func (*ContractAccesses) BodyKind() BodyKind         { return BodyContractAccesses }
func (*ContractCodeRequest) BodyKind() BodyKind      { return BodyContractCodeRequest }
func (*ContractCodeResponse) BodyKind() BodyKind     { return BodyContractCodeResponse }
func (*ContractDeploys) BodyKind() BodyKind          { return BodyContractDeploys }
func (*WitnessAck) BodyKind() BodyKind               { return BodyWitnessAck }
func (*RoutedStatePartRequest) BodyKind() BodyKind   { return BodyStatePartRequest }
func (*RoutedStateHeaderRequest) BodyKind() BodyKind { return BodyStateHeaderRequest }
func (*StateRequestAck) BodyKind() BodyKind          { return BodyStateRequestAck }

// AppendBorsh appends account and hash.
func (q *TxStatusRequest) AppendBorsh(b []byte) []byte {
	return q.Hash.AppendBorsh(q.Signer.AppendBorsh(b))
}

// DecodeBorsh reads account and hash.
func (q *TxStatusRequest) DecodeBorsh(r *borsh.Reader) {
	q.Signer, q.Hash = primitives.ReadAccountID(r), primitives.ReadHash(r)
}

// AppendBorsh appends the outcome.
func (s *TxStatusResponse) AppendBorsh(b []byte) []byte { return append(b, s.Outcome...) }

// DecodeBorsh reads an outcome to the end of r.
func (s *TxStatusResponse) DecodeBorsh(r *borsh.Reader) { s.Outcome = outcome.Read(r) }

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
