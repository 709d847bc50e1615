package refmodel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// history is a chain with forks that the epoch manager records and the model follows.
type history struct {
	t       *testing.T
	rng     *rand.Rand
	params  *epoch.GenesisParams
	configs *epoch.Configs
	rows    *rowStore
	manager *epoch.Manager
	model   Producers
	blocks  []*historyBlock // 0 is the genesis
	vote    primitives.ProtocolVersion

	moved    int // chunks with another producer than the canonical one
	replaced int // rows that the blacklist changed
	listed   int // anchors with a blacklist
	kept     int // of them those with a shard of which one producer is left
	epochs   map[primitives.EpochID]bool
	layouts  map[int]bool // by the number of shards
}

type historyBlock struct {
	parent         *historyBlock
	info           *epoch.BlockInfo
	dsFinal, final *historyBlock
}

// rowStore stores what the manager has for its store in the forms of the disk.
type rowStore struct {
	infos  map[primitives.Hash][]byte
	epochs map[primitives.EpochID][]byte
	starts map[primitives.EpochID]primitives.Height

	aggregator []byte // nil: none is stored
}

func (s *rowStore) BlockInfo(hash primitives.Hash) (*epoch.BlockInfo, error) {
	raw, ok := s.infos[hash]
	if !ok {
		return nil, nil
	}
	var x epoch.StoredBlockInfo
	err := borsh.Unmarshal(raw, &x)
	return x.BlockInfo, err
}

func (s *rowStore) EpochInfo(id primitives.EpochID) (*epoch.EpochInfo, error) {
	raw, ok := s.epochs[id]
	if !ok {
		return nil, nil
	}
	x := new(epoch.EpochInfo)
	return x, borsh.Unmarshal(raw, x)
}

func (s *rowStore) EpochStart(id primitives.EpochID) (primitives.Height, bool, error) {
	h, ok := s.starts[id]
	return h, ok, nil
}

func (s *rowStore) EpochSummary(primitives.EpochID) (*epoch.EpochSummary, error) { return nil, nil }

func (s *rowStore) Aggregator() (*epoch.Aggregator, error) {
	if s.aggregator == nil {
		return nil, nil
	}
	var v epoch.Aggregator
	if err := borsh.Unmarshal(s.aggregator, &v); err != nil {
		return nil, err
	}
	return &v, nil
}

func (s *rowStore) apply(c *epoch.Changes) {
	if c.Aggregator != nil {
		s.aggregator = c.Aggregator.AppendBorsh(nil)
	}
	s.infos[c.BlockInfo.Hash] = epoch.StoredBlockInfo{BlockInfo: c.BlockInfo}.AppendBorsh(nil)
	if c.EpochStart {
		s.starts[c.BlockInfo.EpochID] = c.BlockInfo.Height
	}
	if c.NextNextEpoch != nil {
		s.epochs[c.BlockInfo.Hash] = c.NextNextEpoch.AppendBorsh(nil)
	}
}

// plan says what a history is like.
type plan struct {
	genesis, vote primitives.ProtocolVersion
	length        uint64 // of epochs, blocks
	stakes        []uint64
	shards, each  int // chunk producers of a shard, at least
	thresholds    *earlykickout.Thresholds
	splits        bool // shards are split, from version 87 on
}

func newHistory(t *testing.T, seed uint64, p *plan) *history {
	t.Helper()
	h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 652)), vote: p.vote, epochs: map[primitives.EpochID]bool{}, layouts: map[int]bool{},
		rows: &rowStore{map[primitives.Hash][]byte{}, map[primitives.EpochID][]byte{}, map[primitives.EpochID]primitives.Height{}, nil}}
	boundaries := make([]primitives.AccountID, p.shards-1)
	for i := range boundaries {
		boundaries[i] = primitives.AccountID(fmt.Sprintf("b%02d", i))
	}
	ids := make([]primitives.ShardID, p.shards)
	for i := range ids {
		ids[i] = primitives.ShardID(2 * i)
	}
	layout, err := primitives.NewShardLayoutV2(boundaries, ids, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &epoch.GenesisParams{ChainID: "history", ProtocolVersion: p.genesis, ProtocolTreasuryAccount: "near",
		ProtocolRewardRate: epoch.Ratio{Num: 1, Den: 10}, TransactionValidityPeriod: 2, EarlyKickout: p.thresholds}
	for i, stake := range p.stakes {
		g.Validators = append(g.Validators, primitives.ValidatorStake{AccountID: primitives.AccountID(fmt.Sprintf("v%d", i)),
			PublicKey: primitives.PublicKey(make([]byte, 33)), Stake: primitives.NEAR(stake)})
	}
	g.Epoch.EpochLength, g.Epoch.ShardLayout = p.length, layout
	raw, err := layout.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	config := func(layout string) []byte {
		return fmt.Appendf(nil, `{"epoch_length":%d,"num_block_producer_seats":20,"block_producer_kickout_threshold":0,
"chunk_producer_kickout_threshold":0,"chunk_validator_only_kickout_threshold":0,"target_validator_mandates_per_shard":4,
"online_min_threshold":[9,10],"online_max_threshold":[99,100],"fishermen_threshold":"1","minimum_stake_divisor":10,
"protocol_upgrade_stake_threshold":[4,5],"num_chunk_producer_seats":20,"minimum_validators_per_shard":%d,
"minimum_stake_ratio":[1,62500],"chunk_producer_assignment_changes_limit":5,"max_inflation_rate":[1,20],
"shuffle_shard_assignment_for_chunk_producers":true,"validator_max_kickout_stake_perc":100,"num_chunk_validator_seats":20,%s}`,
			p.length, p.each, layout)
	}
	files := map[string][]byte{fmt.Sprintf("%d.json", p.genesis): config(fmt.Sprintf(`"shard_layout":%s`, raw))}
	if p.splits {
		files["87.json"] = config(`"dynamic_resharding_config":{"memory_usage_threshold":1,"min_child_memory_usage":1,
"max_number_of_shards":9,"min_epochs_between_resharding":1,"force_split_shards":[],"block_split_shards":[]}`)
	}
	if h.configs, err = epoch.NewConfigs(g, files, 88); err != nil {
		t.Fatal(err)
	}
	h.params = g
	limits := earlykickout.Protocol()
	if p.thresholds != nil {
		limits = *p.thresholds
	}
	h.model = Producers{Grace: int64(limits.GraceBlocks), Missed: int64(limits.MinMissed), Percent: int64(limits.MinProducedPercent),
		Epochs: map[[32]byte]*ProducersEpoch{}}
	h.restart()
	mask := make([]bool, p.shards)
	h.record(&historyBlock{info: &epoch.BlockInfo{Hash: primitives.HashBytes([]byte("genesis")), ChunkMask: mask,
		LatestProtocolVersion: p.genesis, TotalSupply: primitives.NEAR(1000)}})
	return h
}

// restart forgets everything that is not stored.
func (h *history) restart() {
	var err error
	if h.manager, err = epoch.NewManager(h.params, h.configs, h.rows); err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) record(b *historyBlock) {
	h.t.Helper()
	info := *b.info
	c, err := h.manager.RecordBlockInfo(&info, primitives.HashBytes(info.Hash[:]))
	if err != nil {
		h.t.Fatalf("height %d: %v", info.Height, err)
	}
	h.rows.apply(&c)
	b.info = &info
	h.blocks = append(h.blocks, b)
	h.learn(info.EpochID)
	h.model.Add(ProducersBlock{Hash: info.Hash, Prev: info.PrevHash, Final: info.LastFinalBlockHash, Epoch: info.EpochID,
		Height: int64(info.Height), Mask: info.ChunkMask})
	h.compare(b)
}

// learn gives the model an epoch.
func (h *history) learn(id primitives.EpochID) {
	if h.model.Epochs[id] != nil {
		return
	}
	info, err := h.manager.EpochInfo(id)
	if err != nil {
		h.t.Fatal(err)
	}
	e := &ProducersEpoch{Version: int(info.ProtocolVersion), Seed: info.RngSeed}
	for i, shard := range info.ShardLayout.ShardIDs() {
		e.Shards = append(e.Shards, uint64(shard))
		var seats []int
		for _, v := range info.ChunkProducers[i] {
			seats = append(seats, int(v))
		}
		e.Seats = append(e.Seats, seats)
	}
	for _, v := range info.Validators {
		e.Stakes = append(e.Stakes, v.Stake.Big())
	}
	h.model.Epochs[id] = e
}

// compare compares all that a block says about producers.
func (h *history) compare(b *historyBlock) {
	h.t.Helper()
	m, info := h.manager, b.info
	e := h.model.Epochs[info.EpochID]
	h.epochs[info.EpochID], h.layouts[len(e.Shards)] = true, true
	if (info.ChunkProducers != nil) != (e.Version >= 87) {
		h.t.Fatalf("height %d: rows %v in version %d", info.Height, info.ChunkProducers, e.Version)
	}
	lists, err := m.ChunkProducerBlacklist(info.Hash)
	if err != nil {
		h.t.Fatal(err)
	}
	one, some := false, false
	for s, row := range info.ChunkProducers {
		if want := h.model.Row(info.Hash, s); int(row) != want {
			h.t.Fatalf("height %d, shard index %d: row %d, the model's %d", info.Height, s, row, want)
		}
		want := h.model.Listed(info.Hash, s)
		var got []uint64
		if lists != nil {
			got = lists[s]
		}
		if len(got) != len(want) || slices.ContainsFunc(got, func(v uint64) bool { return !want[int(v)] }) {
			h.t.Fatalf("height %d, shard index %d: listed %v, by the model %v", info.Height, s, got, want)
		}
		some = some || len(got) > 0
		one = one || len(got) > 0 && len(earlykickout.Remaining(slices.Compact(slices.Sorted(slices.Values(toIDs(e.Seats[s])))), got)) == 1
		if h.model.draw(info.EpochID, s, int64(info.Height)+2, nil) != int(row) {
			h.replaced++
		}
	}
	if some {
		h.listed++
	}
	if one {
		h.kept++
	}
	id, err := m.EpochIDFromPrev(info.Hash)
	if err != nil {
		h.t.Fatal(err)
	}
	h.learn(id)
	next := h.model.Epochs[id]
	epochInfo, err := m.EpochInfo(id)
	if err != nil {
		h.t.Fatal(err)
	}
	for s, shard := range next.Shards {
		want := epochInfo.Validators[h.model.Producer(info.Hash, id, s)].AccountID
		got, err := m.ChunkProducerFromPrev(info.Hash, primitives.ShardID(shard))
		if err != nil || got.AccountID != want {
			h.t.Fatalf("on height %d, shard %d: producer %v, %v; the model's %s", info.Height, shard, got, err, want)
		}
		anchored, err := m.AnchoredChunkProducer(info.PrevHash, id, primitives.ShardID(shard), info.Height+1)
		if err != nil || anchored.AccountID != want {
			h.t.Fatalf("on height %d, shard %d: producer by anchor %v, %v; the model's %s", info.Height, shard, anchored, err, want)
		}
		forecast, err := m.ForecastChunkProducer(info.Hash, id, primitives.ShardID(shard), info.Height+1)
		if err != nil || forecast.AccountID != want {
			h.t.Fatalf("on height %d, shard %d: forecast %v, %v; the model's %s", info.Height, shard, forecast, err, want)
		}
		if epochInfo.Validators[h.model.draw(id, s, int64(info.Height)+1, nil)].AccountID != want {
			h.moved++
		}
	}
	if b.parent == nil || h.rng.IntN(8) > 0 {
		return
	}
	counts := h.model.Counts(info.Hash)
	list, err := m.ValidatorInfoOfBlock(info.Hash)
	if err != nil {
		h.t.Fatal(err)
	}
	for v := range list.CurrentValidators {
		var made, due int64
		for s := range counts {
			made, due = made+counts[s][v].Made, due+counts[s][v].Due
		}
		if got := list.CurrentValidators[v].Chunks; got != (epoch.Stats{Produced: uint64(made), Expected: uint64(due)}) {
			h.t.Fatalf("height %d, validator %d: chunks %v, the model's %d of %d", info.Height, v, got, made, due)
		}
	}
}

func toIDs(seats []int) (out []uint64) {
	for _, v := range seats {
		out = append(out, uint64(v))
	}
	return out
}

// grow adds a block on parent, some heights later. dead are the validators that make no chunks.
func (h *history) grow(parent *historyBlock, skip primitives.Height, dead func(v int) bool) *historyBlock {
	h.t.Helper()
	p := parent.info
	id, err := h.manager.EpochIDFromPrev(p.Hash)
	if err != nil {
		h.t.Fatal(err)
	}
	h.learn(id)
	e := h.model.Epochs[id]
	b := &historyBlock{parent: parent, dsFinal: parent.dsFinal, final: parent.final}
	if skip == 0 {
		b.dsFinal = parent
		if parent.parent != nil && parent.dsFinal == parent.parent {
			b.final = parent.parent
		}
	}
	b.info = &epoch.BlockInfo{
		Hash: primitives.HashBytes(fmt.Append(nil, len(h.blocks))), Height: p.Height + 1 + skip, PrevHash: p.Hash,
		LatestProtocolVersion: h.vote, TotalSupply: primitives.NEAR(1000), Timestamp: p.Timestamp + 1e9,
		ChunkMask: make([]bool, len(e.Shards)), ChunkEndorsements: make([][]byte, len(e.Shards)),
	}
	if b.final != nil {
		b.info.LastFinalBlockHash, b.info.LastFinalizedHeight = b.final.info.Hash, b.final.info.Height
	}
	for s := range e.Shards {
		b.info.ChunkMask[s] = !dead(h.model.Producer(p.Hash, id, s))
	}
	if last, err := h.manager.IsProducedBlockLastInEpoch(b.info.Height, p.Hash, b.info.LastFinalBlockHash); err == nil && last {
		b.info.ShardSplit = &primitives.ShardSplit{ShardID: primitives.ShardID(e.Shards[h.rng.IntN(len(e.Shards))]),
			Boundary: primitives.AccountID(fmt.Sprintf("c%d", len(h.blocks)))}
	}
	h.record(b)
	return b
}

var shortThresholds = &earlykickout.Thresholds{GraceBlocks: 12, MinMissed: 3, MinProducedPercent: 80}

// TestProducersAgreeOverHistories: the epoch manager and the model agree on every row, list,
// producer and counter of histories with skipped heights, missed chunks, forks, epoch ends,
// restarts, an upgrade to 87, and splits; with one producer a shard, and with shards of which all
// producers fail.
func TestProducersAgreeOverHistories(t *testing.T) {
	for _, c := range []struct {
		name   string
		plan   plan
		blocks int
		fails  int // tenths of the validators that fail in each quarter of the history
		lone   bool
	}{
		{"upgrade, three shards", plan{86, 87, 40, []uint64{90, 80, 70, 60, 50, 40, 30}, 3, 2, shortThresholds, false}, 500, 3, false},
		{"87 at genesis, one shard", plan{87, 87, 60, []uint64{500, 80, 70, 60}, 1, 1, shortThresholds, false}, 500, 4, false},
		{"one producer a shard", plan{87, 87, 40, []uint64{90, 80, 70}, 3, 1, shortThresholds, false}, 400, 5, true},
		{"all fail", plan{87, 87, 60, []uint64{90, 80, 70, 60}, 1, 1, shortThresholds, false}, 400, 10, false},
		{"repeated producers", plan{87, 87, 50, []uint64{90, 80}, 2, 2, shortThresholds, false}, 400, 5, false},
		{"splits", plan{86, 87, 40, []uint64{90, 80, 70, 60, 50, 40, 30, 20}, 2, 1, shortThresholds, true}, 600, 4, false},
		{"short epochs", plan{87, 87, 3, []uint64{90, 80, 70}, 2, 1, &earlykickout.Thresholds{MinMissed: 1, MinProducedPercent: 80}, false}, 200, 5, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory(t, 1, &c.plan)
			tips := []*historyBlock{h.blocks[0]}
			var salt uint32
			for n := range c.blocks {
				if n%(c.blocks/4) == 0 {
					salt = h.rng.Uint32()
				}
				at := h.rng.IntN(len(tips))
				parent := tips[at]
				switch r := h.rng.IntN(25); {
				case r == 0 && parent.parent != nil && parent.parent.parent != nil: // a fork
					parent, at = parent.parent.parent, len(tips)
					tips = append(tips, nil)
				case r == 1 && len(tips) > 1:
					tips = slices.Delete(tips, at, at+1)
					continue
				}
				skip := primitives.Height(0)
				if h.rng.IntN(6) == 0 {
					skip = primitives.Height(1 + h.rng.IntN(3))
				}
				tips[at] = h.grow(parent, skip, func(v int) bool {
					if int(uint32(v+1)*(salt|1)>>7)%10 < c.fails {
						return h.rng.IntN(12) > 0
					}
					return h.rng.IntN(30) == 0
				})
				if len(tips) > 3 {
					tips = slices.Delete(tips, 0, 1)
				}
				if n%53 == 52 {
					h.restart()
				}
			}
			t.Logf("%d blocks, %d epochs, %d anchors with a list, %d with a single producer left, %d draws replaced, %d chunks with another producer than the canonical one, %d layouts",
				len(h.blocks), len(h.epochs), h.listed, h.kept, h.replaced, h.moved, len(h.layouts))
			if len(h.epochs) < 4 || (h.moved == 0) != (c.lone || c.plan.length <= 3) || (len(h.layouts) > 1) != c.plan.splits {
				t.Error("the history shows too little")
			}
			if (h.listed == 0) != c.lone {
				t.Errorf("%d anchors with a list", h.listed)
			}
		})
	}
}

// TestDeadProducerIsListedAfter1000Blocks: a dead producer is listed from the first anchor whose
// last final block is 1000 blocks into the epoch, on both branches of a fork, and its counters
// stop.
func TestDeadProducerIsListedAfter1000Blocks(t *testing.T) {
	h := newHistory(t, 3, &plan{genesis: 87, vote: 87, length: 1300, stakes: []uint64{90, 80, 70}, shards: 1, each: 1})
	dead := func(v int) bool { return v == 1 }
	at := h.blocks[0]
	first := primitives.Height(0)
	for h.rows.starts[primitives.EpochID{}] == 0 || at.info.Height < 1200 {
		at = h.grow(at, 0, dead)
		if lists, err := h.manager.ChunkProducerBlacklist(at.info.Hash); err != nil {
			t.Fatal(err)
		} else if lists != nil && first == 0 {
			first = at.info.Height
		}
	}
	if first != 1003 { // the epoch starts at 1, the final block is two below
		t.Errorf("the first list is of height %d, want 1003", first)
	}
	frozen := h.model.Counts(at.info.Hash)[0][1]
	fork := at.parent.parent
	for range 20 {
		at = h.grow(at, 0, dead)
	}
	if now := h.model.Counts(at.info.Hash)[0][1]; now != frozen {
		t.Errorf("counters of the listed producer %v, then %v", frozen, now)
	}
	branch := fork
	for range 10 {
		branch = h.grow(branch, 1, func(v int) bool { return v != 1 })
	}
	for at.info.EpochID.IsZero() { // over the epoch's end: the list is gone
		at = h.grow(at, 0, dead)
	}
	if lists, err := h.manager.ChunkProducerBlacklist(at.info.Hash); err != nil || lists != nil {
		t.Errorf("lists of the first block of the next epoch: %v, %v", lists, err)
	}
}

// TestListedProducersAgreeWithModel compares the lists of earlykickout and the model for counters
// up to those that fit both.
func TestListedProducersAgreeWithModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(87, 1))
	m := &Producers{Missed: 100, Percent: 80}
	number := func() int64 {
		if rng.IntN(2) == 0 {
			return rng.Int64N(700)
		}
		return math.MaxInt64 - rng.Int64N(3)
	}
	for range 20_000 {
		seats, turns := make([]int, 1+rng.IntN(5)), make([]Turns, 5)
		for i := range seats {
			seats[i] = rng.IntN(5)
		}
		for i := range turns {
			turns[i].Due = 1 + number()/2
			turns[i].Made = rng.Int64N(turns[i].Due)
			if rng.IntN(3) == 0 {
				turns[i] = Turns{200, 200 + 100*rng.Int64N(4)}
			}
		}
		got, _ := earlykickout.Protocol().Blacklist(toIDs(seats), func(v uint64) earlykickout.Production {
			return earlykickout.Production{Produced: uint64(turns[v].Made), Expected: uint64(turns[v].Due)}
		})
		want := m.ListedBy(seats, turns)
		if len(got) != len(want) || slices.ContainsFunc(got, func(v uint64) bool { return !want[int(v)] }) {
			t.Fatalf("seats %v, counters %v: listed %v, model %v", seats, turns, got, want)
		}
	}
}

// TestMissingRowFailsTheLookup: a missing anchor fails it as well.
func TestMissingRowFailsTheLookup(t *testing.T) {
	h := newHistory(t, 5, &plan{genesis: 87, vote: 87, length: 50, stakes: []uint64{90, 80}, shards: 2, each: 1, thresholds: shortThresholds})
	at := h.blocks[0]
	for range 9 {
		at = h.grow(at, 0, func(int) bool { return false })
	}
	shard := primitives.ShardID(2)
	anchor := at.parent.info.Hash
	stripped := *at.parent.info
	stripped.ChunkProducers = nil
	h.rows.infos[anchor] = epoch.StoredBlockInfo{BlockInfo: &stripped}.AppendBorsh(nil)
	h.restart()
	if _, err := h.manager.ChunkProducerFromPrev(at.info.Hash, shard); !errors.Is(err, epoch.ErrChunkProducerNotInDB) {
		t.Errorf("without a row: %v", err)
	} else if want := fmt.Sprintf("chunk producer not in DB for block %v shard 2", anchor); err.Error() != want {
		t.Errorf("without a row: %q, want %q", err, want)
	}
	delete(h.rows.infos, anchor)
	h.restart()
	if _, err := h.manager.ChunkProducerFromPrev(at.info.Hash, shard); !errors.Is(err, epoch.ErrMissingBlock) {
		t.Errorf("without an anchor: %v", err)
	}
	if _, err := h.manager.AnchoredChunkProducer(anchor, primitives.EpochID{}, shard, at.info.Height+1); !errors.Is(err, epoch.ErrMissingBlock) {
		t.Errorf("by an unknown anchor: %v", err)
	}
}
