package epoch

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ValidatorID is a validator's place in its epoch's list.
type ValidatorID = uint64

// WeightedValidator is a validator with a share of its stake: a partial mandate, or its part in a chunk.
type WeightedValidator struct {
	ID     ValidatorID
	Weight primitives.Balance
}

// ValidatorMandates cuts the stakes of an epoch into pieces of one price, which are dealt to the shards at each height
// (nearcore core/primitives/src/validator_mandates). All validators take part, whatever else they do.
type ValidatorMandates struct {
	TargetPerShard  uint64
	NumShards       uint64
	StakePerMandate primitives.Balance
	Mandates        []ValidatorID       // an id for each whole mandate it holds, ascending
	Partials        []WeightedValidator // what is left of a stake, if anything
}

// newValidatorMandates fails when a validator would hold 65536 mandates or more, where nearcore panics.
func newValidatorMandates(targetPerShard, numShards uint64, validators []primitives.ValidatorStake) (ValidatorMandates, error) {
	m := ValidatorMandates{TargetPerShard: targetPerShard, NumShards: numShards}
	price, err := mandatePrice(targetPerShard, numShards, validators)
	if err != nil {
		return m, err
	}
	m.StakePerMandate = price
	for id := range validators {
		whole, rest := quoRem(validators[id].Stake, price)
		if whole.Hi != 0 || whole.Lo > math.MaxUint16 {
			return m, fmt.Errorf("%w: %s would hold %v mandates", ErrConfig, validators[id].AccountID, whole)
		}
		for range whole.Lo {
			m.Mandates = append(m.Mandates, ValidatorID(id))
		}
		if !rest.IsZero() {
			m.Partials = append(m.Partials, WeightedValidator{ValidatorID(id), rest})
		}
	}
	return m, nil
}

// mandatePrice returns the largest price at which the whole mandates are exactly as many as wanted, or else the one
// that gives more while the next gives fewer (nearcore compute_price.rs). At most as many are wanted as there is yocto.
func mandatePrice(targetPerShard, numShards uint64, validators []primitives.ValidatorStake) (primitives.Balance, error) {
	var total primitives.Balance
	for i := range validators {
		total = total.SaturatingAdd(validators[i].Stake)
	}
	if total.IsZero() {
		return total, fmt.Errorf("%w: no stake to cut into mandates", ErrNotEnoughValidators)
	}
	target, ok := primitives.Yocto(targetPerShard).Mul64(numShards)
	if !ok || target.Hi != 0 {
		target = primitives.Yocto(math.MaxUint64) // usize saturates
	}
	if total.Less(target) {
		target = total
	}
	count := func(price primitives.Balance) primitives.Balance {
		var n primitives.Balance
		for i := range validators {
			q, _ := quoRem(validators[i].Stake, price)
			n = n.SaturatingAdd(q)
		}
		return n
	}
	// count falls as the price rises. Invariant of both loops: the answer is low, or between low and high.
	one := primitives.Yocto(1)
	low, high := one, total
	exact := count(low) == target
	if !exact && count(high) == target {
		return high, nil
	}
	for {
		gap := high.SaturatingSub(low)
		if gap.Cmp(one) <= 0 {
			return low, nil
		}
		half, _ := gap.DivMod64(2)
		mid, _ := low.Add(half)
		switch c := count(mid).Cmp(target); {
		case c < 0:
			high = mid
		case c == 0:
			low, exact = mid, true
		case !exact:
			low = mid
		default:
			panic("epoch: fewer mandates at a lower price")
		}
	}
}

// sample deals the mandates and partials to the shards and returns for each shard index its validators in the order in
// which their endorsements are listed (nearcore validator_mandates/mod.rs:122). Row r of the shuffled pieces goes to the
// shard that the shuffled list of shards names at r, one list for mandates and one for partials.
func (m *ValidatorMandates) sample(rng *primitives.ChaChaRng) [][]WeightedValidator {
	n := int(m.NumShards)
	shuffledShards := func() []int {
		s := make([]int, n)
		for i := range s {
			s[i] = i
		}
		primitives.Shuffle(rng, s)
		return s
	}
	forMandates, forPartials := shuffledShards(), shuffledShards()
	mandates, partials := slices.Clone(m.Mandates), slices.Clone(m.Partials)
	primitives.Shuffle(rng, mandates)
	primitives.Shuffle(rng, partials)

	pieces := make([][]WeightedValidator, n)
	for i, id := range mandates {
		s := forMandates[i%n]
		pieces[s] = append(pieces[s], WeightedValidator{id, m.StakePerMandate})
	}
	for i, p := range partials {
		s := forPartials[i%n]
		pieces[s] = append(pieces[s], p)
	}
	for s := range pieces {
		pieces[s] = mergeWeights(pieces[s])
		primitives.Shuffle(rng, pieces[s])
	}
	return pieces
}

// mergeWeights adds up the pieces of each validator and orders them by id. A sum is at most a stake, so it fits.
func mergeWeights(ps []WeightedValidator) []WeightedValidator {
	slices.SortFunc(ps, func(a, b WeightedValidator) int { return cmp.Compare(a.ID, b.ID) })
	out := ps[:0]
	for _, p := range ps {
		if last := len(out) - 1; last >= 0 && out[last].ID == p.ID {
			out[last].Weight = out[last].Weight.SaturatingAdd(p.Weight)
			continue
		}
		out = append(out, p)
	}
	return out
}

// AppendBorsh appends the fields.
func (m *ValidatorMandates) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64(borsh.AppendUint64(b, m.TargetPerShard), m.NumShards)
	b = borsh.AppendUint64s(m.StakePerMandate.AppendBorsh(b), m.Mandates)
	return borsh.AppendSlice(b, m.Partials, func(b []byte, p *WeightedValidator) []byte {
		return p.Weight.AppendBorsh(borsh.AppendUint64(b, p.ID))
	})
}

// DecodeBorsh reads the fields.
func (m *ValidatorMandates) DecodeBorsh(r *borsh.Reader) {
	m.TargetPerShard, m.NumShards, m.StakePerMandate = r.Uint64(), r.Uint64(), primitives.ReadBalance(r)
	m.Mandates = r.Uint64s()
	m.Partials = borsh.Slice(r, 24, func(r *borsh.Reader) WeightedValidator {
		return WeightedValidator{r.Uint64(), primitives.ReadBalance(r)}
	})
}
