package sim

import (
	"fmt"
	"regexp"

	"github.com/troupe-chain/troupe/internal/workload"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// splitting is what splits shards, in the scenario where they are.
var splitting = &workload.Splitting{Threshold: 3000, MinChild: 300, MaxShards: 6, MinEpochs: 1}

// once splits one shard, where chunks may be withheld for long. A second one may be split while it
// still has receipts for the first, and there all end: as neard does, whose assertion is that there
// are none (resharding/manager.rs get_child_congestion_info_not_finalized).
var once = &workload.Splitting{Threshold: 3000, MinChild: 300, MaxShards: 3, MinEpochs: 1}

// kickouts are what is expected of validators.
var kickouts = regexp.MustCompile(`kickout_threshold":\d+`)

// epochConfigs are the files of the epoch configs: of the genesis's own there is little that counts
// for a chain of this name.
func (s *Scenario) epochConfigs(c *genesis.Config) (map[string][]byte, error) {
	switch {
	case s.Splits && (s.Liar || s.Dead > 0):
		splitting := splitting
		if s.Liar {
			splitting = once
		}
		files, err := splitting.EpochConfigs(c)
		for name, file := range files { // it would be kicked out, and say nothing more
			files[name] = kickouts.ReplaceAll(file, []byte(`kickout_threshold":0`))
		}
		return files, err
	case s.Splits:
		return splitting.EpochConfigs(c)
	}
	layout, err := c.ShardLayout.MarshalJSON()
	if err != nil {
		return nil, err
	}
	makers := s.Nodes - s.Blind // of chunks
	if s.Joiner {
		makers++
	}
	blocks := seats
	if s.Idle || s.Eager { // where all hurry each part is the body, so that none is passed on
		blocks = makers
	}
	kickout := 0 // percent of what was expected
	if s.Leaver {
		kickout = 50
	}
	file := fmt.Appendf(nil, `{"epoch_length":%d,"num_block_producer_seats":%d,"block_producer_kickout_threshold":%d,
"chunk_producer_kickout_threshold":%d,"chunk_validator_only_kickout_threshold":%d,"target_validator_mandates_per_shard":68,
"online_min_threshold":[9,10],"online_max_threshold":[99,100],"fishermen_threshold":"10000000000000000000000000",
"minimum_stake_divisor":10,"protocol_upgrade_stake_threshold":[4,5],"num_chunk_producer_seats":%d,
"minimum_validators_per_shard":%d,"minimum_stake_ratio":[1,6250],"chunk_producer_assignment_changes_limit":5,
"shuffle_shard_assignment_for_chunk_producers":%v,"max_inflation_rate":[1,20],"validator_max_kickout_stake_perc":100,
"num_chunk_validator_seats":300,"shard_layout":%s}`, s.Epoch, blocks, kickout, kickout, kickout, makers, max(s.Each, 1), s.Shuffle, layout)
	return map[string][]byte{fmt.Sprintf("%d.json", c.ProtocolVersion): file}, nil
}
