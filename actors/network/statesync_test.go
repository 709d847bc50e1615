package network

import (
	"maps"
	"testing"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestSyncBlockWithTooManyBlocksWaitsForNextEpoch: if a shard had no chunk for more blocks than state
// sync fetches, or for longer than headers are known, state sync warns once and requests no blocks.
// With as many blocks as it fetches, it requests all of them.
func TestSyncBlockWithTooManyBlocksWaitsForNextEpoch(t *testing.T) {
	hash := func(h primitives.Height) primitives.Hash { return primitives.Hash{byte(h), byte(h >> 8), 1} }
	const last = 3000 // height of the sync point; the shard's last chunk but one is at height least
	for name, c := range map[string]struct {
		first, least primitives.Height // height of the first known header
		want         int               // blocks that are requested
	}{
		"most blocks":      {1, last - maxWholeBlocks + 1, maxWholeBlocks - 2},
		"one block more":   {1, last - maxWholeBlocks, 0},
		"unknown headers":  {last - 10, last - 11, 0},
		"no known headers": {last + 1, last - 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			log, hook := test.NewNullLogger()
			before, point := blank(), blank()
			before.Body.Chunks = []*primitives.ChunkHeader{{HeightIncluded: c.least}}
			point.Body.Chunks = []*primitives.ChunkHeader{{HeightIncluded: last}}
			point.Body.Chunks[0].PrevBlockHash = hash(last - 1)
			x := &bootstrap{wanted: map[primitives.Hash]int64{},
				blocks: map[primitives.Hash]*primitives.Block{hash(last): point, hash(last - 1): before},
				at: &engine.SyncBlock{Before: storage.BlockRef{Height: last - 1, Hash: hash(last - 1)},
					Point: storage.BlockRef{Height: last, Hash: hash(last)}}}
			for h := c.first; h <= last; h++ {
				x.at.Path = append(x.at.Path, storage.BlockRef{Height: h, Hash: hash(h)})
			}
			a := &Actor{o: Options{Log: log}, bootstrap: x}
			for range 3 {
				a.wantBlocks(x, 0)
			}
			warnings := 1
			if c.want > 0 {
				warnings = 0
			}
			if len(x.wanted) != c.want || len(hook.AllEntries()) != warnings || x.machine != nil || a.bootstrap != x {
				t.Errorf("%d blocks requested, %d warnings, state requested: %v, abandoned: %v; want %d blocks, %d warnings",
					len(x.wanted), len(hook.AllEntries()), x.machine != nil, a.bootstrap != x, c.want, warnings)
			}
		})
	}
}

// TestBlocksBelowMissedChunkAreRequested: if the sync point lacks a chunk of a shard, state sync
// requests the parent of the shard's last chunk, and then needs all blocks after the chunk before
// that one.
func TestBlocksBelowMissedChunkAreRequested(t *testing.T) {
	block := func(included ...primitives.Height) *primitives.Block {
		b := new(primitives.Block)
		for _, h := range included {
			b.Body.Chunks = append(b.Body.Chunks, &primitives.ChunkHeader{HeightIncluded: h})
		}
		return b
	}
	b7, before, point := block(7, 5), block(9, 8), block(10, 8) // the second shard has no chunk in blocks 9 and 10
	seven, nine, ten := primitives.Hash{7}, primitives.Hash{9}, primitives.Hash{10}
	point.Body.Chunks[0].PrevBlockHash, point.Body.Chunks[1].PrevBlockHash = nine, seven
	x := &bootstrap{blocks: map[primitives.Hash]*primitives.Block{}, wanted: map[primitives.Hash]int64{}, at: &engine.SyncBlock{
		Point: storage.BlockRef{Height: 10, Hash: ten}, Before: storage.BlockRef{Height: 9, Hash: nine},
	}}
	if _, known := x.oldestNeeded(); known || len(x.wanted) > 0 {
		t.Errorf("known %v before the sync point has arrived, requested %v", known, x.wanted)
	}
	x.blocks[ten], x.blocks[nine] = point, before
	if _, known := x.oldestNeeded(); known || len(x.wanted) != 1 || !x.asksFor(seven) {
		t.Errorf("known %v, requested %v, want only block 7", known, x.wanted)
	}
	x.wanted[seven] = 1234
	x.oldestNeeded()
	if x.wanted[seven] != 1234 {
		t.Error("a request in flight is forgotten")
	}
	delete(x.wanted, seven)
	x.blocks[seven] = b7
	if least, known := x.oldestNeeded(); !known || least != 5 || len(x.wanted) > 0 {
		t.Errorf("blocks from %d on, known %v, requested %v, want from 5 on", least, known, x.wanted)
	}
}

// TestStagesOfStateSyncHaveNearcoresNumbers: a shard is at stage 0 until its state header is
// verified, then at stage 1, and at stage 4 when the states of all shards are put together. Shards
// whose states are not fetched have no stage.
func TestStagesOfStateSyncHaveNearcoresNumbers(t *testing.T) {
	layout, err := primitives.MultiShardLayout(3)
	if err != nil {
		t.Fatal(err)
	}
	ids := layout.ShardIDs()
	x := &bootstrap{at: &engine.SyncBlock{Layout: layout, Wanted: []bool{true, false, true}},
		headers: map[primitives.ShardID]*primitives.StateHeader{}}
	check := func(first, last int) {
		t.Helper()
		if got, want := *x.stages(), (map[primitives.ShardID]int{ids[0]: first, ids[2]: last}); !maps.Equal(got, want) {
			t.Errorf("stages %v, want %v", got, want)
		}
	}
	check(0, 0)
	x.headers[ids[2]] = new(primitives.StateHeader)
	check(0, 1)
	x.finished = true
	check(4, 4)
}

// TestEndOfStateSyncIsLogged: while the stored parts become a chain and the index is compacted, the log
// has a line a minute, and nothing else happens.
func TestEndOfStateSyncIsLogged(t *testing.T) {
	log, logged := test.NewNullLogger()
	at := &engine.SyncBlock{Before: storage.BlockRef{Height: 9}}
	x := &bootstrap{at: at, busy: true, finished: true, endedAt: 1000, logAt: 1000 + endPeriod}
	a := &Actor{o: Options{Log: log, StateSyncs: noStateSyncs{}}, bootstrap: x, headersApart: true}
	lines := []int{0, 0, 1, 1, 2}
	for i, now := range []int64{1000, 60_999, 61_000, 120_999, 121_000} {
		if a.advanceBootstrap(now, nil); len(logged.AllEntries()) != lines[i] {
			t.Errorf("%d lines at %d ms, want %d", len(logged.AllEntries()), now, lines[i])
		}
	}
	if last := logged.LastEntry(); last == nil || last.Data["seconds"] != int64(120) || a.bootstrap != x {
		t.Errorf("last line %v", last)
	}
}

type noStateSyncs struct{ StateSyncs }
