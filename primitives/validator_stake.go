package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// ValidatorStake is a stake proposal, or a validator's seat (nearcore ValidatorStake V1, the only
// version).
type ValidatorStake struct {
	AccountID AccountID
	PublicKey PublicKey
	Stake     Balance
}

// AppendBorsh appends tag 0 and the fields.
func (v *ValidatorStake) AppendBorsh(b []byte) []byte { return v.AppendUntagged(append(b, 0)) }

// AppendUntagged appends the fields without the version tag, as in headers of V1 and V2.
func (v *ValidatorStake) AppendUntagged(b []byte) []byte {
	return v.Stake.AppendBorsh(v.PublicKey.AppendBorsh(v.AccountID.AppendBorsh(b)))
}

// DecodeBorsh reads what AppendBorsh writes.
func (v *ValidatorStake) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 0 {
		r.BadTag("ValidatorStake", tag)
		return
	}
	v.decodeUntagged(r)
}

// readUntaggedStakes reads a vector of stakes without version tags.
func readUntaggedStakes(r *borsh.Reader) []ValidatorStake {
	return borsh.Slice(r, minStake, func(r *borsh.Reader) (v ValidatorStake) {
		v.decodeUntagged(r)
		return v
	})
}

// minStake is the minimum size of an untagged stake in bytes: an account id of two characters, a
// key, a balance.
const minStake = 6 + 33 + 16

func (v *ValidatorStake) decodeUntagged(r *borsh.Reader) {
	v.AccountID, v.PublicKey, v.Stake = ReadAccountID(r), ReadPublicKey(r), ReadBalance(r)
}

// AppendValidatorStakes appends a vector of stakes.
func AppendValidatorStakes(b []byte, vs []ValidatorStake) []byte {
	return borsh.AppendSlice(b, vs, func(b []byte, v *ValidatorStake) []byte { return v.AppendBorsh(b) })
}

// ReadValidatorStakes reads a vector of stakes.
func ReadValidatorStakes(r *borsh.Reader) []ValidatorStake {
	return borsh.Slice(r, 1+minStake, func(r *borsh.Reader) (v ValidatorStake) {
		v.DecodeBorsh(r)
		return v
	})
}

// BlockProducersHash is next_bp_hash: the hash of the vector of stakes.
func BlockProducersHash(vs []ValidatorStake) Hash { return HashBytes(AppendValidatorStakes(nil, vs)) }

// UntaggedBlockProducersHash is next_bp_hash of V1 headers: over stakes without their version tag.
func UntaggedBlockProducersHash(vs []ValidatorStake) Hash {
	return HashBytes(borsh.AppendSlice(nil, vs, func(b []byte, v *ValidatorStake) []byte { return v.AppendUntagged(b) }))
}
