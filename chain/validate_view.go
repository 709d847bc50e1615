package chain

import "github.com/troupe-chain/troupe/primitives"

// ValidateView is ValidateOrigin for a block in the form of nearcore's RPC views: of the body only
// the chunk headers are known, and neither the proof of its random value nor the endorsements. A
// block that passes has the header and the chunk headers that its hash commits to, signed by the
// producer.
//
// The header commits to the rest of the body by a hash that cannot be computed from a view. The
// producer signed that hash, and approvers of a later block checked it. So it rests on more than
// two thirds of the stake once there is a later block, and on the producer alone until then.
// ValidationContext.Told excludes these checks from ValidateBlock.
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
