package epoch

import (
	"fmt"
	"math"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ValidatorID is a validator's index in its epoch's list.
type ValidatorID = uint64

// WeightedValidator is a validator with a part of its stake: the stake of a partial mandate, or the
// stake that counts for a chunk.
type WeightedValidator struct {
	ID     ValidatorID
	Weight primitives.Balance
}

// ValidatorMandates divides the stakes of an epoch into mandates of equal price. At each height the
// mandates are distributed among the shards (nearcore core/primitives/src/validator_mandates). All
// validators take part, whether or not they produce blocks or chunks.
type ValidatorMandates struct {
	TargetPerShard  uint64
	NumShards       uint64
	StakePerMandate primitives.Balance
	Mandates        []ValidatorID       // the validator's ID for each whole mandate, ascending
	Partials        []WeightedValidator // the stake of each validator beyond its whole mandates, if any
}

// newValidatorMandates returns the mandates of an epoch. newValidatorMandates returns ErrConfig if
// a validator would have 65536 mandates or more. nearcore panics in that case.
func newValidatorMandates(targetPerShard, numShards uint64,
	validators []primitives.ValidatorStake) (ValidatorMandates, error) {
	m := ValidatorMandates{TargetPerShard: targetPerShard, NumShards: numShards}
	price, err := mandatePrice(targetPerShard, numShards, validators)
	if err != nil {
		return m, err
	}
	m.StakePerMandate = price
	for id := range validators {
		whole, rest := quoRem(validators[id].Stake, price)
		if whole.Hi != 0 || whole.Lo > math.MaxUint16 {
			return m, fmt.Errorf("%w: validator %s would have %v mandates, which is too many", ErrConfig, validators[id].AccountID, whole)
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

// mandatePrice returns the highest price that leads to exactly the target number of whole mandates.
// If no price does, mandatePrice returns the highest price that leads to more mandates than the
// target (nearcore compute_price.rs). The target is at most the total stake in yoctoNEAR.
func mandatePrice(targetPerShard, numShards uint64,
	validators []primitives.ValidatorStake) (primitives.Balance, error) {
	var total primitives.Balance
	for i := range validators {
		total = total.SaturatingAdd(validators[i].Stake)
	}
	if total.IsZero() {
		return total, fmt.Errorf("%w: there is no stake to divide into mandates", ErrNotEnoughValidators)
	}
	target, ok := primitives.Yocto(targetPerShard).Mul64(numShards)
	if !ok || target.Hi != 0 {
		target = primitives.Yocto(math.MaxUint64) // as in nearcore, where the number is a usize, the sum saturates
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
	// count decreases as the price grows. The loop keeps the invariant that the returned price is
	// at least low and less than high.
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

// sample distributes the mandates and partials among the shards. It returns, by shard index, the
// validators in the order of their endorsements (nearcore validator_mandates/mod.rs:122). sample
// deals the shuffled mandates round robin to NumShards rows. Row r goes to the r-th shard of a
// shuffled list of shards. sample deals the shuffled partials in the same way, with a second
// shuffled list of shards.
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

	rowOf := make([]int, n) // row of the partial mandates, by shard index
	for r, s := range forPartials {
		rowOf[s] = r
	}
	mandatesOf := make([]int, n)
	for r, s := range forMandates {
		mandatesOf[s] = r
	}
	sums := make([]share, m.ids()) // stake of each validator in the current shard, by ID
	pieces := make([][]WeightedValidator, n)
	for s := range pieces {
		some := 0
		add := func(id ValidatorID, weight primitives.Balance) {
			x := &sums[id]
			if !x.any {
				some++
			}
			x.any, x.sum = true, x.sum.SaturatingAdd(weight) // cannot overflow: at most the validator's stake
		}
		for i := mandatesOf[s]; i < len(mandates); i += n {
			add(mandates[i], m.StakePerMandate)
		}
		for i := rowOf[s]; i < len(partials); i += n {
			add(partials[i].ID, partials[i].Weight)
		}
		list := make([]WeightedValidator, 0, some) // by ascending ID
		for id := range sums {
			if sums[id].any {
				list = append(list, WeightedValidator{ValidatorID(id), sums[id].sum})
				sums[id] = share{}
			}
		}
		primitives.Shuffle(rng, list)
		pieces[s] = list
	}
	return pieces
}

// share is the stake of one validator that counts for a shard.
type share struct {
	sum primitives.Balance
	any bool
}

// ids returns the number of IDs: one more than the highest ID with a mandate or partial.
func (m *ValidatorMandates) ids() (n ValidatorID) {
	for _, id := range m.Mandates {
		n = max(n, id+1)
	}
	for i := range m.Partials {
		n = max(n, m.Partials[i].ID+1)
	}
	return n
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
