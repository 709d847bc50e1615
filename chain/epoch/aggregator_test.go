package epoch

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// mainnetEpoch is the length of mainnet's epochs, in blocks.
const mainnetEpoch = 43_200

// largeChain is a chain with mainnet's epoch length, 450 validators and ten shards. Each block has
// all chunks and endorsements.
type largeChain struct {
	t       testing.TB
	params  *GenesisParams
	configs *Configs
	store   *countingStore
	manager *Manager
	height  primitives.Height // of the last recorded block
	mask    []bool
	bits    [][]byte
}

// countingStore counts the reads of block infos.
type countingStore struct {
	memoryStore
	reads int
}

func (s *countingStore) BlockInfo(h primitives.Hash) (*BlockInfo, error) {
	s.reads++
	return s.memoryStore.BlockInfo(h)
}

func newLargeChain(t testing.TB) *largeChain {
	t.Helper()
	versions, layouts := builtinConfigs(mainnet)
	rules := versions[len(versions)-1].config
	layout, err := layouts[len(layouts)-1].layout.DeriveV2("sweat.near")
	if err != nil {
		t.Fatal(err)
	}
	rules.ShardLayout, rules.Resharding, rules.EpochLength = layout, nil, mainnetEpoch
	var seats []primitives.ValidatorStake
	for i := range 450 {
		seats = append(seats, primitives.ValidatorStake{
			AccountID: primitives.AccountID(fmt.Sprintf("validator%03d.near", i)),
			PublicKey: primitives.SecretKeyFromSeed(primitives.ED25519, fmt.Sprint("v", i)).PublicKey(),
			Stake:     primitives.NEAR(uint64(10_000_000 - 20_000*i)),
		})
	}
	c := &largeChain{t: t, store: &countingStore{memoryStore: *newMemoryStore()}, params: &GenesisParams{
		ChainID: "test-chain-large", ProtocolVersion: 86, Validators: seats, ProtocolTreasuryAccount: "treasury.near",
		ProtocolRewardRate: Ratio{1, 10}, TransactionValidityPeriod: 100, Epoch: rules,
	}}
	if c.configs, err = NewConfigs(c.params, nil, 86); err != nil {
		t.Fatal(err)
	}
	for range layout.NumShards() {
		c.mask, c.bits = append(c.mask, true), append(c.bits, bytes.Repeat([]byte{0xff}, 57))
	}
	c.restart()
	c.record(0)
	return c
}

func (c *largeChain) restart() {
	c.t.Helper()
	var err error
	if c.manager, err = NewManager(c.params, c.configs, c.store); err != nil {
		c.t.Fatal(err)
	}
}

func (c *largeChain) hash(h primitives.Height) primitives.Hash {
	return primitives.HashBytes(fmt.Append(nil, "block ", h))
}

// record records the block of a height, whose parent is recorded.
func (c *largeChain) record(h primitives.Height) Changes {
	c.t.Helper()
	b := &BlockInfo{
		Hash: c.hash(h), Height: h, ChunkMask: c.mask, LatestProtocolVersion: 86,
		TotalSupply: primitives.NEAR(1_300_000_000), Timestamp: uint64(h+1) * 600_000_000,
	}
	if h > 0 {
		b.PrevHash, b.LastFinalBlockHash, b.ChunkEndorsements = c.hash(h-1), c.hash(0), c.bits
	}
	if h > 2 {
		b.LastFinalBlockHash, b.LastFinalizedHeight = c.hash(h-2), h-2
	}
	changes, err := c.manager.RecordBlockInfo(b, c.hash(h))
	if err != nil {
		c.t.Fatalf("height %d: %v", h, err)
	}
	c.store.apply(changes)
	c.height = h
	return changes
}

func (c *largeChain) recordTo(h primitives.Height) {
	for c.height < h {
		c.record(c.height + 1)
	}
}

// TestRestartLateInEpochCountsOnlyTail: after a restart at the end of an epoch of mainnet's size, the
// next block and a validators query read at most the blocks since the last stored statistics, and
// their results are those of a node that has counted the whole epoch.
func TestRestartLateInEpochCountsOnlyTail(t *testing.T) {
	if testing.Short() {
		t.Skip("records 43,200 blocks")
	}
	t.Parallel()
	const at = mainnetEpoch - 100
	c := newLargeChain(t)
	c.recordTo(at)
	before := c.manager

	const tail = aggregatorPeriod + 10
	c.restart()
	c.store.reads = 0
	query, err := c.manager.ValidatorInfoOfBlock(c.hash(at))
	if err != nil {
		t.Fatal(err)
	}
	if c.store.reads > tail {
		t.Errorf("a validators query read %d blocks, want at most %d", c.store.reads, tail)
	}
	want, err := before.ValidatorInfoOfBlock(c.hash(at))
	if err != nil || !reflect.DeepEqual(query, want) {
		t.Errorf("the validators query after the restart has another result (%v)", err)
	}

	c.restart()
	c.store.reads = 0
	if changes := c.record(at + 1); changes.Aggregator == nil || c.store.reads > tail {
		t.Errorf("the first block read %d blocks, want at most %d; statistics stored: %v", c.store.reads, tail, changes.Aggregator != nil)
	}
	counted, err := before.aggregate(c.hash(at-1), false)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c.manager.aggregator, counted) {
		t.Error("the statistics after the restart differ from those of the node that counted all blocks")
	}
}

// BenchmarkFirstBlockAfterRestart records the first block after a restart 100 blocks before the end
// of an epoch of mainnet's size. "counted" is a folder without stored statistics.
func BenchmarkFirstBlockAfterRestart(b *testing.B) {
	const at = mainnetEpoch - 100
	c := newLargeChain(b)
	c.recordTo(at)
	stored := c.store.aggregator
	for _, x := range []struct {
		name       string
		aggregator []byte
	}{{"stored", stored}, {"counted", nil}} {
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				c.store.aggregator, c.height = x.aggregator, at
				c.restart()
				c.record(at + 1)
			}
		})
	}
}

// TestStoredStatisticsOfAbandonedBranchAreNotUsed: stored statistics whose last block is not an
// ancestor, or belongs to another epoch, change nothing. Statistics that contradict the epoch are
// an error.
func TestStoredStatisticsOfAbandonedBranchAreNotUsed(t *testing.T) {
	t.Parallel()
	r := newTree(t, 1000, stakes("test", 900, 700)...)
	n := r.nodes[0]
	for range 50 {
		n, _ = r.grow(n, 0, nil)
	}
	want, err := r.manager.ValidatorInfoOfBlock(n.info.Hash)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.manager.aggregate(r.nodes[30].info.Hash, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Aggregator){
		"another block": func(a *Aggregator) { a.LastBlock = primitives.Hash{9}; a.Blocks[0].Produced += 1000 },
		"another epoch": func(a *Aggregator) { *a = *newAggregator(primitives.EpochID{9}, new(EpochInfo)) },
	} {
		x := a.clone()
		change(x)
		r.store.aggregator = x.AppendBorsh(nil)
		r.restart()
		if got, err := r.manager.ValidatorInfoOfBlock(n.info.Hash); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	x := a.clone()
	x.Chunks = x.Chunks[:1]
	r.store.aggregator = x.AppendBorsh(nil)
	r.restart()
	if _, err := r.manager.ValidatorInfoOfBlock(n.info.Hash); !errors.Is(err, ErrBlockInfo) {
		t.Errorf("statistics of one shard for an epoch with two: %v", err)
	}
}

// TestAggregatorSurvivesEncoding: an encoded Aggregator decodes to the same value, and lists of
// unequal lengths are refused.
func TestAggregatorSurvivesEncoding(t *testing.T) {
	t.Parallel()
	r := newTree(t, 1000, stakes("test", 900, 700, 500)...)
	n := r.nodes[0]
	for i := range 30 {
		n, _ = r.grow(n, primitives.Height(i%4/3), func(b *BlockInfo) {
			b.ChunkMask = []bool{true, i%3 == 0}
			b.ChunkEndorsements = [][]byte{{7}, {1}}
			if i == 9 {
				b.Proposals = stakes("test", 1, 2)
			}
		})
	}
	a, err := r.manager.aggregate(n.info.Hash, false)
	if err != nil {
		t.Fatal(err)
	}
	var got Aggregator
	if err := borsh.Unmarshal(a.AppendBorsh(nil), &got); err != nil || !reflect.DeepEqual(&got, a) || len(got.Proposals) != 2 {
		t.Errorf("%+v, want %+v, %v", got, a, err)
	}
	for name, change := range map[string]func(*Aggregator){
		"blocks": func(a *Aggregator) { a.Blocks = a.Blocks[1:] },
		"chunks": func(a *Aggregator) { a.Chunks[1] = a.Chunks[1][1:] },
		"votes":  func(a *Aggregator) { a.Votes = a.Votes[1:] },
		"voted":  func(a *Aggregator) { a.Voted = a.Voted[1:] },
	} {
		x := a.clone()
		change(x)
		if err := borsh.Unmarshal(x.AppendBorsh(nil), new(Aggregator)); err == nil {
			t.Errorf("%s: a list that is too short was accepted", name)
		}
	}
}
