package epoch

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestShardToSplitVectorA82: nearcore chain/epoch-manager/src/tests/pick_shard_to_split.rs.
func TestShardToSplitVectorA82(t *testing.T) {
	t.Parallel()
	split := func(id primitives.ShardID, left, right uint64) ProposedSplit {
		return ProposedSplit{id, primitives.TrieSplit{Boundary: "aaa.near", LeftMemory: left, RightMemory: right}}
	}
	type ids = []primitives.ShardID
	for _, c := range []struct {
		name           string
		proposed       []ProposedSplit
		forced, barred ids
		want           int // index in proposed; -1: none
	}{
		{"none", nil, nil, nil, -1},
		{"one", []ProposedSplit{split(0, 100, 100)}, nil, nil, 0},
		{"most memory", []ProposedSplit{split(0, 100, 100), split(1, 300, 400), split(2, 150, 200)}, nil, nil, 1},
		{"equal memory: higher id", []ProposedSplit{split(2, 100, 100), split(1, 50, 150)}, nil, nil, 0},
		{"forced", []ProposedSplit{split(0, 500, 500), split(1, 100, 100)}, ids{1}, nil, 1},
		{"first of the forced", []ProposedSplit{split(0, 100, 100), split(1, 100, 100)}, ids{1, 0}, nil, 1},
		{"forced but not proposed", []ProposedSplit{split(0, 100, 100)}, ids{1}, nil, 0},
		{"blocked", []ProposedSplit{split(0, 100, 100)}, nil, ids{0}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := PickShardToSplit(c.proposed, &DynamicResharding{ForceSplitShards: c.forced, BlockSplitShards: c.barred})
			if ok != (c.want >= 0) || ok && got != c.proposed[c.want] {
				t.Errorf("%+v, %v, want index %d", got, ok, c.want)
			}
		})
	}
}

// TestMainnetLayoutsGiveSplitHistory: the built-in layouts lead to the history of splits with which
// the first dynamic split starts.
func TestMainnetLayoutsGiveSplitHistory(t *testing.T) {
	t.Parallel()
	p := &GenesisParams{
		ChainID: mainnet, ProtocolVersion: primitives.ProdGenesisProtocolVersion, ProtocolTreasuryAccount: "near", ProtocolRewardRate: Ratio{1, 10},
		Epoch: Config{EpochLength: 43200},
	}
	c, err := NewConfigs(p, nil, 86)
	if err != nil {
		t.Fatal(err)
	}
	for version, name := range map[primitives.ProtocolVersion]string{81: "mainnet-epoch-config-81.json", 86: "mainnet-epoch-config-85.json"} {
		want, err := ParseConfig(readData(t, name))
		if err != nil {
			t.Fatal(err)
		}
		checkConfig(t, name, *c.ForVersion(version), want)
	}
	history := primitives.SplitHistory(c.layoutHistory(86))
	want := map[primitives.ShardID][2]primitives.ShardID{0: {10, 11}, 2: {8, 9}, 3: {6, 7}}
	if len(history) != len(want) {
		t.Errorf("history = %v, want %v", history, want)
	}
	for parent, children := range want {
		if got := history[parent]; len(got) != 2 || got[0] != children[0] || got[1] != children[1] {
			t.Errorf("children of %d = %v, want %v", parent, got, children)
		}
	}
}
