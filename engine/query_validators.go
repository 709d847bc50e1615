package engine

import (
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// ValidatorsQuery selects the epoch of a validators query.
type ValidatorsQuery struct {
	latest bool
	epoch  primitives.EpochID
}

// LatestValidators selects the head's epoch.
func LatestValidators() ValidatorsQuery { return ValidatorsQuery{latest: true} }

// ValidatorsOfEpoch selects an epoch by its id. For the head's epoch, ValidatorsOfEpoch is
// equivalent to LatestValidators.
func ValidatorsOfEpoch(id primitives.EpochID) ValidatorsQuery { return ValidatorsQuery{epoch: id} }

// Validators returns the reply to the RPC's validators query.
func (e *Engine) Validators(q ValidatorsQuery) (out *view.Validators, err error) {
	head := e.Head()
	err = e.Epochs(func(m *epoch.Manager) error {
		var info *epoch.ValidatorInfo
		if q.latest || q.epoch == head.Header().EpochID && head != e.genesis {
			info, err = m.ValidatorInfoOfBlock(head.Hash)
		} else {
			info, err = m.ValidatorInfoOfEpoch(q.epoch)
		}
		if err == nil {
			out = validatorsView(info)
		}
		return err
	})
	return out, err
}

func validatorsView(i *epoch.ValidatorInfo) *view.Validators {
	v := &view.Validators{EpochHeight: i.EpochHeight, EpochStartHeight: i.EpochStartHeight, Proposals: i.CurrentProposals}
	for k := range i.CurrentValidators {
		c := &i.CurrentValidators[k]
		v.Current = append(v.Current, view.CurrentValidator{
			AccountID: c.AccountID, PublicKey: c.PublicKey, Stake: c.Stake, Shards: c.Shards,
			ProducedBlocks: c.Blocks.Produced, ExpectedBlocks: c.Blocks.Expected,
			ProducedChunks: c.Chunks.Produced, ExpectedChunks: c.Chunks.Expected,
			ProducedChunksPerShard: c.ProducedChunksPerShard, ExpectedChunksPerShard: c.ExpectedChunksPerShard,
			ProducedEndorsements: c.Endorsements.Produced, ExpectedEndorsements: c.Endorsements.Expected,
			ProducedEndorsementsPerShard: c.ProducedEndorsementsPerShard,
			ExpectedEndorsementsPerShard: c.ExpectedEndorsementsPerShard, ShardsEndorsed: c.ShardsEndorsed,
		})
	}
	for k := range i.NextValidators {
		n := &i.NextValidators[k]
		v.Next = append(
			v.Next,
			view.NextValidator{AccountID: n.AccountID, PublicKey: n.PublicKey, Stake: n.Stake, Shards: n.Shards},
		)
	}
	for _, x := range i.PrevEpochKickout {
		r := x.Value
		v.PrevKickouts = append(v.PrevKickouts, view.Kickout{AccountID: x.Account, Kind: view.KickoutKind(r.Kind),
			Produced: r.Produced, Expected: r.Expected, Stake: r.Stake, Threshold: r.Threshold,
			Version: r.Version, NetworkVersion: r.NetworkVersion})
	}
	for _, x := range i.ValidatorRewardPaidPrevEpoch {
		v.PrevRewards = append(v.PrevRewards, view.Reward{AccountID: x.Account, Amount: x.Value})
	}
	return v
}
