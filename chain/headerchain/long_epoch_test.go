package headerchain_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// Numbers of mainnet.
const (
	longEpoch      = 43_200
	longValidators = 120 // the last twenty are only chunk validators
	longSeats      = 100
	longShards     = 9
	longMandates   = 68
)

// offline is the validator that produces and endorses nothing.
const offline primitives.AccountID = "v007"

// windowRows implements headerchain.Store. It keeps only the rows of the last heights, and those at
// the ends of the last epochs. So it returns no other row.
type windowRows struct {
	rows   map[primitives.Hash]*headerchain.Row
	order  []primitives.Hash // hashes of the rows of the last heights, ascending
	edges  []primitives.Hash // hashes of the first and last rows of epochs, ascending
	infos  map[primitives.EpochID]*epoch.EpochInfo
	starts map[primitives.EpochID]primitives.Height
	sums   map[primitives.EpochID]*epoch.EpochSummary
	stats  *epoch.Aggregator // the latest of all Changes
	reads  int               // number of rows that were read
}

const (
	// windowLength is the number of kept rows. After a restart the epoch manager reads the blocks
	// since the last stored Aggregator, which is at most 500 heights below the final block.
	windowLength = 520
	windowEdges  = 8
)

func (s *windowRows) Row(h primitives.Hash) (*headerchain.Row, error) {
	s.reads++
	return s.rows[h], nil
}

func (s *windowRows) EpochInfo(id primitives.EpochID) (*epoch.EpochInfo, error) {
	return s.infos[id], nil
}

func (s *windowRows) EpochSummary(id primitives.EpochID) (*epoch.EpochSummary, error) {
	return s.sums[id], nil
}

func (s *windowRows) EpochStart(id primitives.EpochID) (primitives.Height, bool, error) {
	h, ok := s.starts[id]
	return h, ok, nil
}

func (s *windowRows) Put(r *headerchain.Row, c *epoch.Changes, _ bool) error {
	hash := r.Header.Hash()
	s.rows[hash] = r
	if c.EpochStart {
		s.starts[c.BlockInfo.EpochID] = c.BlockInfo.Height
	}
	if c.NextNextEpoch != nil {
		s.infos[hash] = c.NextNextEpoch
	}
	if c.Aggregator != nil {
		s.stats = c.Aggregator
	}
	if c.Summary != nil {
		s.sums[c.BlockInfo.EpochID] = c.Summary
	}
	if c.EpochStart || c.NextNextEpoch != nil {
		s.edges = append(s.edges, hash)
		s.drop(&s.edges, windowEdges)
		return nil
	}
	s.order = append(s.order, hash)
	s.drop(&s.order, windowLength)
	return nil
}

// drop removes the oldest row of a list that has more than most.
func (s *windowRows) drop(list *[]primitives.Hash, most int) {
	if len(*list) > most {
		delete(s.rows, (*list)[0])
		*list = (*list)[1:]
	}
}

func (s *windowRows) Aggregator() (*epoch.Aggregator, error) { return s.stats, nil }

func (*windowRows) Begin(*headerchain.Start) error    { return errors.ErrUnsupported }
func (*windowRows) Before() (*epoch.BlockInfo, error) { return nil, errors.ErrUnsupported }

// longChain makes the headers of a chain with mainnet's numbers. It determines the epochs by itself.
type longChain struct {
	*headerchain.Chain
	options  headerchain.Options
	length   primitives.Height          // of an epoch
	vote     primitives.ProtocolVersion // for which the headers vote
	store    *windowRows
	skipped  map[primitives.EpochID]int // number of heights without a block
	gaps     map[primitives.EpochID]int // number of missing chunks
	firsts   []primitives.Height        // heights of the first blocks of the epochs
	id, next primitives.EpochID         // epoch of the head, and the epoch after it
}

func hashSign(s []byte, data []byte, key primitives.PublicKey) primitives.Signature {
	sum := sha256.Sum256(append(append(s[:0], key...), data...))
	return primitives.Signature(append(append([]byte{byte(primitives.ED25519)}, sum[:]...), make([]byte, 32)...))
}

func newLongChain(t *testing.T) *longChain { return newChainOf(t, longEpoch, 88) }

// newChainOf returns a chain of another epoch length and protocol version.
func newChainOf(t *testing.T, length primitives.Height, version primitives.ProtocolVersion) *longChain {
	t.Helper()
	layout, err := primitives.MultiShardLayout(longShards)
	if err != nil {
		t.Fatal(err)
	}
	threshold := epoch.Ratio{Num: 4, Den: 5}
	if length < longValidators { // too few blocks for the votes of most validators
		threshold = epoch.Ratio{Num: 1, Den: 20}
	}
	p := &epoch.GenesisParams{
		ChainID: "test-chain-long", ProtocolVersion: version, ProtocolTreasuryAccount: "treasury", ProtocolRewardRate: epoch.Ratio{Num: 1, Den: 10},
		TransactionValidityPeriod: 2 * uint64(length),
		Epoch: epoch.Config{
			EpochLength: uint64(length), NumBlockProducerSeats: longSeats, NumChunkProducerSeats: longSeats, NumChunkValidatorSeats: 500,
			TargetValidatorMandatesPerShard: longMandates, BlockProducerKickoutThreshold: 80, ChunkProducerKickoutThreshold: 80,
			ChunkValidatorOnlyKickoutThreshold: 70, ValidatorMaxKickoutStakePerc: 30,
			OnlineMinThreshold: epoch.Ratio{Num: 90, Den: 100}, OnlineMaxThreshold: epoch.Ratio{Num: 99, Den: 100},
			FishermenThreshold: primitives.NEAR(1_000_000_000), MinimumStakeDivisor: 10, ProtocolUpgradeStakeThreshold: threshold,
			ShardLayout: layout, MinimumValidatorsPerShard: 1, MinimumStakeRatio: epoch.Ratio{Num: 1, Den: 62_500},
			ChunkProducerAssignmentChanges: 5, MaxInflationRate: epoch.Ratio{Num: 1, Den: 40},
		},
	}
	for i := range longValidators {
		name := primitives.AccountID(fmt.Sprintf("v%03d", i))
		p.Validators = append(p.Validators, primitives.ValidatorStake{AccountID: name, PublicKey: primitives.TestKey(name).PublicKey(),
			Stake: primitives.NEAR(uint64(5_000_000 - 1000*i))})
	}
	configs, err := epoch.NewConfigs(p, nil, 88)
	if err != nil {
		t.Fatal(err)
	}
	g := &primitives.BlockHeader{Version: primitives.HeaderV6}
	g.ChunkMask, g.TotalSupply, g.LatestProtocolVersion = make([]bool, longShards), primitives.NEAR(1_200_000_000), p.ProtocolVersion
	for i := range g.ChunkMask {
		g.ChunkMask[i] = true
	}
	g.Timestamp, g.BlockOrdinal = 1_800_000_000_000_000_000, 1
	g.Init()
	c := &longChain{length: length, vote: version, store: &windowRows{rows: map[primitives.Hash]*headerchain.Row{}, infos: map[primitives.EpochID]*epoch.EpochInfo{},
		starts: map[primitives.EpochID]primitives.Height{}, sums: map[primitives.EpochID]*epoch.EpochSummary{}},
		skipped: map[primitives.EpochID]int{}, gaps: map[primitives.EpochID]int{}}
	var buf [256]byte
	c.options = headerchain.Options{Genesis: g, Params: p, Configs: configs, Store: c.store, Newest: p.ProtocolVersion,
		MaxHeightJump: 100, Verify: func(s primitives.Signature, data []byte, key primitives.PublicKey) bool {
			return s == hashSign(buf[:], data, key)
		}}
	c.open(t)
	return c
}

// open opens the chain in the store, as after a restart.
func (c *longChain) open(t *testing.T) {
	t.Helper()
	if c.Chain != nil {
		c.options.Head = c.Head().Header.Hash()
	}
	var err error
	if c.Chain, err = headerchain.New(c.options); err != nil {
		t.Fatal(err)
	}
}

// ended returns whether the head is the last block of its epoch.
func (c *longChain) ended() bool {
	head := c.Head()
	return head.Header.Height == 0 || head.Final+3 >= c.firsts[len(c.firsts)-1]+c.length
}

// extend makes the next header and adds it.
func (c *longChain) extend(t *testing.T) {
	t.Helper()
	starts := c.ended()
	h, id, next := c.build(t)
	a, err := c.Add(h, false, h.Timestamp)
	if err != nil {
		t.Fatalf("block %d: %v", h.Height, err)
	}
	if !a.IsHead {
		t.Fatalf("block %d is not the head", h.Height)
	}
	if starts {
		c.firsts = append(c.firsts, h.Height)
	}
	c.id, c.next = id, next
}

// build makes the next header, and returns its epoch and the epoch after it.
func (c *longChain) build(t *testing.T) (h *primitives.BlockHeader, id, next primitives.EpochID) {
	t.Helper()
	m, parent := c.Epochs(), c.Head()
	p, prev := parent.Header, parent.Header.Hash()
	id, next = c.id, c.next
	starts := c.ended()
	if starts {
		id, next = c.next, prev
	}
	fail := func(err error) {
		if err != nil {
			t.Fatalf("block on %d: %v", p.Height, err)
		}
	}
	h = &primitives.BlockHeader{Version: primitives.HeaderV6, PrevHash: prev}
	var producer *primitives.ValidatorStake
	var err error
	for h.Height = p.Height + 1; ; h.Height++ {
		producer, err = m.BlockProducer(id, h.Height)
		fail(err)
		if producer.AccountID != offline {
			break
		}
		c.skipped[id]++
	}
	h.EpochID, h.NextEpochID, h.PrevHeight, h.Timestamp = id, next, p.Height, p.Timestamp+uint64(time.Second)
	h.TotalSupply, h.LatestProtocolVersion = p.TotalSupply, c.vote
	if h.NextBPHash = p.NextBPHash; starts && p.Height > 0 {
		h.NextBPHash, err = m.BlockProducersHash(next)
		fail(err)
	}
	h.EpochSyncDataHash, err = m.EpochSyncDataHash(prev)
	fail(err)
	if starts != (h.EpochSyncDataHash != nil) {
		t.Fatalf("block %d: first of an epoch: %v, epoch_sync_data_hash %v", h.Height, starts, h.EpochSyncDataHash)
	}
	h.LastDSFinalBlock, h.LastFinalBlock = chain.LastDSFinal(p, h.Height), chain.LastFinal(p, h.Height)
	tree := parent.Tree.Clone()
	tree.Insert(prev)
	h.BlockMerkleRoot, h.BlockOrdinal = tree.Root(), tree.Size()+1
	h.RandomValue = primitives.HashBytes(prev[:])
	layout, err := m.ShardLayout(id)
	fail(err)
	for _, shard := range layout.ShardIDs() {
		by, err := m.ChunkProducerFromPrev(prev, shard)
		fail(err)
		made := by.AccountID != offline
		h.ChunkMask = append(h.ChunkMask, made)
		if !made {
			c.gaps[id]++
			h.ChunkEndorsements = append(h.ChunkEndorsements, nil)
			continue
		}
		list, err := m.ChunkValidators(id, shard, p.Height+1)
		fail(err)
		bits := make([]byte, (len(list)+7)/8)
		for i := range list {
			if list[i].AccountID != offline {
				bits[i/8] |= 1 << (i % 8)
			}
		}
		h.ChunkEndorsements = append(h.ChunkEndorsements, bits)
	}
	approvers, err := m.BlockApprovers(prev)
	fail(err)
	inner := primitives.NewApprovalInner(prev, p.Height, h.Height)
	message := inner.SignedBytes(h.Height)
	var buf [256]byte
	for i, a := range approvers {
		sig := primitives.Signature("")
		if a.AccountID != offline && i < 2*longSeats/3+8 { // the stakes are almost equal, so these are more than two thirds
			sig = hashSign(buf[:], message, a.PublicKey)
		}
		h.Approvals = append(h.Approvals, sig)
	}
	h.Init()
	hash := h.Hash()
	h.Signature = hashSign(buf[:], hash[:], producer.PublicKey)
	return h, id, next
}

// TestLongEpochsNeedLittleMemory: a header chain and its epoch manager follow epochs of mainnet's
// length, with mainnet's numbers of validators, shards and mandates, over two boundaries, while
// the store has only the rows of the last 520 blocks and those at the ends of epochs. A restart
// within an epoch needs no other rows and changes no statistics. The heap does not grow. A validator
// that is offline from the first block on is no validator two epochs later, and early kickout skips
// its chunks long before that.
func TestLongEpochsNeedLittleMemory(t *testing.T) {
	if testing.Short() || testutil.Racing {
		t.Skip("89,000 headers of 100 approvals take some 30 seconds")
	}
	c := newLongChain(t)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var early uint64
	restarted := false
	begun := time.Now()
	for len(c.firsts) < 3 || c.Head().Header.Height < c.firsts[2]+3000 {
		epochs := len(c.firsts)
		at := time.Now()
		c.extend(t)
		switch h := c.Head().Header.Height; {
		case epochs > 0 && len(c.firsts) > epochs:
			t.Logf("epoch %d begins at %d after %.1f s, the block took %v; %d KB of heap, %d rows read", epochs, h, time.Since(begun).Seconds(),
				time.Since(at), heap()>>10, c.store.reads)
		case early == 0 && h > 3000: // the caches of the epoch manager are full
			early = heap()
		case epochs == 1 && !restarted && h > longEpoch+20_300:
			c.open(t)
			restarted = true
		}
	}
	if late := heap(); late > early+8<<20 {
		t.Errorf("%d KB of heap after %d blocks, %d KB after 3000", late>>10, c.Head().Header.BlockOrdinal, early>>10)
	}
	genesis := c.firsts[0] - 1
	if genesis != 0 {
		t.Fatalf("the first block has height %d", c.firsts[0])
	}
	for i := range c.firsts[1:] {
		if n := c.firsts[i+1] - c.firsts[i]; n < longEpoch || n > longEpoch+20 {
			t.Errorf("epoch %d has %d heights, want %d and a few until the last is final", i, n, longEpoch)
		}
	}
	first, third := c.store.sums[primitives.EpochID{}], c.id
	if first == nil || len(c.store.sums) != 2 {
		t.Fatalf("%d epochs have a summary, want 2", len(c.store.sums))
	}
	why, out := first.ValidatorKickout.Get(offline)
	if !out || !why.ForPerformance() || len(first.ValidatorKickout) != 1 {
		t.Errorf("kickouts of the first epoch: %+v", first.ValidatorKickout)
	}
	for id, sum := range c.store.sums {
		stats, _ := sum.Stats.Get(offline)
		if stats.Blocks.Produced+stats.Production.Produced+stats.Endorsement.Produced > 0 || int(stats.Blocks.Expected) != c.skipped[id] ||
			int(stats.Production.Expected) != c.gaps[id] {
			t.Errorf("epoch %v: the offline validator has the statistics %+v, with %d heights skipped and %d chunks missed", id, stats,
				c.skipped[id], c.gaps[id])
		}
		blocks := 0
		for _, v := range sum.Stats {
			s := v.Value
			if blocks += int(s.Blocks.Expected); v.Account != offline && (s.Blocks.Produced != s.Blocks.Expected || s.Production.Produced != s.Production.Expected) {
				t.Errorf("epoch %v: %s has the statistics %+v, although it was online", id, v.Account, s)
			}
		}
		if blocks < longEpoch-5 || blocks > longEpoch+20 {
			t.Errorf("epoch %v: the statistics have %d heights, want about %d", id, blocks, longEpoch)
		}
	}
	// Early kickout excludes the producer after at most some thousand blocks of an epoch.
	if gaps, fair := c.gaps[primitives.EpochID{}], longEpoch*longShards/longSeats; gaps == 0 || gaps > fair/4 {
		t.Errorf("%d chunks of the first epoch are missed; without early kickout it were some %d", gaps, fair)
	}
	for id, want := range map[primitives.EpochID]bool{{}: true, third: false} {
		v, err := c.Epochs().Validator(id, offline)
		if err == nil != want {
			t.Errorf("epoch %v: the offline validator is %+v, %v", id, v, err)
		}
	}
	info, err := c.Epochs().EpochInfo(third)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Validators) != longValidators-1 || len(info.BlockProducers) != longSeats || c.skipped[third]+c.gaps[third] > 0 {
		t.Errorf("%d validators and %d block producers, %d heights skipped and %d chunks missed", len(info.Validators), len(info.BlockProducers),
			c.skipped[third], c.gaps[third])
	}
	for _, v := range info.Validators {
		if reward, ok := info.ValidatorReward.Get(v.AccountID); !ok || reward.IsZero() {
			t.Errorf("%s has no reward for the first epoch", v.AccountID)
		}
	}
}
