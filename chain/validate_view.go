package chain

import "github.com/troupe-chain/troupe/primitives"

// ValidateView is ValidateOrigin for a block as nearcore's views tell it: of the body there are the chunks' headers, and neither the proof of
// its random value nor the endorsements. What passes are the header and the chunks' headers that the hash names, by who was to make the block.
//
// The rest of the body stands in the header by a hash that cannot be computed then. Its producer has signed that, and who approves of a
// block that builds on it has checked it: so it rests on more than two thirds of the stake as soon as there is one, and on the
// producer alone until then. Judgement.Told leaves these checks out of ValidateBlock.
func ValidateView(b *primitives.Block, producer primitives.PublicKey, shards int, verify func(primitives.Signature, []byte, primitives.PublicKey) bool) error {
	if err := validateSigned(b, producer, shards, verify); err != nil {
		return err
	}
	if h := b.Header; ComputeRoots(b.Body.Chunks, h.Height).ChunkHeaders != h.ChunkHeadersRoot {
		return InvalidChunkHeadersRoot
	}
	return nil
}
