package replay

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// joiner is a node beside a replay. It starts with one shard and catches up the others, one at a
// time, at sync blocks, with data from the replay's engine, while both chains advance.
type joiner struct {
	*partial
	random  *rand.Rand
	held    []primitives.ShardID
	chunks  map[primitives.Hash][]*primitives.Chunk
	layouts map[primitives.Hash]primitives.ShardLayout
	begun   map[primitives.EpochID]bool

	catchup *catchup
	last    primitives.Height // of the recording
	joined  int
	blocks  int // that were caught up with
	starts  int // in the middle of it
	forks   int
	stored  int // receipts in blocks that were applied during catchup
	parted  int // parts
}

// catchup is a shard that is catching up.
type catchup struct {
	j      *engine.ShardCatchup
	id     primitives.ShardID
	index  primitives.ShardIndex
	point  primitives.Hash
	at     primitives.Hash
	next   *primitives.Chunk
	before map[primitives.Hash][]*primitives.Chunk
	parts  [][][]byte
	done   int
}

func (n *joiner) hold(id primitives.ShardID) {
	n.held = append(n.held, id)
	n.track = engine.TrackShards(n.held...)
}

// reopen restarts the node and continues the catchup.
func (n *joiner) reopen(r *runner) error {
	if err := n.close(); err != nil {
		return err
	}
	if err := n.open(r); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if n.catchup == nil {
		return nil
	}
	n.starts++
	return n.join()
}

func (n *joiner) join() error {
	c := n.catchup
	point, err := n.e.Block(c.point)
	if err == nil {
		c.j, err = n.e.CatchUpShard(point, c.index, c.next, c.before)
	}
	return err
}

// give returns the parts of a block's chunks that a node with a shard receives.
func (n *joiner) give(block primitives.Hash) []*primitives.Chunk {
	some, _ := cutChunks(n.chunks[block], n.layouts[block], engine.TrackShards(n.catchup.id))
	return some
}

// begin starts the catchup of a shard if the block is the first after a sync block.
func (n *joiner) begin(r *runner, at *engine.BlockNode) error {
	epoch := at.Header().EpochID
	if n.begun[epoch] || len(n.held) == at.Layout.NumShards() {
		return nil
	}
	point, err := r.e.SyncPoint(at)
	if err != nil || point == nil || point.Hash == at.Hash {
		return err
	}
	n.begun[epoch] = true
	c := &catchup{point: point.Hash}
	for i, id := range at.Layout.ShardIDs() {
		if !slices.Contains(n.held, id) {
			c.id, c.index = id, primitives.ShardIndex(i)
		}
	}
	header := point.Block.Body.Chunks[c.index]
	c.at = header.PrevBlockHash
	for _, list := range n.chunks {
		if x := list[c.index]; x != nil && x.Hash == header.ChunkHash() {
			c.next = x
		}
	}
	before, err := r.e.Block(c.at)
	if err != nil {
		return err
	}
	c.before = map[primitives.Hash][]*primitives.Chunk{}
	n.catchup = c
	for x, since := before, before.Block.Body.Chunks[c.index].HeightIncluded; x.Height() > since; {
		c.before[x.Hash] = n.give(x.Hash)
		if x, err = r.e.Block(x.Header().PrevHash); err != nil {
			return err
		}
	}
	total := uint64(1 + n.random.IntN(4))
	for k := range total {
		part, err := r.e.Snapshots().Part(c.at, c.index, trie.PartID{Index: k, Total: total})
		if errors.Is(err, storage.ErrGone) {
			n.catchup = nil
			return nil
		}
		if err != nil {
			return err
		}
		c.parts = append(c.parts, part)
	}
	return n.join()
}

// step makes the next step of a shard's catchup.
func (n *joiner) step(r *runner) error {
	c := n.catchup
	total := uint64(len(c.parts))
	if c.done < len(c.parts) {
		if err := c.j.Enter(total); !errors.Is(err, engine.ErrNotYet) {
			return fmt.Errorf("entered with %d of %d parts: %w", c.done, total, err)
		}
		id := trie.PartID{Index: uint64(c.done), Total: total}
		if err := c.j.Part(id, c.parts[c.done][1:]); !errors.Is(err, trie.ErrMissing) && !errors.Is(err, trie.ErrCorrupt) {
			return fmt.Errorf("a part that lacks a string: %w", err)
		}
		if err := c.j.Part(id, c.parts[c.done]); err != nil {
			return err
		}
		c.done++
		n.parted++
		return nil
	}
	if (c.j.At() == storage.BlockRef{}) && n.random.IntN(16) > 0 { // meanwhile the chain advances
		return nil
	}
	if err := c.j.Enter(total); err != nil {
		if errors.Is(err, engine.ErrNotYet) {
			return nil
		}
		return err
	}
	for range 2 + n.random.IntN(4) {
		next, more, err := c.j.Next()
		if err != nil {
			return err
		}
		if !more {
			return n.finish(r)
		}
		given := n.give(next.Hash)
		if err := n.spoiled(given); err != nil {
			return err
		}
		if err := c.j.CatchUp(given); err != nil {
			return fmt.Errorf("block %v: %w", next, err)
		}
		n.blocks++
		if err := n.compare(r, next.Hash); err != nil {
			return err
		}
	}
	return nil
}

// spoiled makes steps with invalid data: they fail and change nothing.
func (n *joiner) spoiled(given []*primitives.Chunk) error {
	at, bad := n.catchup.j.At(), slices.Clone(given)
	index := n.catchup.index
	for k := range bad {
		bad[k] = nil
	}
	if slices.ContainsFunc(given, func(c *primitives.Chunk) bool { return c != nil }) && given[index] != nil {
		if err := n.catchup.j.CatchUp(bad); !errors.Is(err, engine.ErrMissing) {
			return fmt.Errorf("caught up with nothing: %w", err)
		}
		other := *given[index]
		other.Transactions = append(slices.Clone(other.Transactions), new(primitives.SignedTransaction))
		bad = slices.Clone(given)
		bad[index] = &other
		if err := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = engine.ErrChunk // an empty transaction has no encoding
				}
			}()
			return n.catchup.j.CatchUp(bad)
		}(); !errors.Is(err, engine.ErrChunk) {
			return fmt.Errorf("caught up with another body: %w", err)
		}
	}
	if n.catchup.j.At() != at {
		return errors.New("what was refused has changed the shard")
	}
	return nil
}

// compare requires that a block's record contains the results in the shard.
func (n *joiner) compare(r *runner, block primitives.Hash) error {
	var raw [2][]byte
	for i, s := range []*storage.Store{n.store, r.store} {
		rec, err := s.BlockByHash(block)
		if err == nil {
			raw[i], err = rec.Extra(n.catchup.id)
		}
		if err != nil {
			return err
		}
	}
	if !bytes.Equal(raw[0], raw[1]) {
		r.differs(fmt.Sprintf("shard %d of block %v, which was caught up with", n.catchup.id, block), "another extra", "the same")
	}
	if n.e.BlockNode(block) != nil { // not yet compared in this shard
		return nil
	}
	got, err := n.e.Block(block)
	if err != nil {
		return err
	}
	all, err := r.e.Block(block)
	if err != nil {
		return err
	}
	s, want := &got.Shards[n.catchup.index], &all.Shards[n.catchup.index]
	if !bytes.Equal(primitives.AppendReceipts(nil, s.Incoming), primitives.AppendReceipts(nil, want.Incoming)) {
		r.differs(fmt.Sprintf("shard %d of block %v as it is stored", n.catchup.id, block), "other incoming receipts", "the same")
	}
	if (s.Chunk != nil && s.Chunk.Proofs == nil) != (want.Chunk != nil) {
		r.differs(fmt.Sprintf("shard %d of block %v as it is stored", n.catchup.id, block), s.Chunk, want.Chunk)
	}
	n.stored += len(s.Incoming)
	return nil
}

func (n *joiner) finish(r *runner) error {
	c := n.catchup
	if err := c.j.Finish(func(block primitives.Hash) []*primitives.Chunk { return n.give(block) }); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	n.hold(c.id)
	n.joined++
	for x := n.e.Head(); x.Hash != n.e.Final().Hash; {
		if !x.Shards[c.index].Held() {
			r.differs(fmt.Sprintf("shard %d of block %d", c.id, x.Height()), "not held", "held")
		}
		if err := n.compare(r, x.Hash); err != nil {
			return err
		}
		if x = n.e.BlockNode(x.Header().PrevHash); x == nil {
			break
		}
	}
	n.catchup = nil
	return nil
}

// behind passes a replayed block to the node, and advances catchups.
func (n *joiner) behind(r *runner, b *primitives.Block, chunks []*primitives.Chunk) error {
	at := r.e.Imported(b.Hash())
	if n.e == nil {
		n.hold(at.Layout.ShardIDs()[0])
		if err := n.open(r); err != nil {
			return err
		}
	}
	n.chunks[b.Hash()], n.layouts[b.Hash()] = chunks, at.Layout
	if err := n.feed(r, b, chunks); err != nil {
		return err
	}
	if height := b.Header.Height + 2; height+20 < n.last && n.random.IntN(6) == 0 {
		fork, its, err := r.fork(at, height, n.random)
		if err != nil {
			return err
		}
		if _, err := r.e.Process(fork, its, false); err != nil {
			return err
		}
		n.chunks[fork.Hash()], n.layouts[fork.Hash()] = its, r.e.Imported(fork.Hash()).Layout
		if err := n.feed(r, fork, its); err != nil {
			return err
		}
		n.forks++
	}
	if n.random.IntN(2) == 0 {
		if err := n.e.AdvanceFlatHead(); err != nil {
			return err
		}
	}
	if n.catchup == nil {
		if err := n.begin(r, at); err != nil {
			return err
		}
	}
	if n.random.IntN(3) == 0 {
		if err := n.reopen(r); err != nil {
			return err
		}
	}
	if n.catchup != nil && n.random.IntN(3) > 0 {
		return n.step(r)
	}
	return nil
}

// TestCaughtUpShardsEqualHeldOnes: a node with one shard of a recorded chain catches up the others
// one after another, each at a sync block with state parts from another node, then applies the
// blocks since while the chain advances, over restarts and with forks in between. Afterwards its
// results equal those of a node that had the shards all along.
func TestCaughtUpShardsEqualHeldOnes(t *testing.T) {
	seed := rand.Uint64()
	names := []string{"four", "globals"}
	if modes() {
		// while a shard is catching up the layout does not change
		names = slices.DeleteFunc(chains(names...), func(name string) bool { return name == "reshard" })
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			reaching(t, seed, func(seed uint64) bool {
				n := &joiner{partial: &partial{name: "joiner", disk: storage.NewMemDisk()}, random: rand.New(rand.NewPCG(seed, 5)),
					last: rec.Blocks[len(rec.Blocks)-1].Given.Header.Height, chunks: map[primitives.Hash][]*primitives.Chunk{}, begun: map[primitives.EpochID]bool{},
					layouts: map[primitives.Hash]primitives.ShardLayout{}}
				report, err := Run(rec, Options{Par: par, EpochConfig: epochConfigs(t, name), behind: n.behind, Tries: trie.Options{Frontier: 2048, Poison: true}})
				for _, d := range report.Findings {
					t.Errorf("difference %v", d)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d shards came in by %d parts, %d blocks with %d receipts were caught up with, %d restarts meanwhile, %d forks, %d steps compared",
					n.joined, n.parted, n.blocks, n.stored, n.starts, n.forks, n.applied)
				if err := n.close(); err != nil {
					t.Error(err)
				}
				return n.joined > 0 && n.blocks > 0 && n.starts > 0 && n.forks > 0
			})
		})
	}
}
