package epoch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// GenesisEpochInfo returns the EpochInfo of the first two epochs (nearcore
// chain/epoch-manager/src/genesis.rs). Protocol version 29 (mainnet and testnet) uses the seat
// rules of prodGenesis. A genesis of any other version selects validators as at an epoch's end.
func GenesisEpochInfo(g *GenesisParams, configs *Configs) (*EpochInfo, error) {
	config := configs.ForVersion(g.ProtocolVersion)
	var reward AccountMap[primitives.Balance]
	reward.Set(g.ProtocolTreasuryAccount, primitives.Balance{})
	if g.ProtocolVersion == primitives.ProdGenesisProtocolVersion {
		return prodGenesis(config, g.Validators, reward)
	}
	var proposals AccountMap[primitives.ValidatorStake]
	for _, v := range g.Validators {
		if proposals.Has(v.AccountID) {
			return nil, fmt.Errorf("%w: genesis validator %s is listed twice", ErrConfig, v.AccountID)
		}
		proposals.Set(v.AccountID, v)
	}
	info, err := proposalsToEpochInfo(&selectionInput{
		config: config, prev: &EpochInfo{}, proposals: proposals, reward: reward,
		version: g.ProtocolVersion, layout: configs.GenesisShardLayout(),
	})
	if err != nil {
		return nil, fmt.Errorf("genesis validators: %w", err)
	}
	return info, nil
}

// prodGenesis returns the EpochInfo by the rules of 2020, which apply to mainnet's first epochs:
// the number of a validator's seats is its stake divided by the seat price, the seats are shuffled,
// and the producers take turns (nearcore genesis.rs:97).
func prodGenesis(config *Config, validators []primitives.ValidatorStake,
	reward AccountMap[primitives.Balance]) (*EpochInfo, error) {
	validators = slices.Clone(validators)
	slices.SortFunc(validators, func(a, b primitives.ValidatorStake) int {
		return strings.Compare(string(a.AccountID), string(b.AccountID))
	})
	price, err := seatPrice(validators, config.NumBlockProducerSeats)
	if err != nil {
		return nil, err
	}
	info := &EpochInfo{
		Version: EpochInfoV2, EpochHeight: 1, Validators: validators, ValidatorReward: reward, SeatPrice: price,
		ProtocolVersion: primitives.ProdGenesisProtocolVersion,
	}
	var seats []ValidatorID
	for id, v := range validators {
		info.ValidatorIndex.Set(v.AccountID, ValidatorID(id))
		info.StakeChange.Set(v.AccountID, v.Stake)
		n, _ := quoRem(v.Stake, price)
		for range n.Lo { // together at most twice the seats plus the validators
			seats = append(seats, ValidatorID(id))
		}
	}
	rng := newHC128(primitives.Hash{})
	for i := len(seats) - 1; i > 0; i-- {
		j := rng.below(uint64(i) + 1)
		seats[i], seats[j] = seats[j], seats[i]
	}
	info.BlockProducers = seats[:config.NumBlockProducerSeats]
	for range config.ShardLayout.NumShards() {
		info.ChunkProducers = append(info.ChunkProducers, slices.Clone(info.BlockProducers))
	}
	return info, nil
}

// seatPrice returns the highest price at which the stakes buy at least the given number of seats.
func seatPrice(validators []primitives.ValidatorStake, seats uint64) (primitives.Balance, error) {
	total, ok := sumStakes(validators)
	if !ok || total.Less(primitives.Yocto(seats)) {
		return total, fmt.Errorf("%w: Total stake %v must be higher than the number of seats %d", ErrConfig, total, seats)
	}
	one := primitives.Yocto(1)
	low, high := one, total.SaturatingAdd(one)
	for {
		gap := high.SaturatingSub(low)
		if gap.Cmp(one) <= 0 {
			return low, nil
		}
		half, _ := gap.DivMod64(2)
		mid := low.SaturatingAdd(half)
		var held primitives.Balance
		for i := range validators {
			n, _ := quoRem(validators[i].Stake, mid)
			held = held.SaturatingAdd(n)
		}
		if held.Less(primitives.Yocto(seats)) {
			high = mid
		} else {
			low = mid
		}
	}
}
