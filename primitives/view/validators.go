package view

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Validators is the reply of validators (nearcore EpochValidatorInfo). Fishermen no longer exist,
// so their lists are empty.
type Validators struct {
	EpochHeight      uint64
	EpochStartHeight primitives.Height
	Current          []CurrentValidator
	Next             []NextValidator
	Proposals        []primitives.ValidatorStake
	PrevKickouts     []Kickout
	PrevRewards      []Reward // rewards by ascending account
}

// CurrentValidator is a validator of the epoch with its record (nearcore
// CurrentEpochValidatorInfo).
type CurrentValidator struct {
	AccountID                      primitives.AccountID
	PublicKey                      primitives.PublicKey
	Stake                          primitives.Balance
	Shards                         []primitives.ShardID // shards in which the validator produces chunks
	ProducedBlocks, ExpectedBlocks uint64
	ProducedChunks, ExpectedChunks uint64
	ProducedChunksPerShard         []uint64 // number of produced chunks, for each shard of Shards
	ExpectedChunksPerShard         []uint64
	ProducedEndorsements           uint64
	ExpectedEndorsements           uint64
	ProducedEndorsementsPerShard   []uint64 // number of endorsements, for each shard of ShardsEndorsed
	ExpectedEndorsementsPerShard   []uint64
	ShardsEndorsed                 []primitives.ShardID
}

// NextValidator is a validator of the next epoch.
type NextValidator struct {
	AccountID primitives.AccountID
	PublicKey primitives.PublicKey
	Stake     primitives.Balance
	Shards    []primitives.ShardID
}

// Reward is the reward of an account.
type Reward struct {
	AccountID primitives.AccountID
	Amount    primitives.Balance
}

// KickoutKind is the variant of a kickout's reason, by its borsh tag (nearcore
// core/primitives/src/types.rs:1253).
type KickoutKind byte

// The reasons.
const (
	KickoutSlashed                    KickoutKind = 0
	KickoutNotEnoughBlocks            KickoutKind = 1 // fields Produced, Expected
	KickoutNotEnoughChunks            KickoutKind = 2 // fields Produced, Expected
	KickoutUnstaked                   KickoutKind = 3
	KickoutNotEnoughStake             KickoutKind = 4 // fields Stake, Threshold
	KickoutDidNotGetASeat             KickoutKind = 5
	KickoutNotEnoughChunkEndorsements KickoutKind = 6 // fields Produced, Expected
	KickoutProtocolVersionTooOld      KickoutKind = 7 // fields Version, NetworkVersion
)

// Kickout is why an account lost its seat.
type Kickout struct {
	AccountID               primitives.AccountID
	Kind                    KickoutKind
	Produced, Expected      uint64
	Stake, Threshold        primitives.Balance
	Version, NetworkVersion primitives.ProtocolVersion
}

// AppendValidators appends the reply of validators.
func AppendValidators(b []byte, v *Validators) []byte {
	b = AppendValidatorStakes(append(b, `{"current_fishermen":[],"current_proposals":`...), v.Proposals)
	b = appendList(append(b, `,"current_validators":`...), v.Current, appendCurrentValidator)
	b = appendUint(append(b, `,"epoch_height":`...), v.EpochHeight)
	b = appendUint(append(b, `,"epoch_start_height":`...), v.EpochStartHeight)
	b = appendList(append(b, `,"next_fishermen":[],"next_validators":`...), v.Next, appendNextValidator)
	b = appendList(append(b, `,"prev_epoch_kickout":`...), v.PrevKickouts, appendKickout)
	b = append(b, `,"validator_reward_paid_prev_epoch":{`...)
	for i := range v.PrevRewards {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendAccountID(b, v.PrevRewards[i].AccountID), ':')
		b = AppendBalance(b, v.PrevRewards[i].Amount)
	}
	return append(b, "}}"...)
}

func appendCurrentValidator(b []byte, v *CurrentValidator) []byte {
	b = AppendAccountID(append(b, `{"account_id":`...), v.AccountID)
	b = appendUint(append(b, `,"is_slashed":false,"num_expected_blocks":`...), v.ExpectedBlocks)
	b = appendUint(append(b, `,"num_expected_chunks":`...), v.ExpectedChunks)
	b = appendUints(append(b, `,"num_expected_chunks_per_shard":`...), v.ExpectedChunksPerShard)
	b = appendUint(append(b, `,"num_expected_endorsements":`...), v.ExpectedEndorsements)
	b = appendUints(append(b, `,"num_expected_endorsements_per_shard":`...), v.ExpectedEndorsementsPerShard)
	b = appendUint(append(b, `,"num_produced_blocks":`...), v.ProducedBlocks)
	b = appendUint(append(b, `,"num_produced_chunks":`...), v.ProducedChunks)
	b = appendUints(append(b, `,"num_produced_chunks_per_shard":`...), v.ProducedChunksPerShard)
	b = appendUint(append(b, `,"num_produced_endorsements":`...), v.ProducedEndorsements)
	b = appendUints(append(b, `,"num_produced_endorsements_per_shard":`...), v.ProducedEndorsementsPerShard)
	b = AppendKey(append(b, `,"public_key":`...), v.PublicKey)
	b = appendUints(append(b, `,"shards":`...), v.Shards)
	b = appendUints(append(b, `,"shards_endorsed":`...), v.ShardsEndorsed)
	return append(AppendBalance(append(b, `,"stake":`...), v.Stake), '}')
}

func appendNextValidator(b []byte, v *NextValidator) []byte {
	b = AppendAccountID(append(b, `{"account_id":`...), v.AccountID)
	b = AppendKey(append(b, `,"public_key":`...), v.PublicKey)
	b = appendUints(append(b, `,"shards":`...), v.Shards)
	return append(AppendBalance(append(b, `,"stake":`...), v.Stake), '}')
}

func appendKickout(b []byte, k *Kickout) []byte {
	b = AppendAccountID(append(b, `{"account_id":`...), k.AccountID)
	b = append(b, `,"reason":`...)
	switch k.Kind {
	case KickoutSlashed:
		b = append(b, `"_UnusedSlashed"`...)
	case KickoutNotEnoughBlocks:
		b = appendShare(append(b, `{"NotEnoughBlocks":`...), k)
	case KickoutNotEnoughChunks:
		b = appendShare(append(b, `{"NotEnoughChunks":`...), k)
	case KickoutUnstaked:
		b = append(b, `"Unstaked"`...)
	case KickoutNotEnoughStake:
		b = AppendBalance(append(b, `{"NotEnoughStake":{"stake_u128":`...), k.Stake)
		b = append(AppendBalance(append(b, `,"threshold_u128":`...), k.Threshold), "}}"...)
	case KickoutDidNotGetASeat:
		b = append(b, `"DidNotGetASeat"`...)
	case KickoutNotEnoughChunkEndorsements:
		b = appendShare(append(b, `{"NotEnoughChunkEndorsements":`...), k)
	case KickoutProtocolVersionTooOld:
		b = appendUint(append(b, `{"ProtocolVersionTooOld":{"network_version":`...), k.NetworkVersion)
		b = append(appendUint(append(b, `,"version":`...), k.Version), "}}"...)
	default:
		panic(fmt.Sprintf("view: no JSON form of kickout reason %d", k.Kind))
	}
	return append(b, '}')
}

func appendShare(b []byte, k *Kickout) []byte {
	b = appendUint(append(b, `{"expected":`...), k.Expected)
	return append(appendUint(append(b, `,"produced":`...), k.Produced), "}}"...)
}
