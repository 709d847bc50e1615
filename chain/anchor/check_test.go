package anchor

import (
	"errors"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// store is an epoch.Store in memory. It does not find the blocks in hidden, as if they were garbage
// collected.
type store struct {
	blocks  map[primitives.Hash]*epoch.BlockInfo
	epochs  map[primitives.EpochID]*epoch.EpochInfo
	starts  map[primitives.EpochID]primitives.Height
	sums    map[primitives.EpochID]*epoch.EpochSummary
	hidden  map[primitives.Hash]bool
	failure error // error of all reads; nil: none
}

func (s *store) BlockInfo(h primitives.Hash) (*epoch.BlockInfo, error) {
	if s.hidden[h] {
		return nil, s.failure
	}
	return s.blocks[h], s.failure
}

func (s *store) EpochInfo(id primitives.EpochID) (*epoch.EpochInfo, error) {
	return s.epochs[id], s.failure
}

func (s *store) Aggregator() (*epoch.Aggregator, error) { return nil, s.failure }

func (s *store) EpochStart(id primitives.EpochID) (primitives.Height, bool, error) {
	h, ok := s.starts[id]
	return h, ok, s.failure
}

func (s *store) EpochSummary(id primitives.EpochID) (*epoch.EpochSummary, error) {
	return s.sums[id], s.failure
}

// genesisHeight is the height of the genesis of all chains in this file.
const genesisHeight = 10

// line is a chain that was recorded in an epoch manager. blocks[0] is the genesis.
type line struct {
	t       testing.TB
	m       *epoch.Manager
	s       *store
	params  *epoch.GenesisParams
	configs *epoch.Configs
	blocks  []*epoch.BlockInfo
}

// newLine records a chain with epochs of length blocks and the given number of blocks above the
// genesis. skip contains the number of heights that are skipped before a block, by the block's
// index.
func newLine(t testing.TB, length uint64, blocks int, skip map[int]primitives.Height) *line {
	t.Helper()
	layout, err := primitives.MultiShardLayout(2)
	if err != nil {
		t.Fatal(err)
	}
	l := &line{t: t, s: &store{map[primitives.Hash]*epoch.BlockInfo{}, map[primitives.EpochID]*epoch.EpochInfo{},
		map[primitives.EpochID]primitives.Height{}, map[primitives.EpochID]*epoch.EpochSummary{}, map[primitives.Hash]bool{}, nil}}
	l.params = &epoch.GenesisParams{ChainID: "test-chain-anchor", ProtocolVersion: 86, ProtocolTreasuryAccount: "near",
		ProtocolRewardRate: epoch.Ratio{Num: 1, Den: 10}, TransactionValidityPeriod: 2, Epoch: epoch.Config{
			EpochLength: length, NumBlockProducerSeats: 4, NumChunkProducerSeats: 4, NumChunkValidatorSeats: 4, ShardLayout: layout,
			BlockProducerKickoutThreshold: 0, ChunkProducerKickoutThreshold: 0, TargetValidatorMandatesPerShard: 4,
			ValidatorMaxKickoutStakePerc: 100, OnlineMinThreshold: epoch.Ratio{Num: 90, Den: 100},
			OnlineMaxThreshold: epoch.Ratio{Num: 99, Den: 100}, ProtocolUpgradeStakeThreshold: epoch.Ratio{Num: 4, Den: 5},
			MaxInflationRate: epoch.Ratio{Num: 1, Den: 20}, MinimumStakeRatio: epoch.Ratio{Num: 160, Den: 1_000_000},
			MinimumStakeDivisor: 10, MinimumValidatorsPerShard: 1, ChunkProducerAssignmentChanges: 5,
		}}
	for i, stake := range []uint64{900, 700, 500, 300} {
		l.params.Validators = append(l.params.Validators, primitives.ValidatorStake{AccountID: primitives.AccountID(fmt.Sprint("test", i)),
			PublicKey: primitives.ZeroED25519Key, Stake: primitives.Yocto(stake)})
	}
	if l.configs, err = epoch.NewConfigs(l.params, nil, 88); err != nil {
		t.Fatal(err)
	}
	l.restart()
	for i := range blocks + 1 {
		b := &epoch.BlockInfo{Hash: primitives.HashBytes(fmt.Append(nil, i)), Height: genesisHeight, ChunkMask: []bool{true, true},
			LatestProtocolVersion: 86, TotalSupply: primitives.NEAR(1000), ChunkEndorsements: [][]byte{nil, nil},
			LastFinalizedHeight: genesisHeight}
		if i > 0 {
			p := l.blocks[i-1]
			b.PrevHash, b.Height, b.Timestamp = p.Hash, p.Height+1+skip[i], p.Timestamp+1_000_000_000
			b.LastFinalBlockHash, b.LastFinalizedHeight = p.LastFinalBlockHash, p.LastFinalizedHeight
		}
		if i > 2 && b.Height == l.blocks[i-1].Height+1 && l.blocks[i-1].Height == l.blocks[i-2].Height+1 {
			f := l.blocks[i-2]
			b.LastFinalBlockHash, b.LastFinalizedHeight = f.Hash, f.Height
		}
		c, err := l.m.RecordBlockInfo(b, b.Hash)
		if err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		l.s.blocks[b.Hash] = c.BlockInfo
		if c.EpochStart {
			l.s.starts[b.EpochID] = b.Height
		}
		if c.NextNextEpoch != nil {
			l.s.epochs[b.Hash] = c.NextNextEpoch
		}
		if c.Summary != nil {
			l.s.sums[b.EpochID] = c.Summary
		}
		l.blocks = append(l.blocks, c.BlockInfo)
	}
	return l
}

// restart replaces the epoch manager by a new one with empty caches.
func (l *line) restart() {
	m, err := epoch.NewManager(l.params, l.configs, l.s)
	if err != nil {
		l.t.Fatal(err)
	}
	l.m = m
}

// childEpoch returns the epoch of a child of block i.
func (l *line) childEpoch(i int) primitives.EpochID {
	l.t.Helper()
	id, err := l.m.EpochIDFromPrev(l.blocks[i].Hash)
	if err != nil {
		l.t.Fatal(err)
	}
	return id
}

// unknown is the hash of a block that no chain contains.
var unknown = primitives.HashBytes([]byte("unknown"))

// orphan checks a chunk whose previous block is unknown and whose anchor is block i.
func (l *line) orphan(i int, id primitives.EpochID, height primitives.Height) error {
	return Check(l.m, primitives.ChunkKey{EpochID: id, HeightCreated: height},
		primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: l.blocks[i].Hash}, genesisHeight)
}

// TestCheckFollowsItsTable checks the rows of the table in the comment of Check.
func TestCheckFollowsItsTable(t *testing.T) {
	t.Parallel()
	l := newLine(t, 100, 20, map[int]primitives.Height{9: 2})
	hash := func(i int) primitives.Hash { return l.blocks[i].Hash }
	height := func(i int) primitives.Height { return l.blocks[i].Height }
	id, other := l.childEpoch(5), primitives.EpochID{7}
	for _, c := range []struct {
		name   string
		at     primitives.ChunkAnchor
		epoch  primitives.EpochID
		height primitives.Height
		want   error // nil: accepted
	}{
		{"parent known", primitives.ChunkAnchor{PrevBlock: hash(6), PrevPrevBlock: hash(5)}, id, height(6) + 1, nil},
		{"parent known, heights skipped before it", primitives.ChunkAnchor{PrevBlock: hash(9), PrevPrevBlock: hash(8)}, id, height(8) + 4, nil},
		{"parent known, another anchor", primitives.ChunkAnchor{PrevBlock: hash(6), PrevPrevBlock: hash(4)}, id, height(6) + 1, ErrWrong},
		{"parent known, no anchor", primitives.ChunkAnchor{PrevBlock: hash(6)}, id, height(6) + 1, ErrWrong},
		{"parent known, unknown anchor", primitives.ChunkAnchor{PrevBlock: hash(6), PrevPrevBlock: unknown}, id, height(6) + 1, ErrWrong},
		{"parent known, higher", primitives.ChunkAnchor{PrevBlock: hash(6), PrevPrevBlock: hash(5)}, id, height(6) + 2, ErrWrong},
		{"parent known, lower", primitives.ChunkAnchor{PrevBlock: hash(6), PrevPrevBlock: hash(5)}, id, height(6), ErrWrong},
		{"parent known, other epoch", primitives.ChunkAnchor{PrevBlock: hash(6), PrevPrevBlock: hash(5)}, other, height(6) + 1, ErrWrong},
		{"on the genesis", primitives.ChunkAnchor{PrevBlock: hash(0)}, l.childEpoch(0), genesisHeight + 1, nil},
		{"on the genesis, higher", primitives.ChunkAnchor{PrevBlock: hash(0)}, l.childEpoch(0), genesisHeight + 2, ErrWrong},
		{"on the genesis, with an anchor", primitives.ChunkAnchor{PrevBlock: hash(0), PrevPrevBlock: unknown}, l.childEpoch(0),
			genesisHeight + 1, ErrWrong},
		{"on nothing", primitives.ChunkAnchor{}, primitives.EpochID{}, 1, ErrWrong},

		{"parent unknown, anchor + 1", primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: hash(5)}, id, height(5) + 1, ErrWrong},
		{"parent unknown, anchor + 2", primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: hash(5)}, id, height(5) + 2, nil},
		{"parent unknown, anchor + 3", primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: hash(5)}, id, height(5) + 3, ErrEarly},
		{"parent unknown, anchor + 602", primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: hash(5)}, id, height(5) + 602, ErrEarly},
		{"parent unknown, other epoch", primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: hash(5)}, other, height(5) + 2, ErrWrong},
		{"parent and anchor unknown", primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: primitives.Hash{3}}, id, height(5) + 2, ErrEarly},
		{"parent unknown, on the genesis", primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: hash(0)}, l.childEpoch(0),
			genesisHeight + 2, ErrEarly},
		{"parent unknown, below the genesis's grandchildren", primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: hash(0)},
			l.childEpoch(0), genesisHeight + 1, ErrWrong},
		{"parent unknown, no anchor, genesis", primitives.ChunkAnchor{PrevBlock: unknown}, l.childEpoch(0), genesisHeight, nil},
		{"parent unknown, no anchor, genesis + 1", primitives.ChunkAnchor{PrevBlock: unknown}, l.childEpoch(0), genesisHeight + 1, nil},
		{"parent unknown, no anchor, genesis + 2", primitives.ChunkAnchor{PrevBlock: unknown}, l.childEpoch(0), genesisHeight + 2, ErrWrong},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check(l.m, primitives.ChunkKey{ShardID: 1, EpochID: c.epoch, HeightCreated: c.height}, c.at, genesisHeight)
			if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) || errors.Is(err, ErrWrong) && errors.Is(err, ErrEarly) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestAnchorsAtEndOfEpochAreEarly: if the grandchild of an anchor is in the next epoch, messages
// with that anchor are early, whatever epoch they contain. Once the parent is known they are
// accepted.
func TestAnchorsAtEndOfEpochAreEarly(t *testing.T) {
	t.Parallel()
	l := newLine(t, 5, 14, nil)
	var last, before, inside int
	for i := range len(l.blocks) - 1 {
		id := l.childEpoch(i + 1)
		height := l.blocks[i].Height + heightOffset
		if err := Check(l.m, primitives.ChunkKey{EpochID: id, HeightCreated: height},
			primitives.ChunkAnchor{PrevBlock: l.blocks[i+1].Hash, PrevPrevBlock: l.blocks[i].Hash}, genesisHeight); err != nil {
			t.Errorf("anchor %d, parent known: %v", i, err)
		}
		err := l.orphan(i, id, height)
		if id == l.blocks[i].EpochID {
			if err == nil {
				inside++
			} else if !errors.Is(err, ErrEarly) {
				t.Errorf("anchor %d within its epoch: %v", i, err)
			}
			continue
		}
		if !errors.Is(err, ErrEarly) {
			t.Errorf("anchor %d at the end of its epoch: %v", i, err)
		}
		if err := l.orphan(i, l.blocks[i].EpochID, height); !errors.Is(err, ErrEarly) {
			t.Errorf("anchor %d at the end of its epoch, which is claimed: %v", i, err)
		}
		if l.blocks[i+1].EpochID != l.blocks[i].EpochID {
			last++
		} else {
			before++
		}
	}
	if last == 0 || before == 0 || inside == 0 {
		t.Errorf("%d anchors are the last of an epoch, %d the second to last, %d pass", last, before, inside)
	}
}

// TestAnchorsOfShortEpochsAreEarly: epochs of at most three blocks end by height, so messages are
// early with any anchor.
func TestAnchorsOfShortEpochsAreEarly(t *testing.T) {
	t.Parallel()
	for length := uint64(1); length <= 3; length++ {
		l := newLine(t, length, 12, nil)
		for i := range len(l.blocks) - 1 {
			if err := l.orphan(i, l.childEpoch(i+1), l.blocks[i].Height+heightOffset); !errors.Is(err, ErrEarly) {
				t.Errorf("length %d, anchor %d: %v", length, i, err)
			}
		}
	}
}

// TestMissingAncestorOfAnchorIsEarly: if the parent of the anchor was garbage collected, a message
// is early, as with an unknown anchor. A failed read gives neither ErrEarly nor ErrWrong.
func TestMissingAncestorOfAnchorIsEarly(t *testing.T) {
	t.Parallel()
	l := newLine(t, 100, 9, nil)
	id, height := l.childEpoch(5), l.blocks[5].Height+heightOffset
	l.restart()
	l.s.hidden[l.blocks[4].Hash] = true
	if err := l.orphan(5, id, height); !errors.Is(err, ErrEarly) {
		t.Errorf("without the anchor's parent: %v", err)
	}
	l.restart()
	l.s.failure = errors.New("broken disk")
	if err := l.orphan(5, id, height); err == nil || errors.Is(err, ErrEarly) || errors.Is(err, ErrWrong) || !errors.Is(err, l.s.failure) {
		t.Errorf("with a broken disk: %v", err)
	}
}
