package engine

import (
	"reflect"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TestBootstrapByProof: a node starts with the genesis, an epoch sync proof, the headers after it
// and the state at a sync block, from a peer that has collected all older blocks. It follows the
// chain to equal roots over epochs and a restart, and makes an equal proof itself.
func TestBootstrapByProof(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc")
	maker, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{FlatHeadBlocks: 4}, func(o *Options) { o.Snapshots = true })
	if err != nil {
		t.Fatal(err)
	}
	var list []*primitives.Block
	blocks, bodies := map[primitives.Hash]*primitives.Block{}, map[primitives.Hash][]*primitives.Chunk{}
	more := func(to int) {
		t.Helper()
		for len(list) < to {
			h := maker.Head().Height() + 1
			b, chunks := maker.make(maker.Head().Hash, h, h%10 == 7 || h == 92)
			maker.accept(b, chunks)
			list = append(list, b)
			blocks[b.Hash()], bodies[b.Hash()] = b, chunks
			if h%5 == 0 {
				if err := maker.AdvanceFlatHead(); err != nil {
					t.Fatal(err)
				}
				if _, err := maker.store.CollectGarbage(storage.GCOptions{KeepEpochs: 5, Before: ^uint64(0), MaxHeights: 100}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	more(99)
	if _, err := maker.WholeBlock(list[5].Hash()); err == nil {
		t.Fatal("nothing was collected")
	}
	proof, err := maker.EpochProof()
	if err != nil {
		t.Fatal(err)
	}
	lead := openNode(t, g)
	if err := lead.JumpHeaders(proof); err != nil {
		t.Fatal(err)
	}
	if at, err := lead.SyncBlockAhead(); err != nil || at != nil {
		t.Fatalf("a sync block without headers: %v, %v", at, err)
	}
	var heads []*primitives.BlockHeader
	for _, b := range list {
		if b.Header.Height > proof.Current.First.Height {
			heads = append(heads, b.Header)
		}
	}
	if _, err := lead.AddHeaders(heads); err != nil {
		t.Fatal(err)
	}
	at, err := lead.SyncBlockAhead()
	if err != nil || at == nil || !at.Complete {
		t.Fatalf("sync block %+v, %v", at, err)
	}
	scan, err := lead.scanHeaders()
	if err != nil {
		t.Fatal(err)
	}
	lead.headerChain.mu.Lock() // needed by AddHeaders and Precheck
	found := make(chan *SyncBlock, 1)
	go func() {
		x, _ := scan.find()
		found <- x
	}()
	select {
	case x := <-found:
		if !reflect.DeepEqual(x, at) {
			t.Errorf("%+v, want %+v", x, at)
		}
	case <-time.After(time.Minute):
		t.Fatal("others wait while all headers are read")
	}
	lead.headerChain.mu.Unlock()
	again, err := lead.HeaderProof()
	if err != nil || again == nil {
		t.Fatal(err)
	}
	start := &BootstrapInput{Blocks: []*primitives.Block{lead.Genesis().Block}, Proof: again, Proofs: map[primitives.Hash][]*primitives.Chunk{}}
	for _, h := range append([]*primitives.BlockHeader{again.Current.PrevPrev, again.Current.Prev}, at.Path...) {
		b := &primitives.Block{Header: h}
		if h.Height >= at.Before.Height { // both shards have a chunk there; the block before is a header only
			b = blocks[h.Hash()]
		}
		start.Blocks = append(start.Blocks, b)
	}
	point := blocks[at.Point.Hash]
	find := func(h primitives.Hash) *primitives.Block { return blocks[h] }
	layout := maker.Head().Layout
	parts := make([]uint64, layout.NumShards())
	for i, id := range layout.ShardIDs() {
		h, err := maker.StateSyncHeader(at.Sync.Hash, id)
		if err != nil {
			t.Fatal(err)
		}
		proofs, err := VerifyStateHeader(h, point, layout, primitives.ShardIndex(i), id, find)
		if err != nil {
			t.Fatal(err)
		}
		MergeProofs(start.Proofs, proofs)
		chunk := h.Chunk
		start.Next = append(start.Next, &chunk)
		parts[i] = trie.NumParts(h.Root.MemoryUsage)
	}
	disk := storage.NewMemDisk()
	var a *BootstrapSync
	open := func() *storage.Store {
		s, err := storage.OpenMemory(disk, storage.Options{Identity: storage.Identity{ChainID: lead.Chain().ID, Numbering: primitives.NumberingRelease}})
		if err != nil {
			t.Fatal(err)
		}
		if a, err = BeginBootstrap(Options{Chain: lead.Chain(), Store: s}, start); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for i := range layout.NumShards() {
		s := open()
		for k := range parts[i] {
			id := trie.PartID{Index: k, Total: parts[i]}
			strings, err := maker.Part(at.Before.Hash, primitives.ShardIndex(i), id)
			if err == nil {
				err = a.Part(primitives.ShardIndex(i), id, strings)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open()
	for i := range layout.NumShards() {
		if has, err := a.Has(primitives.ShardIndex(i)); err != nil || uint64(len(has)) != parts[i] {
			t.Fatalf("parts %v of %d, %v", has, parts[i], err)
		}
	}
	if err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opened := func() *node {
		n, err := openChanged(t, g, disk, storage.Options{}, func(o *Options) { o.Snapshots = true })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := opened()
	if n.Head().Hash != at.Before.Hash {
		t.Fatalf("it begins at %d", n.Head().Height())
	}
	goOn := func() {
		t.Helper()
		for _, b := range list {
			if b.Header.Height <= n.Head().Height() {
				continue
			}
			if _, err := n.AddHeaders([]*primitives.BlockHeader{b.Header}); err != nil {
				t.Fatalf("header %d: %v", b.Header.Height, err)
			}
			n.accept(b, bodies[b.Hash()])
			if h := b.Header.Height; h%3 == 0 {
				if err := n.AdvanceFlatHead(); err != nil {
					t.Fatal(err)
				}
			}
			if h := b.Header.Height; h == 97 || h == 115 {
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
				_ = n.store.Close()
				n = opened()
			}
		}
	}
	samePoint := func() {
		t.Helper()
		if err := n.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		got, is := n.SyncPointNow()
		if want, _ := maker.SyncPointNow(); !is || got.At != want.At {
			t.Errorf("at %d the newest sync point is %d, not %d", n.Head().Height(), got.At.Height, want.At.Height)
		}
		mine, err := n.ServedSnapshots().List()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := maker.ServedSnapshots().List()
		if err != nil || len(mine) == 0 || !reflect.DeepEqual(mine[len(mine)-1], theirs[len(theirs)-1]) {
			t.Errorf("at %d it offers %+v, and the others %+v: %v", n.Head().Height(), mine, theirs, err)
		}
	}
	more(104)
	goOn()
	samePoint()
	more(135)
	goOn()
	samePoint()
	for i := range n.Head().Shards {
		if got, want := n.Head().Shards[i].Extra.StateRoot, maker.Head().Shards[i].Extra.StateRoot; got != want {
			t.Errorf("shard %d: root %v, want %v", i, got, want)
		}
	}
	want, err := maker.EpochProof()
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.EpochProof()
	if err != nil {
		t.Fatal(err)
	}
	if string(got.AppendBorsh(nil)) != string(want.AppendBorsh(nil)) {
		t.Error("it makes another proof")
	}
}
