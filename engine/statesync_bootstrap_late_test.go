package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// gapChain is a chain of two shards that has an epoch whose sync point lacks the chunk of the shard
// at index late. That shard's last chunk is two blocks below the sync point.
type gapChain struct {
	t      *testing.T
	late   int
	gap    gap
	g      *genesis.Genesis
	maker  *node
	blocks []*primitives.Block
	chunks map[primitives.Hash][]*primitives.Chunk
	nonce  primitives.Nonce
	offset int // of the next block in its epoch
	epochs int // number of epochs that have begun
	// headers are the state headers that the maker has served, and parts are the first parts.
	headers map[primitives.ShardID]*primitives.StateHeader
	parts   map[primitives.ShardID][][]byte
}

// lateEpoch is the number of the epoch whose sync point lacks a chunk.
const lateEpoch = 3

// gap has the digits of the numbers, within the epoch, of the blocks that lack the chunk of the late
// shard and of the other shard.
type gap struct{ late, other string }

func (g gap) has(offset int) (late, other bool) {
	x := fmt.Sprint(offset)
	return len(x) == 1 && strings.Contains(g.late, x), len(x) == 1 && strings.Contains(g.other, x)
}

func newGapChain(t *testing.T, late int) *gapChain {
	g := testGenesis(t, "aa", "bb")
	g.Config.EpochLength, g.Config.TransactionValidityPeriod = 20, 40
	c := &gapChain{t: t, late: late, g: g, gap: gap{late: "34", other: "23"}, chunks: map[primitives.Hash][]*primitives.Chunk{},
		headers: map[primitives.ShardID]*primitives.StateHeader{}, parts: map[primitives.ShardID][][]byte{}}
	var err error
	c.maker, err = openChanged(t, g, storage.NewMemDisk(), storage.Options{}, func(o *Options) { o.Snapshots = true })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// grow makes n blocks. Each has transfers to both shards.
func (c *gapChain) grow(n int) {
	c.t.Helper()
	for range n {
		var skip [2]bool
		if c.epochs == lateEpoch {
			skip[c.late], skip[1-c.late] = c.gap.has(c.offset)
		}
		head := c.maker.Head()
		c.nonce += 2
		base := head.Hash
		b, chunks := c.maker.makeWithout(head.Hash, head.Height()+1, skip, transferTo("zz", base, c.nonce-1), transferTo("near", base, c.nonce))
		c.maker.accept(b, chunks)
		c.blocks, c.chunks[b.Hash()] = append(c.blocks, b), chunks
		if c.offset++; b.Header.EpochID != head.Header().EpochID || head.Header().IsGenesis() {
			c.offset, c.epochs = 1, c.epochs+1
		}
		if err := c.maker.AdvanceFlatHead(); err != nil { // stores the snapshots that the maker serves
			c.t.Fatal(err)
		}
	}
}

func (c *gapChain) find(hash primitives.Hash) *primitives.Block {
	i := slices.IndexFunc(c.blocks, func(b *primitives.Block) bool { return b.Hash() == hash })
	if i < 0 {
		return nil
	}
	return c.blocks[i]
}

// cut returns a block's chunks as a node that holds these shards receives them.
func (c *gapChain) cut(block primitives.Hash, held []primitives.ShardID) (out []*primitives.Chunk) {
	layout := c.maker.Head().Layout
	for i, x := range c.chunks[block] {
		if x != nil && !slices.Contains(held, layout.ShardIDs()[i]) {
			if x = chain.CutChunk(x, layout, held); len(held) == 0 {
				x = nil
			}
		}
		out = append(out, x)
	}
	return out
}

// input returns the sync block for a node that holds shards of the chain according to track, and
// what such a node has fetched before the parts.
func (c *gapChain) input(track Track) (at *SyncBlock, in *BootstrapInput, totals []uint64) {
	c.t.Helper()
	lead, err := openChanged(c.t, c.g, storage.NewMemDisk(), storage.Options{}, func(o *Options) { o.Tracks = track })
	if err != nil {
		c.t.Fatal(err)
	}
	var headers []*primitives.BlockHeader
	for _, b := range c.blocks {
		headers = append(headers, b.Header)
	}
	if _, err := lead.HeaderChain().Add(headers); err != nil {
		c.t.Fatal(err)
	}
	if at, err = lead.HeaderChain().SyncBlock(); err != nil || at == nil {
		c.t.Fatalf("sync block %+v, %v", at, err)
	}
	in = &BootstrapInput{
		Point: c.find(at.Point.Hash), Next: make([]*primitives.Chunk, 2),
		Proofs:     map[primitives.Hash][]*primitives.Chunk{},
		LateProofs: map[primitives.ShardIndex]map[primitives.Hash][]*primitives.Chunk{},
	}
	blocks := BlockList{lead.Genesis().Block}
	for _, ref := range at.Path {
		b := c.find(ref.Hash)
		if ref.Height+8 <= at.Before.Height {
			b = &primitives.Block{Header: b.Header}
		}
		blocks = append(blocks, b)
	}
	in.Blocks = blocks
	totals = make([]uint64, 2)
	for k, id := range at.Layout.ShardIDs() {
		i := primitives.ShardIndex(k)
		if !at.Wanted[k] {
			continue
		}
		h, err := c.maker.StateSyncHeader(at.Sync.Hash, id)
		if err != nil {
			c.t.Fatal(err)
		}
		proofs, err := VerifyStateHeader(h, in.Point, at.Layout, i, id, c.find)
		if err != nil {
			c.t.Fatal(err)
		}
		chunk := h.Chunk
		c.headers[id] = h
		first := trie.PartID{Total: trie.NumParts(h.Root.MemoryUsage)}
		if c.parts[id], err = c.maker.Snapshots().Part(chunk.Header.PrevBlockHash, i, first); err != nil {
			c.t.Fatal(err)
		}
		in.Next[i], totals[k] = &chunk, trie.NumParts(h.Root.MemoryUsage)
		if chunk.Header.PrevBlockHash != at.Before.Hash {
			in.LateProofs[i] = proofs
		} else {
			MergeProofs(in.Proofs, proofs)
		}
	}
	return at, in, totals
}

// bootstrapping is a state sync on a disk. reopen is called to simulate a stop of the process.
type bootstrapping struct {
	c      *gapChain
	in     *BootstrapInput
	totals []uint64
	disk   *storage.MemDisk
	store  *storage.Store
	sync   *BootstrapSync
}

func (b *bootstrapping) reopen() {
	t := b.c.t
	t.Helper()
	if b.store != nil {
		if err := b.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	spec := b.c.maker.Chain()
	b.store, err = storage.OpenMemory(b.disk, storage.Options{Identity: storage.Identity{ChainID: spec.ID, Numbering: primitives.NumberingRelease}})
	if err != nil {
		t.Fatal(err)
	}
	if b.sync, err = BeginBootstrap(Options{Chain: spec, Store: b.store, Snapshots: true, Tries: trie.Options{Poison: true}}, b.in); err != nil {
		t.Fatal(err)
	}
}

// fetch stores the parts of all wanted shards.
func (b *bootstrapping) fetch() {
	t := b.c.t
	t.Helper()
	for i, next := range b.in.Next {
		if next == nil {
			continue
		}
		for k := range b.totals[i] {
			id := trie.PartID{Index: k, Total: b.totals[i]}
			part, err := b.c.maker.Snapshots().Part(next.Header.PrevBlockHash, primitives.ShardIndex(i), id)
			if err == nil {
				err = b.sync.Part(primitives.ShardIndex(i), id, part)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		b.reopen()
	}
}

// TestStateSyncWorksIfSyncPointLacksChunk: a node syncs at a sync point that lacks the chunk of a
// shard, whatever shards the node holds, and also if it is stopped at any step. It then has the
// states of a node that has executed all blocks, over restarts and into the next epochs, and can
// serve these states.
func TestStateSyncWorksIfSyncPointLacksChunk(t *testing.T) {
	testLateShards(t, gap{late: "34", other: "23"})
}

// TestLateShardGetsReceiptsOfOtherShards is the same test with chunks of the other shard, and so
// receipts for the late shard, in the last block before the sync point and in the block of the late
// shard's state.
func TestLateShardGetsReceiptsOfOtherShards(t *testing.T) {
	testLateShards(t, gap{late: "34", other: "12"})
	testLateShards(t, gap{late: "245678", other: "13"})
}

func testLateShards(t *testing.T, gap gap) {
	for late := range 2 {
		for name, held := range map[string][2]bool{"all": {true, true}, "late": {0: late == 0, 1: late == 1}, "other": {0: late == 1, 1: late == 0}, "none": {}} {
			t.Run(fmt.Sprintf("no chunks %s %s, shard %d late, %s held", gap.late, gap.other, late, name), func(t *testing.T) {
				t.Parallel()
				c := newGapChain(t, late)
				c.gap = gap
				for c.epochs < lateEpoch || c.offset < 12 {
					c.grow(1)
				}
				ids, synced := c.maker.Head().Layout.ShardIDs(), len(c.blocks)
				held := heldIDs(c.maker.Head().Layout, held[:])
				track := TrackShards(held...)
				at, in, totals := c.input(track)
				if in.Point.Body.Chunks[late].HeightIncluded == at.Point.Height {
					t.Fatalf("the last chunk of the late shard is at %d, the sync point at %d: the test does not test",
						in.Point.Body.Chunks[late].HeightIncluded, at.Point.Height)
				}
				b := &bootstrapping{c: c, in: in, totals: totals, disk: storage.NewMemDisk()}
				b.reopen()
				b.fetch()
				if err := b.sync.importStates(); err != nil { // stopped before the late shard has been applied
					t.Fatal(err)
				}
				b.reopen()
				for i := range in.Next {
					if in.Next[i] == nil {
						continue
					}
					if has, err := b.sync.Has(primitives.ShardIndex(i), totals[i]); err != nil || uint64(len(has)) != totals[i] {
						t.Errorf("parts %v after the states were imported, want all %d, %v", has, totals[i], err)
					}
				}
				for range 2 { // the second time, stopped after the work
					if err := b.sync.Finish(); err != nil {
						t.Fatal(err)
					}
					b.reopen()
				}
				if err := b.store.Close(); err != nil {
					t.Fatal(err)
				}
				open := func() *node {
					t.Helper()
					n, err := openChanged(t, c.g, b.disk, storage.Options{FlatHeadBlocks: 4}, func(o *Options) {
						o.Snapshots, o.Tracks, o.Tries = true, track, trie.Options{Poison: true}
					})
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				n := open()
				if n.Head().Hash != at.Before.Hash {
					t.Fatalf("it begins at %d, not %d", n.Head().Height(), at.Before.Height)
				}
				n.refusesStatesBelow(at.Before.Height, slices.Contains(held, ids[late]))
				for len(c.blocks) < synced+45 {
					c.grow(1)
				}
				for _, x := range c.blocks {
					h := x.Header.Height
					if h <= n.Head().Height() {
						continue
					}
					n.accept(x, c.cut(x.Hash(), held))
					if h%4 == 0 {
						if err := n.AdvanceFlatHead(); err != nil {
							t.Fatal(err)
						}
					}
					if h == at.Point.Height || h == at.Point.Height+7 {
						if err := errors.Join(n.Close(), n.store.Close()); err != nil {
							t.Fatal(err)
						}
						n = open()
					}
					want, err := c.maker.Block(x.Hash())
					if err != nil {
						t.Fatal(err)
					}
					for i := range want.Shards {
						got := n.Head().Shards[i]
						if slices.Contains(held, ids[i]) != got.Held() {
							t.Fatalf("shard %d of block %d: held %v", ids[i], h, got.Held())
						}
						if got.Held() && !bytes.Equal(got.Extra.AppendBorsh(nil), want.Shards[i].Extra.AppendBorsh(nil)) {
							t.Fatalf("shard %d of block %d: %+v, want %+v", ids[i], h, got.Extra, want.Shards[i].Extra)
						}
					}
					if h == at.Point.Height+8 {
						c.serves(n, at, held)
					}
				}
				v := n.Verify()
				for done := false; !done; {
					if done, err := v.Step(100); err != nil {
						t.Fatal(err)
					} else if done {
						break
					}
				}
			})
		}
	}
}

// serves checks that a node serves the state of the held shards at the sync point, as the maker
// does.
func (c *gapChain) serves(n *node, at *SyncBlock, held []primitives.ShardID) {
	c.t.Helper()
	if err := n.AdvanceFlatHead(); err != nil {
		c.t.Fatal(err)
	}
	for i, id := range at.Layout.ShardIDs() {
		if !slices.Contains(held, id) {
			continue
		}
		want := c.headers[id]
		got, err := n.StateSyncHeader(at.Sync.Hash, id)
		if err != nil {
			c.t.Errorf("shard %d: state header: %v", id, err)
			continue
		}
		if !bytes.Equal(got.AppendBorsh(nil), want.AppendBorsh(nil)) {
			c.t.Errorf("shard %d: another state header than that of the maker", id)
		}
		part, err := n.Snapshots().Part(want.Chunk.Header.PrevBlockHash, primitives.ShardIndex(i), trie.PartID{Total: trie.NumParts(want.Root.MemoryUsage)})
		if err != nil || !slices.EqualFunc(part, c.parts[id], bytes.Equal) {
			c.t.Errorf("shard %d: another part than that of the maker, %v", id, err)
		}
	}
}

// TestStateHeaderWithOtherTransactionsIsRefused: the transactions of a state header's chunk, which a
// late shard applies, must be those of the chunk's header. A peer that sends other ones is at fault.
func TestStateHeaderWithOtherTransactionsIsRefused(t *testing.T) {
	c := newGapChain(t, 1)
	for c.epochs < lateEpoch || c.offset < 12 {
		c.grow(1)
	}
	at, in, _ := c.input(nil)
	tested := 0
	for k, id := range at.Layout.ShardIDs() {
		h := *c.headers[id]
		sent := h.Chunk.Transactions
		if len(sent) == 0 {
			continue
		}
		tested++
		for _, txs := range [][]*primitives.SignedTransaction{nil, append(slices.Clone(sent), sent[0])} {
			h.Chunk.Transactions = txs
			if _, err := VerifyStateHeader(&h, in.Point, at.Layout, primitives.ShardIndex(k), id, c.find); !errors.As(err, new(chain.Invalid)) {
				t.Errorf("shard %d, %d transactions: %v", id, len(txs), err)
			}
		}
	}
	if tested == 0 {
		t.Fatal("no chunk has transactions: the test does not test")
	}
}

// TestStateSyncOfOtherShardsStartsOver: a folder of a state sync that was made for other shards is
// refused, whether the states were imported or not, so that the caller begins with an empty folder.
func TestStateSyncOfOtherShardsStartsOver(t *testing.T) {
	for _, imported := range []bool{false, true} {
		c := newGapChain(t, 1)
		for c.epochs < lateEpoch || c.offset < 12 {
			c.grow(1)
		}
		ids := c.maker.Head().Layout.ShardIDs()
		for _, held := range [][2][]primitives.ShardID{{ids, ids[:1]}, {ids, ids[1:]}, {ids[1:], ids[:1]}, {ids[:1], {}}, {ids[:1], ids}} {
			_, in, totals := c.input(TrackShards(held[0]...))
			b := &bootstrapping{c: c, in: in, totals: totals, disk: storage.NewMemDisk()}
			b.reopen()
			b.fetch()
			if imported {
				if err := b.sync.importStates(); err != nil {
					t.Fatal(err)
				}
			}
			_, other, _ := c.input(TrackShards(held[1]...))
			_, err := BeginBootstrap(Options{Chain: c.maker.Chain(), Store: b.store}, other)
			if more := len(held[1]) > len(held[0]); more && !imported { // the parts can be used
				if err != nil {
					t.Errorf("from shards %v to %v: %v", held[0], held[1], err)
				}
				continue
			}
			if !errors.Is(err, storage.ErrOrder) {
				t.Errorf("imported %v, from shards %v to %v: %v", imported, held[0], held[1], err)
			}
			if _, err := BeginBootstrap(Options{Chain: c.maker.Chain(), Store: b.store}, in); err != nil {
				t.Errorf("imported %v, the same shards %v: %v", imported, held[0], err)
			}
		}
	}
}

// refusesStatesBelow checks that a node refuses states and records after all stored blocks below the
// one with whose states it began. If the node holds the late shard, there are such blocks.
func (n *node) refusesStatesBelow(begin primitives.Height, late bool) {
	n.t.Helper()
	tail := n.store.Tip().Tail
	if (tail < begin) != late || n.StateTail() != begin {
		n.t.Errorf("blocks are kept from %d and states from %d on, want states from %d on", tail, n.StateTail(), begin)
	}
	for h := tail; h < begin; h++ {
		at, err := n.store.NextBlock(h)
		if err != nil {
			n.t.Fatal(err)
		}
		if at.Height >= begin {
			break
		}
		if _, err := n.StateAt(at.Hash); !errors.Is(err, storage.ErrGone) {
			n.t.Errorf("state after block %d: %v", at.Height, err)
		}
		if err := n.EachRecord(n.t.Context(), at.Hash, nil, func(genesis.Record) error { return nil }); !errors.Is(err, storage.ErrGone) {
			n.t.Errorf("records after block %d: %v", at.Height, err)
		}
	}
}
