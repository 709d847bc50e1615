package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// Contracts are in no witness: a chunk's producer tells which it has called, its validators ask for
// those that they lack, and what was deployed is spread among all validators ahead (nearcore
// contract_distribution.rs).

const (
	accessesDifferentiator        = "ChunkContractAccessesInner"
	codeRequestDifferentiator     = "ContractCodeRequestInner"
	codeResponseDifferentiator    = "ContractCodeResponseV2Inner"
	contractDeploysDifferentiator = "PartialEncodedContractDeploysInner"
)

// TransitionKey names the main transition of a witness: the block, and the shard that had the chunk
// there.
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

// ContractAccesses tells a chunk's validators which contracts applying its main transition has
// called, in no order.
type ContractAccesses struct {
	Key        ChunkKey
	Contracts  []Hash
	Transition TransitionKey
	Signature  Signature // of the chunk's producer over SignedBytes
}

func (a *ContractAccesses) appendInner(b []byte) []byte {
	b = a.Transition.AppendBorsh(AppendHashes(a.Key.AppendBorsh(b), a.Contracts))
	return borsh.AppendString(b, accessesDifferentiator)
}

// SignedBytes returns what the producer signs, unhashed.
func (a *ContractAccesses) SignedBytes() []byte { return a.appendInner(nil) }

// AppendBorsh appends tag 0, the fields and the signature.
func (a *ContractAccesses) AppendBorsh(b []byte) []byte {
	return a.Signature.AppendBorsh(a.appendInner(append(b, 0)))
}

// DecodeBorsh reads it.
func (a *ContractAccesses) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 0 {
		r.BadTag("ChunkContractAccesses", tag)
		return
	}
	a.Key.DecodeBorsh(r)
	a.Contracts = ReadHashes(r)
	a.Transition.DecodeBorsh(r)
	readDifferentiator(r, accessesDifferentiator)
	a.Signature = ReadSignature(r)
}

// ContractCodeRequest asks a shard's chunk producer for code.
type ContractCodeRequest struct {
	Requester  AccountID
	Key        ChunkKey
	Contracts  []Hash // in no order
	Transition TransitionKey
	Signature  Signature // of the requester over SignedBytes
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

// DecodeBorsh reads it.
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

// ContractCodeResponse is the answer (V2). V1, which nobody signs, is decoded to be refused:
// protocol 85 wants a signature.
type ContractCodeResponse struct {
	Key        ChunkKey
	Responder  AccountID // none: V1
	Compressed []byte    // zstd of borsh Vec<bytes>; aliases what was decoded
	Signature  Signature // of the responder over SignedBytes; none: V1
}

func (a *ContractCodeResponse) appendInner(b []byte) []byte {
	b = borsh.AppendBytes(a.Responder.AppendBorsh(a.Key.AppendBorsh(b)), a.Compressed)
	return borsh.AppendString(b, codeResponseDifferentiator)
}

// SignedBytes returns what the responder signs, unhashed.
func (a *ContractCodeResponse) SignedBytes() []byte { return a.appendInner(nil) }

// Signed tells whether it is a V2.
func (a *ContractCodeResponse) Signed() bool { return a.Responder != "" }

// AppendBorsh appends tag 1, the fields and the signature; tag 0, key and code of a V1.
func (a *ContractCodeResponse) AppendBorsh(b []byte) []byte {
	if !a.Signed() {
		return borsh.AppendBytes(a.Key.AppendBorsh(append(b, 0)), a.Compressed)
	}
	return a.Signature.AppendBorsh(a.appendInner(append(b, 1)))
}

// DecodeBorsh reads it; the code aliases the input.
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
	Part          []byte // aliases what was decoded
	EncodedLength uint64
	Signature     Signature // of the chunk's producer over SignedBytes
}

func (p *PartialContractDeploys) appendInner(b []byte) []byte {
	b = borsh.AppendBytes(borsh.AppendUint64(p.Key.AppendBorsh(b), p.Ord), p.Part)
	return borsh.AppendString(borsh.AppendUint64(b, p.EncodedLength), contractDeploysDifferentiator)
}

// SignedBytes returns what the producer signs, unhashed.
func (p *PartialContractDeploys) SignedBytes() []byte { return p.appendInner(nil) }

// AppendBorsh appends tag 0, the fields and the signature.
func (p *PartialContractDeploys) AppendBorsh(b []byte) []byte {
	return p.Signature.AppendBorsh(p.appendInner(append(b, 0)))
}

// DecodeBorsh reads it; the part aliases the input.
func (p *PartialContractDeploys) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 0 {
		r.BadTag("PartialEncodedContractDeploys", tag)
		return
	}
	p.Key.DecodeBorsh(r)
	p.Ord, p.Part, p.EncodedLength = r.Uint64(), r.Bytes(), r.Uint64()
	readDifferentiator(r, contractDeploysDifferentiator)
	p.Signature = ReadSignature(r)
}
