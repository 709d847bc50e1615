package epoch

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// selectionInput is the input for selecting T+2's validators at the end of T.
type selectionInput struct {
	config         *Config // config of T+2
	seed           primitives.Hash
	prev           *EpochInfo                            // info of T+1
	proposals      AccountMap[primitives.ValidatorStake] // the latest proposal of each account in T
	kickout        AccountMap[KickoutReason]             // selection adds the validators that get no seat
	reward         AccountMap[primitives.Balance]        // rewards of T
	minted         primitives.Balance                    // tokens minted for T
	version        primitives.ProtocolVersion            // protocol version of T+2
	layout         primitives.ShardLayout                // layout of T+2
	lastResharding *uint64                               // epoch height of the last layout change up to T+2; nil: none
	strategy       assignmentStrategy
}

// proposalsToEpochInfo selects the validators of T+2 and their roles (nearcore
// validator_selection.rs:166). It returns ErrNotEnoughValidators if there are fewer chunk producers
// than one shard needs. In that case the caller should keep T+1's validators.
func proposalsToEpochInfo(in *selectionInput) (*EpochInfo, error) {
	out := &EpochInfo{
		EpochHeight: in.prev.EpochHeight + 1, ValidatorReward: in.reward, MintedAmount: in.minted,
		ProtocolVersion: in.version, ShardLayout: in.layout, LastResharding: in.lastResharding, RngSeed: in.seed,
	}
	candidates, err := applyEpochUpdate(in, out)
	if err != nil {
		return nil, err
	}
	roles, err := selectRoles(in.config, candidates)
	if err != nil {
		return nil, err
	}
	out.SeatPrice = roles.threshold
	out.ValidatorKickout = slices.Clone(in.kickout)
	for _, p := range candidates[roles.seated():] {
		out.StakeChange.Set(p.AccountID, primitives.Balance{})
		if in.prev.ValidatorIndex.Has(p.AccountID) {
			out.ValidatorKickout.Set(p.AccountID, KickoutReason{Kind: NotEnoughStake, Stake: p.Stake,
				Threshold: roles.threshold})
		}
	}

	// Each role takes a prefix of one ordered list of candidates. So ascending IDs are in the order
	// of the candidates.
	out.Validators = candidates[:roles.seated():roles.seated()]
	for id, v := range out.Validators {
		out.ValidatorIndex = append(out.ValidatorIndex, AccountEntry[ValidatorID]{v.AccountID, ValidatorID(id)})
	}
	slices.SortFunc(out.ValidatorIndex, func(a, b AccountEntry[ValidatorID]) int {
		return strings.Compare(string(a.Account), string(b.Account))
	})
	out.BlockProducers = make([]ValidatorID, roles.blockProducers)
	for i := range out.BlockProducers {
		out.BlockProducers[i] = ValidatorID(i)
	}
	out.ChunkProducers, err = assignChunkProducers(out.Validators[:roles.chunkProducers], in.layout.NumShards(), in.config,
		in.seed, in.strategy, in.prev)
	if err != nil {
		return nil, err
	}
	if in.config.ShuffleShardAssignment {
		primitives.Shuffle(shardAssignmentRng(in.seed), out.ChunkProducers)
	}
	out.Mandates, err = newValidatorMandates(in.config.TargetValidatorMandatesPerShard,
		uint64(in.layout.NumShards()), out.Validators)
	if err != nil {
		return nil, err
	}
	return out, out.initSamplers()
}

// applyEpochUpdate merges the proposals of T with the validators of T+1, removes kicked out
// validators, and adds rewards to stakes. applyEpochUpdate sets each account's stake in
// out.StakeChange, and returns the candidates in the order of compareStakes.
func applyEpochUpdate(in *selectionInput, out *EpochInfo) ([]primitives.ValidatorStake, error) {
	var byAccount AccountMap[primitives.ValidatorStake]
	for _, p := range in.proposals {
		if in.kickout.Has(p.Account) {
			out.StakeChange.Set(p.Account, primitives.Balance{})
			continue
		}
		if k, ok := in.prev.ValidatorKickout.Get(p.Account); ok && k.Kind == ProtocolVersionTooOld {
			continue // the account may not return in T+2, and gets no entry in StakeChange
		}
		out.StakeChange.Set(p.Account, p.Value.Stake)
		byAccount.Set(p.Account, p.Value)
	}
	for _, v := range in.prev.Validators {
		if in.kickout.Has(v.AccountID) {
			out.StakeChange.Set(v.AccountID, primitives.Balance{})
			continue
		}
		if p, ok := byAccount.Get(v.AccountID); ok {
			v = p
		}
		if reward, ok := in.reward.Get(v.AccountID); ok {
			if v.Stake, ok = v.Stake.Add(reward); !ok {
				return nil, fmt.Errorf("stake of %s: %w", v.AccountID, primitives.ErrOverflow)
			}
		}
		byAccount.Set(v.AccountID, v)
		out.StakeChange.Set(v.AccountID, v.Stake)
	}
	candidates := make([]primitives.ValidatorStake, len(byAccount))
	for i := range byAccount {
		candidates[i] = byAccount[i].Value
	}
	slices.SortFunc(candidates, compareStakes)
	return candidates, nil
}

// compareStakes orders larger stakes first, then smaller accounts.
func compareStakes(a, b primitives.ValidatorStake) int {
	if c := b.Stake.Cmp(a.Stake); c != 0 {
		return c
	}
	return strings.Compare(string(a.AccountID), string(b.AccountID))
}

// validatorRoles contains how many of the ordered candidates get each role, and the minimum stake
// for a seat.
type validatorRoles struct {
	chunkProducers, blockProducers, chunkValidators int
	threshold                                       primitives.Balance
}

func (r *validatorRoles) seated() int {
	return max(r.chunkProducers, r.blockProducers, r.chunkValidators)
}

func selectRoles(c *Config, candidates []primitives.ValidatorStake) (r validatorRoles, err error) {
	r.threshold = primitives.MaxBalance
	for _, role := range [...]struct {
		seats uint64
		n     *int
	}{
		{c.NumChunkProducerSeats, &r.chunkProducers},
		{c.NumBlockProducerSeats, &r.blockProducers},
		{c.NumChunkValidatorSeats, &r.chunkValidators},
	} {
		n, threshold, err := selectValidators(candidates, role.seats, c.MinimumStakeRatio)
		if err != nil {
			return r, err
		}
		*role.n = n
		if threshold.Less(r.threshold) {
			r.threshold = threshold
		}
	}
	return r, nil
}

// selectValidators takes candidates in order while there are seats, and while the candidate's stake
// exceeds minRatio of the sum of all stakes up to and including that candidate's stake.
// selectValidators returns the number of selected candidates and the threshold. If all seats are
// taken, the threshold is the stake of the last selected candidate plus one. Otherwise the
// threshold is the stake that would satisfy the ratio: ceil(ratio*sum/(1-ratio)) (nearcore
// validator_selection.rs:357).
func selectValidators(candidates []primitives.ValidatorStake, seats uint64,
	minRatio Ratio) (n int, threshold primitives.Balance, err error) {
	num, den := big.NewInt(int64(minRatio.Num)), big.NewInt(int64(minRatio.Den))
	var sum primitives.Balance
	for uint64(n) < seats && n < len(candidates) {
		stake := candidates[n].Stake
		with, ok := sum.Add(stake)
		if !ok {
			return 0, sum, fmt.Errorf("stakes: %w", primitives.ErrOverflow)
		}
		if with.IsZero() || bigMul(stake.Big(), den).Cmp(bigMul(with.Big(), num)) <= 0 {
			break
		}
		sum = with
		n++
	}
	if uint64(n) == seats {
		threshold, ok := candidates[n-1].Stake.Add(primitives.Yocto(1))
		if !ok {
			return 0, sum, fmt.Errorf("seat price: %w", primitives.ErrOverflow)
		}
		return n, threshold, nil
	}
	left := new(big.Int).Sub(den, num)
	price := bigMul(num, sum.Big())
	price.Add(price, left).Sub(price, big.NewInt(1)).Quo(price, left)
	threshold, ok := primitives.BalanceFromBig(price)
	if !ok {
		return 0, sum, fmt.Errorf("seat price: %w", primitives.ErrOverflow)
	}
	return n, threshold, nil
}
