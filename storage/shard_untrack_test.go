package storage

import (
	"crypto/rand"
	"errors"
	"testing"
)

// TestReadDuringUntrackIsValueOrErrGone untracks a shard at any moment of a read. The reader gets
// either the value or ErrGone, but never ErrNotFound.
func TestReadDuringUntrackIsValueOrErrGone(t *testing.T) {
	key := []byte("\x00a")
	scan := func(read func(yield func(_, value []byte) bool) error) (value []byte, err error) {
		err = read(func(_, v []byte) bool { value = append(value, v...); return true })
		return value, err
	}
	reads := map[string]func(s *Store, at BlockRef) ([]byte, error){
		"value": func(s *Store, at BlockRef) ([]byte, error) { return s.ValueAt(at, 0, key) },
		"scan": func(s *Store, at BlockRef) ([]byte, error) {
			return scan(func(yield func(_, value []byte) bool) error { return s.Scan(at, 0, AccountRange{}, nil, nil, yield) })
		},
		"load": func(s *Store, at BlockRef) ([]byte, error) {
			return scan(func(yield func(_, value []byte) bool) error { return s.Load(at, 0, AccountRange{}, nil, nil, yield) })
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			for _, pending := range []bool{false, true} {
				for point := 1; ; point++ {
					s, err := OpenMemory(NewMemDisk(), testOptions())
					if err != nil {
						t.Fatal(err)
					}
					at := BlockRef{1, hashOf("a")}
					g := &Block{Ref: at, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}, {ID: 1}}}
					if err := s.Import(g, nil, func(put func(Pair) error) error { return put(Pair{0, key, []byte("1")}) }); err != nil {
						t.Fatal(err)
					}
					if pending {
						at = BlockRef{2, hashOf("b")}
						if err := s.Commit(&Block{Ref: at, Prev: g.Ref, Ordinal: 2, Epoch: g.Epoch, Head: true, Shards: []Shard{{ID: 1}}}); err != nil {
							t.Fatal(err)
						}
					}
					left := false
					s.db = &betweenIndex{index: s.db, at: point, do: func() {
						left = true
						if err := s.UntrackShard(0, AccountRange{}); err != nil {
							t.Fatal(err)
						}
					}}
					if got, err := read(s, at); (err != nil || string(got) != "1") && !errors.Is(err, ErrGone) {
						t.Errorf("%s of a shard that leaves before look %d, pending %v: %q, %v", name, point, pending, got, err)
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					if !left {
						break
					}
				}
			}
		})
	}
}

// TestStateOfLaggingShardIsUnknown: if an imported shard is behind the flat head, its state after
// later blocks is reported as unknown, also after blocks above the flat head.
func TestStateOfLaggingShardIsUnknown(t *testing.T) {
	key := []byte("\x00z")
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	g := &Block{Ref: BlockRef{1, hashOf("a")}, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}
	if err := s.Import(g, nil, func(func(Pair) error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	at := g.Ref
	for i, name := range []string{"b", "c"} {
		b := &Block{Ref: BlockRef{at.Height + 1, hashOf(name)}, Prev: at, Ordinal: uint64(i) + 2, Epoch: g.Epoch, Head: true, Shards: []Shard{{ID: 0}}}
		if b.Final = at; i == 1 {
			b.Final = b.Prev
		}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		at = b.Ref
	}
	if err := s.AdvanceFlatHead(BlockRef{2, hashOf("b")}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stage(1, g.Ref, AccountRange{Lo: "m"}); err != nil {
		t.Fatal(err)
	}
	if err := s.StagePart(1, g.Ref, 0, func(put func(key, value []byte) error) error { return put(key, []byte("1")) }); err != nil {
		t.Fatal(err)
	}
	if err := s.InstallShard(1, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ValueAt(g.Ref, 1, key); err != nil || string(got) != "1" {
		t.Fatalf("where the shard is: %q, %v", got, err)
	}
	for _, ref := range []BlockRef{{2, hashOf("b")}, at} {
		if got, err := s.ValueAt(ref, 1, key); err == nil {
			t.Errorf("a shard that is at block 1 has %q after block %d", got, ref.Height)
		}
		if err := s.Scan(ref, 1, AccountRange{Lo: "m"}, nil, nil, func(_, _ []byte) bool { return true }); err == nil {
			t.Errorf("a shard that is at block 1 is scanned after block %d", ref.Height)
		}
	}
}

// TestStageDiscardsOldPart: a shard is staged as of another block while a part of the earlier state
// is still being written. The new state contains nothing of that part.
func TestStageDiscardsOldPart(t *testing.T) {
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	before, now, accounts := BlockRef{1, hashOf("a")}, BlockRef{2, hashOf("b")}, AccountRange{}
	if _, err := s.Stage(0, before, accounts); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, historyBatch)
	if _, err := rand.Read(big); err != nil {
		t.Fatal(err)
	}
	err = s.StagePart(0, before, 0, func(put func(key, value []byte) error) error {
		if err := put([]byte("\x00a"), big); err != nil { // which is written
			return err
		}
		if _, err := s.Stage(0, now, accounts); err != nil {
			return err
		}
		if err := put([]byte("\x00b"), big); err != nil {
			return err
		}
		return put([]byte("\x00c"), []byte("1"))
	})
	if !errors.Is(err, ErrOrder) {
		t.Errorf("a part of a state that is not awaited any more: %v", err)
	}
	stub := []FrontierNode{{Path: []byte{1}, Hash: hashOf("stub"), MemoryUsage: 5}}
	if err := s.StageFrontier(0, before, stub); !errors.Is(err, ErrOrder) {
		t.Errorf("the frontier of a state that is not awaited any more: %v", err)
	}
	none := func(func(key, value []byte) error) error { return nil }
	if err := s.StagePart(0, before, 1, none); !errors.Is(err, ErrOrder) {
		t.Errorf("a part that comes behind: %v", err)
	}
	if parts, err := s.Stage(0, now, accounts); err != nil || len(parts) > 0 {
		t.Errorf("parts %v of the new state are here, %v", parts, err)
	}
	if err := flat.Scan(s.db, nil, nil, func(key []byte, _ packed) bool {
		t.Errorf("row %x of the state before", key)
		return true
	}); err != nil {
		t.Fatal(err)
	}
}
