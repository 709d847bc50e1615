package sim

import (
	"fmt"
	"regexp"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// splitting configures dynamic resharding in scenarios with Splits.
var splitting = &workload.Splitting{Threshold: 3000, MinChild: 300, MaxShards: 6, MinEpochs: 1}

// once configures a single split. It is for scenarios in which chunks may be missing for long. With
// more splits, a second shard could then be split while it still buffers receipts for children of
// the first split shard. In that case every node stops, as neard does, which asserts that there are
// no such receipts (resharding/manager.rs get_child_congestion_info_not_finalized).
var once = &workload.Splitting{Threshold: 3000, MinChild: 300, MaxShards: 3, MinEpochs: 1}

// kickouts matches the kickout thresholds in an epoch config file.
var kickouts = regexp.MustCompile(`kickout_threshold":\d+`)

// epochConfigs returns the epoch config files of the scenario, by name. The files are needed
// because a chain takes few of these values from its genesis.
func (s *Scenario) epochConfigs(c *genesis.Config) (map[string][]byte, error) {
	switch {
	case s.Splits && (s.Byzantine || s.Dead > 0):
		splitting := splitting
		if s.Byzantine {
			splitting = once
		}
		files, err := splitting.EpochConfigs(c)
		for name, file := range files { // do not kick out byzantine or dead nodes, because they would then test nothing
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
	makers := s.Nodes - s.Blind // number of chunk producers
	if s.Joiner {
		makers++
	}
	blocks := s.seats()
	if s.Idle || s.Eager { // with Eager there are few seats, so that each part is the whole body and is not forwarded
		blocks = makers
	}
	kickout := 0 // threshold in percent of the expected blocks or chunks
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
