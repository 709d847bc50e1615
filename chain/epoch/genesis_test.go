package epoch

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func mainnetGenesis(t *testing.T) (*GenesisParams, *EpochInfo) {
	t.Helper()
	var g recordedGenesis
	if err := json.Unmarshal(readData(t, "mainnet-genesis.json"), &g); err != nil {
		t.Fatal(err)
	}
	p := g.params()
	configs, err := NewConfigs(p, nil, 86)
	if err != nil {
		t.Fatal(err)
	}
	info, err := GenesisEpochInfo(p, configs)
	if err != nil {
		t.Fatal(err)
	}
	return p, info
}

// TestMainnetSeatsMatchVectorA3: nearcore chain/chain/src/runtime/tests.rs:1551: seats by HC-128.
func TestMainnetSeatsMatchVectorA3(t *testing.T) {
	t.Parallel()
	_, info := mainnetGenesis(t)
	want := []ValidatorID{
		1, 0, 1, 0, 0, 3, 3, 2, 2, 3, 0, 2, 0, 0, 1, 1, 1, 1, 3, 2, 3, 2, 0, 3, 3, 3, 0, 3, 1,
		3, 1, 0, 1, 2, 3, 0, 1, 0, 0, 0, 2, 2, 2, 3, 3, 3, 3, 1, 2, 0, 1, 0, 1, 0, 3, 2, 1, 2,
		0, 1, 3, 3, 1, 2, 1, 2, 1, 0, 2, 3, 1, 2, 1, 2, 3, 2, 0, 3, 3, 2, 0, 0, 2, 3, 0, 3, 0,
		2, 3, 1, 1, 2, 1, 0, 1, 2, 2, 1, 2, 0,
	}
	if !slices.Equal(info.BlockProducers, want) {
		t.Errorf("settlement = %v, want %v", info.BlockProducers, want)
	}
	if got := info.SampleBlockProducer(9820211); got != want[11] {
		t.Errorf("producer of 9820211 = %d, want %d: heights rotate through the seats", got, want[11])
	}
}

// TestMainnetEpochInfoVectorA6: nearcore chain/epoch-manager/src/genesis.rs:57.
func TestMainnetEpochInfoVectorA6(t *testing.T) {
	t.Parallel()
	p, info := mainnetGenesis(t)
	if got, want := primitives.HashBorsh(info).String(), "Hsc6BpTrd77H7J29w8uLXQY7bhfQzRDcFyo8Dj2CMZCj"; got != want {
		t.Errorf("hash of the EpochInfo = %s, want %s", got, want)
	}
	configs, err := NewConfigs(p, nil, 86)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewManager(p, configs, newMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	producers, err := m.BlockProducersOrdered(primitives.EpochID{})
	if err != nil {
		t.Fatal(err)
	}
	var got []primitives.AccountID
	for _, v := range producers {
		got = append(got, v.AccountID)
	}
	// Vectors B, mainnet genesis intermediates.
	want := []primitives.AccountID{"nfvalidator2.near", "nfvalidator1.near", "nfvalidator4.near", "nfvalidator3.near"}
	if !slices.Equal(got, want) {
		t.Errorf("distinct producers = %v, want %v", got, want)
	}
}

// simpleChain is the genesis of nearcore chain/chain/src/test_utils.rs:135 (vectors B).
func simpleChain(t *testing.T) (*Manager, *BlockInfo) {
	t.Helper()
	layout := primitives.SingleShardLayout()
	config := genesisTestConfig(&Config{EpochLength: 1000, NumBlockProducerSeats: 1, ShardLayout: layout})
	p := &GenesisParams{
		ChainID: "test-chain-B", ProtocolVersion: 86, ProtocolTreasuryAccount: "near", ProtocolRewardRate: Ratio{1, 10},
		TransactionValidityPeriod: 100, Epoch: config,
		Validators: []primitives.ValidatorStake{{
			AccountID: "test", PublicKey: primitives.SecretKeyFromSeed(primitives.ED25519, "test").PublicKey(), Stake: primitives.NEAR(50_000_000),
		}},
	}
	configs, err := NewConfigs(p, nil, 86)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewManager(p, configs, newMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	hash, err := primitives.ParseHash("432iZKRoXmYbMq4YjwwTUPVp7nvCVrEkVEQZiMykRMmS") // A8
	if err != nil {
		t.Fatal(err)
	}
	return m, &BlockInfo{
		Hash: hash, ChunkMask: []bool{true}, LatestProtocolVersion: 86, TotalSupply: primitives.Yocto(1_000_000_000),
		Timestamp: 1_601_510_400*nanosPerSecond + 3_444_000_000,
	}
}

// TestSimpleChainEpochVectorB checks samples that were computed from nearcore's formulas.
func TestSimpleChainEpochVectorB(t *testing.T) {
	t.Parallel()
	m, genesis := simpleChain(t)
	info, err := m.EpochInfo(primitives.EpochID{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got interface{ String() string }, want string) {
		t.Helper()
		if got.String() != want {
			t.Errorf("%s = %s, want %s", what, got, want)
		}
	}
	check("hash of EpochInfo", primitives.HashBorsh(info), "HqTx8xY9X8BF6mujas7umsfDPGpxvfdqCy5zwYA4iJET")
	check("hash of the dummy BlockInfo", primitives.HashBorsh(&BlockInfo{}), "5PVJb9WMFUPFSvJW94qk1MudbutnYYsFer73mqTfVWTn")
	check("hash of the genesis BlockInfo", primitives.HashBorsh(genesis), "DGc4tknkZeTysR1WWRn5Cx2xoQdPuqZe1GP4FMxGT1BG")
	check("seat price", info.SeatPrice, "8001280204832773243718995040")
	check("mandate price", info.Mandates.StakePerMandate, "735294117647058823529411764705")
	check("next_bp_hash", primitives.BlockProducersHash(info.Validators), "HQ5e34oXyhoDHgq6Z1hM71Be9ux52EGJcbqQWWoypY3h")
	if got := len(info.AppendBorsh(nil)); got != 1019 {
		t.Errorf("EpochInfo has %d bytes, want 1019", got)
	}
	if got := len((&BlockInfo{}).AppendBorsh(nil)); got != 218 {
		t.Errorf("the dummy has %d bytes, want 218", got)
	}
	changes, err := m.RecordBlockInfo(genesis, primitives.Hash{})
	if err != nil || changes.NextNextEpoch != info || changes.EpochStart || changes.Summary != nil {
		t.Fatalf("changes of the genesis = %+v, %v", changes, err)
	}
	sync, err := m.EpochSyncDataHash(genesis.Hash)
	if err != nil || sync == nil {
		t.Fatalf("epoch_sync_data_hash = %v, %v", sync, err)
	}
	check("epoch_sync_data_hash of block 1", *sync, "3RzoBHP4mzMCx7V8NAzUySX3GZyjcZE314ASzEV2HVEj")
}
