package epoch

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// epochEnd is the input of finalizeEpoch: data about T, which ends with block, and about T+1.
type epochEnd struct {
	block      *BlockInfo
	info, next *EpochInfo // infos of the epochs T and T+1
	config     *Config    // config of T
	prevLast   *BlockInfo // last block of T-1
	aggregator *Aggregator
	stats      []ValidatorStats
	version    primitives.ProtocolVersion // protocol version of T+2
	kickout    AccountMap[KickoutReason]
}

// finalizeEpoch makes the info of T+2 and the summary of T (nearcore lib.rs:774).
func (m *Manager) finalizeEpoch(block *BlockInfo, rngSeed primitives.Hash, changes *Changes) error {
	e, err := m.epochEnd(block)
	if err != nil {
		return err
	}
	if err := m.summarize(e); err != nil {
		return err
	}
	changes.Summary = e.summary()
	rewards, minted, err := m.epochRewards(e)
	if err != nil {
		return err
	}
	nextLayout, err := m.layoutOf(e.next)
	if err != nil {
		return err
	}
	config := m.configs.ForVersion(e.version)
	layout, err := m.nextNextLayout(e, config, nextLayout)
	if err != nil {
		return err
	}
	resharded := e.next.LastResharding
	if !layout.Equal(nextLayout) {
		h := e.next.EpochHeight + 1
		resharded = &h
	}
	info, err := proposalsToEpochInfo(&selectionInput{
		config: config, seed: rngSeed, prev: e.next, proposals: e.aggregator.Proposals, kickout: e.kickout,
		reward: rewards, minted: minted, version: e.version, layout: layout, lastResharding: resharded,
		strategy: selectStrategy(e.version, nextLayout, layout),
	})
	if errors.Is(err, ErrNotEnoughValidators) { // if too few validators are left, the validators of T+1 stay
		again := *e.next
		again.EpochHeight++
		info, err = &again, nil
	}
	changes.NextNextEpoch = info
	return err
}

func (m *Manager) epochEnd(block *BlockInfo) (*epochEnd, error) {
	e := &epochEnd{block: block}
	var err error
	if e.info, err = m.EpochInfo(block.EpochID); err != nil {
		return nil, err
	}
	nextID, err := m.nextEpochID(block)
	if err != nil {
		return nil, err
	}
	if e.next, err = m.EpochInfo(nextID); err != nil {
		return nil, err
	}
	e.config = m.configs.ForVersion(e.info.ProtocolVersion)
	first, err := m.BlockInfo(block.EpochFirstBlock)
	if err != nil {
		return nil, err
	}
	if e.prevLast, err = m.BlockInfo(first.PrevHash); err != nil {
		return nil, err
	}
	e.aggregator, err = m.aggregate(block.Hash, false)
	return e, err
}

// summarize determines the protocol version of T+2 and the kickouts. If there are several reasons
// for a kickout, the last reason counts.
func (m *Manager) summarize(e *epochEnd) (err error) {
	e.stats = e.aggregator.stats()
	votes := e.aggregator.votes(e.info)
	e.version, err = voteOnVersion(m.configs.ForVersion(e.next.ProtocolVersion), e.next.ProtocolVersion, votes)
	if err != nil {
		return err
	}
	m.ended = votes
	for id, voted := range e.aggregator.Voted {
		if v := e.aggregator.Votes[id]; voted && v < e.version {
			e.kickout.Set(e.info.Validators[id].AccountID,
				KickoutReason{Kind: ProtocolVersionTooOld, Version: v, NetworkVersion: e.version})
		}
	}
	for _, p := range e.aggregator.Proposals {
		if staked, _ := e.next.StakeChange.Get(p.Account); p.Value.Stake.IsZero() && !staked.IsZero() {
			e.kickout.Set(p.Account, KickoutReason{Kind: Unstaked})
		}
	}
	slow, err := kickForPerformance(e.config, e.info, e.stats, e.next.ValidatorKickout)
	for _, k := range slow {
		e.kickout.Set(k.Account, k.Value)
	}
	return err
}

func (e *epochEnd) summary() *EpochSummary {
	s := &EpochSummary{
		PrevEpochLastBlockHash: e.prevLast.Hash, AllProposals: e.aggregator.Proposals, ValidatorKickout: e.kickout,
		NextNextEpochVersion: e.version,
	}
	for id := range e.info.Validators {
		s.Stats.Set(e.info.Validators[id].AccountID, e.stats[id])
	}
	return s
}

func (m *Manager) epochRewards(e *epochEnd) (AccountMap[primitives.Balance], primitives.Balance, error) {
	if e.block.Timestamp <= e.prevLast.Timestamp {
		return nil, primitives.Balance{}, fmt.Errorf("%w: the timestamp is %d, must be after %d, that of the previous epoch",
			ErrBlockInfo, e.block.Timestamp, e.prevLast.Timestamp)
	}
	excluded := make([]bool, len(e.info.Validators))
	for id := range e.info.Validators {
		k, ok := e.kickout.Get(e.info.Validators[id].AccountID)
		excluded[id] = ok && k.ForPerformance()
	}
	return m.rewards.calculate(&rewardInput{
		info: e.info, stats: e.stats, excluded: excluded, totalSupply: e.block.TotalSupply,
		duration:  e.block.Timestamp - e.prevLast.Timestamp,
		onlineMin: e.config.OnlineMinThreshold, onlineMax: e.config.OnlineMaxThreshold,
		cutoff: int(e.config.ChunkValidatorOnlyKickoutThreshold), inflation: e.config.MaxInflationRate,
	})
}

// nextNextLayout returns the layout of T+2 (nearcore lib.rs:679). config is T+2's config. If the
// layout in config is static, that layout is the result. Otherwise the result is T+1's layout, with
// one shard split if T's layout was dynamic, a split was decided in T, and the shard still exists.
func (m *Manager) nextNextLayout(e *epochEnd, config *Config,
	next primitives.ShardLayout) (primitives.ShardLayout, error) {
	if !config.ShardLayout.IsZero() {
		return config.ShardLayout, nil
	}
	split := e.block.ShardSplit
	if e.config.Resharding == nil || split == nil || !next.Has(split.ShardID) {
		return next, nil
	}
	layout, err := next.DeriveV3(split.Boundary, func() []primitives.ShardLayout {
		return m.configs.layoutHistory(e.info.ProtocolVersion)
	})
	if err != nil {
		return layout, fmt.Errorf("%w: split of shard %d: %w", ErrSharding, split.ShardID, err)
	}
	return layout, nil
}
