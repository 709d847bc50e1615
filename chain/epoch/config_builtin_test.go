package epoch

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// nearcoreConfigs returns the contents of nearcore's epoch config files of a network, by protocol
// version (testdata/README.md).
func nearcoreConfigs(t *testing.T, chain string) map[primitives.ProtocolVersion]Config {
	t.Helper()
	type line struct {
		Network string
		Version primitives.ProtocolVersion
		Set     map[string]json.RawMessage
		Absent  []string
	}
	out, members := map[primitives.ProtocolVersion]Config{}, map[string]json.RawMessage{}
	for l := range testutil.Values[line](t, "testdata/epoch_configs.jsonl") {
		if l.Network != chain {
			continue
		}
		maps.Copy(members, l.Set)
		for _, name := range l.Absent {
			delete(members, name)
		}
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		if out[l.Version], err = ParseConfig(text); err != nil {
			t.Fatalf("%s %d: %v", chain, l.Version, err)
		}
	}
	if len(out) != 15 {
		t.Fatalf("%d configs of %s, want 15", len(out), chain)
	}
	return out
}

// TestBuiltinConfigsMatchNearcore: on both public networks, the config of each version that the node
// executes, and of the genesis, equals that of nearcore's files, and so do the static layouts of all
// versions and the history of splits that follows from them.
func TestBuiltinConfigsMatchNearcore(t *testing.T) {
	t.Parallel()
	for _, chain := range []string{mainnet, testnet} {
		files := nearcoreConfigs(t, chain)
		length := files[29].EpochLength
		c, err := NewConfigs(&GenesisParams{
			ChainID: chain, ProtocolVersion: primitives.ProdGenesisProtocolVersion, ProtocolTreasuryAccount: "near",
			ProtocolRewardRate: Ratio{1, 10}, Epoch: Config{EpochLength: length},
		}, nil, 88)
		if err != nil {
			t.Fatal(err)
		}
		since := slices.Sorted(maps.Keys(files))
		for _, v := range []primitives.ProtocolVersion{29, 81, 82, 83, 84, 85, 86, 87, 88} {
			i, found := slices.BinarySearch(since, v)
			if !found {
				i--
			}
			checkConfig(t, fmt.Sprintf("%s %d", chain, v), *c.ForVersion(v), files[since[i]])
		}
		var want []primitives.ShardLayout // newest first; the layouts of versions 1 and 2 are in no history
		for _, v := range slices.Backward(since) {
			l := files[v].ShardLayout
			if l.IsZero() || v != 29 && l.Version() < 3 || len(want) > 0 && l.Equal(want[len(want)-1]) {
				continue
			}
			want = append(want, l)
		}
		got := c.layoutHistory(88)
		if !slices.EqualFunc(got, want, primitives.ShardLayout.Equal) {
			t.Errorf("%s: layouts %v, want %v", chain, got, want)
		}
		if got, want := primitives.SplitHistory(got), primitives.SplitHistory(want); !reflect.DeepEqual(got, want) || len(got) != 3 {
			t.Errorf("%s: history of splits %v, want %v", chain, got, want)
		}
	}
}
