package engine

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TestNodeBootstrapsFromEpochSyncProof: a node starts with the genesis, an epoch sync proof, the
// headers after it, and the state at a sync block, all from a peer that has garbage collected the
// older blocks. It follows the chain for several epochs and over a restart with equal roots, and
// builds the same epoch sync proof. With protocol version 88, heights are skipped and a producer
// that missed a chunk is no longer assigned; all nodes must store the same rows. The network also
// upgrades meanwhile: in the proof's current epoch, in the sync block's, in the next one, and in the
// one after it.
func TestNodeBootstrapsFromEpochSyncProof(t *testing.T) {
	t.Run("86", func(t *testing.T) {
		parameters.SupportForTest(t, 86) // else it is voted up
		testBootstrapByProof(t, bootstrapVersions{from: 86, to: 86})
	})
	t.Run("88", func(t *testing.T) { testBootstrapByProof(t, bootstrapVersions{from: 88, to: 88}) })
	for _, from := range []primitives.ProtocolVersion{86, 87} {
		for _, at := range []primitives.Height{85, 97, 107, 117} {
			t.Run(fmt.Sprintf("%d to %d at %d", from, from+1, at), func(t *testing.T) {
				testBootstrapByProof(t, bootstrapVersions{from, from + 1, at})
			})
		}
	}
}

// bootstrapVersions are the protocol versions of a chain. at is the height of the first block of version
// to; 0: that of the genesis.
type bootstrapVersions struct {
	from, to primitives.ProtocolVersion
	at       primitives.Height
}

// vote returns the version for which the block of a height votes. An epoch's votes decide the version
// of the second epoch after it.
func (v *bootstrapVersions) vote(h primitives.Height) primitives.ProtocolVersion {
	if h+20 < v.at {
		return v.from
	}
	return v.to
}

func testBootstrapByProof(t *testing.T, versions bootstrapVersions) {
	version := versions.to
	g := testGenesis(t, "aa", "bb", "cc")
	if version > 86 {
		g = testGenesis(t, "aa", "bb", "cc", "dd", "ee", "ff")
		g.Config.ChainID = "test-chain-engine" // with the thresholds of this genesis no validator is kicked out
		g.Config.BlockProducerKickoutThreshold, g.Config.ChunkProducerKickoutThreshold = 0, 0
		g.Config.ChunkValidatorOnlyKickoutThreshold = 0
		g.Config.ProtocolUpgradeStakeThreshold = genesis.Ratio{Num: 1, Den: 5} // not every validator produces a block in each epoch
	}
	g.Config.ProtocolVersion = versions.from
	options := func(o *Options) {
		o.Snapshots = true
		o.Chain.Params.EarlyKickout = &earlykickout.Thresholds{GraceBlocks: 3, MinMissed: 1, MinProducedPercent: 80}
	}
	missing := func(h primitives.Height) bool { return h%10 == 7 || h == 92 || version > 86 && h%10 == 5 }
	maker, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{FlatHeadBlocks: 4}, options)
	if err != nil {
		t.Fatal(err)
	}
	var list []*primitives.Block
	infos := map[primitives.EpochID]*epoch.EpochInfo{} // the maker's
	blocks, bodies := map[primitives.Hash]*primitives.Block{}, map[primitives.Hash][]*primitives.Chunk{}
	more := func(to int) {
		t.Helper()
		for len(list) < to {
			h := maker.Head().Height() + 1
			if version > 86 && h%9 == 3 {
				h++
			}
			maker.vote = versions.vote(h)
			b, chunks := maker.make(maker.Head().Hash, h, missing(h))
			maker.accept(b, chunks)
			list = append(list, b)
			if err := maker.Epochs(func(m *epoch.Manager) (err error) {
				infos[b.Header.EpochID], err = m.EpochInfo(b.Header.EpochID)
				return
			}); err != nil {
				t.Fatal(err)
			}
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
	extra := 0
	if version > 86 {
		extra = 3
	}
	more(99 + extra)
	if _, err := maker.WholeBlock(list[5].Hash()); err == nil {
		t.Fatal("nothing was collected")
	}
	proof, err := maker.EpochProofs().Proof()
	if err != nil {
		t.Fatal(err)
	}
	lead, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{}, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := lead.HeaderChain().Jump(proof); err != nil {
		t.Fatal(err)
	}
	if at, err := lead.HeaderChain().SyncBlock(); err != nil || at != nil {
		t.Fatalf("a sync block without headers: %v, %v", at, err)
	}
	var heads []*primitives.BlockHeader
	for _, b := range list {
		if b.Header.Height > proof.Current.First.Height {
			heads = append(heads, b.Header)
		}
	}
	if _, err := lead.HeaderChain().Add(heads); err != nil {
		t.Fatal(err)
	}
	at, err := lead.HeaderChain().SyncBlock()
	if err != nil || at == nil {
		t.Fatalf("sync block %+v, %v", at, err)
	}
	scan, err := lead.headerChain.scan()
	if err != nil {
		t.Fatal(err)
	}
	lead.headerChain.mu.Lock() // HeaderChain.Add and Precheck need this lock
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
	again, err := lead.HeaderChain().Proof()
	if err != nil || again == nil {
		t.Fatal(err)
	}
	start := &BootstrapInput{Proof: again, Proofs: map[primitives.Hash][]*primitives.Chunk{}}
	whole := BlockList{lead.Genesis().Block}
	path := []*primitives.BlockHeader{again.Current.PrevPrev, again.Current.Prev}
	for _, ref := range at.Path {
		h, err := lead.HeaderChain().Header(ref.Hash)
		if err != nil {
			t.Fatal(err)
		}
		path = append(path, h)
	}
	for _, h := range path {
		b := &primitives.Block{Header: h}
		if h.Height >= at.Before.Height { // Before has both shards' chunks; earlier headers are enough
			b = blocks[h.Hash()]
		}
		whole = append(whole, b)
	}
	start.Blocks = whole
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
			strings, err := maker.Snapshots().Part(at.Before.Hash, primitives.ShardIndex(i), id)
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
		if has, err := a.Has(primitives.ShardIndex(i), parts[i]); err != nil || uint64(len(has)) != parts[i] {
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
		n, err := openChanged(t, g, disk, storage.Options{}, options)
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
			if _, err := n.HeaderChain().Add([]*primitives.BlockHeader{b.Header}); err != nil {
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
		got, is := n.Snapshots().LastPoint()
		if want, _ := maker.Snapshots().LastPoint(); !is || got.At != want.At {
			t.Errorf("at %d the newest sync point is %d, not %d", n.Head().Height(), got.At.Height, want.At.Height)
		}
		mine, err := n.Snapshots().Served().List()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := maker.Snapshots().Served().List()
		if err != nil || len(mine) == 0 || !reflect.DeepEqual(mine[len(mine)-1], theirs[len(theirs)-1]) {
			t.Errorf("at %d it offers %+v, and the others %+v: %v", n.Head().Height(), mine, theirs, err)
		}
	}
	more(104 + extra)
	goOn()
	samePoint()
	more(135 + extra)
	goOn()
	samePoint()
	for i := range n.Head().Shards {
		if got, want := n.Head().Shards[i].Extra.StateRoot, maker.Head().Shards[i].Extra.StateRoot; got != want {
			t.Errorf("shard %d: root %v, want %v", i, got, want)
		}
	}
	want, err := maker.EpochProofs().Proof()
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.EpochProofs().Proof()
	if err != nil {
		t.Fatal(err)
	}
	if string(got.AppendBorsh(nil)) != string(want.AppendBorsh(nil)) {
		t.Error("an evicted value has another proof")
	}
	sameProducers(t, maker, n, list, proof.Current.First.Height, version)
	sameEpochs(t, n, list, infos, proof.Current.First.Height, versions)
	if versions.at != 0 && (proof.Current.First.Height != 85 || at.Sync.Height != 110) {
		t.Errorf("proof from %d, sync block %d: the upgrades must be moved", proof.Current.First.Height, at.Sync.Height)
	}
	headers, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{}, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := headers.HeaderChain().Jump(proof); err != nil {
		t.Fatal(err)
	}
	if _, err := headers.HeaderChain().Add(heads); err != nil {
		t.Fatal(err)
	}
	headers.headerChain.mu.Lock()
	defer headers.headerChain.mu.Unlock()
	for _, h := range append([]*primitives.BlockHeader{proof.Current.First}, heads...) {
		info, err := headers.headerChain.chain.Epochs().BlockInfo(h.Hash())
		if err != nil {
			t.Fatal(err)
		}
		if want := maker.blockInfo(h.Hash()); want != nil && !reflect.DeepEqual(info.ChunkProducers, want.ChunkProducers) {
			t.Errorf("header %d: chunk producers %v, not %v", h.Height, info.ChunkProducers, want.ChunkProducers)
		}
	}
}

// blockInfo returns the BlockInfo that the engine has stored of a block; nil: the block was garbage
// collected.
func (n *node) blockInfo(hash primitives.Hash) (b *epoch.BlockInfo) {
	n.t.Helper()
	b, err := (epochStore{n.Engine}).BlockInfo(hash)
	if err != nil {
		n.t.Fatal(err)
	}
	return b
}

// sameEpochs checks that a node has given infos of the epochs of the blocks of height from and later, and
// that the version changes at the planned block.
func sameEpochs(t *testing.T, n *node, list []*primitives.Block, infos map[primitives.EpochID]*epoch.EpochInfo,
	from primitives.Height, v bootstrapVersions) {
	t.Helper()
	for _, x := range list {
		h := x.Header
		if h.Height < from {
			continue
		}
		want := infos[h.EpochID]
		var got *epoch.EpochInfo
		if err := n.Epochs(func(m *epoch.Manager) (err error) { got, err = m.EpochInfo(h.EpochID); return }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("height %d: epoch info %+v, want %+v", h.Height, got, want)
		}
		planned := v.from
		if h.Height >= v.at {
			planned = v.to
		}
		if want.ProtocolVersion != planned {
			t.Errorf("height %d: version %d, planned %d", h.Height, want.ProtocolVersion, planned)
		}
	}
}

// sameProducers checks that two nodes have the same rows and chunk producers for the blocks of
// height from and later, that such rows exist only in epochs of version 87 and later, and that a
// producer was left out if the chain reaches version 87.
func sameProducers(t *testing.T, a, b *node, list []*primitives.Block, from primitives.Height, version primitives.ProtocolVersion) {
	t.Helper()
	lists, moved, compared := 0, 0, 0
	for i, x := range list {
		if x.Header.Height < from || a.blockInfo(list[i-2].Hash()) == nil {
			continue
		}
		compared++
		hash := x.Hash()
		one, two := a.blockInfo(hash), b.blockInfo(hash)
		var own primitives.ProtocolVersion
		err := a.Epochs(func(m *epoch.Manager) (err error) { own, err = m.ProtocolVersion(x.Header.EpochID); return })
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(one.ChunkProducers, two.ChunkProducers) || (one.ChunkProducers != nil) != (own >= 87) {
			t.Errorf("height %d: chunk producers %v and %v", x.Header.Height, one.ChunkProducers, two.ChunkProducers)
		}
		for _, id := range a.Head().Layout.ShardIDs() {
			p, err := a.ChunkProducer(hash, id)
			if err != nil {
				t.Fatal(err)
			}
			if q, err := b.ChunkProducer(hash, id); err != nil || q != p {
				t.Errorf("shard %d on height %d: %s and %s, %v", id, x.Header.Height, p.AccountID, q.AccountID, err)
			}
			err = a.Epochs(func(m *epoch.Manager) error {
				e, err := m.EpochIDFromPrev(hash)
				if err != nil {
					return err
				}
				c, err := m.CanonicalChunkProducer(e, id, x.Header.Height+1)
				if err == nil && *c != p {
					moved++
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		err = a.Epochs(func(m *epoch.Manager) error {
			l, err := m.ChunkProducerBlacklist(hash)
			if l != nil {
				lists++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if compared < 30 {
		t.Errorf("%d blocks compared", compared)
	}
	if (lists > 0) != (version >= 87) || (moved > 0) != (version >= 87) {
		t.Errorf("version %d: %d lists, %d chunks of other producers than the canonical ones", version, lists, moved)
	}
}
