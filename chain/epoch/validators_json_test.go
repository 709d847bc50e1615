package epoch

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// validatorInfoJSON returns the RPC's form of the validators query, decoded from JSON, for
// comparisons.
func validatorInfoJSON(t *testing.T, v *ValidatorInfo) map[string]any {
	type object = map[string]any
	stake := func(s primitives.ValidatorStake) object {
		return object{"account_id": s.AccountID, "public_key": s.PublicKey, "stake": s.Stake}
	}
	list := func(v []uint64) []uint64 { return append([]uint64{}, v...) }
	shards := func(v []primitives.ShardID) []primitives.ShardID { return append([]primitives.ShardID{}, v...) }
	current, next, proposals, kickouts := []object{}, []object{}, []object{}, []object{}
	for _, c := range v.CurrentValidators {
		o := stake(c.ValidatorStake)
		maps.Copy(o, object{
			"is_slashed":          false,
			"num_expected_blocks": c.Blocks.Expected, "num_produced_blocks": c.Blocks.Produced,
			"num_expected_chunks": c.Chunks.Expected, "num_produced_chunks": c.Chunks.Produced,
			"num_expected_endorsements": c.Endorsements.Expected, "num_produced_endorsements": c.Endorsements.Produced,
			"num_expected_chunks_per_shard": list(c.ExpectedChunksPerShard), "num_produced_chunks_per_shard": list(c.ProducedChunksPerShard),
			"num_expected_endorsements_per_shard": list(c.ExpectedEndorsementsPerShard),
			"num_produced_endorsements_per_shard": list(c.ProducedEndorsementsPerShard),
			"shards":                              shards(c.Shards), "shards_endorsed": shards(c.ShardsEndorsed),
		})
		current = append(current, o)
	}
	for _, n := range v.NextValidators {
		o := stake(n.ValidatorStake)
		o["shards"] = shards(n.Shards)
		next = append(next, o)
	}
	for _, p := range v.CurrentProposals {
		o := stake(p)
		o["validator_stake_struct_version"] = "V1"
		proposals = append(proposals, o)
	}
	for _, k := range v.PrevEpochKickout {
		kickouts = append(kickouts, object{"account_id": k.Account, "reason": kickoutJSON(k.Value)})
	}
	reward := object{}
	for _, p := range v.ValidatorRewardPaidPrevEpoch {
		reward[string(p.Account)] = p.Value
	}
	text, err := json.Marshal(object{
		"current_fishermen": []int{}, "next_fishermen": []int{}, "current_validators": current, "next_validators": next,
		"current_proposals": proposals, "prev_epoch_kickout": kickouts, "epoch_height": v.EpochHeight,
		"epoch_start_height": v.EpochStartHeight, "validator_reward_paid_prev_epoch": reward,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func kickoutJSON(k KickoutReason) any {
	name := k.Kind.String()
	switch k.Kind {
	case NotEnoughStake:
		return map[string]any{name: map[string]any{"stake_u128": k.Stake, "threshold_u128": k.Threshold}}
	case ProtocolVersionTooOld:
		return map[string]any{name: map[string]any{"version": k.Version, "network_version": k.NetworkVersion}}
	case NotEnoughBlocks, NotEnoughChunks, NotEnoughChunkEndorsements:
		return map[string]any{name: map[string]any{"produced": k.Produced, "expected": k.Expected}}
	}
	return name
}
