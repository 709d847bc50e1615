package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// shardTest drives a store in which shard 1 comes and goes, beside one that has all.
type shardTest struct {
	t     *testing.T
	m     *model
	all   *Store
	s     *Store
	dir   string
	since BlockRef // of the state of shard 1; zero: it is not here
	had   map[BlockRef]bool
}

const stagedShard = primitives.ShardID(1)

func (c *shardTest) open() {
	o := testOptions()
	o.ResidentBlocks, o.BucketHeights = 4, 5
	var err error
	if c.s, err = Open(c.dir, o); err != nil {
		c.t.Fatal(err)
	}
}

func (c *shardTest) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// commit stores a block in both stores. For the store under test it omits shard 1, if that store
// does not have the shard's state after the block's parent.
func (c *shardTest) commit(parent BlockRef, head bool) {
	b := c.m.next(parent, head)
	c.must(c.all.Commit(b))
	part := *b
	part.Puts = &Batch{b: slices.Clone(b.Puts.b), n: b.Puts.n}
	if c.had[b.Ref] = c.had[parent]; !c.had[b.Ref] {
		part.Shards = slices.DeleteFunc(slices.Clone(b.Shards), func(s Shard) bool { return s.ID == stagedShard })
	}
	c.must(c.s.Commit(&part))
}

func (c *shardTest) advance() {
	upto := c.m.final
	if upto.Height <= c.m.folded.Height {
		return
	}
	c.must(c.all.AdvanceFlatHead(upto, nil))
	c.must(c.s.AdvanceFlatHead(upto, nil))
	c.m.folded = upto
}

// importShard imports shard 1 at the flat head, in parts. Some parts are stored twice, and the
// store is restarted in between.
func (c *shardTest) importShard() {
	at, accounts := c.m.folded, AccountRange{Lo: "m"}
	if _, err := c.s.Stage(stagedShard, c.m.genesis, accounts); err != nil { // another block, of which one part came
		c.t.Fatal(err)
	}
	c.must(c.s.StagePart(stagedShard, c.m.genesis, 7, func(put func(key, value []byte) error) error { return put([]byte("\x00zz"), []byte("old")) }))
	if _, err := c.s.Stage(stagedShard, at, accounts); err != nil {
		c.t.Fatal(err)
	}
	var pairs [][2]string
	c.must(c.all.Scan(at, stagedShard, accounts, nil, nil, func(k, v []byte) bool {
		pairs = append(pairs, [2]string{string(k), string(v)})
		return true
	}))
	err := c.s.StagePart(stagedShard, at, 0, func(put func(key, value []byte) error) error { return put([]byte("\x00a"), []byte("not its")) })
	if !errors.Is(err, ErrOrder) {
		c.t.Fatalf("a part with another shard's key: %v", err)
	}
	const parts = 3
	for n := range uint64(parts) {
		if n == 1 {
			c.must(c.s.Close())
			c.open()
			got, err := c.s.Stage(stagedShard, at, accounts)
			if err != nil || !slices.Equal(got, []uint64{0}) {
				c.t.Fatalf("parts %v, %v after a restart", got, err)
			}
		}
		c.must(c.s.StagePart(stagedShard, at, n, func(put func(key, value []byte) error) error {
			for _, p := range pairs[len(pairs)*int(n)/parts : len(pairs)*int(n+1)/parts] {
				if err := put([]byte(p[0]), []byte(p[1])); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for range c.m.rng.IntN(6) { // the other shards go on
		c.commit(c.m.head, true)
		c.advance()
	}
	staged := FrontierNode{Level: 2, Path: []byte{1, 2}, Hash: hashOf(at), MemoryUsage: 8}
	c.must(c.s.StageFrontier(stagedShard, at, []FrontierNode{staged}))
	c.must(c.s.InstallShard(stagedShard, []FrontierNode{{Path: []byte{1}, Hash: hashOf(at), MemoryUsage: 9}}))
	if stubs := c.frontier(); len(stubs) != 2 || stubs[0].Level != 0 || stubs[0].Hash != hashOf(at) || !reflect.DeepEqual(stubs[1], staged) {
		c.t.Fatalf("frontier %v", stubs)
	}
	c.since, c.had = at, map[BlockRef]bool{at: true}
}

// frontier returns what the store has of all levels of the coming shard.
func (c *shardTest) frontier() (stubs []FrontierNode) {
	for level := range uint8(4) {
		c.must(c.s.Frontier(stagedShard, level, nil, func(s FrontierNode) bool {
			s.Path = slices.Clone(s.Path)
			stubs = append(stubs, s)
			return true
		}))
	}
	return stubs
}

// catchUp stores what blocks did in shard 1 since it came in, at most n of them.
func (c *shardTest) catchUp(n int) {
	for _, ref := range c.m.live() {
		prev := c.m.blocks[ref].block.Prev
		if n == 0 || c.had[ref] || !c.had[prev] {
			continue
		}
		if at, here := c.s.ShardAt(stagedShard); !here || ref.Height <= c.m.folded.Height && at != prev {
			c.t.Fatalf("shard at %v, %v, parent %v", at, here, prev)
		}
		c.must(c.s.CommitShard(ref, shardOf(c.m.blocks[ref].block, stagedShard), nil))
		c.had[ref] = true
		n--
	}
}

func (c *shardTest) untrack() {
	c.must(c.s.UntrackShard(stagedShard, AccountRange{Lo: "m"}))
	if stubs := c.frontier(); len(stubs) > 0 {
		c.t.Fatalf("frontier %v of a shard that has left", stubs)
	}
	for _, col := range []*Column[string, packed]{flat} {
		for _, r := range flatRanges(stagedShard, AccountRange{Lo: "m"}, nil, nil) {
			c.must(col.Scan(c.s.db, []byte(r.lo), []byte(r.hi), func(key []byte, _ packed) bool {
				c.t.Fatalf("row %x of a shard that has left", key)
				return false
			}))
		}
	}
	c.since, c.had = BlockRef{}, map[BlockRef]bool{}
}

// check compares shard 1 with that of the store that has all, and shard 0.
func (c *shardTest) check() {
	c.t.Helper()
	for _, ref := range c.m.live() {
		if ref.Height < c.m.tail {
			continue
		}
		for i, accounts := range []AccountRange{{Hi: "m"}, {Lo: "m"}} {
			shard := primitives.ShardID(i)
			list := func(s *Store) (out []string, err error) {
				err = s.Scan(ref, shard, accounts, nil, nil, func(k, v []byte) bool {
					out = append(out, fmt.Sprintf("%x=%x", k, v))
					return true
				})
				return out, err
			}
			got, err := list(c.s)
			if shard == stagedShard && !c.had[ref] {
				if c.since.IsZero() && !c.m.isAncestor(c.m.folded, ref) && err == nil && len(got) > 0 {
					c.t.Fatalf("block %v: %d pairs of a shard that is not here", ref, len(got))
				}
				continue
			}
			want, err2 := list(c.all)
			if err != nil || err2 != nil || !slices.Equal(got, want) {
				c.t.Fatalf("block %v shard %d: %v, %v, %v\nwant %v", ref, shard, got, err, err2, want)
			}
			if ref == c.since || ref == c.m.genesis {
				continue
			}
			for _, o := range shardOf(c.m.blocks[ref].block, shard).Outcomes {
				at, err := c.s.Find().Outcome(o.ID)
				if err != nil || len(in(ref, at)) == 0 {
					c.t.Fatalf("block %v shard %d: outcome %v: %v, %v", ref, shard, o.ID, at, err)
				}
			}
			rec, err := c.s.Block(ref)
			c.must(err)
			changes, err := rec.Changes(shard)
			if err != nil || len(changes) != len(shardOf(c.m.blocks[ref].block, shard).Changes) {
				c.t.Fatalf("block %v shard %d: %d changes, %v", ref, shard, len(changes), err)
			}
		}
	}
}

// TestShardImportAndUntrackMatchModel: a shard is imported at the flat head while the other shards
// advance, is caught up on every branch until it is in sync, is untracked, and is imported again.
// At each time it equals the same shard in a store that has all shards, also after advances of the
// flat head, restarts and garbage collections.
func TestShardImportAndUntrackMatchModel(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			c := &shardTest{t: t, m: newModel(t, seed), dir: t.TempDir(), had: map[BlockRef]bool{}}
			c.m.whole = true
			c.m.rng = rand.New(rand.NewPCG(seed, 7))
			var err error
			if c.all, err = OpenMemory(NewMemDisk(), testOptions()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.all.Close() }()
			c.open()
			defer func() { _ = c.s.Close() }()
			importGenesis(t, c.all, c.m)
			importGenesis(t, c.s, c.m)
			for range 8 {
				c.commit(c.m.head, true)
			}
			c.advance()
			c.untrack()
			for range 120 {
				switch op := c.m.rng.IntN(20); {
				case op < 6:
					c.commit(c.m.head, true)
				case op < 8:
					c.commit(c.m.randomOpen(), c.m.rng.IntN(2) == 0)
				case op < 11:
					c.advance()
				case op < 12 && c.since.IsZero():
					c.importShard()
				case op < 16 && !c.since.IsZero():
					c.catchUp(1 + c.m.rng.IntN(6))
				case op == 16 && !c.since.IsZero() && c.m.rng.IntN(3) == 0:
					c.untrack()
				case op == 17:
					c.must(c.s.Close())
					c.open()
				case op == 18:
					c.check()
				}
				for ref := range c.m.blocks { // what lost
					if !c.m.isAncestor(ref, c.m.folded) && !c.m.isAncestor(c.m.folded, ref) {
						delete(c.m.blocks, ref)
					}
				}
			}
			if c.since.IsZero() {
				c.importShard()
			}
			c.catchUp(1 << 30)
			c.check()
			if at, here := c.s.ShardAt(stagedShard); !here || at != c.m.folded {
				t.Fatalf("shard at %v, %v, folded %v", at, here, c.m.folded)
			}
			for range 30 {
				c.commit(c.m.head, true)
				c.advance()
			}
			c.check()
		})
	}
}

// TestImportedStoreContinuesMidChain begins a store in the middle of a chain. The store then
// continues like one that has all blocks, and keeps the older blocks that it was given until they
// are collected. An interrupted import resumes with the parts that were already stored.
func TestImportedStoreContinuesMidChain(t *testing.T) {
	m := newModel(t, 3)
	m.whole = true
	all, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = all.Close() }()
	importGenesis(t, all, m)
	grow := func(stores ...*Store) {
		t.Helper()
		for range 12 {
			b := m.next(m.head, true)
			for _, s := range stores {
				copied := *b
				if err := s.Commit(&copied); err != nil {
					t.Fatal(err)
				}
			}
		}
		upto := m.final
		for _, s := range stores {
			if err := s.AdvanceFlatHead(upto, nil); err != nil {
				t.Fatal(err)
			}
		}
		m.folded = upto
	}
	grow(all)
	at := m.folded
	disk := NewMemDisk()
	s, err := OpenMemory(disk, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	var blocks []*Block
	for ref := at; len(blocks) < 4; ref = m.blocks[ref].block.Prev {
		b := *m.blocks[ref].block
		b.Shards = slices.Clone(b.Shards)
		for i := range b.Shards {
			b.Shards[i].Changes = nil
		}
		blocks = append(blocks, &b)
	}
	blocks = append(blocks, m.blocks[m.genesis].block)
	slices.Reverse(blocks)
	elsewhere := BlockRef{Height: at.Height, Hash: hashOf(BlockRef{})}
	if _, err := s.Stage(firstLayout[0].id, elsewhere, firstLayout[0].accounts); err != nil {
		t.Fatal(err)
	}
	each := func(put func(*Block) error) error {
		for _, b := range blocks {
			if err := put(b); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.ImportAt(at, each, nil); !errors.Is(err, ErrOrder) {
		t.Fatalf("import of a shard that is staged for a block of another chain: %v", err)
	}
	for _, on := range firstLayout {
		for part := range uint64(2) {
			parts, err := s.Stage(on.id, at, on.accounts)
			if err != nil || len(parts) != int(part) {
				t.Fatal(parts, err)
			}
			if part == 1 {
				if s, err = OpenMemory(reopened(t, s, disk), testOptions()); err != nil || !s.Tip().Empty {
					t.Fatal(err)
				}
			}
			err = s.StagePart(on.id, at, part, func(put func(key, value []byte) error) (err error) {
				n := uint64(0)
				scan := all.Scan(at, on.id, on.accounts, nil, nil, func(k, v []byte) bool {
					if n++; n%2 == part {
						err = put(k, v)
					}
					return err == nil
				})
				return errors.Join(scan, err)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.ImportAt(at, each, slices.Values([]FrontierChange{{Shard: 1, FrontierNode: FrontierNode{Path: []byte{3}, Hash: hashOf(at), MemoryUsage: 1}}})); err != nil {
		t.Fatal(err)
	}
	same := func(what string) {
		t.Helper()
		tip, want := s.Tip(), all.Tip()
		want.Tail = tip.Tail
		if tip != want {
			t.Fatalf("%s: %+v, want %+v", what, tip, want)
		}
		for _, ref := range m.live() {
			for _, on := range firstLayout {
				list := func(s *Store) (out []string, err error) {
					err = s.Scan(ref, on.id, on.accounts, nil, nil, func(k, v []byte) bool {
						out = append(out, fmt.Sprintf("%x=%x", k, v))
						return true
					})
					return out, err
				}
				got, err := list(s)
				if ref.Height < tip.Tail {
					if !errors.Is(err, ErrGone) {
						t.Fatalf("%s: state of block %v, before the first: %d pairs, %v", what, ref, len(got), err)
					}
					continue
				}
				if want, _ := list(all); err != nil || !slices.Equal(got, want) {
					t.Fatalf("%s: block %v shard %d: %v, %v\nwant %v", what, ref, on.id, got, err, want)
				}
			}
		}
	}
	for _, ref := range m.live() {
		if ref.Height > at.Height {
			copied := *m.blocks[ref].block
			if err := s.Commit(&copied); err != nil {
				t.Fatal(err)
			}
		}
	}
	grow(s, all)
	same("grown")
	for _, b := range blocks {
		rec, err := s.BlockByHash(b.Ref.Hash)
		if err != nil || rec.Ref() != b.Ref {
			t.Fatal(err)
		}
		if hash, err := s.HashAt(b.Ref.Height); err != nil || hash != b.Ref.Hash {
			t.Fatalf("block %v: %v, %v", b.Ref, hash, err)
		}
	}
	if s, err = OpenMemory(reopened(t, s, disk), testOptions()); err != nil {
		t.Fatal(err)
	}
	same("opened")
	for range 20 {
		grow(s, all)
		for {
			done, err := s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: 1 << 62, MaxHeights: 100})
			if err != nil {
				t.Fatal(err)
			}
			if !done.More {
				break
			}
		}
	}
	if s.Tip().Tail < at.Height+ReceiptsReach+2 {
		t.Fatalf("tail %d", s.Tip().Tail)
	}
	for _, b := range blocks[1:] {
		if _, err := s.BlockByHash(b.Ref.Hash); !isAbsent(err) {
			t.Fatalf("block %v is not collected: %v", b.Ref, err)
		}
		if hash, err := s.HashAt(b.Ref.Height); !errors.Is(err, ErrGone) {
			t.Fatalf("height of block %v: %v, %v", b.Ref, hash, err)
		}
	}
	m.tail = s.Tip().Tail
	same("collected")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func reopened(t *testing.T, s *Store, d *MemDisk) *MemDisk {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}
