package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// Messages that distribute contract code, which witnesses do not contain. A chunk's producer
// announces the contracts that it called, the chunk's validators request the contracts that they
// lack, and newly deployed code is sent to all validators in advance (nearcore
// contract_distribution.rs).

const (
	accessesDifferentiator          = "ChunkContractAccessesInner"
	accessesDifferentiatorV2        = "ChunkContractAccessesV2Inner"
	codeRequestDifferentiator       = "ContractCodeRequestInner"
	codeResponseDifferentiator      = "ContractCodeResponseV2Inner"
	contractDeploysDifferentiator   = "PartialEncodedContractDeploysInner"
	contractDeploysDifferentiatorV2 = "PartialEncodedContractDeploysV2Inner"
)

// TransitionKey identifies the main transition of a witness: the block and the shard of the chunk.
type TransitionKey struct {
	Block   Hash
	ShardID ShardID
}

// AppendBorsh appends the fields.
func (k *TransitionKey) AppendBorsh(b []byte) []byte {
	return borsh.AppendUint64(append(b, k.Block[:]...), uint64(k.ShardID))
}

// DecodeBorsh reads the fields.
func (k *TransitionKey) DecodeBorsh(r *borsh.Reader) {
	k.Block, k.ShardID = ReadHash(r), ShardID(r.Uint64())
}

// ContractAccesses announces to a chunk's validators the contracts that its main transition called,
// in any order.
type ContractAccesses struct {
	Key        ChunkKey
	Contracts  []Hash
	Transition TransitionKey
	Anchor     *ChunkAnchor // nil: V1
	Signature  Signature    // the chunk producer's signature of SignedBytes
}

func (a *ContractAccesses) appendInner(b []byte) []byte {
	b = a.Transition.AppendBorsh(AppendHashes(a.Key.AppendBorsh(b), a.Contracts))
	return appendAnchored(b, a.Anchor, accessesDifferentiator, accessesDifferentiatorV2)
}

// appendAnchored appends the end of a signed part: the anchor if there is one, and the
// differentiator of V1 or V2.
func appendAnchored(b []byte, a *ChunkAnchor, v1, v2 string) []byte {
	if a == nil {
		return borsh.AppendString(b, v1)
	}
	return borsh.AppendString(a.appendBorsh(b), v2)
}

// readAnchored reads what appendAnchored writes. tag is the version's: 0 for V1, 1 for V2.
func readAnchored(r *borsh.Reader, tag byte, v1, v2 string) (a *ChunkAnchor) {
	if tag == 0 {
		readDifferentiator(r, v1)
		return nil
	}
	a = readChunkAnchor(r)
	readDifferentiator(r, v2)
	return a
}

// anchorTag returns the tag of V1 or V2.
func anchorTag(a *ChunkAnchor) byte {
	if a == nil {
		return 0
	}
	return 1
}

// SignedBytes returns what the producer signs, unhashed.
func (a *ContractAccesses) SignedBytes() []byte { return a.appendInner(nil) }

// AppendBorsh appends tag 0 for V1 or tag 1 for V2, the fields and the signature.
func (a *ContractAccesses) AppendBorsh(b []byte) []byte {
	return a.Signature.AppendBorsh(a.appendInner(append(b, anchorTag(a.Anchor))))
}

// DecodeBorsh reads what AppendBorsh writes.
func (a *ContractAccesses) DecodeBorsh(r *borsh.Reader) {
	tag := r.Byte()
	if tag > 1 {
		r.BadTag("ChunkContractAccesses", tag)
		return
	}
	a.Key.DecodeBorsh(r)
	a.Contracts = ReadHashes(r)
	a.Transition.DecodeBorsh(r)
	a.Anchor = readAnchored(r, tag, accessesDifferentiator, accessesDifferentiatorV2)
	a.Signature = ReadSignature(r)
}

// ContractCodeRequest asks a shard's chunk producer for code.
type ContractCodeRequest struct {
	Requester  AccountID
	Key        ChunkKey
	Contracts  []Hash // hashes of the code, in any order
	Transition TransitionKey
	Signature  Signature // the requester's signature of SignedBytes
}

func (q *ContractCodeRequest) appendInner(b []byte) []byte {
	b = AppendHashes(q.Key.AppendBorsh(q.Requester.AppendBorsh(b)), q.Contracts)
	return borsh.AppendString(q.Transition.AppendBorsh(b), codeRequestDifferentiator)
}

// SignedBytes returns what the requester signs, unhashed.
func (q *ContractCodeRequest) SignedBytes() []byte { return q.appendInner(nil) }

// AppendBorsh appends tag 0, the fields and the signature.
func (q *ContractCodeRequest) AppendBorsh(b []byte) []byte {
	return q.Signature.AppendBorsh(q.appendInner(append(b, 0)))
}

// DecodeBorsh reads what AppendBorsh writes.
func (q *ContractCodeRequest) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 0 {
		r.BadTag("ContractCodeRequest", tag)
		return
	}
	q.Requester = ReadAccountID(r)
	q.Key.DecodeBorsh(r)
	q.Contracts = ReadHashes(r)
	q.Transition.DecodeBorsh(r)
	readDifferentiator(r, codeRequestDifferentiator)
	q.Signature = ReadSignature(r)
}

// ContractCodeResponse is the answer (V2). V1, which is unsigned, is decoded only to be refused:
// protocol 85 requires a signature.
type ContractCodeResponse struct {
	Key        ChunkKey
	Responder  AccountID // empty: V1
	Compressed []byte    // zstd of borsh Vec<bytes>; aliases the decoded input
	Signature  Signature // the responder's signature of SignedBytes; empty: V1
}

func (a *ContractCodeResponse) appendInner(b []byte) []byte {
	b = borsh.AppendBytes(a.Responder.AppendBorsh(a.Key.AppendBorsh(b)), a.Compressed)
	return borsh.AppendString(b, codeResponseDifferentiator)
}

// SignedBytes returns what the responder signs, unhashed.
func (a *ContractCodeResponse) SignedBytes() []byte { return a.appendInner(nil) }

// Signed returns whether it is a V2.
func (a *ContractCodeResponse) Signed() bool { return a.Responder != "" }

// AppendBorsh appends tag 1, the fields and the signature; for V1 tag 0, key and code.
func (a *ContractCodeResponse) AppendBorsh(b []byte) []byte {
	if !a.Signed() {
		return borsh.AppendBytes(a.Key.AppendBorsh(append(b, 0)), a.Compressed)
	}
	return a.Signature.AppendBorsh(a.appendInner(append(b, 1)))
}

// DecodeBorsh reads what AppendBorsh writes. The code aliases the input.
func (a *ContractCodeResponse) DecodeBorsh(r *borsh.Reader) {
	switch tag := r.Byte(); tag {
	case 0:
		a.Key.DecodeBorsh(r)
		a.Responder, a.Signature, a.Compressed = "", "", r.Bytes()
	case 1:
		a.Key.DecodeBorsh(r)
		a.Responder, a.Compressed = ReadAccountID(r), r.Bytes()
		readDifferentiator(r, codeResponseDifferentiator)
		a.Signature = ReadSignature(r)
	default:
		r.BadTag("ContractCodeResponse", tag)
	}
}

// PartialContractDeploys is a part of the code that a chunk has deployed (nearcore
// PartialEncodedContractDeploys).
type PartialContractDeploys struct {
	Key           ChunkKey
	Ord           uint64
	Part          []byte // aliases the decoded input
	EncodedLength uint64
	Anchor        *ChunkAnchor // nil: V1
	Signature     Signature    // the chunk producer's signature of SignedBytes
}

func (p *PartialContractDeploys) appendInner(b []byte) []byte {
	b = borsh.AppendBytes(borsh.AppendUint64(p.Key.AppendBorsh(b), p.Ord), p.Part)
	b = borsh.AppendUint64(b, p.EncodedLength)
	return appendAnchored(b, p.Anchor, contractDeploysDifferentiator, contractDeploysDifferentiatorV2)
}

// SignedBytes returns what the producer signs, unhashed.
func (p *PartialContractDeploys) SignedBytes() []byte { return p.appendInner(nil) }

// AppendBorsh appends tag 0 for V1 or tag 1 for V2, the fields and the signature.
func (p *PartialContractDeploys) AppendBorsh(b []byte) []byte {
	return p.Signature.AppendBorsh(p.appendInner(append(b, anchorTag(p.Anchor))))
}

// DecodeBorsh reads what AppendBorsh writes. The part aliases the input.
func (p *PartialContractDeploys) DecodeBorsh(r *borsh.Reader) {
	tag := r.Byte()
	if tag > 1 {
		r.BadTag("PartialEncodedContractDeploys", tag)
		return
	}
	p.Key.DecodeBorsh(r)
	p.Ord, p.Part, p.EncodedLength = r.Uint64(), r.Bytes(), r.Uint64()
	p.Anchor = readAnchored(r, tag, contractDeploysDifferentiator, contractDeploysDifferentiatorV2)
	p.Signature = ReadSignature(r)
}
