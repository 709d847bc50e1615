package epoch

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func checkConfig(t *testing.T, name string, got, want Config) {
	t.Helper()
	if !got.ShardLayout.Equal(want.ShardLayout) {
		t.Errorf("%s: layout %v, want %v", name, got.ShardLayout, want.ShardLayout)
	}
	got.ShardLayout, want.ShardLayout = primitives.ShardLayout{}, primitives.ShardLayout{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

func testParams(chain string, layout primitives.ShardLayout) *GenesisParams {
	c := genesisTestConfig(&Config{EpochLength: 60, NumBlockProducerSeats: 4, ShardLayout: layout})
	c.MaxInflationRate = Ratio{1, 20}
	return &GenesisParams{
		ChainID: chain, ProtocolVersion: 85, ProtocolTreasuryAccount: "near", ProtocolRewardRate: Ratio{1, 10},
		TransactionValidityPeriod: 100, Epoch: c, Validators: stakes("test", 1000),
	}
}

// TestConfigFollowsNearcoresSources covers nearcore chain/epoch-manager/src/lib.rs:165.
func TestConfigFollowsNearcoresSources(t *testing.T) {
	t.Parallel()
	layout := primitives.SingleShardLayout()
	for _, c := range []struct {
		chain string
		want  Ratio
	}{
		{"test-chain-x", Ratio{1, 20}}, // from the genesis
		{"localnet", Ratio{1, 40}},     // a constant, whatever the genesis contains
	} {
		configs, err := NewConfigs(testParams(c.chain, layout), nil, 86)
		if err != nil {
			t.Fatal(err)
		}
		if got := configs.ForVersion(86).MaxInflationRate; got != c.want {
			t.Errorf("%s: inflation %v, want %v", c.chain, got, c.want)
		}
		if got := configs.ForVersion(90).EpochLength; got != 60 {
			t.Errorf("%s: epoch length %d, want 60", c.chain, got)
		}
	}

	files := readDir(t, filepath.Join(data, "neard", "reshard-epoch-configs"))
	files["README.md"], files["87.json"] = []byte("not read"), []byte("not read either: too new")
	configs, err := NewConfigs(testParams("localnet", layout), files, 86)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := configs.ForVersion(85), configs.ForVersion(86); a.ShardLayout.NumShards() != 2 || b.Resharding == nil || b.Resharding.MaxNumberOfShards != 6 {
		t.Errorf("configs %+v, %+v", a, b)
	}

	bad := testParams("localnet", layout)
	bad.TransactionValidityPeriod = 121
	late := testParams("localnet", layout)
	late.ProtocolVersion = 84
	bare := testParams("localnet", primitives.ShardLayout{})
	bare.ProtocolVersion = 86
	for name, c := range map[string]struct {
		g     *GenesisParams
		files map[string][]byte
	}{
		"a validity period of over two epochs": {bad, nil},
		"no config of the genesis's version":   {late, files},
		"no layout for the genesis":            {bare, files},
		"no file at all":                       {testParams("localnet", layout), map[string][]byte{}},
		"a file that is no version":            {testParams("localnet", layout), map[string][]byte{"x.json": nil}},
		"two names of one version":             {testParams("localnet", layout), map[string][]byte{"85.json": files["85.json"], "085.json": files["85.json"]}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewConfigs(c.g, c.files, 86); !errors.Is(err, ErrConfig) {
				t.Errorf("got %v, want ErrConfig", err)
			}
		})
	}
}

// TestFirstEpochsHaveStaticLayout: the first epochs have the static layout of the genesis's
// protocol version, or else the layout in the genesis (near-primitives 0.38.0
// src/epoch_manager.rs:364).
func TestFirstEpochsHaveStaticLayout(t *testing.T) {
	t.Parallel()
	files := readDir(t, filepath.Join(data, "neard", "reshard-epoch-configs")) // static at 85, dynamic at 86
	three, err := primitives.MultiShardLayout(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version primitives.ProtocolVersion
		shards  int
	}{{85, 2}, {86, 3}, {87, 3}} {
		g := testParams("localnet", three)
		g.ProtocolVersion = c.version
		configs, err := NewConfigs(g, files, 88)
		if err != nil {
			t.Fatal(err)
		}
		info, err := GenesisEpochInfo(g, configs)
		if err != nil {
			t.Fatal(err)
		}
		if got := configs.GenesisShardLayout().NumShards(); got != c.shards || info.ShardLayout.NumShards() != c.shards || len(info.ChunkProducers) != c.shards {
			t.Errorf("genesis of %d: %d shards, first epoch %d with %d groups of chunk producers, want %d", c.version, got, info.ShardLayout.NumShards(),
				len(info.ChunkProducers), c.shards)
		}
	}
}

func TestParseConfigRefusesBadFields(t *testing.T) {
	t.Parallel()
	text := readData(t, "mainnet-epoch-config-85.json")
	edit := func(name string, value any) []byte {
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		object[name] = value
		if value == "absent" {
			delete(object, name)
		}
		out, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"unknown_field", 1, ""},
		{"epoch_length", "absent", "missing field `epoch_length`"},
		{"epoch_length", nil, "is null"},
		{"epoch_length", 0, "epoch_length is 0"},
		{"num_chunk_producer_seats", 0, "seats"},
		{"block_producer_kickout_threshold", 256, "block_producer_kickout_threshold"},
		{"fishermen_threshold", 5, "fishermen_threshold"},
		{"online_min_threshold", []int{99, 100}, "must be a ratio below"},
		{"minimum_stake_ratio", []int{1, 1}, "minimum_stake_ratio"},
		{"minimum_stake_ratio", []int{1, 0}, "denominator"},
		{"minimum_stake_ratio", []int{1}, "denominator"},
		{"minimum_stake_divisor", 0, "minimum_stake_divisor"},
		{"minimum_validators_per_shard", 0, "minimum_validators_per_shard"},
		{"dynamic_resharding_config", "absent", "exactly one of"},
		{"dynamic_resharding_config", map[string]any{}, "missing field `memory_usage_threshold`"},
		{"shard_layout", map[string]any{"V9": 1}, "shard_layout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseConfig(edit(c.name, c.value))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s = %v: error %v, want %q", c.name, c.value, err, c.want)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"epoch_length":1}`))
	f.Add([]byte(`{"online_min_threshold":[1,2],"shard_layout":{"V0":{"num_shards":1,"version":0}}}`))
	for _, name := range []string{"mainnet-epoch-config-81.json", "mainnet-epoch-config-85.json"} {
		if b, err := os.ReadFile(filepath.Join(data, name)); err == nil { // without these files the corpus is smaller
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if c, err := ParseConfig(in); err == nil && c.check() != nil {
			t.Errorf("an unusable config was accepted: %s", in)
		}
	})
}

// TestRatiosAreInLowestTerms: like nearcore's Rational32, ratios in replies are reduced.
func TestRatiosAreInLowestTerms(t *testing.T) {
	t.Parallel()
	c := genesisTestConfig(new(Config))
	for name, r := range map[string]Ratio{
		"online_min_threshold": c.OnlineMinThreshold, "online_max_threshold": c.OnlineMaxThreshold, "minimum_stake_ratio": c.MinimumStakeRatio,
		"protocol_upgrade_stake_threshold": c.ProtocolUpgradeStakeThreshold, "max_inflation_rate": c.MaxInflationRate,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := r.Num, r.Den
			for b != 0 {
				a, b = b, a%b
			}
			if a != 1 {
				t.Errorf("%s is %v", name, r)
			}
		})
	}
}
