package engine

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// catchupPair is a node that makes blocks (maker), and a node under test (n) that at first holds
// only the first of the two shards.
type catchupPair struct {
	t      *testing.T
	maker  *node
	n      *node
	disk   *storage.MemDisk
	ids    []primitives.ShardID
	chunks map[primitives.Hash][]*primitives.Chunk
	nonce  primitives.Nonce
	to     primitives.AccountID // the receiver of the transfers in the blocks
}

func newCatchupPair(t *testing.T) *catchupPair {
	p := &catchupPair{t: t, maker: openNode(t, testGenesis(t, "aa", "bb")), disk: storage.NewMemDisk(), chunks: map[primitives.Hash][]*primitives.Chunk{}, to: "near"}
	p.ids = p.maker.Head().Layout.ShardIDs()
	p.open(p.ids[0])
	return p
}

func (p *catchupPair) open(ids ...primitives.ShardID) {
	p.t.Helper()
	var err error
	if p.n, err = openChanged(p.t, testGenesis(p.t, "aa", "bb"), p.disk, storage.Options{FlatHeadBlocks: 2}, func(o *Options) {
		o.Tries, o.Tracks = trie.Options{Poison: true}, TrackShards(ids...)
	}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *catchupPair) restart(ids ...primitives.ShardID) {
	p.t.Helper()
	if err := errors.Join(p.n.Close(), p.n.store.Close()); err != nil {
		p.t.Fatal(err)
	}
	p.open(ids...)
}

// cut returns a block's chunks as a node that holds only the shard id receives them.
func (p *catchupPair) cut(block primitives.Hash, id primitives.ShardID) (out []*primitives.Chunk) {
	for i, c := range p.chunks[block] {
		if c != nil && p.ids[i] != id {
			c = chain.CutChunk(c, p.maker.Head().Layout, []primitives.ShardID{id})
		}
		out = append(out, c)
	}
	return out
}

// blocks makes n blocks, which both nodes import. In the blocks for which skip is true, the second
// shard has no chunk.
func (p *catchupPair) blocks(n int, skip func(int) bool) {
	p.t.Helper()
	for i := range n {
		p.nonce++
		head := p.maker.Head()
		b, chunks := p.maker.make(head.Hash, head.Height()+1, skip(i), transferTo(p.to, p.maker.Genesis().Hash, p.nonce))
		p.maker.accept(b, chunks)
		p.chunks[b.Hash()] = chunks
		given := p.cut(b.Hash(), p.ids[0])
		if tip := p.n.Tip(); tip.Shards[1].Held() {
			given = chunks
		}
		p.n.accept(b, given)
	}
}

func (p *catchupPair) join(point primitives.Hash) *ShardCatchup {
	p.t.Helper()
	at, err := p.n.Block(point)
	if err != nil {
		p.t.Fatal(err)
	}
	j, err := p.n.CatchUpShard(at, 1, p.chunks[point][1], nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return j
}

func (p *catchupPair) catchUp(j *ShardCatchup) (n int) {
	p.t.Helper()
	for ; ; n++ {
		at, more, err := j.Next()
		if err != nil {
			p.t.Fatal(err)
		}
		if !more {
			return n
		}
		if err := j.CatchUp(p.cut(at.Hash, p.ids[1])); err != nil {
			p.t.Fatal(err)
		}
	}
}

// same checks that both nodes have the same states and extras in all blocks of n down to the flat
// head.
func (p *catchupPair) same() {
	p.t.Helper()
	for x := p.n.Head(); x != nil; x = p.n.BlockNode(x.Header().PrevHash) {
		want, err := p.maker.Block(x.Hash)
		if err != nil {
			p.t.Fatal(err)
		}
		for i := range x.Shards {
			if !x.Shards[i].Held() || x.Shards[i].root == nil {
				p.t.Fatalf("shard %d of block %d is not held", p.ids[i], x.Height())
			}
			if root := x.Shards[i].root.Hash(); !bytes.Equal(x.Shards[i].Extra.AppendBorsh(nil), want.Shards[i].Extra.AppendBorsh(nil)) || root != x.Shards[i].Extra.StateRoot {
				p.t.Errorf("shard %d of block %d is another", p.ids[i], x.Height())
			}
		}
	}
	v := p.n.Verify()
	for {
		done, err := v.Step(100)
		if err != nil {
			p.t.Fatal(err)
		}
		if done {
			return
		}
	}
}

// TestCatchupResumesAfterInterruptedFinish: a process that ends during Finish has stored the shard
// in some blocks above the flat head and not in others. After a restart the chain continues without
// the shard while the flat head advances; then the catchup resumes and succeeds.
func TestCatchupResumesAfterInterruptedFinish(t *testing.T) {
	for cut := range 3 { // the number of blocks with the shard when the process ends
		p := newCatchupPair(t)
		never := func(int) bool { return false }
		p.blocks(8, never)
		point := p.maker.Head()
		part, err := p.maker.Snapshots().Part(point.Header().PrevHash, 1, trie.PartID{Total: 1})
		if err != nil {
			t.Fatal(err)
		}
		j := p.join(point.Hash)
		if err := j.Enter(1); !errors.Is(err, ErrNotYet) {
			t.Fatalf("Enter without parts: %v, want ErrNotYet", err)
		}
		if err := j.Part(trie.PartID{Total: 1}, part); err != nil {
			t.Fatal(err)
		}
		if err := j.Enter(1); !errors.Is(err, ErrNotYet) {
			t.Fatalf("Enter above the flat head: %v, want ErrNotYet", err)
		}
		p.blocks(9, func(i int) bool { return i%3 > 0 })
		if err := errors.Join(p.n.AdvanceFlatHead(), j.Enter(1)); err != nil {
			t.Fatal(err)
		}
		if n := p.catchUp(j); n < 3 {
			t.Fatalf("caught up %d blocks, want 3 or more", n)
		}
		p.blocks(3, func(i int) bool { return i == 1 })
		if p.n.flatHeadUpdate != nil { // so that the disk is as before the next update
			if err := p.n.finishFlatHeadUpdate(p.n.flatHeadUpdate.wait()); err != nil {
				t.Fatal(err)
			}
		}
		p.catchUp(j)
		order, err := j.nodesAboveFlatHead()
		if err != nil || len(order) < 3 {
			t.Fatalf("%d blocks above the folded one, %v", len(order), err)
		}
		states := map[primitives.Hash]*ShardState{p.n.flatHead.Hash: &j.shard}
		for _, x := range order[:cut] { // the same steps as in Finish
			before := states[x.Header().PrevHash]
			s, err := j.step(p.n.entries[x.Header().PrevHash], before, x, p.cut(x.Hash, p.ids[1]), nil)
			if err == nil {
				err = j.commit(x, s, before, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			states[x.Hash] = s
		}
		p.restart(p.ids[0])
		if held := order[max(cut, 1)-1].Hash; cut > 0 && !p.n.BlockNode(held).Shards[1].Held() || p.n.Tip().Shards[1].Held() {
			t.Fatalf("after %d: the stored part is missing", cut)
		}
		p.blocks(9, func(i int) bool { return i%4 == 1 })
		if err := p.n.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		p.restart(p.ids[0])
		j = p.join(point.Hash)
		if p.catchUp(j) == 0 {
			t.Errorf("after %d: no block is left to catch up", cut)
		}
		if err := j.Finish(func(block primitives.Hash) []*primitives.Chunk { return nil }); !errors.Is(err, ErrMissing) || p.n.Tip().Shards[1].Held() {
			t.Fatalf("without chunks: %v", err)
		}
		if err := j.Finish(func(block primitives.Hash) []*primitives.Chunk { return p.cut(block, p.ids[1]) }); err != nil {
			t.Fatal(err)
		}
		p.same()
		p.blocks(7, func(i int) bool { return i < 3 })
		p.same()
		if err := p.n.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		p.restart(p.ids...)
		p.same()
		p.blocks(3, never)
		p.same()
	}
}

// TestCatchupIncludesReceiptsOfMissedChunks: a shard without chunks in some blocks above the flat
// head is caught up, including the receipts that those blocks sent to it.
func TestCatchupIncludesReceiptsOfMissedChunks(t *testing.T) {
	for missed := range 4 { // bit set: the third last, the second last block
		p := newCatchupPair(t)
		p.to = "zz" // an unused account
		if id := p.maker.Head().Layout.ShardOf(p.to); id != p.ids[1] {
			t.Fatalf("%s is of shard %d", p.to, id)
		}
		never := func(int) bool { return false }
		p.blocks(8, never)
		point := p.maker.Head()
		part, err := p.maker.Snapshots().Part(point.Header().PrevHash, 1, trie.PartID{Total: 1})
		if err != nil {
			t.Fatal(err)
		}
		j := p.join(point.Hash)
		if err := j.Part(trie.PartID{Total: 1}, part); err != nil {
			t.Fatal(err)
		}
		p.blocks(5, never)
		if err := errors.Join(p.n.AdvanceFlatHead(), j.Enter(1)); err != nil {
			t.Fatal(err)
		}
		p.catchUp(j)
		p.blocks(3, func(i int) bool { return i < 2 && missed>>i&1 == 1 })
		if err := p.n.quiesce(); err != nil {
			t.Fatal(err)
		}
		p.catchUp(j)
		if err := j.Finish(func(block primitives.Hash) []*primitives.Chunk { return p.cut(block, p.ids[1]) }); err != nil {
			t.Fatalf("%b: %v", missed, err)
		}
		p.same()
		p.blocks(4, never)
		p.same()
	}
}

// TestCaughtUpShardProvesOldChunk: a shard can be caught up even if the flat head has passed its
// last chunk long ago. The witness of its next chunk then equals that of a node which has always
// held the shard; otherwise that chunk could not be produced. The same holds after a restart, and
// if the fetched state is the one before the last chunk.
func TestCaughtUpShardProvesOldChunk(t *testing.T) {
	for _, more := range []int{0, 1, 5} { // number of chunks after that of the sync point
		p := newCatchupPair(t)
		p.maker = openOn(t, testGenesis(t, "aa", "bb"), storage.NewMemDisk(), storage.Options{FlatHeadBlocks: 1000})
		p.to = "zz"
		p.blocks(8, func(int) bool { return false })
		point := p.maker.Head()
		part, err := p.maker.Snapshots().Part(point.Header().PrevHash, 1, trie.PartID{Total: 1})
		if err != nil {
			t.Fatal(err)
		}
		j := p.join(point.Hash)
		if err := j.Part(trie.PartID{Total: 1}, part); err != nil {
			t.Fatal(err)
		}
		p.blocks(more, func(int) bool { return false })
		p.blocks(12, func(int) bool { return true })
		if err := errors.Join(p.n.AdvanceFlatHead(), j.Enter(1)); err != nil {
			t.Fatal(err)
		}
		p.catchUp(j)
		if err := j.Finish(func(block primitives.Hash) []*primitives.Chunk { return p.cut(block, p.ids[1]) }); err != nil {
			t.Fatal(err)
		}
		prove := func(what string) {
			t.Helper()
			head := p.maker.Head()
			main, implicit, err := p.n.Transitions(head.Hash, p.ids[1])
			wantMain, want, werr := p.maker.Transitions(head.Hash, p.ids[1])
			if err := errors.Join(err, werr); err != nil {
				t.Fatalf("%d more, %s: %v", more, what, err)
			}
			if !reflect.DeepEqual(append(implicit, main), append(want, wantMain)) {
				t.Errorf("%d more, %s: the witness differs from the maker's", more, what)
			}
			if at := p.n.flatHead.Height(); main.Height != point.Height()+primitives.Height(more) || at <= main.Height {
				t.Errorf("%d more, %s: the last chunk is in block %d, and %d is folded", more, what, main.Height, at)
			}
		}
		prove("come in")
		p.blocks(6, func(int) bool { return true })
		prove("later")
		p.restart(p.ids...)
		prove("started again")
		p.blocks(3, func(int) bool { return false })
		p.same()
	}
}
