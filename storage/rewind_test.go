package storage

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestRewoundChainMatchesModel: after a rewind a chain continues, and then equals a chain that
// never had the abandoned blocks. This holds for every kind of read, and after restarts, advances
// of the flat head and further rewinds. The abandoned blocks are not found any more.
func TestRewoundChainMatchesModel(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		m := newModel(t, seed)
		d := NewMemDisk()
		o := testOptions()
		s, err := OpenMemory(d, o)
		if err != nil {
			t.Fatal(err)
		}
		importGenesis(t, s, m)
		var gone []BlockRef
		for range 12 {
			for range m.rng.IntN(12) {
				b := m.overlay(s.Tip().Head, true)
				if err := s.Commit(b); err != nil {
					t.Fatal(err)
				}
				m.add(b)
				if m.rng.IntN(4) == 0 { // one beside it
					side := m.overlay(b.Prev, false)
					if side.Ref.Height > s.Tip().FlatHead.Height && s.Commit(side) == nil {
						gone = append(gone, side.Ref)
					}
				}
			}
			tip := s.Tip()
			if m.rng.IntN(3) == 0 {
				if err := s.AdvanceFlatHead(tip.Final, nil); err != nil && !errors.Is(err, ErrOrder) {
					t.Fatal(err)
				}
			}
			tip = s.Tip()
			back := tip.Head
			for range m.rng.IntN(10) {
				if back == tip.FlatHead {
					break
				}
				rec, err := s.Block(back)
				if err != nil {
					t.Fatal(err)
				}
				gone = append(gone, back)
				back = rec.Prev()
			}
			if err := s.Rewind(back); err != nil {
				t.Fatal(err)
			}
			m.head, m.final = back, s.Tip().Final
			if got := s.Tip(); got.Head != back || got.Final.Height > back.Height {
				t.Fatalf("back at %+v, want head %v", got, back)
			}
			if m.rng.IntN(3) == 0 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = OpenMemory(d, o); err != nil {
					t.Fatal(err)
				}
				if got := s.Tip(); got.Head != back {
					t.Fatalf("opened at %+v, want head %v", got, back)
				}
			}
			for ref := s.Tip().Head; ref.Height > 0; {
				m.checkRecord(s, ref)
				if ref == back {
					m.checkScan(s, ref)
				}
				rec, err := s.Block(ref)
				if err != nil {
					t.Fatal(err)
				}
				if ref == s.Tip().FlatHead {
					break
				}
				ref = rec.Prev()
			}
			for _, ref := range gone {
				if _, err := s.BlockByHash(ref.Hash); !errors.Is(err, ErrNotFound) {
					t.Fatalf("seed %d: block %v is gone: %v", seed, ref, err)
				}
			}
			if p := len(s.tree.blocks); p != len(s.view.Load().canon) {
				t.Fatalf("seed %d: %d blocks above the folded one, %d of them on the branch", seed, p, len(s.view.Load().canon))
			}
		}
		tip := s.Tip()
		if err := s.Rewind(BlockRef{tip.Head.Height, primitives.Hash{1}}); !errors.Is(err, ErrOrder) {
			t.Errorf("back to nowhere: %v", err)
		}
	}
}
