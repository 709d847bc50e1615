package chain

import "github.com/troupe-chain/troupe/primitives"

// ValidateView does the same as ValidateOrigin for a block from nearcore's RPC views. Such a block
// has chunk headers, but neither the VRF proof nor the endorsements. If the block passes, the
// producer has signed the block's hash, which covers the header and the chunk headers.
//
// The header contains a hash of the whole body, which cannot be computed from a view. The producer
// signed this hash, and the block's approvers checked the body. The header of the next block
// contains their approvals. Until there is a next block, the rest of the body depends on trust in
// the producer alone. After that the rest of the body depends on trust in validators with more than
// two thirds of the stake. With ValidationContext.HeadersOnly, ValidateBlock skips the checks of
// the rest of the body.
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
