package storage

import (
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

var errRead = errors.New("input/output error")

// badIndex is an index in which a column cannot be read.
type badIndex struct {
	index
	column byte
}

func (x badIndex) get(key []byte) ([]byte, error) {
	if key[0] == x.column {
		return nil, errRead
	}
	return x.index.get(key)
}

func (x badIndex) iterate(lo, hi []byte) cursor {
	if lo[0] == x.column {
		return badCursor{}
	}
	return x.index.iterate(lo, hi)
}

// badCursor fails before the first row.
type badCursor struct{ cursor }

func (badCursor) next() bool       { return false }
func (badCursor) seek([]byte) bool { return false }
func (badCursor) valid() bool      { return false }
func (badCursor) done() error      { return errRead }

// TestCatchupReadErrorIsReturned: if the catchup records cannot be read, the data that may be in
// them is not reported as absent, and garbage collection does not pass their blocks.
func TestCatchupReadErrorIsReturned(t *testing.T) {
	c := newSnapshotChain(t)
	c.grow(30)
	rec, err := c.s.Block(c.at[3])
	c.must(err)
	c.s.hasCatchup.Store(true)
	c.s.db = badIndex{c.s.db, catchupRecords.id}
	const absent = primitives.ShardID(7)
	if has, err := c.s.hasShard(c.at[3], absent); has || !errors.Is(err, errRead) {
		t.Errorf("hasShard: %v, %v", has, err)
	}
	if has, err := c.s.hasShard(BlockRef{3, hashOf("other")}, absent); has || err != nil {
		t.Errorf("hasShard of a block that is not stored: %v, %v", has, err)
	}
	if _, ok, err := rec.ChunkHash(absent); ok || !errors.Is(err, errRead) {
		t.Errorf("ChunkHash: %v, %v", ok, err)
	}
	if _, err := rec.Extra(absent); !errors.Is(err, errRead) || errors.Is(err, ErrNotFound) {
		t.Errorf("Extra: %v", err)
	}
	if list, err := rec.Transactions(absent); !errors.Is(err, errRead) {
		t.Errorf("Transactions: %v, %v", list, err)
	}
	if _, err := c.s.CollectGarbage(GCOptions{Before: ^uint64(0), MaxHeights: 3}); !errors.Is(err, errRead) {
		t.Errorf("CollectGarbage: %v", err)
	}
}

// TestBlockReadErrorIsNotAbsence: a block that cannot be read is not taken for a block that lacks
// the shard.
func TestBlockReadErrorIsNotAbsence(t *testing.T) {
	c := newSnapshotChain(t)
	c.grow(9)
	c.s.db = badIndex{c.s.db, entries.id}
	if has, err := c.s.hasShard(c.at[3], 0); has || !errors.Is(err, errRead) {
		t.Errorf("%v, %v", has, err)
	}
}

// TestCanonicalReadErrorIsNotOrder: if the canonical block cannot be read, InstallShard and
// SnapshotState return the error of the read, and not ErrOrder, which would blame the caller.
func TestCanonicalReadErrorIsNotOrder(t *testing.T) {
	c := newSnapshotChain(t)
	c.grow(9)
	const late = primitives.ShardID(5)
	_, err := c.s.Stage(late, c.at[3], AccountRange{Lo: "z"})
	c.must(err)
	good := c.s.db
	c.s.db = badIndex{good, blockHeight.id}
	for name, err := range map[string]error{
		"InstallShard":  c.s.InstallShard(late, nil),
		"SnapshotState": c.s.SnapshotState(StateSnapshot{At: c.at[3]}, slices.Values([]FrontierNode(nil))),
	} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(err, errRead) || errors.Is(err, ErrOrder) {
				t.Errorf("got %v", err)
			}
		})
	}
	c.s.db = good
	c.must(c.s.InstallShard(late, nil))
}
