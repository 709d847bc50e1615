package storage

import (
	"errors"
	"maps"
	"slices"
	"testing"
)

// overlayTest is a store with what it must know.
type overlayTest struct {
	m      *model
	s      *Store
	begins []BlockRef // what was final where its children begin
}

// open opens a child at the head.
func (k *overlayTest) open(t *testing.T, serial int) *overlayTest {
	t.Helper()
	tip := k.s.Tip()
	c, err := k.s.Child(tip.Head, tip.Final)
	if err != nil {
		t.Fatal(err)
	}
	k.begins = append(k.begins, tip.Final)
	m := &model{t: t, rng: k.m.rng, blocks: map[BlockRef]*modelBlock{}, layouts: maps.Clone(k.m.layouts), genesis: k.m.genesis,
		head: tip.Head, final: tip.Final, folded: tip.Head, tail: k.m.tail, serial: serial}
	for ref, b := range k.m.blocks {
		if k.m.isAncestor(ref, tip.Head) {
			m.blocks[ref] = b
		}
	}
	return &overlayTest{m: m, s: c}
}

// advance advances the flat head no further than the overlays allow.
func (k *overlayTest) advance(t *testing.T) {
	t.Helper()
	upto := k.m.final
	for _, b := range k.begins {
		if b.Height < upto.Height {
			upto = b
		}
	}
	if upto.Height <= k.m.folded.Height {
		return
	}
	final := k.m.final
	k.m.final = upto
	k.m.advance(k.s)
	k.m.final = final
}

// TestOverlaySeesAncestorsOnly: an overlay has the ancestors of its base and what it has stored
// itself, for every kind of read, and nothing of its parent's later blocks, of its parent's forks,
// or of another overlay. Conversely, these do not see what the overlay stores. Meanwhile the parent
// continues, advances its flat head and collects garbage. The test also opens overlays of an
// overlay.
func TestOverlaySeesAncestorsOnly(t *testing.T) {
	for seed := uint64(0); seed < 2; seed++ {
		o := testOptions()
		o.BucketHeights = 5
		if seed%2 > 0 {
			o.ResidentBlocks = 2
		}
		s, err := OpenMemory(NewMemDisk(), o)
		if err != nil {
			t.Fatal(err)
		}
		root := &overlayTest{m: newModel(t, 100+seed), s: s}
		importGenesis(t, s, root.m)
		for range 40 {
			switch op := root.m.rng.IntN(10); {
			case op < 6:
				root.m.commit(s, root.m.head, true)
			case op < 8:
				root.m.commit(s, root.m.randomOpen(), false)
			default:
				root.m.advance(s)
			}
		}
		family := []*overlayTest{root, root.open(t, 1_000_000), root.open(t, 2_000_000)}
		for step := range 50 {
			if step == 20 {
				family = append(family, family[1].open(t, 3_000_000))
			}
			k := family[root.m.rng.IntN(len(family))]
			switch op := root.m.rng.IntN(12); {
			case op < 6:
				k.m.commit(k.s, k.m.head, true)
			case op < 8:
				k.m.commitAll(k.s)
			case op < 9:
				k.m.commit(k.s, k.m.randomOpen(), false)
			case op < 11:
				root.advance(t)
			default:
				root.m.collect(s)
			}
			for _, x := range family[1:] {
				x.m.tail = root.m.tail
			}
		}
		for _, k := range family {
			k.m.check(k.s)
			if at, err := k.s.OrdinalAt(k.m.blocks[k.m.head].block.Ordinal + 1); !errors.Is(err, ErrNotFound) {
				t.Fatalf("seed %d: a block behind the head: %v, %v", seed, at, err)
			}
			for _, other := range family {
				for ref := range other.m.blocks {
					if k.m.blocks[ref] != nil {
						continue
					}
					if _, err := k.s.BlockByHash(ref.Hash); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrGone) {
						t.Fatalf("seed %d: block %v of another chain: %v", seed, ref, err)
					}
					if _, err := k.s.Block(ref); !isAbsent(err) {
						t.Fatalf("seed %d: block %v of another chain by its name: %v", seed, ref, err)
					}
					for _, sh := range other.m.blocks[ref].block.Shards {
						if sh.Chunk == nil {
							continue
						}
						if at, err := k.s.Find().Chunk(sh.Chunk.Hash); err != nil || len(at) > 0 {
							t.Fatalf("seed %d: a chunk of another chain: %v, %v", seed, at, err)
						}
					}
				}
			}
		}
		for _, k := range slices.Backward(family) {
			if err := k.s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestOverlayRowsAreThoseOfItsBase: an overlay has the engine's rows as of its base block and those
// that it stored itself. Rows that Write stored in the parent are not visible. The final block is
// the one given when the overlay was opened, also after a rewind to the base.
func TestOverlayRowsAreThoseOfItsBase(t *testing.T) {
	m := newModel(t, 1)
	m.whole = true
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	importGenesis(t, s, m)
	row := func(s *Store, key string) string {
		t.Helper()
		v, err := EpochInfo.Get(s.Reader(), hashOf(key))
		if errors.Is(err, ErrNotFound) {
			return "-"
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(v)
	}
	commit := func(s *Store, parent BlockRef, rows map[string]string) BlockRef {
		t.Helper()
		b := m.overlay(parent, true)
		for k, v := range rows {
			raw := Raw(v)
			EpochInfo.Put(b.Puts, hashOf(k), &raw)
		}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		m.add(b)
		return b.Ref
	}
	at := m.genesis
	for range 6 {
		at = commit(s, at, map[string]string{"old": "1"})
	}
	var own Batch
	mine := Raw("mine")
	Misc.Put(&own, "mine", &mine)
	if err := s.Write(&own); err != nil {
		t.Fatal(err)
	}
	begun := s.Tip()
	c, err := s.Child(begun.Head, begun.Final)
	if err != nil {
		t.Fatal(err)
	}
	commit(s, at, map[string]string{"old": "2", "parents": "yes"})
	if got := row(c, "old") + row(c, "parents"); got != "1-" {
		t.Errorf("a child has the rows %q of its parent's later blocks", got)
	}
	if _, err := Misc.Get(c.Reader(), "mine"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a child has its parent's own row: %v", err)
	}
	if err := s.AdvanceFlatHead(begun.Final, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Misc.Get(c.Reader(), "mine"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a child has its parent's own row of the index: %v", err)
	}
	m.final = begun.Final
	next := commit(c, at, map[string]string{"old": "3", "childs": "yes"})
	if got := row(s, "old") + row(s, "childs"); got != "2-" {
		t.Errorf("a parent has the rows %q of its child", got)
	}
	if got := row(c, "old") + row(c, "childs"); got != "3yes" {
		t.Errorf("a child has the rows %q of its own", got)
	}
	if err := c.Write(&own); err != nil {
		t.Fatal(err)
	}
	if v, err := Misc.Get(c.Reader(), "mine"); err != nil || string(v) != "mine" {
		t.Errorf("a child's own row is %q, %v", v, err)
	}
	for range 4 {
		next = commit(c, next, nil)
	}
	if c.Tip().Final.Height <= begun.Head.Height {
		t.Fatalf("final is %v", c.Tip().Final)
	}
	if err := c.Rewind(begun.Head); err != nil {
		t.Fatal(err)
	}
	if got := c.Tip(); got.Head != begun.Head || got.Final != begun.Final {
		t.Errorf("back where it began: %+v, want %v and %v", got, begun.Head, begun.Final)
	}
	if got := row(c, "old") + row(c, "childs"); got != "1-" {
		t.Errorf("back where it began it has the rows %q", got)
	}
	if err := c.AdvanceFlatHead(begun.Head, nil); !errors.Is(err, ErrOrder) {
		t.Errorf("a child that is folded: %v", err)
	}
	m.final = begun.Final
	if err := c.Commit(m.overlay(at, true)); err != nil {
		t.Errorf("behind all that: %v", err)
	}
}

// BenchmarkOverlay opens an overlay, commits a block to it and closes it.
func BenchmarkOverlay(b *testing.B) {
	m := newModel(&testing.T{}, 1)
	m.whole = true
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		b.Fatal(err)
	}
	importGenesis(b, s, m)
	block := m.overlay(m.genesis, true)
	for b.Loop() {
		c, err := s.Child(m.genesis, m.genesis)
		if err == nil {
			err = c.Commit(block)
		}
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
