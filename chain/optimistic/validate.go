package optimistic

import (
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// Verify verifies a signature. VRF verifies a VRF output (primitives.VerifyVRF).
type (
	Verify func(sig primitives.Signature, data []byte, key primitives.PublicKey) bool
	VRF    func(key primitives.PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool
)

// Bounds are the values that an optimistic block may have by the time and the head. MaxHeight 0 and
// Now 0 mean no limit.
type Bounds struct {
	Head, MaxHeight primitives.Height
	Now             uint64
}

// Precheck runs the checks that need neither the parent nor its epoch: the height is above the head
// and not far above it, the timestamp is not in the future, and one of the producers has signed the
// block. producers are the keys of the validators that produce the block's height in the epochs to
// which the block may belong (nearcore chain/chain/src/validate.rs:306).
func Precheck(o *primitives.OptimisticBlock, b Bounds, producers []primitives.PublicKey, verify Verify) error {
	switch {
	case b.Now != 0 && o.Timestamp > b.Now && o.Timestamp-b.Now > chain.AcceptableTimeDifference:
		return chain.InvalidBlockFutureTime
	case o.Height <= b.Head || b.MaxHeight != 0 && o.Height > b.MaxHeight:
		return chain.InvalidBlockHeight
	}
	hash := o.Hash()
	for _, key := range producers {
		if verify(o.Signature, hash[:], key) {
			return nil
		}
	}
	return chain.InvalidSignature
}

// Validate runs all checks that need the parent, except that of the signature. producer is the key
// of the producer of the block's height in the epoch of the parent's children, with which the
// caller has verified the signature (nearcore chain/chain/src/chain.rs:2336).
func Validate(o *primitives.OptimisticBlock, parent *primitives.BlockHeader, producer primitives.PublicKey, vrf VRF) error {
	switch {
	case o.Height <= parent.Height:
		return chain.InvalidBlockHeight
	case o.Timestamp <= parent.Timestamp:
		return chain.InvalidBlockPastTime
	case !vrf(producer, parent.RandomValue[:], &o.VRFValue, &o.VRFProof):
		return chain.InvalidRandomness
	case o.RandomValue != primitives.HashBytes(o.VRFValue[:]):
		return chain.InvalidRandomness
	}
	return nil
}
