package epoch

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// kickForPerformance returns the validators that produced too few blocks, chunks or endorsements in
// an epoch, by the thresholds of the epoch's config (nearcore lib.rs:372). The best validators, up
// to the share of stake that must be kept, are exempt. At least one validator is kept: if all
// validators were kicked out in this epoch or the epoch before, the validator with the most blocks
// is kept. stats is by validator ID. prevKickout contains the kickouts in T+1's info.
func kickForPerformance(c *Config, info *EpochInfo, stats []ValidatorStats,
	prevKickout AccountMap[KickoutReason]) (AccountMap[KickoutReason], error) {
	exempt, err := exemptValidators(c, info, stats, prevKickout)
	if err != nil {
		return nil, err
	}
	var out AccountMap[KickoutReason]
	best, allKicked := -1, true
	for id := range info.Validators {
		account, s := info.Validators[id].AccountID, &stats[id]
		before := prevKickout.Has(account)
		if !before && (best < 0 || s.Blocks.Produced > stats[best].Blocks.Produced) {
			best = id
		}
		if exempt[id] {
			allKicked = false
			continue
		}
		switch {
		case s.Blocks.LessThan(c.BlockProducerKickoutThreshold):
			out.Set(account, KickoutReason{Kind: NotEnoughBlocks, Produced: s.Blocks.Produced, Expected: s.Blocks.Expected})
		case s.Production.LessThan(c.ChunkProducerKickoutThreshold):
			out.Set(account, KickoutReason{Kind: NotEnoughChunks, Produced: s.Production.Produced,
				Expected: s.Production.Expected})
		case s.Blocks.Expected == 0 && s.Production.Expected == 0 &&
			s.Endorsement.LessThan(c.ChunkValidatorOnlyKickoutThreshold):
			out.Set(account, KickoutReason{Kind: NotEnoughChunkEndorsements, Produced: s.Endorsement.Produced,
				Expected: s.Endorsement.Expected})
		case !before:
			allKicked = false
		}
	}
	if allKicked && best >= 0 {
		out.Delete(info.Validators[best].AccountID)
	}
	return out, nil
}

// exemptValidators selects validators by descending online ratio until their stake reaches the
// amount that must be kept. exemptValidators skips validators in prevKickout.
func exemptValidators(c *Config, info *EpochInfo, stats []ValidatorStats,
	prevKickout AccountMap[KickoutReason]) ([]bool, error) {
	total, ok := sumStakes(info.Validators)
	if !ok {
		return nil, fmt.Errorf("stakes: %w", primitives.ErrOverflow)
	}
	percent := uint64(0)
	if c.ValidatorMaxKickoutStakePerc < 100 {
		percent = 100 - uint64(c.ValidatorMaxKickoutStakePerc)
	}
	keep, _ := mulDiv(total, percent, 100) // cannot overflow, because keep is at most total

	type ratio struct{ num, den *big.Int }
	ratios := make([]ratio, len(stats))
	order := make([]int, len(stats))
	for id := range stats {
		ratios[id].num, ratios[id].den = stats[id].onlineRatio(-1)
		order[id] = id
	}
	slices.SortFunc(order, func(a, b int) int { // the validator with the lowest ratio first
		va, vb := &info.Validators[a], &info.Validators[b]
		return cmp.Or(bigMul(ratios[a].num, ratios[b].den).Cmp(bigMul(ratios[b].num, ratios[a].den)),
			va.Stake.Cmp(vb.Stake), strings.Compare(string(va.AccountID), string(vb.AccountID)))
	})
	exempt := make([]bool, len(stats))
	var kept primitives.Balance
	for _, id := range slices.Backward(order) {
		if !kept.Less(keep) {
			break
		}
		if v := &info.Validators[id]; !prevKickout.Has(v.AccountID) {
			kept = kept.SaturatingAdd(v.Stake) // cannot overflow, because kept is at most total
			exempt[id] = true
		}
	}
	return exempt, nil
}
