package chain

import "github.com/troupe-chain/troupe/primitives"

// ValidateView is ValidateOrigin for a block from nearcore's RPC views. Of the body of such a block
// only the chunk headers are known, but neither the VRF proof nor the endorsements. If the block
// passes, its hash covers its header and chunk headers, and the producer has signed that hash.
//
// The header covers the rest of the body by a hash, which cannot be computed from a view. The
// producer has signed that hash, and the approvers of the block have checked the body. So until
// there is a later block, whose header contains these approvals, the rest of the body depends on
// trust in the producer alone; after that, on trust in validators with more than two thirds of the
// stake. With ValidationContext.HeadersOnly, ValidateBlock skips these checks.
func ValidateView(b *primitives.Block, producer primitives.PublicKey, shards int,
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool) error {
	if err := validateSigned(b, producer, shards, verify); err != nil {
		return err
	}
	if h := b.Header; ComputeRoots(b.Body.Chunks, h.Height).ChunkHeaders != h.ChunkHeadersRoot {
		return InvalidChunkHeadersRoot
	}
	return nil
}
