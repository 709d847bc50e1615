package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// anchoredChain is a chain of six validators and two shards. A producer that misses one chunk of an
// epoch, after its first 3 blocks, is listed. Each eleventh height is skipped, and so are the first
// chunks of the second shard.
func anchoredChain(t *testing.T, version primitives.ProtocolVersion, epochLength uint64, to primitives.Height) *node {
	t.Helper()
	g := testGenesis(t, "aa", "bb", "cc", "dd", "ee", "ff")
	g.Config.ChainID, g.Config.ProtocolVersion = "test-chain-anchors", version
	g.Config.EpochLength, g.Config.TransactionValidityPeriod = epochLength, 2*epochLength
	g.Config.BlockProducerKickoutThreshold, g.Config.ChunkProducerKickoutThreshold, g.Config.ChunkValidatorOnlyKickoutThreshold = 0, 0, 0
	n, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{}, func(o *Options) {
		o.Chain.Params.EarlyKickout = &earlykickout.Thresholds{GraceBlocks: 3, MinMissed: 1, MinProducedPercent: 100}
	})
	if err != nil {
		t.Fatal(err)
	}
	n.growTo(to)
	return n
}

// growTo makes blocks up to a height.
func (n *node) growTo(to primitives.Height) {
	n.t.Helper()
	for n.Head().Height() < to {
		h := n.Head().Height() + 1
		if h%11 == 0 {
			h++
		}
		n.accept(n.make(n.Head().Hash, h, h%30 < 12))
	}
}

// keyOn is the key of the chunk of a shard on a block, and the place that its messages name.
func (n *node) keyOn(parent primitives.Hash, shard primitives.ShardID) (k primitives.ChunkKey, at primitives.ChunkAnchor) {
	n.t.Helper()
	err := n.Epochs(func(m *epoch.Manager) error {
		p, err := m.BlockInfo(parent)
		if err != nil {
			return err
		}
		id, err := m.EpochIDFromPrev(parent)
		k = primitives.ChunkKey{ShardID: shard, EpochID: id, HeightCreated: p.Height + 1}
		at = primitives.ChunkAnchor{PrevBlock: parent, PrevPrevBlock: p.PrevHash}
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return k, at
}

// canonical is the producer that is drawn for the height of a chunk.
func (n *node) canonical(k primitives.ChunkKey) primitives.AccountID {
	n.t.Helper()
	v, err := n.Validation().Producer(k)
	if err != nil {
		n.t.Fatal(err)
	}
	return v.AccountID
}

// TestAnchoredFollowsProtocolOfEpoch: messages about chunks name an anchor from the first epoch of
// protocol version 87 on. If the epoch is unknown, Anchored returns that it is not known.
func TestAnchoredFollowsProtocolOfEpoch(t *testing.T) {
	parameters.SupportForTest(t, 87)
	n := anchoredChain(t, 86, 10, 45) // the vote counts in the third epoch
	seen := map[primitives.ProtocolVersion]int{}
	for b := n.Head(); !b.Header().PrevHash.IsZero(); {
		var version primitives.ProtocolVersion
		if err := n.Epochs(func(m *epoch.Manager) (err error) {
			version, err = m.ProtocolVersion(b.Header().EpochID)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		seen[version]++
		if anchored, known := n.Validation().Anchored(b.Header().EpochID); !known || anchored != (version >= 87) {
			t.Errorf("height %d, an epoch of %d: anchored %t, known %t", b.Height(), version, anchored, known)
		}
		var err error
		if b, err = n.Block(b.Header().PrevHash); err != nil {
			t.Fatal(err)
		}
	}
	if seen[86] == 0 || seen[87] == 0 {
		t.Fatalf("blocks by version: %v, want some of 86 and 87", seen)
	}
	if anchored, known := n.Validation().Anchored(primitives.EpochID{9}); anchored || known {
		t.Errorf("an unknown epoch: anchored %t, known %t", anchored, known)
	}
}

// TestProducerAtKnownParentMatchesChunk: for each block of a chain, over epochs, skipped heights
// and listed producers, the parent and anchor that honest messages name lead to the producer whose
// signature the block's chunk must have. Any other anchor for a known parent is wrong, and then no
// producer is returned.
func TestProducerAtKnownParentMatchesChunk(t *testing.T) {
	for _, version := range []primitives.ProtocolVersion{86, 87} {
		parameters.SupportForTest(t, version) // the chain is not voted up
		n := anchoredChain(t, version, 30, 130)
		v, replaced := n.Validation(), 0
		for b := n.Head(); b.Height() > 0; {
			for _, shard := range b.Layout.ShardIDs() {
				k, at := n.keyOn(b.Hash, shard)
				want, err := n.ChunkProducer(b.Hash, shard)
				if err != nil {
					t.Fatal(err)
				}
				if n.canonical(k) != want.AccountID {
					replaced++
				}
				if got, err := v.ProducerAt(k, at); err != nil || got.AccountID != want.AccountID {
					t.Errorf("on %d: %s, %v, want %s", b.Height(), got.AccountID, err, want.AccountID)
				}
				height, id := k, k
				height.HeightCreated++
				id.EpochID[0]++
				for name, c := range map[string]struct {
					k  primitives.ChunkKey
					at primitives.ChunkAnchor
				}{
					"another height":           {height, at},
					"no anchor":                {k, primitives.ChunkAnchor{PrevBlock: at.PrevBlock}},
					"the parent as anchor":     {k, primitives.ChunkAnchor{PrevBlock: at.PrevBlock, PrevPrevBlock: at.PrevBlock}},
					"an unknown anchor":        {k, primitives.ChunkAnchor{PrevBlock: at.PrevBlock, PrevPrevBlock: primitives.Hash{7}}},
					"the wrong way around":     {k, primitives.ChunkAnchor{PrevBlock: at.PrevPrevBlock, PrevPrevBlock: at.PrevBlock}},
					"no parent":                {k, primitives.ChunkAnchor{PrevPrevBlock: at.PrevPrevBlock}},
					"an epoch that is unknown": {id, at},
				} {
					if name == "no anchor" && at.PrevPrevBlock.IsZero() || name == "the wrong way around" && at.PrevPrevBlock.IsZero() {
						continue
					}
					got, err := v.ProducerAt(c.k, c.at)
					if !errors.Is(err, anchor.ErrWrong) || got.AccountID != "" || errors.Is(err, anchor.ErrEarly) {
						t.Fatalf("on %d, %s: %q, %v", b.Height(), name, got.AccountID, err)
					}
				}
			}
			k, at := n.keyOn(b.Hash, 77)
			if got, err := v.ProducerAt(k, at); !errors.Is(err, epoch.ErrSharding) || got.AccountID != "" {
				t.Fatalf("a shard that the epoch does not have: %q, %v", got.AccountID, err)
			}
			var err error
			if b, err = n.Block(b.Header().PrevHash); err != nil {
				t.Fatal(err)
			}
		}
		if (replaced > 0) != (version >= 87) {
			t.Errorf("at %d %d producers are not the canonical ones", version, replaced)
		}
	}
}

// TestProducerAtUnknownParentUsesAnchorRow: if the parent is unknown, the anchor's row gives the
// producer, provided that the chunk can only be in the anchor's next grandchild. Otherwise the
// message is early. If the anchor is unknown too, the message is early and no producer is returned.
func TestProducerAtUnknownParentUsesAnchorRow(t *testing.T) {
	parameters.SupportForTest(t, 87)
	n := anchoredChain(t, 87, 30, 50)
	v, head, unknown := n.Validation(), n.Head(), primitives.Hash{7}
	shard := head.Layout.ShardIDs()[1]
	child, _ := n.keyOn(head.Hash, shard)
	next := child
	next.HeightCreated++ // on an unknown child of the head
	if child.EpochID != head.Header().EpochID {
		t.Fatal("the head ends its epoch")
	}
	var row primitives.AccountID
	if err := n.Epochs(func(m *epoch.Manager) error {
		b, err := m.BlockInfo(head.Hash)
		if err != nil {
			return err
		}
		info, err := m.EpochInfo(b.EpochID)
		row = info.Validators[b.ChunkProducers[1]].AccountID
		return err
	}); err != nil {
		t.Fatal(err)
	}
	higher, lower, other, never := next, next, next, next
	never.EpochID = primitives.EpochID{9}
	higher.HeightCreated++
	lower.HeightCreated--
	var following primitives.EpochID
	if err := n.Epochs(func(m *epoch.Manager) (err error) {
		following, err = m.NextEpochIDFromPrev(head.Hash)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	other.EpochID = following
	for name, c := range map[string]struct {
		k    primitives.ChunkKey
		at   primitives.ChunkAnchor
		want error
		by   primitives.AccountID
	}{
		"grandchild":                    {next, primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: head.Hash}, nil, row},
		"a height may be skipped":       {higher, primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: head.Hash}, anchor.ErrEarly, row},
		"too low":                       {lower, primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: head.Hash}, anchor.ErrWrong, ""},
		"another epoch in mid-epoch":    {other, primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: head.Hash}, anchor.ErrWrong, ""},
		"an unknown epoch":              {never, primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: primitives.Hash{8}}, epoch.ErrEpochOutOfBounds, ""},
		"unknown anchor":                {next, primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: primitives.Hash{8}}, anchor.ErrEarly, ""},
		"no anchor above the genesis":   {next, primitives.ChunkAnchor{PrevBlock: unknown}, anchor.ErrWrong, ""},
		"unknown anchor of known block": {child, primitives.ChunkAnchor{PrevBlock: head.Hash, PrevPrevBlock: primitives.Hash{8}}, anchor.ErrWrong, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := v.ProducerAt(c.k, c.at)
			if got.AccountID != c.by || c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) ||
				errors.Is(err, anchor.ErrWrong) && errors.Is(err, anchor.ErrEarly) {
				t.Errorf("got %q, %v, want %q, %v", got.AccountID, err, c.by, c.want)
			}
		})
	}

	// The same at each block of the last epoch: at its end the producer is known, but the message waits.
	ends := 0
	for n.Head().Height() < 125 {
		at := n.Head()
		k, _ := n.keyOn(at.Hash, shard)
		k.EpochID, k.HeightCreated = at.Header().EpochID, at.Height()+2
		got, err := v.ProducerAt(k, primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: at.Hash})
		if errors.Is(err, anchor.ErrEarly) {
			ends++
		} else if err != nil {
			t.Errorf("anchor %d: %v", at.Height(), err)
		}
		if got.AccountID == "" {
			t.Errorf("anchor %d: no producer", at.Height())
		}
		n.growTo(at.Height() + 1)
	}
	if ends == 0 || ends > 20 {
		t.Errorf("%d anchors are at the end of their epoch", ends)
	}
}

// TestProducerAtFollowsForkOfAnchor: on two forks the chunks of one height have different
// producers, because the anchors, and so the rows, differ. ProducerAt returns the producer of the
// fork that the anchor belongs to.
func TestProducerAtFollowsForkOfAnchor(t *testing.T) {
	parameters.SupportForTest(t, 87)
	n := anchoredChain(t, 87, 60, 40)
	v, differ := n.Validation(), 0
	for range 6 {
		base := n.Head()
		fork, chunks := n.make(base.Hash, base.Height()+2, false) // in the place of base's grandchild, on base
		n.accept(fork, chunks)
		straight, chunks := n.make(base.Hash, base.Height()+1, false)
		n.accept(straight, chunks)
		twin, chunks := n.make(straight.Hash(), base.Height()+2, false)
		n.accept(twin, chunks)
		for _, shard := range base.Layout.ShardIDs() {
			var by [2]primitives.AccountID
			for i, b := range []*primitives.Block{fork, twin} {
				k, at := n.keyOn(b.Hash(), shard)
				want, err := n.ChunkProducer(b.Hash(), shard)
				if err != nil {
					t.Fatal(err)
				}
				got, err := v.ProducerAt(k, at)
				if err != nil || got.AccountID != want.AccountID {
					t.Errorf("fork %d: %s, %v, want %s", i, got.AccountID, err, want.AccountID)
				}
				by[i] = got.AccountID
			}
			if by[0] != by[1] {
				differ++
			}
			// The anchor of the other fork is wrong.
			k, at := n.keyOn(fork.Hash(), shard)
			_, other := n.keyOn(twin.Hash(), shard)
			if at.PrevPrevBlock = other.PrevPrevBlock; at.PrevPrevBlock == base.Hash {
				t.Fatal("both forks have the same anchor")
			}
			if got, err := v.ProducerAt(k, at); !errors.Is(err, anchor.ErrWrong) || got.AccountID != "" {
				t.Errorf("the anchor of the other fork: %q, %v", got.AccountID, err)
			}
		}
		n.growTo(n.Head().Height() + 2)
	}
	if differ == 0 {
		t.Error("every chunk has the same producer on both forks")
	}
}

// TestProducerAtMissingRowIsEarly: a known anchor without a row makes a message early. The missing
// row is not computed.
func TestProducerAtMissingRowIsEarly(t *testing.T) {
	parameters.SupportForTest(t, 87)
	n := anchoredChain(t, 87, 30, 20)
	shard := n.Head().Layout.ShardIDs()[0]
	k, at := n.keyOn(n.Head().Hash, shard)
	if err := n.Epochs(func(m *epoch.Manager) error {
		b, err := m.BlockInfo(at.PrevPrevBlock)
		if err == nil {
			b.ChunkProducers = nil // of the cached info
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Validation().ProducerAt(k, at); !errors.Is(err, anchor.ErrEarly) || !errors.Is(err, epoch.ErrChunkProducerNotInDB) || got.AccountID != "" {
		t.Errorf("without a row: %q, %v", got.AccountID, err)
	}
}

// TestFollowingMatchesProducerAtUnknownChild: the parent of a known block, and the likely producer
// on an unknown child.
func TestFollowingMatchesProducerAtUnknownChild(t *testing.T) {
	parameters.SupportForTest(t, 87)
	n := anchoredChain(t, 87, 30, 40)
	v, d := n.Validation(), n.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil })
	if got, err := v.Parent(n.Genesis().Hash); err != nil || !got.IsZero() {
		t.Errorf("the parent of the genesis: %v, %v", got, err)
	}
	if got, err := v.Parent(n.Head().Hash); err != nil || got != n.Head().Header().PrevHash {
		t.Errorf("the parent of the head: %v, %v", got, err)
	}
	if _, err := v.Parent(primitives.Hash{7}); !errors.Is(err, epoch.ErrMissingBlock) {
		t.Errorf("the parent of an unknown block: %v", err)
	}
	replaced := 0
	for range 8 {
		n.growTo(n.Head().Height() + 1)
		replaced += n.compareFollowing(d)
	}
	if replaced == 0 {
		t.Error("every row of the heads is the canonical draw")
	}
	if _, err := d.Following(n.Head().Header().EpochID, n.Head().Hash, 77, n.Head().Height()+2); !errors.Is(err, epoch.ErrSharding) {
		t.Errorf("an unknown shard: %v", err)
	}
}

// compareFollowing compares the likely producers on an unknown child of the head with those that
// ProducerAt gives, and returns how many of them are not the canonical ones.
func (n *node) compareFollowing(d ChunkPartsView) (replaced int) {
	t, head := n.t, n.Head()
	for _, shard := range head.Layout.ShardIDs() {
		k, _ := n.keyOn(head.Hash, shard)
		k.HeightCreated++
		want, err := n.Validation().ProducerAt(k, primitives.ChunkAnchor{PrevBlock: primitives.Hash{7}, PrevPrevBlock: head.Hash})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Following(k.EpochID, head.Hash, shard, k.HeightCreated); err != nil || got.AccountID != want.AccountID {
			t.Errorf("on a child of the head: %s, %v, want %s", got.AccountID, err, want.AccountID)
		}
		if n.canonical(k) != want.AccountID {
			replaced++
		}
		for range 20 { // on a child of an unknown block
			k.HeightCreated++
			if got, err := d.Following(k.EpochID, primitives.Hash{7}, shard, k.HeightCreated); err != nil || got.AccountID != n.canonical(k) {
				t.Errorf("on a child of an unknown block: %s, %v, want %s", got.AccountID, err, n.canonical(k))
			}
		}
		if _, err := d.Following(primitives.EpochID{9}, head.Hash, shard, k.HeightCreated); !errors.Is(err, epoch.ErrEpochOutOfBounds) {
			t.Errorf("in an unknown epoch: %v", err)
		}
	}
	return replaced
}
