package epoch

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// kickoutTree returns a tree on one shard whose genesis has protocol version 87.
func kickoutTree(t *testing.T, length uint64, thresholds *earlykickout.Thresholds,
	validators ...primitives.ValidatorStake) *tree {
	t.Helper()
	p := testParams("test-chain-tree", primitives.SingleShardLayout())
	p.ProtocolVersion, p.Epoch.EpochLength, p.Validators, p.TransactionValidityPeriod = 87, length, validators, 2
	p.EarlyKickout = thresholds
	configs, err := NewConfigs(p, nil, 87)
	if err != nil {
		t.Fatal(err)
	}
	r := &tree{t: t, params: p, configs: configs, store: newMemoryStore()}
	r.restart()
	genesis := &node{info: &BlockInfo{Hash: primitives.HashBytes([]byte("genesis")), ChunkMask: []bool{true},
		LatestProtocolVersion: 87, TotalSupply: primitives.NEAR(1000)}}
	r.nodes = []*node{genesis}
	r.record(genesis)
	return r
}

// without adds a block. If the shard's chunk producer is down, the chunk is missing.
func (r *tree) without(parent *node, skip primitives.Height, down ValidatorID) *node {
	r.t.Helper()
	producer, err := r.manager.ChunkProducerFromPrev(parent.info.Hash, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	id, _ := r.epochInfo(parent).ValidatorID(producer.AccountID)
	n, _ := r.grow(parent, skip, func(b *BlockInfo) {
		b.LatestProtocolVersion, b.ChunkMask, b.ChunkEndorsements = 87, []bool{id != down}, [][]byte{nil}
	})
	return n
}

// info returns the stored BlockInfo of a block.
func (r *tree) info(n *node) *BlockInfo {
	r.t.Helper()
	b, err := r.store.BlockInfo(n.info.Hash)
	if err != nil || b == nil {
		r.t.Fatalf("height %d: BlockInfo %v, %v", n.info.Height, b, err)
	}
	return b
}

// epochInfo returns the EpochInfo of the epoch of a block's children.
func (r *tree) epochInfo(parent *node) *EpochInfo {
	r.t.Helper()
	id, err := r.manager.EpochIDFromPrev(parent.info.Hash)
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := r.manager.EpochInfo(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return info
}

func (r *tree) list(n *node) []ValidatorID {
	r.t.Helper()
	lists, err := r.manager.ChunkProducerBlacklist(n.info.Hash)
	if err != nil {
		r.t.Fatal(err)
	}
	if lists == nil {
		return nil
	}
	return lists[0]
}

// TestSampleExcludesListedProducers repeats the tests in near-primitives 0.38.0
// src/epoch_info.rs:809 for the versions with samplers.
func TestSampleExcludesListedProducers(t *testing.T) {
	t.Parallel()
	infoOf := func(version byte, stake ...uint64) *EpochInfo {
		e := &EpochInfo{RngSeed: primitives.Hash(bytes.Repeat([]byte{7}, 32)), ProtocolVersion: 87,
			ShardLayout: primitives.SingleShardLayout(), Validators: stakes("test", stake...)}
		for id := range e.Validators {
			e.BlockProducers = append(e.BlockProducers, ValidatorID(id))
		}
		e.ChunkProducers = [][]ValidatorID{e.BlockProducers}
		if err := e.initSamplers(); err != nil {
			t.Fatal(err)
		}
		e.Version = version
		return e
	}
	without := func(e *EpochInfo, listed ...ValidatorID) []shardBlacklist {
		s, err := earlykickout.NewSampler(e.ChunkProducers[0],
			func(id ValidatorID) primitives.Balance { return e.Validators[id].Stake }, listed)
		if err != nil {
			t.Fatal(err)
		}
		return []shardBlacklist{{listed: listed, sampler: s}}
	}
	layout := primitives.SingleShardLayout()
	t.Run("sample_chunk_producer_excluding_variants", func(t *testing.T) {
		for _, version := range []byte{EpochInfoV4, EpochInfoV5} {
			e := infoOf(version, 1_000_000, 3_000_000)
			canonical, err := e.SampleChunkProducer(layout, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.sampleWithout(without(e, canonical), layout, 0, 1)
			if err != nil || got != 1-canonical {
				t.Errorf("version %d without %d: %d, %v", version, canonical, got, err)
			}
		}
	})
	t.Run("sample_chunk_producer_excluding_empty_delegates", func(t *testing.T) {
		e := infoOf(EpochInfoV5, 1_000_000, 2_000_000, 3_000_000)
		for h := range primitives.Height(10) {
			want, err := e.SampleChunkProducer(layout, 0, h)
			if err != nil {
				t.Fatal(err)
			}
			for _, lists := range [][]shardBlacklist{nil, {{}}} {
				if got, err := e.sampleWithout(lists, layout, 0, h); err != nil || got != want {
					t.Errorf("height %d: %d, %v, want %d", h, got, err, want)
				}
			}
		}
	})
	t.Run("sample_chunk_producer_excluding_deterministic", func(t *testing.T) {
		e := infoOf(EpochInfoV5, 1_000_000, 2_000_000, 5_000_000)
		rest, err := primitives.NewStakeWeightedIndex([]primitives.Balance{primitives.Yocto(2_000_000), primitives.Yocto(5_000_000)})
		if err != nil {
			t.Fatal(err)
		}
		for h := range primitives.Height(50) {
			want := ValidatorID(1 + rest.Sample(e.chunkProducerSeed(h, 0)))
			if got, err := e.sampleWithout(without(e, 0), layout, 0, h); err != nil || got != want {
				t.Errorf("height %d: %d, %v, want %d", h, got, err, want)
			}
		}
	})
}

// TestDrawsAreThoseOfNearPrimitives compares 8,000 draws with
// EpochInfo::sample_chunk_producer_excluding of near-primitives 0.38.0 (internal/testkit/oracle/answers).
func TestDrawsAreThoseOfNearPrimitives(t *testing.T) {
	t.Parallel()
	type vector struct {
		Info  string
		Draws [][4]json.RawMessage
	}
	draws, none, moved := 0, 0, 0
	for v := range testutil.Vectors[vector](t, "testdata/draws.jsonl.gz") {
		raw, err := hex.DecodeString(v.Info)
		if err != nil {
			t.Fatal(err)
		}
		e := new(EpochInfo)
		if err := decode(raw, e); err != nil {
			t.Fatal(err)
		}
		for _, d := range v.Draws {
			var shard primitives.ShardID
			var height primitives.Height
			var excluded []ValidatorID
			var want *ValidatorID
			for i, into := range []any{&shard, &height, &excluded, &want} {
				if err := json.Unmarshal(d[i], into); err != nil {
					t.Fatal(err)
				}
			}
			index, err := e.ShardLayout.Index(shard)
			if err != nil {
				t.Fatal(err)
			}
			draws++
			canonical, err := e.SampleChunkProducer(e.ShardLayout, index, height)
			if err != nil {
				t.Fatal(err)
			}
			lists := make([]shardBlacklist, e.ShardLayout.NumShards())
			if len(excluded) > 0 {
				stake := func(id ValidatorID) primitives.Balance { return e.Validators[id].Stake }
				lists[index].listed = excluded
				lists[index].sampler, err = earlykickout.NewSampler(e.ChunkProducers[index], stake, excluded)
			}
			if want == nil {
				if none++; !errors.Is(err, earlykickout.ErrAllListed) {
					t.Errorf("all %v excluded: %v", e.ChunkProducers[index], err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.sampleWithout(lists, e.ShardLayout, index, height)
			if err != nil || got != *want {
				t.Errorf("shard %d, height %d, without %v of %v: %d, %v, want %d", shard, height, excluded, e.ChunkProducers[index], got, err, *want)
			}
			if got != canonical {
				moved++
			}
		}
	}
	if draws < 8000 || none < 500 || moved < 1000 {
		t.Errorf("%d draws, %d of none, %d other than the canonical one", draws, none, moved)
	}
}

// TestProducerIsListedAfterGrace: a producer that is down is listed from the anchor on whose last
// final block is 1000 blocks after the start of the epoch. Its counters stop there. The list ends
// with the epoch (nearcore get_chunk_producer_blacklist_respects_epoch_grace,
// early_kickout_attribution_does_not_flap, get_chunk_producer_blacklist_resets_on_epoch_boundary).
func TestProducerIsListedAfterGrace(t *testing.T) {
	t.Parallel()
	r := kickoutTree(t, 1200, nil, stakes("test", 1_000_000, 1_000_000)...)
	at := r.nodes[0]
	counters := func() Stats {
		t.Helper()
		v, err := r.manager.ValidatorInfoOfBlock(at.info.Hash)
		if err != nil {
			t.Fatal(err)
		}
		return v.CurrentValidators[0].Chunks
	}
	var frozen Stats
	replaced := 0
	for at.info.Height < 1190 {
		at = r.without(at, 0, 0)
		h := at.info.Height
		if got := r.list(at); (len(got) == 1) != (h >= 1003) || len(got) == 1 && got[0] != 0 {
			t.Fatalf("height %d: listed %v", h, got)
		}
		row := r.info(at).ChunkProducers
		canonical, err := r.epochInfo(at).SampleChunkProducer(primitives.SingleShardLayout(), 0, h+2)
		if err != nil || len(row) != 1 {
			t.Fatalf("height %d: row %v, %v", h, row, err)
		}
		if h < 1003 && row[0] != canonical || h >= 1003 && row[0] != 1 {
			t.Fatalf("height %d: row %d, canonical %d", h, row[0], canonical)
		}
		if row[0] != canonical {
			replaced++
		}
		switch h {
		case 1005: // the anchors of its last two chunks were before the list
			frozen = counters()
		case 1190:
			if now := counters(); now != frozen || frozen.Produced != 0 || frozen.Expected < 100 {
				t.Errorf("counters of the listed producer %v, at the end %v", frozen, now)
			}
		}
	}
	if replaced < 50 {
		t.Errorf("%d rows replaced", replaced)
	}
	if got := r.manager.EarlyKickoutStats(); len(got) != 1 || got[0] != (EarlyKickoutStats{Reassigned: uint64(replaced), Candidates: 1}) {
		t.Errorf("counted %+v, %d rows were replaced", got, replaced)
	}
	var last *node
	for at.info.Height < 1210 {
		before := r.epochInfo(at)
		next := r.without(at, 0, 0)
		if r.epochInfo(at) != before || r.info(next).EpochID != r.info(at).EpochID {
			last = at
			if len(r.list(last)) == 0 || len(r.list(next)) != 0 {
				t.Errorf("the last block of the epoch lists %v, the first of the next %v", r.list(last), r.list(next))
			}
		}
		at = next
	}
	if last == nil {
		t.Fatal("the epoch did not end")
	}
	if got := r.manager.EarlyKickoutStats(); got[0].Candidates != 0 || got[0].Kept != 0 || got[0].Reassigned < uint64(replaced) {
		t.Errorf("in the next epoch counted %+v", got)
	}
}

// TestOneProducerIsKeptAndCounted: if all producers are candidates, each row is counted in Kept.
// This includes a sole producer, which is never listed.
func TestOneProducerIsKeptAndCounted(t *testing.T) {
	t.Parallel()
	short := &earlykickout.Thresholds{GraceBlocks: 20, MinMissed: 5, MinProducedPercent: 80}
	for n := 1; n <= 2; n++ {
		r := kickoutTree(t, 10_000, short, stakes("test", slices.Repeat([]uint64{1_000_000}, n)...)...)
		kept, at := uint64(0), r.nodes[0]
		for range 60 {
			at = r.child(at, 0, func(b *BlockInfo) { b.ChunkMask, b.ChunkEndorsements = []bool{false}, [][]byte{nil} })
			r.record(at)
			got := r.manager.EarlyKickoutStats()
			if len(got) != 1 || got[0].Candidates != 0 && got[0].Candidates != n {
				t.Fatalf("%d producers, height %d: counted %+v", n, at.info.Height, got)
			}
			if got[0].Candidates == n {
				kept++
			}
			if got[0].Kept != kept || (len(r.list(at)) > 0) != (kept > 0 && n > 1) {
				t.Fatalf("%d producers, height %d: counted %+v, want %d rows of a kept producer; listed %v", n, at.info.Height, got, kept, r.list(at))
			}
		}
		if kept == 0 {
			t.Errorf("%d producers: never candidates", n)
		}
	}
}

// TestEpochStartFollowsBranch: two blocks on the genesis at heights 1 and 3 begin the same epoch.
// The blacklists on the branch of the lower block do not depend on which of the two was recorded
// first (nearcore chain/epoch-manager/src/tests/epoch_start_fork_determinism.rs).
func TestEpochStartFollowsBranch(t *testing.T) {
	t.Parallel()
	short := &earlykickout.Thresholds{GraceBlocks: 40, MinMissed: 10, MinProducedPercent: 80}
	run := func(highFirst bool) (out []string) {
		r := kickoutTree(t, 10_000, short, stakes("test", 1_000_000, 1_000_000)...)
		genesis := r.nodes[0]
		edit := func(b *BlockInfo) {
			b.Hash = primitives.HashBytes(fmt.Append(nil, "sibling", b.Height))
			b.ChunkMask, b.ChunkEndorsements = []bool{true}, [][]byte{nil}
		}
		low, high := r.child(genesis, 0, edit), r.child(genesis, 2, edit)
		order := []*node{low, high}
		if highFirst {
			slices.Reverse(order)
		}
		for _, n := range order {
			r.record(n)
		}
		for at := low; at.info.Height < 60; {
			at = r.without(at, 0, 0)
			out = append(out, fmt.Sprint(at.info.Height, r.list(at), r.info(at).ChunkProducers))
		}
		return out
	}
	a, b := run(false), run(true)
	if !slices.Equal(a, b) {
		t.Errorf("lists and rows by the order of the siblings:\n%v\n%v", a, b)
	}
	if !slices.ContainsFunc(a, func(s string) bool { return bytes.HasPrefix([]byte(s), []byte("43 [0]")) }) {
		t.Errorf("nothing is listed at the end of the grace: %v", a)
	}
}

// TestForksHaveSeparateBlacklists: two branches in which different producers fail have different
// lists, even after the other branch has become final (nearcore
// get_chunk_producer_blacklist_isolates_abandoned_fork).
func TestForksHaveSeparateBlacklists(t *testing.T) {
	t.Parallel()
	short := &earlykickout.Thresholds{GraceBlocks: 20, MinMissed: 10, MinProducedPercent: 80}
	r := kickoutTree(t, 10_000, short, stakes("test", 1_000_000, 1_000_000, 1_000_000)...)
	grow := func(at *node, down ValidatorID, until ...ValidatorID) *node {
		t.Helper()
		for n := 0; !slices.Equal(r.list(at), until); n++ {
			if n > 300 {
				t.Fatalf("height %d: listed %v, want %v", at.info.Height, r.list(at), until)
			}
			at = r.without(at, 0, down)
		}
		return at
	}
	fork := grow(r.nodes[0], 0, 0)
	left := fork
	for range 5 {
		left = r.without(left, 0, 0)
	}
	right := grow(fork, 1, 0, 1)
	if got := r.list(left); !slices.Equal(got, []ValidatorID{0}) {
		t.Errorf("the left branch lists %v after the right one grew", got)
	}
	r.restart()
	if got := r.list(left); !slices.Equal(got, []ValidatorID{0}) {
		t.Errorf("the left branch lists %v after a restart", got)
	}
	if got := r.list(right); !slices.Equal(got, []ValidatorID{0, 1}) {
		t.Errorf("the right branch lists %v after a restart", got)
	}
}

// TestForecastAfterRestartCountsOnce: the statistics that a forecast computes after a restart are
// continued by the next block, which has the same list and chunk producers as without the restart.
func TestForecastAfterRestartCountsOnce(t *testing.T) {
	t.Parallel()
	short := &earlykickout.Thresholds{GraceBlocks: 20, MinMissed: 10, MinProducedPercent: 80}
	r := kickoutTree(t, 10_000, short, stakes("test", 1_000_000, 1_000_000, 1_000_000)...)
	at := r.nodes[0]
	for at.info.Height < 80 {
		at = r.without(at, 0, 1)
	}
	want := r.list(at)
	r.restart()
	id := r.info(at).EpochID
	if _, err := r.manager.ForecastChunks(at.info.Hash, id); err != nil {
		t.Fatal(err)
	}
	if a := r.manager.aggregator; a == nil || a.LastBlock != at.lastFinal.info.Hash {
		t.Fatalf("the statistics after the forecast are %+v, want those up to the last final block", a)
	}
	if got := r.list(at); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("listed %v after the restart, %v before", got, want)
	}
	next := r.without(at, 0, 1)
	rows, list := r.info(next).ChunkProducers, r.list(next)
	r.restart()
	delete(r.store.blocks, next.info.Hash)
	r.record(next)
	if got := r.info(next).ChunkProducers; !slices.Equal(got, rows) || !slices.Equal(r.list(next), list) {
		t.Errorf("rows %v and list %v of the next block, want %v and %v", got, r.list(next), rows, list)
	}
}

// TestListIsEmptyAfterEpochSync: after an epoch sync, the last final block of the first blocks may
// be an unknown one of the epoch before. Then the list is empty. If the unknown block is in the
// same epoch, this is an error and nothing is recorded (nearcore
// seeder_tolerates_post_epoch_sync_aggregator_anchor,
// seeder_propagates_missing_block_info_on_same_epoch_basis,
// record_block_info_failure_does_not_poison_block_info_cache).
func TestListIsEmptyAfterEpochSync(t *testing.T) {
	t.Parallel()
	r := kickoutTree(t, 10, nil, stakes("test", 1_000_000, 1_000_000)...)
	old, current := primitives.Hash{1}, primitives.Hash{2}
	info := *r.manager.genesis
	for _, id := range []primitives.EpochID{old, current, {3}} {
		r.store.epochs[id] = info.AppendBorsh(nil)
	}
	block := func(h byte, height, final primitives.Height, prev, first byte, id primitives.EpochID) *BlockInfo {
		return &BlockInfo{Hash: primitives.Hash{h}, Height: height, LastFinalizedHeight: final, LastFinalBlockHash: primitives.Hash{97},
			PrevHash: primitives.Hash{prev}, EpochFirstBlock: primitives.Hash{first}, EpochID: id, ChunkMask: []bool{true},
			TotalSupply: primitives.NEAR(1), Timestamp: uint64(height)}
	}
	first, secondLast, last := block(90, 90, 88, 2, 90, old), block(98, 98, 96, 97, 90, old), block(99, 99, 97, 98, 90, old)
	begin := block(100, 100, 97, 99, 100, current)
	if err := begin.SetFirstChunkProducers(&info); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*BlockInfo{first, secondLast, last, begin} {
		r.store.blocks[b.Hash] = StoredBlockInfo{b}.AppendBorsh(nil)
	}
	r.manager.StartAt(100)
	second := block(101, 101, 97, 100, 0, primitives.EpochID{})
	c, err := r.manager.RecordBlockInfo(second, primitives.Hash{})
	if err != nil {
		t.Fatalf("a block whose last final block is of the epoch before: %v", err)
	}
	for _, b := range []*BlockInfo{begin, c.BlockInfo} {
		want, err := info.SampleChunkProducer(primitives.SingleShardLayout(), 0, b.Height+2)
		if err != nil || !slices.Equal(b.ChunkProducers, []ValidatorID{want}) {
			t.Errorf("height %d: row %v, want %d, %v", b.Height, b.ChunkProducers, want, err)
		}
	}
	for range 2 {
		sibling := block(77, 100, 97, 98, 0, primitives.EpochID{})
		sibling.Height = 99
		if _, err := r.manager.RecordBlockInfo(sibling, primitives.Hash{}); !errors.Is(err, ErrMissingBlock) {
			t.Errorf("a block whose last final block is unknown and of its epoch: %v", err)
		}
		if _, err := r.manager.BlockInfo(sibling.Hash); !errors.Is(err, ErrMissingBlock) {
			t.Errorf("after the error the block is known: %v", err)
		}
	}
}

// TestStoredBlockInfoAppendsProducers: the stored form of a BlockInfo without ChunkProducers equals
// its hashed encoding; otherwise ChunkProducers follow.
func TestStoredBlockInfoAppendsProducers(t *testing.T) {
	t.Parallel()
	b := sampleBlockInfo()
	plain := b.AppendBorsh(nil)
	if got := (StoredBlockInfo{b}).AppendBorsh(nil); !bytes.Equal(got, plain) {
		t.Errorf("without rows: %x, want %x", got, plain)
	}
	b.ChunkProducers = []ValidatorID{3, 0}
	if got := b.AppendBorsh(nil); !bytes.Equal(got, plain) {
		t.Errorf("rows are hashed: %x", got)
	}
	raw := StoredBlockInfo{b}.AppendBorsh(nil)
	for _, c := range []struct {
		in   []byte
		want []ValidatorID
		ok   bool
	}{{plain, nil, true}, {raw, b.ChunkProducers, true}, {append(plain, 0, 0, 0, 0), nil, false}, {raw[:len(raw)-1], nil, false},
		{append(bytes.Clone(raw), 0), nil, false}} {
		var got StoredBlockInfo
		err := borsh.Unmarshal(c.in, &got)
		if (err == nil) != c.ok || c.ok && !slices.Equal(got.ChunkProducers, c.want) {
			t.Errorf("%d bytes: rows %v, %v", len(c.in), got.ChunkProducers, err)
		}
	}
}

// TestChunkProducersAreStoredFrom87: blocks have ChunkProducers from the first epoch of version 87
// on.
func TestChunkProducersAreStoredFrom87(t *testing.T) {
	t.Parallel()
	r := newTree(t, 10, stakes("test", 900, 700, 500)...)
	at := r.nodes[0]
	for range 45 {
		at, _ = r.grow(at, 0, func(b *BlockInfo) { b.LatestProtocolVersion = 87 })
		b := r.info(at)
		pv, err := r.manager.ProtocolVersion(b.EpochID)
		if err != nil || (len(b.ChunkProducers) == 2) != (pv >= 87) {
			t.Errorf("height %d: %d rows in version %d, %v", b.Height, len(b.ChunkProducers), pv, err)
		}
	}
	if pv := r.epochInfo(at).ProtocolVersion; pv != 87 {
		t.Errorf("the upgrade has not come: version %d", pv)
	}
}
