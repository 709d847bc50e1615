package epoch

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// KickoutKind is the variant of a KickoutReason. The number of a KickoutKind is the borsh tag.
type KickoutKind byte

// The variants (nearcore core/primitives/src/types.rs:1253), with nearcore's JSON names. The
// comments list the fields that a variant uses.
const (
	UnusedSlashed              KickoutKind = 0
	NotEnoughBlocks            KickoutKind = 1 // fields Produced, Expected
	NotEnoughChunks            KickoutKind = 2 // fields Produced, Expected
	Unstaked                   KickoutKind = 3
	NotEnoughStake             KickoutKind = 4 // fields Stake, Threshold
	DidNotGetASeat             KickoutKind = 5
	NotEnoughChunkEndorsements KickoutKind = 6 // fields Produced, Expected
	ProtocolVersionTooOld      KickoutKind = 7 // fields Version, NetworkVersion
)

var kickoutNames = [...]string{
	"_UnusedSlashed", "NotEnoughBlocks", "NotEnoughChunks", "Unstaked", "NotEnoughStake", "DidNotGetASeat",
	"NotEnoughChunkEndorsements", "ProtocolVersionTooOld",
}

// String returns nearcore's name of the variant.
func (k KickoutKind) String() string {
	if int(k) < len(kickoutNames) {
		return kickoutNames[k]
	}
	return fmt.Sprintf("KickoutKind(%d)", byte(k))
}

// KickoutReason is the reason why a validator has no seat in the epoch after the next. Fields that
// the kind does not use are 0.
type KickoutReason struct {
	Kind                    KickoutKind
	Produced, Expected      uint64
	Stake, Threshold        primitives.Balance
	Version, NetworkVersion primitives.ProtocolVersion
}

// ForPerformance returns whether the kickout also forfeits the epoch's reward (nearcore
// lib.rs:815).
func (k KickoutReason) ForPerformance() bool {
	return k.Kind == NotEnoughBlocks || k.Kind == NotEnoughChunks || k.Kind == NotEnoughChunkEndorsements
}

// AppendBorsh appends the tag and the variant's fields.
func (k *KickoutReason) AppendBorsh(b []byte) []byte {
	b = append(b, byte(k.Kind))
	switch k.Kind {
	case NotEnoughBlocks, NotEnoughChunks, NotEnoughChunkEndorsements:
		return borsh.AppendUint64(borsh.AppendUint64(b, k.Produced), k.Expected)
	case NotEnoughStake:
		return k.Threshold.AppendBorsh(k.Stake.AppendBorsh(b))
	case ProtocolVersionTooOld:
		return borsh.AppendUint32(borsh.AppendUint32(b, uint32(k.Version)), uint32(k.NetworkVersion))
	}
	return b
}

// DecodeBorsh reads the tag and the variant's fields.
func (k *KickoutReason) DecodeBorsh(r *borsh.Reader) {
	*k = KickoutReason{Kind: KickoutKind(r.Byte())}
	switch k.Kind {
	case UnusedSlashed, Unstaked, DidNotGetASeat:
	case NotEnoughBlocks, NotEnoughChunks, NotEnoughChunkEndorsements:
		k.Produced, k.Expected = r.Uint64(), r.Uint64()
	case NotEnoughStake:
		k.Stake, k.Threshold = primitives.ReadBalance(r), primitives.ReadBalance(r)
	case ProtocolVersionTooOld:
		k.Version, k.NetworkVersion = primitives.ProtocolVersion(r.Uint32()), primitives.ProtocolVersion(r.Uint32())
	default:
		r.BadTag("ValidatorKickoutReason", byte(k.Kind))
	}
}

func appendKickouts(b []byte, m AccountMap[KickoutReason]) []byte {
	return appendAccountMap(b, m, func(b []byte, k *KickoutReason) []byte { return k.AppendBorsh(b) })
}

func readKickouts(r *borsh.Reader) AccountMap[KickoutReason] {
	return readAccountMap(r, 1, func(r *borsh.Reader) (k KickoutReason) {
		k.DecodeBorsh(r)
		return k
	})
}
