package epoch

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// tree builds a chain with forks, following the rules of finality, and records its blocks.
type tree struct {
	t       *testing.T
	params  *GenesisParams
	configs *Configs
	manager *Manager
	store   *memoryStore
	nodes   []*node // index 0 is the genesis
}

type node struct {
	parent    *node
	info      *BlockInfo // before recording, so without the epoch fields
	dsFinal   *node      // last_ds_final_block
	lastFinal *node
	random    primitives.Hash
}

func newTree(t *testing.T, length uint64, validators ...primitives.ValidatorStake) *tree {
	t.Helper()
	layout := multiShard(t, 2)
	p := testParams("test-chain-tree", layout)
	p.ProtocolVersion, p.Epoch.EpochLength, p.Validators, p.TransactionValidityPeriod = 86, length, validators, 2
	configs, err := NewConfigs(p, nil, 86)
	if err != nil {
		t.Fatal(err)
	}
	r := &tree{t: t, params: p, configs: configs, store: newMemoryStore()}
	r.restart()
	genesis := &node{info: &BlockInfo{
		Hash: primitives.HashBytes([]byte("genesis")), ChunkMask: []bool{true, true}, LatestProtocolVersion: 86, TotalSupply: primitives.NEAR(1000),
	}}
	r.nodes = []*node{genesis}
	r.record(genesis)
	return r
}

func (r *tree) restart() {
	m, err := NewManager(r.params, r.configs, r.store)
	if err != nil {
		r.t.Fatal(err)
	}
	r.manager = m
}

func (r *tree) record(n *node) Changes {
	r.t.Helper()
	info := *n.info
	c, err := r.manager.RecordBlockInfo(&info, n.random)
	if err != nil {
		r.t.Fatalf("height %d: %v", n.info.Height, err)
	}
	r.store.apply(c)
	return c
}

// grow adds a block on parent, after skipping skip heights, and records it.
func (r *tree) grow(parent *node, skip primitives.Height, edit func(*BlockInfo)) (*node, Changes) {
	r.t.Helper()
	n := r.child(parent, skip, edit)
	return n, r.record(n)
}

func (r *tree) child(parent *node, skip primitives.Height, edit func(*BlockInfo)) *node {
	n := &node{parent: parent, dsFinal: parent.dsFinal, lastFinal: parent.lastFinal}
	if skip == 0 {
		n.dsFinal = parent
		if parent.parent != nil && parent.dsFinal == parent.parent {
			n.lastFinal = parent.parent
		}
	}
	n.info = &BlockInfo{
		Hash: primitives.HashBytes([]byte{byte(len(r.nodes)), byte(len(r.nodes) >> 8)}), Height: parent.info.Height + 1 + skip,
		PrevHash: parent.info.Hash, LatestProtocolVersion: 86, TotalSupply: primitives.NEAR(1000),
		Timestamp: parent.info.Timestamp + nanosPerSecond*uint64(1+skip), ChunkMask: []bool{false, false}, ChunkEndorsements: [][]byte{nil, nil},
	}
	if n.lastFinal != nil {
		n.info.LastFinalBlockHash, n.info.LastFinalizedHeight = n.lastFinal.info.Hash, n.lastFinal.info.Height
	}
	n.random = primitives.HashBytes(n.info.Hash[:])
	if edit != nil {
		edit(n.info)
	}
	r.nodes = append(r.nodes, n)
	return n
}

// path returns the blocks from the genesis to n.
func (n *node) path() []*node {
	var out []*node
	for ; n != nil; n = n.parent {
		out = append(out, n)
	}
	slices.Reverse(out)
	return out
}

// TestChangesDoNotDependOnOtherForks: nor do the Changes of a block depend on the order in which
// forks grow, or on restarts.
func TestChangesDoNotDependOnOtherForks(t *testing.T) {
	t.Parallel()
	vs := stakes("test", 900, 700, 500, 300)
	r := newTree(t, 8, vs...)
	rng := primitives.NewChaCha20Rng(primitives.Hash{7})
	got := map[primitives.Hash][]byte{}
	tips := []*node{r.nodes[0]}
	for i := range 400 {
		at := rng.UniformUint32(uint32(len(tips)))
		parent := tips[at]
		if parent.parent != nil && parent.parent.parent != nil && rng.UniformUint32(20) == 0 { // a new fork
			parent, at = parent.parent.parent, uint32(len(tips))
			tips = append(tips, nil)
		}
		skip := primitives.Height(0)
		if rng.UniformUint32(4) == 0 {
			skip = primitives.Height(rng.UniformUint32(3))
		}
		n, c := r.grow(parent, skip, func(b *BlockInfo) {
			for s := range b.ChunkMask {
				if b.ChunkMask[s] = rng.UniformUint32(8) != 0; b.ChunkMask[s] {
					b.ChunkEndorsements[s] = []byte{byte(rng.UniformUint32(16)) | 1}
				}
			}
			if rng.UniformUint32(10) == 0 {
				p := vs[rng.UniformUint32(4)]
				p.Stake = primitives.Yocto(uint64(rng.UniformUint32(1000)))
				b.Proposals = []primitives.ValidatorStake{p}
			}
		})
		tips[at] = n
		got[n.info.Hash] = changesBytes(c)
		if len(tips) > 4 {
			tips = slices.Delete(tips, 0, 1)
		}
		if i%61 == 60 {
			r.restart()
		}
	}
	ends := 0
	for _, tip := range tips {
		alone := &tree{t: t, params: r.params, configs: r.configs, store: newMemoryStore()}
		alone.restart()
		for _, n := range tip.path() {
			c := alone.record(n)
			if n.parent == nil {
				continue
			}
			if want := changesBytes(c); !bytes.Equal(got[n.info.Hash], want) {
				t.Fatalf("height %d: a fork alone gives other changes", n.info.Height)
			}
			if c.NextNextEpoch != nil {
				ends++
			}
		}
		checkEpochIDs(t, alone.manager, tip)
	}
	if ends < 20 {
		t.Errorf("only %d epochs ended", ends)
	}
}

func changesBytes(c Changes) []byte {
	b := StoredBlockInfo{c.BlockInfo}.AppendBorsh(nil)
	if c.NextNextEpoch != nil {
		b = c.Summary.AppendBorsh(c.NextNextEpoch.AppendBorsh(b))
	}
	return b
}

// checkEpochIDs checks that the id of an epoch is the hash of the last block of the epoch two
// before, and that the blocks of an epoch are consecutive.
func checkEpochIDs(t *testing.T, m *Manager, tip *node) {
	t.Helper()
	path := tip.path()
	lasts := []primitives.EpochID{{}, path[0].info.Hash} // ids in order
	current := 0
	for i, n := range path[1:] {
		id, err := m.EpochID(n.info.Hash)
		if err != nil {
			t.Fatal(err)
		}
		next, err := m.NextEpochIDFromPrev(n.info.PrevHash)
		if err != nil {
			t.Fatal(err)
		}
		prev, err := m.PrevEpochIDFromPrev(n.info.PrevHash)
		if err != nil {
			t.Fatal(err)
		}
		if id != lasts[current] || next != lasts[current+1] || prev != lasts[max(current, 1)-1] {
			t.Fatalf("block %d: epochs %v, %v, %v, want %v from %d", i+1, prev, id, next, lasts, current-1)
		}
		if last, _ := m.IsNextBlockEpochStart(n.info.Hash); last != isRecorded(m, n.info.Hash) {
			t.Fatalf("block %d: last = %v, but its epoch info says otherwise", i+1, last)
		} else if last {
			lasts = append(lasts, n.info.Hash)
			current++
		}
	}
}

// TestSplitsAreProposedAtEndOfEpoch repeats nearcore's chain/epoch-manager/src/tests/mod.rs:3611:
// in epochs of 5 blocks, splits are proposed at the heights 4 and 5.
func TestSplitsAreProposedAtEndOfEpoch(t *testing.T) {
	t.Parallel()
	r := newTree(t, 5, stakes("test", 1_000_000)...)
	n := r.nodes[0]
	for h := primitives.Height(1); h <= 7; h++ {
		got, err := r.manager.IsNextBlockPossiblyLastInEpoch(h, n.info.Hash)
		if want := h == 4 || h == 5; err != nil || got != want {
			t.Errorf("height %d: %v, %v, want %v", h, got, err, want)
		}
		child := r.child(n, 0, nil)
		last, err := r.manager.IsProducedBlockLastInEpoch(h, n.info.Hash, child.info.LastFinalBlockHash)
		if want := h == 5; err != nil || last != want {
			t.Errorf("height %d would be last: %v, %v, want %v", h, last, err, want)
		}
		r.record(child)
		if last, err := r.manager.IsNextBlockEpochStart(child.info.Hash); err != nil || last != (h == 5) {
			t.Errorf("height %d is last: %v, %v", h, last, err)
		}
		n = child
	}
	if start, err := r.manager.EpochStartHeight(n.info.Hash); err != nil || start != 6 {
		t.Errorf("epoch start %d, %v, want 6", start, err)
	}
}

// TestOverdueEpochAddsNextApprovers: while an epoch is overdue because finality is late, the next
// epoch's producers also are approvers.
func TestOverdueEpochAddsNextApprovers(t *testing.T) {
	t.Parallel()
	r := newTree(t, 5, stakes("test", 1000, 500)...)
	n := r.nodes[0]
	// A proposal in the first epoch makes a new producer in the third.
	joins := func(b *BlockInfo) {
		b.Proposals = []primitives.ValidatorStake{{AccountID: "new", PublicKey: primitives.ZeroED25519Key, Stake: primitives.Yocto(2000)}}
	}
	count := func(want int) {
		t.Helper()
		got, err := r.manager.BlockApprovers(n.info.Hash)
		if err != nil || len(got) != want {
			t.Errorf("approvers after height %d: %v, %v, want %d", n.info.Height, got, err, want)
		}
	}
	for h := range 9 {
		n, _ = r.grow(n, 0, joins)
		joins = nil
		if h < 7 {
			count(2) // from height 3 on the producers of two epochs, which are the same
		} else {
			count(3) // the epoch of heights 6 to 10 is due to end
		}
	}
	n, _ = r.grow(n, 1, nil) // height 11 instead of 10, so the epoch does not end: finality stops at 7
	count(3)
	got, _ := r.manager.BlockApprovers(n.info.Hash)
	if a := got[2]; a.AccountID != "new" || !a.StakeThisEpoch.IsZero() || a.StakeNextEpoch != primitives.Yocto(2000) {
		t.Errorf("the third approver is %+v", a)
	}
	if got[0].StakeThisEpoch.IsZero() || got[0].StakeNextEpoch.IsZero() {
		t.Errorf("the first approver is %+v, want stakes in both epochs", got[0])
	}
	for range 2 {
		if last, err := r.manager.IsNextBlockEpochStart(n.info.Hash); err != nil || last {
			t.Errorf("height %d is last: %v, %v, want false", n.info.Height, last, err)
		}
		n, _ = r.grow(n, 0, nil)
	}
	if last, err := r.manager.IsNextBlockEpochStart(n.info.Hash); err != nil || !last {
		t.Errorf("height %d is last: %v, %v, want true", n.info.Height, last, err)
	}
	got, _ = r.manager.BlockApprovers(n.info.Hash) // in the new epoch; test1 was kicked out
	if len(got) != 2 || got[0].AccountID != "new" || !got[0].StakeNextEpoch.IsZero() {
		t.Errorf("approvers of the next epoch = %+v", got)
	}
}

func TestInvalidBlockInfoIsNotRecorded(t *testing.T) {
	t.Parallel()
	r := newTree(t, 5, stakes("test", 1000)...)
	n, _ := r.grow(r.nodes[0], 0, nil)
	for _, c := range []struct {
		name string
		edit func(*BlockInfo)
		want error
	}{
		{"unknown parent", func(b *BlockInfo) { b.PrevHash = primitives.Hash{9} }, ErrMissingBlock},
		{"zero hash", func(b *BlockInfo) { b.Hash = primitives.Hash{} }, ErrBlockInfo},
		{"parent's height", func(b *BlockInfo) { b.Height = 1 }, ErrBlockInfo},
		{"short mask", func(b *BlockInfo) { b.ChunkMask = b.ChunkMask[:1] }, ErrBlockInfo},
		{"unknown final block", func(b *BlockInfo) { b.LastFinalBlockHash, b.LastFinalizedHeight = primitives.Hash{9}, 1 }, ErrMissingBlock},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := r.child(n, 0, c.edit).info
			if got, err := r.manager.RecordBlockInfo(b, primitives.Hash{}); !errors.Is(err, c.want) || got.BlockInfo != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if _, err := r.manager.BlockInfo(b.Hash); !b.Hash.IsZero() && !errors.Is(err, ErrMissingBlock) {
				t.Errorf("the block was kept: %v", err)
			}
		})
	}
	if _, err := r.manager.ValidatorInfoOfEpoch(primitives.EpochID{}); !errors.Is(err, ErrEpochOutOfBounds) {
		t.Errorf("validators of a running epoch: %v, want ErrEpochOutOfBounds", err)
	}
	if _, err := r.manager.Validator(primitives.EpochID{}, "nobody"); !errors.Is(err, ErrNotAValidator) {
		t.Errorf("nobody: %v, want ErrNotAValidator", err)
	}
	if _, err := r.manager.CanonicalChunkProducer(primitives.EpochID{}, 9, 1); !errors.Is(err, ErrSharding) {
		t.Errorf("shard 9: %v, want ErrSharding", err)
	}
}

// TestForgottenBlockIsRecordedAgain: a block that could not be persisted can be recorded again with
// the same Changes, also the first and the last block of an epoch.
func TestForgottenBlockIsRecordedAgain(t *testing.T) {
	t.Parallel()
	r := newTree(t, 5, stakes("test", 1000)...)
	at, starts, ends := r.nodes[0], 0, 0
	for range 14 {
		at = r.child(at, 0, nil)
		b := at.info
		first, again := *b, *b
		got, err := r.manager.RecordBlockInfo(&first, at.random)
		if err != nil {
			t.Fatal(err)
		}
		if got.EpochStart {
			starts++
		}
		r.manager.Forget(&got)
		if _, err := r.manager.BlockInfo(b.Hash); !errors.Is(err, ErrMissingBlock) {
			t.Fatalf("height %d: the block is still known: %v", b.Height, err)
		}
		if got.NextNextEpoch != nil {
			ends++
			if _, err := r.manager.EpochInfo(b.Hash); err == nil {
				t.Errorf("height %d: the epoch that it made is still known", b.Height)
			}
		}
		want, err := r.manager.RecordBlockInfo(&again, at.random)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("height %d: %+v the second time, %+v the first", b.Height, want, got)
		}
		r.manager.Forget(&want)
		r.record(at)
	}
	if starts < 2 || ends < 2 {
		t.Errorf("%d epochs began and %d ended, want two of each", starts, ends)
	}
}

// TestStakeStaysLockedForThreeEpochs: the stake of a validator that leaves stays locked as long as
// it is a validator in one of three epochs.
func TestStakeStaysLockedForThreeEpochs(t *testing.T) {
	t.Parallel()
	r := newTree(t, 5, stakes("test", 1_000_000, 400_000)...)
	n := r.nodes[0]
	leaves := func(b *BlockInfo) {
		p := r.params.Validators[1]
		p.Stake = primitives.Balance{}
		b.Proposals = []primitives.ValidatorStake{p}
	}
	var locked []bool
	for h := 1; h <= 25; h++ {
		n, _ = r.grow(n, 0, func(b *BlockInfo) {
			b.ChunkMask = []bool{true, true}
			b.ChunkEndorsements = [][]byte{{3}, {3}}
			if leaves != nil {
				leaves(b)
			}
		})
		leaves = nil
		if h%5 == 0 {
			stakes, rewards, err := r.manager.StakeInfo(n.info.Hash)
			if err != nil {
				t.Fatal(err)
			}
			s, ok := stakes.Get("test1")
			locked = append(locked, ok && !s.IsZero())
			if _, ok := rewards.Get("near"); !ok {
				t.Errorf("height %d: rewards %v, want the treasury's", h, rewards)
			}
			minted, err := r.manager.MintedAmount(n.info.Hash)
			if err != nil || minted.IsZero() {
				t.Errorf("height %d: minted %v, %v", h, minted, err)
			}
		}
	}
	// The third epoch is the first without it; the account is free at that epoch's end.
	if want := []bool{true, true, false, false, false}; !slices.Equal(locked, want) {
		t.Errorf("locked at the ends of epochs = %v, want %v", locked, want)
	}
	if stake, err := r.manager.MinimumStake(n.info.Hash); err != nil || stake.IsZero() {
		t.Errorf("minimum stake %v, %v", stake, err)
	}
	info, err := r.manager.ValidatorInfoOfBlock(n.info.Hash)
	if err != nil || len(info.CurrentValidators) != 1 || info.CurrentValidators[0].Blocks != (Stats{5, 5}) || info.EpochStartHeight != 21 {
		t.Errorf("validators = %+v, %v", info, err)
	}
	if v := info.CurrentValidators[0]; len(v.Shards) != 2 || v.Shards[0] > v.Shards[1] || v.ExpectedChunksPerShard[0] != 5 || len(v.ShardsEndorsed) != 2 {
		t.Errorf("per shard: %+v", v)
	}
}

// TestStatisticsContinueBelowTheFinalBlock: statistics up to a block below the last final one, such
// as queries request while imported blocks are not on disk yet, do not read the whole epoch again.
func TestStatisticsContinueBelowTheFinalBlock(t *testing.T) {
	t.Parallel()
	r := newTree(t, 1000, stakes("test", 1_000_000)...)
	n := r.nodes[0]
	for range 300 {
		n, _ = r.grow(n, 0, nil)
	}
	gone := r.nodes[100].info.Hash
	r.manager.blocks.drop(gone)
	stored := r.store.blocks[gone]
	delete(r.store.blocks, gone)
	for back := range uint64(earlierEvery) {
		at := r.nodes[300-back]
		info, err := r.manager.ValidatorInfoOfBlock(at.info.Hash)
		if err != nil {
			t.Fatalf("%d blocks below the newest: %v", back, err)
		}
		if want := (Stats{300 - back, 300 - back}); info.CurrentValidators[0].Blocks != want {
			t.Fatalf("%d blocks below the newest: %v, want %v", back, info.CurrentValidators[0].Blocks, want)
		}
	}
	for range 100 { // the copies have not changed
		n, _ = r.grow(n, 0, nil)
	}
	if info, err := r.manager.ValidatorInfoOfBlock(n.info.Hash); err != nil || info.CurrentValidators[0].Blocks != (Stats{400, 400}) {
		t.Errorf("%+v, %v", info, err)
	}
	r.restart()
	if _, err := r.manager.ValidatorInfoOfBlock(n.info.Hash); err == nil {
		t.Error("the block that was deleted is not needed after a restart")
	}
	r.store.blocks[gone] = stored
	for range 2 { // the second time from a copy
		info, err := r.manager.ValidatorInfoOfBlock(n.info.Hash)
		if err != nil || info.CurrentValidators[0].Blocks != (Stats{400, 400}) {
			t.Errorf("after a restart: %+v, %v", info, err)
		}
		r.manager.blocks.drop(gone)
		delete(r.store.blocks, gone)
	}
}

func TestCacheKeepsNewestEntries(t *testing.T) {
	t.Parallel()
	c := newCache[int, int](3)
	for i := range 10 {
		c.put(i, i)
		c.put(i, -i)
	}
	if len(c.entries) != 3 || len(c.order) != 3 {
		t.Errorf("cache has %v, %v, want 3 entries", c.entries, c.order)
	}
	if v, ok := c.get(9); !ok || v != -9 {
		t.Errorf("get(9) = %d, %v, want -9, true", v, ok)
	}
	c.drop(9)
	if _, ok := c.get(9); ok {
		t.Error("9 is still cached")
	}
	c.put(9, 1)
	c.put(10, 1)
	if len(c.entries) > 3 {
		t.Errorf("cache has %v, want at most 3 entries", c.entries)
	}
}

func TestGasPriceFollowsUsage(t *testing.T) {
	t.Parallel()
	g := NewGasPriceRules(86, primitives.Yocto(100), primitives.Yocto(1_000_000), Ratio{1, 100})
	if g.Max != primitives.Yocto(2000) {
		t.Errorf("max = %v, want 20 times the least", g.Max)
	}
	for _, c := range []struct{ price, used, limit, want uint64 }{
		{1000, 0, 0, 1000}, {1000, 500, 1000, 1000}, {1000, 1000, 1000, 1005}, {1000, 0, 1000, 995}, {100, 0, 1000, 100}, {2000, 1000, 1000, 2000},
	} {
		got, err := g.Next(primitives.Yocto(c.price), primitives.Gas(c.used), primitives.Gas(c.limit))
		if err != nil || got != primitives.Yocto(c.want) {
			t.Errorf("price %d, used %d of %d: %v, %v, want %d", c.price, c.used, c.limit, got, err, c.want)
		}
	}
	if _, err := TotalSupply(primitives.Yocto(5), primitives.Yocto(1), []primitives.Balance{primitives.Yocto(4), primitives.Yocto(3)}); !errors.Is(err, primitives.ErrOverflow) {
		t.Errorf("burning more than there is: %v, want ErrOverflow", err)
	}
}

func FuzzQuoRem(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint64(3), uint64(4))
	f.Add(^uint64(0), ^uint64(0), uint64(1), uint64(0))
	f.Add(^uint64(0), uint64(0), uint64(1)<<63, ^uint64(0))
	f.Fuzz(func(t *testing.T, ah, al, bh, bl uint64) {
		a, b := primitives.Balance{Hi: ah, Lo: al}, primitives.Balance{Hi: bh, Lo: bl}
		if b.IsZero() {
			return
		}
		q, r := quoRem(a, b)
		if wq := a.Big(); q.Big().Cmp(wq.Quo(wq, b.Big())) != 0 {
			t.Errorf("%v / %v = %v, want %v", a, b, q, wq)
		}
		if wr := a.Big(); r.Big().Cmp(wr.Rem(wr, b.Big())) != 0 {
			t.Errorf("%v mod %v = %v, want %v", a, b, r, wr)
		}
	})
}

func TestPartsFollowSeats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ seats, total, data int }{{1, 2, 1}, {3, 3, 1}, {4, 4, 1}, {7, 7, 2}, {50, 50, 16}, {100, 100, 33}} {
		p := testParams("test-chain-parts", primitives.SingleShardLayout())
		p.Epoch.NumBlockProducerSeats, p.Validators = uint64(c.seats), stakes("test", 30, 20, 10)
		configs, err := NewConfigs(p, nil, 86)
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewManager(p, configs, newMemoryStore())
		if err != nil {
			t.Fatal(err)
		}
		if m.NumTotalParts() != c.total || m.NumDataParts() != c.data {
			t.Errorf("%d seats: %d parts, %d of data, want %d, %d", c.seats, m.NumTotalParts(), m.NumDataParts(), c.total, c.data)
		}
		if owner, err := m.PartOwner(primitives.EpochID{}, 3); c.seats >= 3 && (err != nil || owner != "test0") {
			t.Errorf("owner of part 3 = %s, %v, want test0", owner, err)
		}
	}
}

func TestBlockInfoFromHeaderCopiesFields(t *testing.T) {
	t.Parallel()
	want := sampleBlockInfo()
	h := &primitives.BlockHeader{
		Version: primitives.HeaderV6, PrevHash: want.PrevHash, Signature: primitives.ZeroED25519Signature,
		BlockHeaderInnerLite: primitives.BlockHeaderInnerLite{Height: want.Height, Timestamp: want.Timestamp},
		BlockHeaderInnerRest: primitives.BlockHeaderInnerRest{
			PrevValidatorProposals: want.Proposals, ChunkMask: want.ChunkMask, TotalSupply: want.TotalSupply,
			LastFinalBlock: want.LastFinalBlockHash, LatestProtocolVersion: 86, ChunkEndorsements: want.ChunkEndorsements, ShardSplit: want.ShardSplit,
		},
	}
	got := BlockInfoFromHeader(h.Init(), want.LastFinalizedHeight)
	want.Hash, want.EpochFirstBlock, want.EpochID = h.Hash(), primitives.Hash{}, primitives.EpochID{}
	if !bytes.Equal(got.AppendBorsh(nil), want.AppendBorsh(nil)) {
		t.Errorf("block info = %+v, want %+v", got, want)
	}
}

// isRecorded returns whether the EpochInfo that the last block of an epoch makes is recorded.
func isRecorded(m *Manager, last primitives.Hash) bool {
	_, err := m.EpochInfo(last)
	return err == nil
}
