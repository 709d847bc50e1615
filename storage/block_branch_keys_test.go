package storage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// sideStore returns a store with a genesis, block 2 of the head's branch, and a side branch of
// three blocks (side), the first of which changes all keys.
func sideStore(t *testing.T) (s *Store, side []*Block) {
	t.Helper()
	o := testOptions()
	o.ResidentBlocks = 1
	s, err := OpenMemory(NewMemDisk(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}
	keys := []string{"\x00a", "\x00b", "\x00c", "\x07d"}
	if err := s.Import(g, nil, func(put func(Pair) error) error {
		for _, k := range keys {
			if err := put(Pair{0, []byte(k), []byte("old")}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	child := func(prev *Block, name string, head bool) *Block {
		b := &Block{Ref: BlockRef{prev.Ref.Height + 1, hashOf(name)}, Prev: prev.Ref, Ordinal: prev.Ordinal + 1, Epoch: g.Epoch, Head: head,
			Shards: []Shard{{ID: 0}}}
		return b
	}
	main := child(g, "main", true)
	last := g
	for i := range 3 {
		b := child(last, fmt.Sprint("side", i), false)
		if i == 0 {
			for _, k := range keys {
				b.Shards[0].Changes = append(b.Shards[0].Changes,
					Change{KeyChanges: primitives.KeyChanges{Key: []byte(k), Changes: []primitives.StateChange{{Value: []byte("new")}}}, Old: []byte("old")})
			}
		}
		side, last = append(side, b), b
	}
	for _, b := range append([]*Block{main}, side...) {
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
	}
	return s, side
}

// TestScanSurvivesSwitchToItsBranch checks a scan of a block on a side branch. While the scan runs,
// that branch becomes the head's branch and the flat head advances to the block's parent. The scan
// must still yield the block's whole state.
func TestScanSurvivesSwitchToItsBranch(t *testing.T) {
	s, side := sideStore(t)
	last := side[2]
	var got []string
	err := s.Scan(last.Ref, 0, AccountRange{}, nil, nil, func(key, value []byte) bool {
		if got = append(got, fmt.Sprintf("%q=%s", key, value)); len(got) > 1 {
			return true
		}
		b := &Block{Ref: BlockRef{5, hashOf("wins")}, Prev: last.Ref, Ordinal: last.Ordinal + 1, Epoch: last.Epoch, Head: true, Final: side[1].Ref,
			Shards: []Shard{{ID: 0}}}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		if err := s.AdvanceFlatHead(side[1].Ref, nil); err != nil {
			t.Fatal(err)
		}
		return true
	})
	want := []string{`"\x00a"=new`, `"\x00b"=new`, `"\x00c"=new`, `"\ad"=new`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("scan = %v, %v, want %v", got, err, want)
	}
}

// branchModel is a model that readers use beside the writer.
type branchModel struct {
	*model
	mu   sync.RWMutex
	refs []BlockRef
	of   map[BlockRef]*modelBlock
	dead map[BlockRef]bool
}

// publish shows readers the blocks that the store has, without those that are about to be removed.
func (m *branchModel) publish(going func(BlockRef) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refs, m.of = m.refs[:0], map[BlockRef]*modelBlock{}
	for ref, b := range m.blocks {
		if going != nil && going(ref) {
			m.dead[ref] = true
			continue
		}
		m.refs, m.of[ref] = append(m.refs, ref), b
	}
	slices.SortFunc(m.refs, func(a, b BlockRef) int { return strings.Compare(string(appendRef(nil, a)), string(appendRef(nil, b))) })
}

// random returns a random published block. It returns nil if all blocks may be removed at this moment.
func (m *branchModel) random(rng *rand.Rand) (BlockRef, *modelBlock) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.refs) == 0 {
		return BlockRef{}, nil
	}
	ref := m.refs[rng.IntN(len(m.refs))]
	return ref, m.of[ref]
}

func (m *branchModel) isDead(ref BlockRef) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.dead[ref]
}

// read compares a random read of a random block with the model.
func (m *branchModel) read(s *Store, rng *rand.Rand) error {
	ref, b := m.random(rng)
	if b == nil {
		runtime.Gosched()
		return nil
	}
	on := b.layout[rng.IntN(len(b.layout))]
	if rng.IntN(2) == 0 {
		keys := slices.Collect(maps.Keys(b.state))
		slices.SortFunc(keys, func(a, b modelKey) int { return strings.Compare(a.key, b.key) })
		key := modelKey{on.id, string(rune(9)) + modelNames[rng.IntN(len(modelNames))] + ","}
		if len(keys) > 0 && rng.IntN(4) > 0 {
			key = keys[rng.IntN(len(keys))]
		}
		of := findShard(b.layout, key.shard)
		if of == nil || !of.has(key.key) {
			return nil
		}
		want, ok := b.state[key]
		got, err := s.ValueAt(ref, key.shard, []byte(key.key))
		switch {
		case err == nil && (!ok || string(got) != want), ok && err != nil && !m.isDead(ref), !ok && err != nil && !errors.Is(err, ErrNotFound) && !m.isDead(ref):
			return fmt.Errorf("ValueAt(%v, %d, %q) = %x, %w, want %x, %v", ref, key.shard, key.key, got, err, want, ok)
		}
		return nil
	}
	prefix := []string{"", "\x00", "\x07", "\x09", "\x09b", "\x0e"}[rng.IntN(6)]
	var got, want []string
	for k, v := range b.state {
		if k.shard == on.id && strings.HasPrefix(k.key, prefix) {
			want = append(want, fmt.Sprintf("%x=%x", k.key, v))
		}
	}
	slices.Sort(want)
	err := s.Scan(ref, on.id, on.accounts, []byte(prefix), PrefixEnd([]byte(prefix)), func(k, v []byte) bool {
		got = append(got, fmt.Sprintf("%x=%x", k, v))
		runtime.Gosched()
		return true
	})
	if err != nil && m.isDead(ref) {
		want = want[:min(len(want), len(got))]
	} else if err != nil {
		return fmt.Errorf("scan of %v, shard %d, %q: %w", ref, on.id, prefix, err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("scan of %v, shard %d, %q, dead %v: %v\nwant %v", ref, on.id, prefix, m.isDead(ref), got, want)
	}
	return nil
}

// TestReadsBesideWriterMatchModel compares reads of random blocks with a model that has the whole
// state of each block in a map. Meanwhile another goroutine commits blocks, with long forks and
// shard splits; it sometimes advances the flat head, collects garbage, rewinds or opens an overlay.
func TestReadsBesideWriterMatchModel(t *testing.T) {
	seeds, blocks := 6, 250
	if testing.Short() || testutil.Racing {
		seeds, blocks = 2, 150
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { branchesBesideWriter(t, uint64(seed), blocks) })
	}
}

func branchesBesideWriter(t *testing.T, seed uint64, blocks int) {
	o := testOptions()
	o.ResidentBlocks = []int{1, 3, 1000}[seed%3]
	o.BucketHeights = 7
	s, err := OpenMemory(NewMemDisk(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := &branchModel{model: newModel(t, seed), dead: map[BlockRef]bool{}}
	importGenesis(t, s, m.model)
	m.publish(nil)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	defer readers.Wait()
	defer close(stop)
	for i := range 2 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := m.read(s, rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 99))
	side := m.head
	for n := 0; n < blocks && !t.Failed(); n++ {
		switch op := m.rng.IntN(60); {
		case op < 35:
			m.commit(s, m.head, true)
		case op < 45: // one branch beside the head's goes on for long
			if m.blocks[side] == nil || !m.isAncestor(m.folded, side) || !m.final.IsZero() && !m.isAncestor(m.final, side) {
				side = m.randomOpen()
			}
			b := m.next(side, m.rng.IntN(12) == 0)
			if err := s.Commit(b); err != nil {
				t.Fatal(err)
			}
			side = b.Ref
		case op < 50:
			m.commitAll(s)
		case op == 50:
			m.advanceWhileReading(s)
		case op == 51 && m.folded.Height > m.genesis.Height:
			// What is below the tail may be gone at any moment from now.
			m.publish(func(ref BlockRef) bool { return ref.Height <= m.folded.Height })
			m.collect(s)
		case op == 52:
			m.rewind(s)
		}
		m.publish(func(ref BlockRef) bool { return ref.Height < m.tail })
		if err := m.read(s, rng); err != nil {
			t.Error(err)
		}
	}
	for range 200 {
		if err := m.read(s, rng); err != nil {
			t.Fatal(err)
		}
	}
}

// advanceWhileReading advances the flat head while readers run.
func (m *branchModel) advanceWhileReading(s *Store) {
	final := m.final
	m.publish(func(ref BlockRef) bool { return !m.isAncestor(ref, final) && !m.isAncestor(final, ref) })
	m.advance(s)
}

// rewind goes back some blocks.
func (m *branchModel) rewind(s *Store) {
	to := m.head
	for range m.rng.IntN(12) {
		if prev := m.blocks[to].block.Prev; to != m.folded && m.blocks[prev] != nil {
			to = prev
		}
	}
	lost := func(ref BlockRef) bool { return !m.isAncestor(ref, to) }
	m.publish(lost)
	if err := s.Rewind(to); err != nil {
		m.t.Fatal(err)
	}
	for ref := range m.blocks {
		if lost(ref) {
			delete(m.blocks, ref)
		}
	}
	m.head, m.final = to, s.Tip().Final
}
