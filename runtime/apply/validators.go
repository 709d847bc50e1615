package apply

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// updateValidators pays rewards and returns stake at the start of an epoch (nearcore lib.rs:1584).
func (c *chunk) updateValidators() error {
	v := c.in.Validators
	if v == nil {
		return nil
	}
	own := c.in.Block.ShardID
	rewards := make(map[primitives.AccountID]primitives.Balance, len(v.Rewards))
	for _, r := range v.Rewards {
		rewards[r.Account] = r.Amount
	}
	proposals := make(map[primitives.AccountID]primitives.Balance, len(v.LastProposals))
	for i := range v.LastProposals {
		proposals[v.LastProposals[i].AccountID] = v.LastProposals[i].Stake
	}
	treasuryStakes := false
	for _, s := range v.Stakes {
		if c.in.Layout.ShardOf(s.Account) != own {
			continue
		}
		treasuryStakes = treasuryStakes || s.Account == v.Treasury
		if err := c.returnStake(s.Account, s.Amount, rewards[s.Account], proposals[s.Account]); err != nil {
			return err
		}
	}
	// A treasury that stakes was already paid above.
	if v.Treasury != "" && c.in.Layout.ShardOf(v.Treasury) == own && !treasuryStakes {
		if err := c.payTreasury(v.Treasury, rewards); err != nil {
			return err
		}
	}
	c.u.Commit(primitives.CauseValidatorAccountsUpdate, primitives.Hash{})
	return nil
}

// returnStake adds the reward to the locked balance. returnStake unlocks the stake that neither the
// last three epochs nor the last proposal need. An uninitialized account has no stake, and
// returnStake handles it like a missing account. The account of id can be uninitialized if a former
// validator deleted it and the id received a transfer afterwards.
func (c *chunk) returnStake(id primitives.AccountID, most, reward, proposal primitives.Balance) error {
	var a primitives.Account
	found, err := c.u.Account(id, &a)
	if err != nil {
		return err
	}
	if !found || !a.IsInitialized() {
		if !most.IsZero() {
			return state.Inconsistent("account %s with max of stakes %v is not found", id, most)
		}
		return nil
	}
	locked, ok := a.Locked.Add(reward)
	if !ok {
		return primitives.ErrOverflow
	}
	if locked.Less(most) {
		return state.Inconsistent("staking invariant: %s has locked %v, less than its stake %v in the past three epochs", id, locked, most)
	}
	keep := most
	if keep.Less(proposal) {
		keep = proposal
	}
	back, ok := locked.Sub(keep)
	if !ok {
		return state.Inconsistent("%s has locked %v, less than its last proposal %v", id, locked, proposal)
	}
	a.Locked, _ = locked.Sub(back)
	if a.Amount, ok = a.Amount.Add(back); !ok {
		return primitives.ErrOverflow
	}
	c.u.SetAccount(id, &a)
	return nil
}

func (c *chunk) payTreasury(id primitives.AccountID, rewards map[primitives.AccountID]primitives.Balance) error {
	reward, ok := rewards[id]
	if !ok {
		return state.Inconsistent("no reward for the protocol treasury account %s", id)
	}
	var a primitives.Account
	found, err := c.u.Account(id, &a)
	if err != nil {
		return err
	}
	if !found {
		return state.Inconsistent("protocol treasury account %s is not found", id)
	}
	if a.Amount, ok = a.Amount.Add(reward); !ok {
		return primitives.ErrOverflow
	}
	c.u.SetAccount(id, &a)
	return nil
}

// proposeSplit decides whether the shard is large enough to be split. The reads of proposeSplit are
// recorded before all other reads of the chunk (nearcore chain/chain/src/runtime/mod.rs:581, 1727).
func (c *chunk) proposeSplit() error {
	rule, own := c.in.Split, c.in.Block.ShardID
	if rule == nil {
		return nil
	}
	rec := c.u.Recording()
	usage := c.in.Trie.MemoryUsage()
	if c.in.Layout.NumShards() >= rule.MaxShards {
		return nil // the maximum number of shards applies to forced splits too
	}
	has := func(list []primitives.ShardID) bool {
		for _, id := range list {
			if id == own {
				return true
			}
		}
		return false
	}
	forced := has(rule.Force)
	if !forced && (has(rule.Block) || usage < rule.MemoryThreshold) {
		return nil
	}
	split, err := c.in.Trie.FindSplit(rec)
	if errors.Is(err, state.ErrNoSplit) {
		return nil
	}
	if err != nil {
		return err
	}
	if forced || split.LeftMemory >= rule.MinChildMemory && split.RightMemory >= rule.MinChildMemory {
		c.res.ProposedSplit = &split
	}
	return nil
}
