package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/internal/prom"
	"github.com/troupe-chain/troupe/primitives"
)

// TestRolesOfEpochAreMeasured: the expected numbers are the shares of stake among all seats, rounded
// down, and a producer with several seats appears once (nearcore chain/client/src/info.rs:205).
func TestRolesOfEpochAreMeasured(t *testing.T) {
	near := func(n uint64) primitives.ValidatorStake { return primitives.ValidatorStake{Stake: primitives.NEAR(n)} }
	info := &epoch.EpochInfo{EpochHeight: 7, Validators: []primitives.ValidatorStake{near(500), near(300), near(200), near(10)},
		BlockProducers: []epoch.ValidatorID{0, 1, 2}, ChunkProducers: [][]epoch.ValidatorID{{0}, {1, 2, 1}}}
	for i, name := range []primitives.AccountID{"a", "b", "c", "d"} {
		info.Validators[i].AccountID = name
	}
	layout, err := primitives.MultiShardLayout(2)
	if err != nil {
		t.Fatal(err)
	}
	p := producersOf{info: info, layout: layout, length: 43, own: "b"}
	ids := p.layout.ShardIDs()
	m, err := prom.Read(strings.NewReader(string(p.appendProducers(nil))))
	if err != nil {
		t.Fatal(err)
	}
	sum := func(name string, labels map[string]string) (v float64) {
		for _, s := range m.Samples[name] {
			fits := true
			for k, want := range labels {
				fits = fits && s.Labels[k] == want
			}
			if fits {
				v += s.Value
			}
		}
		return v
	}
	of := func(account string) map[string]string {
		return map[string]string{"account_id": account, "epoch_height": "7"}
	}
	shard := func(i int) map[string]string { return map[string]string{"shard_id": fmt.Sprint(ids[i])} }
	for _, c := range []struct {
		name   string
		labels map[string]string
		want   float64
	}{
		{"near_is_block_producer", nil, 1},
		{"near_is_chunk_producer_for_shard", shard(0), 0}, {"near_is_chunk_producer_for_shard", shard(1), 1},
		{"near_block_producer_stake", of("a"), 500}, {"near_block_producer_stake", of("d"), 0},
		{"near_validators_blocks_expected_in_epoch", of("a"), 21}, // 21.5
		{"near_validators_blocks_expected_in_epoch", of("b"), 12}, // 12.9
		{"near_validators_blocks_expected_in_epoch", of("c"), 8},  // 8.6
		{"near_validators_chunks_expected_in_epoch", of("a"), 43},
		{"near_validators_chunks_expected_in_epoch", of("b"), 16}, // 300 of 800
		{"near_validators_chunks_expected_in_epoch", of("c"), 10}, // 200 of 800
		{"near_validators_stake_total", nil, 1000}, {"near_validator_active_total", nil, 3},
		{"near_validator_chunk_producers_total", nil, 3}, {"near_validator_block_producers_total", nil, 3},
		{"near_validator_chunk_validators_total", nil, 4}, {"near_shard_layout_num_shards", nil, 2},
		{"near_shard_layout_version", nil, float64(p.layout.Version())},
	} {
		if got := sum(c.name, c.labels); got != c.want || !m.Has(c.name) {
			t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	if n := len(m.Samples["near_validators_chunks_expected_in_epoch"]); n != 3 {
		t.Errorf("%d producers of chunks, want 3", n)
	}
	p.own = "d"
	if m, err = prom.Read(strings.NewReader(string(p.appendProducers(nil)))); err != nil || sum("near_is_block_producer", nil) != 0 {
		t.Errorf("a chunk validator counts as a block producer: %v", err)
	}
}

// TestHeightsOfHeadAreMeasured: the last final height counts from the start of its epoch.
func TestHeightsOfHeadAreMeasured(t *testing.T) {
	dir := made(t)
	set(t, dir, `"block_production":"manual"`)
	editOf("genesis.json", `"epoch_length": 43200`, `"epoch_length": 10`)(t, dir)
	editOf("genesis.json", `"transaction_validity_period": 86400`, `"transaction_validity_period": 20`)(t, dir)
	h := mustStart(t, dir)
	defer stop(t, h)
	url := "http://" + h.Addr.String()
	for _, c := range []struct {
		blocks                   int
		inEpoch, doomslug, final float64
	}{{5, 2, 4, 3}, {9, 1, 13, 12}} { // the second epoch begins with block 11
		mineBy(t, h, fmt.Sprintf(`{"blocks":%d}`, c.blocks))
		for name, want := range map[string]float64{"near_final_block_height_in_epoch": c.inEpoch, "near_final_doomslug_block_height": c.doomslug,
			"near_final_block_height": c.final, "near_block_ordinal_head": c.final + 3, "near_is_block_producer": 1, "near_chunk_skipped_total": 0} {
			if got := metricOf(t, url, name); got != want {
				t.Errorf("block %d: %s is %v, want %v", h.Engine.Head().Height(), name, got, want)
			}
		}
	}
}
