package chain

import "github.com/troupe-chain/troupe/primitives"

// EndorsementBitmaps returns, for each shard, a bitmap of the validators that have signed: bit i
// stands for validator i, lowest bit first. The bitmap of a shard without a new chunk is empty.
func EndorsementBitmaps(endorsements [][]primitives.Signature) [][]byte {
	out := make([][]byte, len(endorsements))
	for s, sigs := range endorsements {
		out[s] = make([]byte, (len(sigs)+7)/8)
		for i, sig := range sigs {
			if sig != "" {
				out[s][i/8] |= 1 << (i % 8)
			}
		}
	}
	return out
}

// Assigned is a validator of a chunk, with the stake that counts for that chunk.
type Assigned struct {
	AccountID primitives.AccountID
	PublicKey primitives.PublicKey
	Stake     primitives.Balance
}

// EndorsedEnough returns whether the validators that signed hold at least floor(2*total/3)+1 of the
// stake of all assigned validators (nearcore
// core/primitives/src/stateless_validation/validator_assignment.rs). signed(i) reports whether
// assigned[i] signed.
func EndorsedEnough(assigned []Assigned, signed func(i int) bool) bool {
	var have, total primitives.Balance
	for i := range assigned {
		total = total.SaturatingAdd(assigned[i].Stake)
		if signed(i) {
			have = have.SaturatingAdd(assigned[i].Stake)
		}
	}
	return have.Cmp(twoThirds(total)) > 0
}

// twoThirds returns floor(2*total/3).
func twoThirds(total primitives.Balance) primitives.Balance {
	third, rest := total.DivMod64(3)
	v, _ := third.Mul64(2)
	return v.SaturatingAdd(primitives.Yocto(rest * 2 / 3))
}

// OverTwoThirds returns whether have exceeds floor(2*total/3).
func OverTwoThirds(have, total primitives.Balance) bool { return have.Cmp(twoThirds(total)) > 0 }
