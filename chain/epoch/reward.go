package epoch

import (
	"fmt"
	"math/big"

	"github.com/troupe-chain/troupe/primitives"
)

const (
	secondsPerYear = 365 * 24 * 60 * 60
	nanosPerSecond = 1_000_000_000
)

// RewardCalculator computes the rewards of an epoch (nearcore reward_calculator.rs). The genesis
// determines its fields.
type RewardCalculator struct {
	ProtocolRewardRate      Ratio // the treasury's share of the reward
	ProtocolTreasuryAccount primitives.AccountID
	SecondsPerYear          uint64
}

func newRewardCalculator(g *GenesisParams) RewardCalculator {
	rate := g.ProtocolRewardRate
	if g.ProtocolVersion == primitives.ProdGenesisProtocolVersion { // the value in mainnet's genesis is not used
		rate = Ratio{1, 10}
	}
	return RewardCalculator{rate, g.ProtocolTreasuryAccount, secondsPerYear}
}

// rewardInput is the input of an epoch's rewards.
type rewardInput struct {
	info        *EpochInfo       // info of the epoch whose rewards are computed
	stats       []ValidatorStats // statistics of the epoch, by validator ID
	excluded    []bool           // by validator ID: the validator is kicked out for its performance, and gets no reward
	totalSupply primitives.Balance
	duration    uint64 // duration of the epoch in ns
	onlineMin   Ratio
	onlineMax   Ratio
	// cutoff is a percentage of endorsements. A validator with at least this percentage gets credit
	// for all endorsements. A validator with a lower percentage gets credit for no endorsements. A
	// negative cutoff has no effect.
	cutoff    int
	inflation Ratio
}

// calculate returns the rewards and the minted amount. The minted amount is the sum of the rewards,
// with two exceptions. If the treasury is a validator, only its validator reward is listed, but
// minted includes the treasury's validator reward and its treasury reward. If all validators are
// excluded, the treasury's reward is listed, but minted is 0.
func (rc *RewardCalculator) calculate(in *rewardInput) (rewards AccountMap[primitives.Balance],
	minted primitives.Balance, err error) {
	overflow := func(what string) error { return fmt.Errorf("%s: %w", what, primitives.ErrOverflow) }
	// issue is the yearly inflation times the duration. As in nearcore (U256), the only division
	// comes last.
	issue := bigMul(bigUint(uint64(in.inflation.Num)), in.totalSupply.Big(), bigUint(in.duration))
	issue.Quo(issue, bigMul(bigUint(rc.SecondsPerYear), bigUint(uint64(in.inflation.Den)), bigUint(nanosPerSecond)))
	treasury := bigMul(issue, bigUint(uint64(rc.ProtocolRewardRate.Num)))
	treasury.Quo(treasury, bigUint(uint64(rc.ProtocolRewardRate.Den)))
	forValidators := new(big.Int).Sub(issue, treasury)

	treasuryReward, ok := primitives.BalanceFromBig(treasury)
	if !ok || forValidators.Sign() < 0 || issue.BitLen() > 128 {
		return nil, minted, overflow("epoch reward")
	}
	rewards.Set(rc.ProtocolTreasuryAccount, treasuryReward)
	minted = treasuryReward
	total, ok := sumStakes(in.info.Validators) // the sum includes excluded validators, whose shares are not paid
	if !ok {
		return nil, minted, overflow("stakes")
	}
	any := false
	for id := range in.info.Validators {
		if in.excluded[id] {
			continue
		}
		any = true
		v := &in.info.Validators[id]
		reward, ok := primitives.BalanceFromBig(in.validatorReward(id, forValidators, total.Big()))
		if !ok {
			return nil, minted, overflow("reward of " + string(v.AccountID))
		}
		rewards.Set(v.AccountID, reward)
		if minted, ok = minted.Add(reward); !ok {
			return nil, minted, overflow("minted amount")
		}
	}
	if !any {
		minted = primitives.Balance{}
	}
	return rewards, minted, nil
}

// validatorReward returns pool*stake/total, scaled by the online ratio: by 0 at onlineMin and by 1
// at onlineMax. The division by total comes before the scaling. Each of the two divisions rounds
// down.
func (in *rewardInput) validatorReward(id int, pool, total *big.Int) *big.Int {
	s := &in.stats[id]
	num, den := s.onlineRatio(in.cutoff)
	minNum, minDen := bigUint(uint64(in.onlineMin.Num)), bigUint(uint64(in.onlineMin.Den))
	maxNum, maxDen := bigUint(uint64(in.onlineMax.Num)), bigUint(uint64(in.onlineMax.Den))
	above := new(big.Int).Sub(bigMul(num, minDen), bigMul(minNum, den))
	if above.Sign() < 0 || s.Blocks.Expected == 0 && s.Production.Expected == 0 && s.Endorsement.Expected == 0 {
		return new(big.Int)
	}
	uptime := bigMul(above, maxDen)
	full := new(big.Int).Sub(bigMul(maxNum, minDen), bigMul(minNum, maxDen))
	full.Mul(full, den)
	if uptime.Cmp(full) > 0 {
		uptime = full
	}
	reward := bigMul(pool, uptime, in.info.Validators[id].Stake.Big())
	return reward.Quo(reward.Quo(reward, full), total)
}
