package wire

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// The functions here pass over a body: what they take decodes at neard too, and nothing is kept of it.

func passHash(r *borsh.Reader)  { r.Take(32) }
func passU64(r *borsh.Reader)   { r.Uint64() }
func passBytes(r *borsh.Reader) { r.Bytes() }
func passText(r *borsh.Reader)  { _ = r.String() }
func passSig(r *borsh.Reader)   { primitives.ReadSignature(r) }

// passEach passes over a count and as many items of at least minSize bytes.
func passEach(r *borsh.Reader, minSize int, one func(*borsh.Reader)) {
	for range r.Len(minSize) {
		if one(r); r.Err() != nil {
			return
		}
	}
}

func passPath(r *borsh.Reader) {
	passEach(r, 33, func(r *borsh.Reader) { new(primitives.MerklePathItem).DecodeBorsh(r) })
}

// passTag wants one of the tags 0 to n-1.
func passTag(r *borsh.Reader, enum string, n byte) byte {
	tag := r.Byte()
	if tag >= n {
		r.BadTag(enum, tag)
	}
	return tag
}

func passPart(r *borsh.Reader) {
	passU64(r)
	passBytes(r)
	passPath(r)
}

func passParts(r *borsh.Reader) { passEach(r, 16, passPart) }

func passReceiptProofs(r *borsh.Reader) {
	passEach(r, 24, func(r *borsh.Reader) {
		passEach(r, 1, func(r *borsh.Reader) { primitives.ReadReceipt(r) })
		passU64(r)
		passU64(r)
		passPath(r)
	})
}

// passPartialChunk wants V2; V1 has headers that no protocol of today has.
func passPartialChunk(r *borsh.Reader) {
	if tag := r.Byte(); tag != 1 {
		r.BadTag("PartialEncodedChunk", tag)
		return
	}
	new(primitives.ChunkHeader).DecodeBorsh(r)
	passParts(r)
	passReceiptProofs(r)
}

func passChunkForward(r *borsh.Reader) {
	passHash(r)
	passHash(r)
	passHash(r)
	passSig(r)
	passHash(r)
	passU64(r)
	passU64(r)
	passParts(r)
}

func passChunkRequest(r *borsh.Reader) {
	passHash(r)
	passEach(r, 8, passU64)
	passEach(r, 8, passU64)
}

func passChunkResponse(r *borsh.Reader) {
	passHash(r)
	passParts(r)
	passReceiptProofs(r)
}

// passPartialWitness passes over V1 without its tag.
func passPartialWitness(r *borsh.Reader) {
	passHash(r)
	passU64(r)
	passU64(r)
	passU64(r)
	passBytes(r)
	passU64(r)
	passText(r)
	passSig(r)
}

// passVersionedWitness passes over V1, or V2, which has the hash of the block before after the height.
func passVersionedWitness(r *borsh.Reader) {
	if passTag(r, "VersionedPartialEncodedStateWitness", 2) == 0 {
		passPartialWitness(r)
		return
	}
	passHash(r)
	passU64(r)
	passU64(r)
	passHash(r)
	passU64(r)
	passBytes(r)
	passU64(r)
	passText(r)
	passSig(r)
}

// passChunkKey passes over shard, epoch and height.
func passChunkKey(r *borsh.Reader) {
	passU64(r)
	passHash(r)
	passU64(r)
}

// passTransition passes over block and shard.
func passTransition(r *borsh.Reader) {
	passHash(r)
	passU64(r)
}

func passContractAccesses(r *borsh.Reader) {
	passTag(r, "ChunkContractAccesses", 1)
	passChunkKey(r)
	passEach(r, 32, passHash)
	passTransition(r)
	passText(r)
	passSig(r)
}

func passCodeRequest(r *borsh.Reader) {
	passTag(r, "ContractCodeRequest", 1)
	primitives.ReadAccountID(r)
	passChunkKey(r)
	passEach(r, 32, passHash)
	passTransition(r)
	passText(r)
	passSig(r)
}

// passCodeResponse passes over V1, which is only key and codes, or V2.
func passCodeResponse(r *borsh.Reader) {
	v2 := passTag(r, "ContractCodeResponse", 2) == 1
	passChunkKey(r)
	if !v2 {
		passBytes(r)
		return
	}
	primitives.ReadAccountID(r)
	passBytes(r)
	passText(r)
	passSig(r)
}

func passContractDeploys(r *borsh.Reader) {
	passTag(r, "PartialEncodedContractDeploys", 1)
	passChunkKey(r)
	passU64(r)
	passBytes(r)
	passU64(r)
	passText(r)
	passSig(r)
}

// passOutcomeView takes all that is left: the errors in an outcome have no reader here, and who asked looks at the whole.
func passOutcomeView(r *borsh.Reader) { r.Take(r.Remaining()) }
