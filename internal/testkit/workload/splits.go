package workload

import (
	"fmt"
	"math/rand/v2"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// Splitting configures the resharding of a chain. The chain starts at the protocol version before
// splittingSince, and its validators vote for splittingSince. From that version on shards are split
// dynamically.
type Splitting struct {
	// Threshold is the memory usage from which a shard is split. MinChild is the minimum memory
	// usage of each part. Threshold and MinChild are in bytes.
	Threshold, MinChild uint64
	MaxShards           int
	MinEpochs           uint64 // minimum number of epochs between two splits
	// Static is a boundary account. If it is set, the new version has a static layout with one more
	// shard, which begins at that account. Nothing is then split dynamically.
	Static primitives.AccountID
}

// splittingSince is the protocol version whose epoch config enables resharding.
const splittingSince primitives.ProtocolVersion = 86

// epochConfigs returns the chain's epoch config files by name. Nil: the genesis contains the
// config.
func (r *Rules) epochConfigs(c *genesis.Config) (map[string][]byte, error) {
	s := r.Splitting
	if s == nil {
		return nil, nil
	}
	layout, err := c.ShardLayout.MarshalJSON()
	if err != nil {
		return nil, err
	}
	file := func(shards string) []byte {
		return fmt.Appendf(nil, `{"epoch_length":%d,"num_block_producer_seats":%d,"block_producer_kickout_threshold":90,
"chunk_producer_kickout_threshold":90,"chunk_validator_only_kickout_threshold":80,"target_validator_mandates_per_shard":68,
"online_min_threshold":[9,10],"online_max_threshold":[99,100],"fishermen_threshold":"10000000000000000000000000",
"minimum_stake_divisor":10,"protocol_upgrade_stake_threshold":[4,5],"num_chunk_producer_seats":100,
"minimum_validators_per_shard":1,"minimum_stake_ratio":[1,6250],"chunk_producer_assignment_changes_limit":5,
"shuffle_shard_assignment_for_chunk_producers":false,"max_inflation_rate":[1,20],"validator_max_kickout_stake_perc":100,
"num_chunk_validator_seats":300,%s}`, c.EpochLength, c.NumBlockProducerSeats, shards)
	}
	since := file(fmt.Sprintf(`"dynamic_resharding_config":{"memory_usage_threshold":%d,
"min_child_memory_usage":%d,"max_number_of_shards":%d,"min_epochs_between_resharding":%d,"force_split_shards":[],"block_split_shards":[]}`,
		s.Threshold, s.MinChild, s.MaxShards, s.MinEpochs))
	if s.Static != "" {
		next, err := c.ShardLayout.DeriveV2(s.Static)
		if err != nil {
			return nil, err
		}
		text, err := next.MarshalJSON()
		if err != nil {
			return nil, err
		}
		since = file(`"shard_layout":` + string(text))
	}
	return map[string][]byte{
		fmt.Sprintf("%d.json", splittingSince-1): file(`"shard_layout":` + string(layout)),
		fmt.Sprintf("%d.json", splittingSince):   since,
	}, nil
}

// EpochConfigs returns the epoch config files, by name, of a chain with this resharding.
func (s *Splitting) EpochConfigs(c *genesis.Config) (map[string][]byte, error) {
	return (&Rules{Splitting: s}).epochConfigs(c)
}

// RandomSplits draws options and a course of a chain with short epochs, whose shards are split
// repeatedly.
func RandomSplits(seed uint64, blocks int) (ChainOptions, Course) {
	o, c := RandomChain(seed, blocks)
	rng := rand.New(rand.NewPCG(seed, 0x73706c_697473))
	o.EpochLength = uint64(4 + rng.IntN(4))
	o.Validity = o.EpochLength + uint64(rng.IntN(int(o.EpochLength)+1))
	o.Shards = 1 + rng.IntN(3)
	o.Accounts = max(o.Accounts, 12)
	o.Splitting = &Splitting{Threshold: uint64(2_000 + rng.IntN(4_000)), MinChild: 300, MaxShards: 9, MinEpochs: 1 + rng.Uint64N(2)}
	c.PerStep = min(c.PerStep, 24)
	c.Blocks = blocks
	return o, c
}

// Uncounted returns the tokens that exist after a block, but are not in its header's total supply.
// Two faults of nearcore, which this program reproduces, cause the difference. First, both children
// of a split shard copy the shard's chunk extra, so the tokens that its last chunk burnt are
// subtracted twice (chain/chain/src/resharding/manager.rs:268). Second, if all validators are
// kicked out, the treasury's share is paid but not counted as minted
// (chain/epoch-manager/src/reward_calculator.rs).
func Uncounted(e *engine.Engine, at *engine.BlockNode, find Lookup) (sum primitives.Balance, err error) {
	c := counter{}
	for at != e.Genesis() {
		parent := find(at.Header().PrevHash)
		if parent == nil { // find knows no older blocks
			break
		}
		for i := range parent.Shards {
			if s := &parent.Shards[i]; !at.Layout.Has(s.ID) {
				c.add(s.Extra.BalanceBurnt)
			}
		}
		child := at
		if at = parent; child.Header().EpochID == parent.Header().EpochID {
			continue
		}
		err := e.Epochs(func(m *epoch.Manager) error {
			info, err := m.EpochInfo(parent.Hash)
			if err == nil && info.MintedAmount.IsZero() {
				for _, r := range info.ValidatorReward {
					c.add(r.Value)
				}
			}
			return err
		})
		if err != nil {
			return c.sum, err
		}
	}
	return c.sum, c.err
}

// waiting calls f for the receipts that arrived at a shard, or at its ancestors, after the shard's
// last chunk. No chunk has executed these receipts yet.
func waiting(at *engine.BlockNode, shard int, find Lookup, f func(*primitives.Receipt)) error {
	id, layout := at.Shards[shard].ID, at.Layout
	for e := at; e.Height() > at.Block.Body.Chunks[shard].HeightIncluded; e = find(e.Header().PrevHash) {
		if !e.Layout.Equal(layout) {
			var err error
			if id, err = layout.Parent(id); err != nil {
				return err
			}
			layout = e.Layout
		}
		i, err := layout.Index(id)
		if err != nil {
			return err
		}
		for _, x := range e.Shards[i].Incoming {
			if chain.ReceiptTarget(x, at.Layout) == primitives.ShardIndex(shard) {
				f(x)
			}
		}
	}
	return nil
}
