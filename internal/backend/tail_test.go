package backend

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// TestTailOfGarbageCollectionIsReadable: garbage collection keeps the last block of the epoch
// before the oldest kept one, as nearcore's does. Status names it as the earliest block, and its
// block, chunks, changes, state and messages can be read. States can be read by height as long as
// by hash, also before anything is collected. At 88 the producers of the tail's chunks depend on
// collected blocks.
func TestTailOfGarbageCollectionIsReadable(t *testing.T) {
	t.Run("86", func(t *testing.T) { testTailStaysReadable(t, 86) })
	t.Run("88", func(t *testing.T) { testTailStaysReadable(t, 88) })
}

func testTailStaysReadable(t *testing.T, release primitives.ProtocolVersion) {
	const keep = 3
	for _, seed := range []uint64{4, 6} {
		o, course := workload.RandomSplits(seed, 70)
		o.Release = release
		o.Store.FlatHeadBlocks = 2
		course.PerStep, course.Fork, course.Skip, course.Miss, course.Resume = 12, 0.1, 0.2, 0.1, 0.4
		c, err := workload.OpenChain(o)
		if err != nil {
			t.Fatal(err)
		}
		back := func() *Backend {
			return New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now, KeepEpochs: keep})
		}
		balances := map[primitives.Hash]primitives.Balance{}
		script, b := workload.NewScript(c, course), back()
		var head *engine.BlockNode
		for range course.Blocks {
			m, err := script.Step()
			if err != nil {
				t.Fatal(err)
			}
			if head = c.Engine.Head(); m.Accepted != nil && m.Accepted.Entry == head {
				balances[head.Hash] = balanceAt(t, b, view.BlockRef{Kind: view.RefHash, Hash: head.Hash})
			}
		}
		chain, tail, split := []*engine.BlockNode{}, 0, false
		for x := head; x != nil; x = script.Find(x.Header().PrevHash) {
			chain = append(chain, x)
			split = split || len(x.Shards) != len(head.Shards)
		}
		slices.Reverse(chain)
		readable := func(from int) {
			for _, x := range chain[from:] {
				want, known := balances[x.Hash]
				for _, ref := range []view.BlockRef{{Kind: view.RefHeight, Height: x.Height()}, {Kind: view.RefHash, Hash: x.Hash}} {
					if got := balanceAt(t, b, ref); known && got != want {
						t.Errorf("seed %d: state of block %d: %v, want %v", seed, x.Height(), got, want)
					}
				}
			}
		}
		readable(0)
		// An update of the flat head may still run. What garbage collection keeps depends on its end.
		if err := c.Engine.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		epochs := 1 // from the folded block on
		for i := c.Store.Tip().FlatHead.Height; tail == 0 && i > 0; i-- {
			n := slices.IndexFunc(chain, func(x *engine.BlockNode) bool { return x.Height() == i })
			if n < 1 || chain[n].Header().EpochID == chain[n-1].Header().EpochID {
				continue
			}
			if epochs++; epochs > keep {
				tail = n - 1
			}
		}
		authors := map[primitives.ShardID]primitives.AccountID{}
		for _, s := range chain[tail].Shards {
			if s.Chunk != nil {
				if authors[s.ID], _, err = b.Chunk(t.Context(), view.ChunkRef{ByHash: true, Hash: s.Chunk.Hash}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for more := true; more; {
			done, err := c.Store.CollectGarbage(storage.GCOptions{KeepEpochs: keep, Before: 1 << 62, MaxHeights: 5})
			if err != nil {
				t.Fatal(err)
			}
			more = done.More
		}
		for range 2 {
			if b = back(); tail < 1 || !split {
				t.Fatalf("seed %d: nothing to collect, or no split: tail %d, split %v, head %d, folded %d, %d blocks, epoch %d", seed, tail, split, head.Height(), c.Store.Tip().FlatHead.Height, len(chain), o.EpochLength)
			}
			checkTail(t, b, chain[:tail+1], authors)
			readable(tail)
			if err := c.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Close()
	}
}

// balanceAt reads a balance at a block.
func balanceAt(t *testing.T, b *Backend, ref view.BlockRef) primitives.Balance {
	t.Helper()
	id := workload.Account(0)
	s, err := b.State(ref, id)
	if err != nil {
		t.Fatalf("state of %v: %v", ref, err)
	}
	defer s.Release()
	var a primitives.Account
	if _, err := s.Account(id, &a); err != nil {
		t.Fatalf("account at %v: %v", ref, err)
	}
	return a.Amount
}

// checkTail compares a node's replies with a chain whose last block must be the tail, with the
// producers of its chunks as they were before anything was collected.
func checkTail(t *testing.T, b *Backend, chain []*engine.BlockNode, authors map[primitives.ShardID]primitives.AccountID) {
	t.Helper()
	tail, below := chain[len(chain)-1], chain[len(chain)-2]
	s, err := b.Status()
	if err != nil || s.Sync.EarliestBlockHeight != tail.Height() || s.Sync.EarliestBlockHash != tail.Hash {
		t.Errorf("earliest block %d %v, want %d %v: %v", s.Sync.EarliestBlockHeight, s.Sync.EarliestBlockHash, tail.Height(), tail.Hash, err)
	}
	for _, ref := range []view.BlockRef{{Kind: view.RefHeight, Height: tail.Height()}, {Kind: view.RefHash, Hash: tail.Hash}, {Kind: view.RefEarliest}} {
		if _, got, err := b.Block(t.Context(), ref); err != nil || got.Hash() != tail.Hash {
			t.Errorf("block %v: %v", ref, err)
		}
		if _, _, err := b.written(ref); err != nil {
			t.Errorf("changes of %v: %v", ref, err)
		}
		if _, err := b.StreamerMessage(ref); err != nil {
			t.Errorf("message of %v: %v", ref, err)
		}
		for i := range tail.Shards {
			if tail.Shards[i].Chunk == nil {
				continue
			}
			if author, _, err := b.Chunk(t.Context(), view.ChunkRef{Block: ref, ShardID: tail.Shards[i].ID}); err != nil || author != authors[tail.Shards[i].ID] {
				t.Errorf("chunk of shard %d in %v: %v", tail.Shards[i].ID, ref, err)
			}
		}
		if _, err := b.GasPrice(t.Context(), &ref); err != nil {
			t.Errorf("gas price of %v: %v", ref, err)
		}
		if _, err := b.ProtocolConfig(ref); err != nil {
			t.Errorf("protocol config of %v: %v", ref, err)
		}
		if _, err := b.ValidatorsOrdered(&ref); err != nil {
			t.Errorf("ordered validators of %v: %v", ref, err)
		}
		if _, err := b.Validators(view.EpochRef{Kind: view.EpochByBlock, Block: ref}); err != nil {
			t.Errorf("validators of %v, the last block of its epoch: %v", ref, err)
		}
	}
	for _, ref := range []view.BlockRef{{Kind: view.RefHeight, Height: below.Height()}, {Kind: view.RefHash, Hash: below.Hash}} {
		if _, _, err := b.Block(t.Context(), ref); !isLookup(err) {
			t.Errorf("collected block %v: %v", ref, err)
		}
		if _, err := b.State(ref, workload.Account(0)); !isLookup(err) {
			t.Errorf("state of collected block %v: %v", ref, err)
		}
	}
}

// TestLastBlockDescribesItsEpoch: an epoch is described by its last block once the next epoch has
// begun, and by no other block. The genesis is the last of no epoch: the block after it has the
// same epoch.
func TestLastBlockDescribesItsEpoch(t *testing.T) {
	o, course := workload.RandomChain(3, 40)
	o.EpochLength, o.Validity, course.Fork, course.Blocks, course.PerStep = 7, 14, 0, 40, 3
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	script, chain := workload.NewScript(c, course), []*engine.BlockNode{c.Engine.Genesis()}
	for range course.Blocks {
		m, err := script.Step()
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, m.Accepted.Entry)
	}
	b, ended := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now}), 0
	for i, x := range chain {
		want := view.ErrUnknownEpoch // of the head
		if i+1 < len(chain) {
			want = view.ErrNoValidatorInfo
		}
		for _, ref := range []view.BlockRef{{Kind: view.RefHeight, Height: x.Height()}, {Kind: view.RefHash, Hash: x.Hash}} {
			_, err := b.Validators(view.EpochRef{Kind: view.EpochByBlock, Block: ref})
			if i+1 < len(chain) && chain[i+1].Header().EpochID != x.Header().EpochID {
				if ended++; err != nil {
					t.Errorf("last block %d of an epoch: %v", x.Height(), err)
				}
				continue
			}
			var e *view.LookupError
			if !errors.As(err, &e) || e.Kind != want {
				t.Errorf("block %d: %v, want %v", x.Height(), err, want)
			}
		}
	}
	if ended < 4 {
		t.Errorf("%d epochs ended", ended)
	}
}

// TestBlockProofErrorNamesTheUnknownBlock: if neither block is known the error names the one to be
// proven.
func TestBlockProofErrorNamesTheUnknownBlock(t *testing.T) {
	c, err := workload.OpenChain(workload.ChainOptions{Options: workload.Options{Accounts: 2, Shards: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	block, head := primitives.HashBytes([]byte("block")), primitives.HashBytes([]byte("head"))
	var e *view.LookupError
	if _, _, err := b.LightClientBlockProof(block, head); !errors.As(err, &e) || e.Hash != block {
		t.Errorf("%v, want one of %v", err, block)
	}
	if _, _, err := b.LightClientBlockProof(c.Engine.Genesis().Hash, head); !errors.As(err, &e) || e.Hash != head {
		t.Errorf("%v, want one of %v", err, head)
	}
}
