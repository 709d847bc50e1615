package storage

import (
	"errors"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// TestStoreMatchesModel applies the same random blocks, forks, advances of the flat head, restarts
// and garbage collections to a store and to a model that keeps whole states in maps, and compares
// the results of all kinds of reads.
func TestStoreMatchesModel(t *testing.T) {
	seeds := 3
	if testing.Short() || testutil.Racing {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			dir := t.TempDir()
			m := newModel(t, uint64(seed))
			o := testOptions()
			o.BucketHeights = primitives.Height(3 + 6*seed)
			if seed%3 > 0 { // else all is in memory
				o.ResidentBlocks = 2 * seed
			}
			s, err := Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if s != nil {
					_ = s.Close()
				}
			}()
			importGenesis(t, s, m)
			for range 160 {
				switch op := m.rng.IntN(40); {
				case op < 18:
					m.commit(s, m.head, true)
				case op < 24:
					m.commitAll(s)
				case op < 29: // a block beside the head's branch, which may win
					m.commit(s, m.randomOpen(), m.rng.IntN(2) == 0)
				case op < 34:
					m.advance(s)
				case op < 36:
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					if s, err = Open(dir, o); err != nil {
						t.Fatal(err)
					}
				case op < 38:
					m.collect(s)
				case op < 39:
					m.check(s)
				}
			}
			m.check(s)
		})
	}
}

// commit adds a block on a parent.
func (m *model) commit(s *Store, parent BlockRef, head bool) {
	m.t.Helper()
	b := m.next(parent, head)
	if err := s.Commit(b); err != nil {
		m.t.Fatal(err)
	}
}

// commitAll adds several blocks in one go, on the head's branch and beside it.
func (m *model) commitAll(s *Store) {
	m.t.Helper()
	var all []*Block
	for range 1 + m.rng.IntN(5) {
		parent, head := m.head, true
		if m.rng.IntN(4) == 0 {
			parent, head = m.randomOpen(), m.rng.IntN(2) == 0
		}
		all = append(all, m.next(parent, head))
	}
	if n, err := s.CommitAll(all); err != nil || n != len(all) {
		m.t.Fatalf("CommitAll of %d blocks: %d, %v", len(all), n, err)
	}
}

// next makes a block and adds it to the model.
func (m *model) next(parent BlockRef, head bool) *Block {
	b := m.overlay(parent, head)
	for m.blocks[b.Ref] != nil {
		b = m.overlay(parent, head)
	}
	m.add(b)
	return b
}

// randomOpen returns a block that may get children: a descendant of the final block, or it.
func (m *model) randomOpen() BlockRef {
	var open []BlockRef
	for _, ref := range m.live() {
		if m.isAncestor(m.folded, ref) && (m.final.IsZero() || m.isAncestor(m.final, ref)) {
			open = append(open, ref)
		}
	}
	return open[m.rng.IntN(len(open))]
}

func (m *model) advance(s *Store) {
	m.t.Helper()
	upto := m.final
	if upto.IsZero() || upto.Height <= m.folded.Height {
		return
	}
	if m.rng.IntN(2) == 0 && m.blocks[upto].block.Prev.Height > m.folded.Height {
		upto = m.blocks[upto].block.Prev
	}
	for at := upto; at != m.folded; at = m.blocks[at].block.Prev { // a split must be the first block of an advance
		if b := m.blocks[at].block; len(b.Splits) > 0 && b.Prev != m.folded {
			if upto == m.final && m.rng.IntN(4) == 0 {
				if err := s.AdvanceFlatHead(upto, nil); !errors.Is(err, ErrOrder) {
					m.t.Fatalf("fold over a split: %v", err)
				}
			}
			upto = b.Prev
		}
	}
	if err := s.AdvanceFlatHead(upto, []FrontierChange{{Shard: 0, FrontierNode: FrontierNode{Path: []byte{0, 3}, Hash: hashOf(upto), MemoryUsage: 5}}}); err != nil {
		m.t.Fatal(err)
	}
	m.folded = upto
	var got []FrontierNode
	if err := s.Frontier(0, 0, nil, func(st FrontierNode) bool { got = append(got, st); return true }); err != nil || len(got) != 1 || got[0].Hash != hashOf(upto) {
		m.t.Fatalf("frontier = %v, %v", got, err)
	}
	for ref := range m.blocks {
		if ref.Height >= m.tail && !m.isAncestor(ref, m.folded) && !m.isAncestor(m.folded, ref) {
			delete(m.blocks, ref)
			if _, err := s.BlockByHash(ref.Hash); err == nil {
				m.t.Fatalf("block %v of a lost fork is still found", ref)
			}
		}
	}
}

func (m *model) collect(s *Store) {
	m.t.Helper()
	got, err := s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: uint64(m.head.Height), MaxHeights: 1 + m.rng.IntN(30)})
	if err != nil {
		m.t.Fatal(err)
	}
	// The first heights of the epochs up to the flat head.
	var first []primitives.Height
	for ref := m.folded; ref.Height >= m.tail; {
		mb := m.blocks[ref]
		prev := m.blocks[mb.block.Prev]
		if prev == nil || prev.block.Epoch != mb.block.Epoch {
			first = append(first, ref.Height)
		}
		if prev == nil || ref.Height == m.tail {
			break
		}
		ref = mb.block.Prev
	}
	if len(first) > 3 && got.Tail > first[2] || got.Tail < m.tail {
		m.t.Fatalf("tail = %d after %d, epochs began at %v", got.Tail, m.tail, first)
	}
	m.tail = got.Tail
}
