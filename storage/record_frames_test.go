package storage

import (
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// busyStore has blocks of so many transfers, of which the last two are not final.
func busyStore(t testing.TB, blocks, transfers int) (s *Store, all []*Block) {
	c := &benchChain{rng: rand.New(rand.NewPCG(1, 2)), accounts: 10_000, old: map[string][]byte{}, epoch: hashOf("epoch")}
	s, err := Open(t.TempDir(), Options{Identity: testIdentity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: c.epoch, Head: true}
	if err := s.Import(g, nil, func(func(Pair) error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	c.last, all = g.Ref, []*Block{g}
	for range blocks {
		b := c.block(transfers)
		b.Final = BlockRef{}
		if len(all) > 2 {
			b.Final = all[len(all)-2].Ref
		}
		c.last, all = b.Ref, append(all, b)
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		if upto, due := s.FlatHeadDue(); due {
			if err := s.AdvanceFlatHead(upto, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s, all
}

// TestFramesOfBlockStayCached: the cache is large enough for the frames that clients read of a
// block with a thousand transactions and of the next block, so each of these frames is read once.
func TestFramesOfBlockStayCached(t *testing.T) {
	s, all := busyStore(t, 6, 1000)
	frames := 0
	for _, b := range all[3:5] {
		rec, err := s.Block(b.Ref)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rec.e.head.Sections {
			if x := &rec.e.head.Sections[i]; x.Kind == kindTransactions || x.Kind == kindOutcomes || x.Kind == kindOutcomeIDs {
				frames += len(x.Frames)
			}
		}
	}
	if frames > cachedFrames/2 {
		t.Errorf("a block has %d frames, of which the cache keeps %d: want at most half", frames, cachedFrames)
	}
}

// BenchmarkReadsOfWaitingClient measures the reads for one client that waited for a transfer, in a
// block with a thousand of them.
func BenchmarkReadsOfWaitingClient(b *testing.B) {
	s, all := busyStore(b, 6, 1000)
	txs := all[3].Shards[0].Chunk.Transactions
	receipts := all[3].Shards[0].Outgoing
	ask := func(b *testing.B, find func(primitives.Hash) ([]Place, error), id primitives.Hash) Place {
		at, err := find(id)
		if err != nil || len(at) != 1 {
			b.Fatalf("%v at %v: %v", id, at, err)
		}
		return at[0]
	}
	for _, c := range []struct {
		name     string
		receipts bool
	}{{"receipts=no", false}, {"receipts=yes", true}} {
		b.Run("op=waited/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 617) % len(txs)
				p := ask(b, s.Find().Transaction, txs[i].Hash)
				if _, err := p.Block.Transaction(p.Shard, p.Index); err != nil {
					b.Fatal(err)
				}
				for _, id := range []primitives.Hash{txs[i].Hash, receipts[i].ID} {
					p := ask(b, s.Find().Outcome, id)
					if _, err := p.Block.Outcome(p.Shard, p.Index); err != nil {
						b.Fatal(err)
					}
				}
				if c.receipts {
					p := ask(b, s.Find().Receipt, receipts[i].ID)
					if _, err := p.Receipt(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
