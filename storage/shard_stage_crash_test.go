package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// In the chain of the crash-point tests, a third shard is imported and untracked. Its results are
// only in catchup records.

const (
	lateShard = primitives.ShardID(2)
	lateKeys  = 4
)

var catchupAccounts = AccountRange{Lo: "~"}

func catchupName(i int) []byte { return fmt.Appendf(nil, "\x00~%d", i) }

// catchupValue is what key i has after a height: it changes at every multiple of i+2.
func catchupValue(i int, h primitives.Height) []byte {
	if h -= h % primitives.Height(i+2); h == 0 {
		return nil
	}
	return fmt.Appendf(nil, "late %d %d", i, h)
}

func catchupChanges(prev, h primitives.Height) *Shard {
	sh := &Shard{ID: lateShard, Extra: []byte("extra"), Outcomes: []Outcome{{hashOf("late", h), []byte("o")}}}
	for i := range lateKeys {
		old, now := catchupValue(i, prev), catchupValue(i, h)
		if string(old) != string(now) {
			sh.Changes = append(sh.Changes, Change{Old: old, KeyChanges: primitives.KeyChanges{Key: catchupName(i),
				Changes: []primitives.StateChange{{Cause: primitives.StateChangeCause{Kind: primitives.CauseMigration}, Value: now}}}})
		}
	}
	return sh
}

// importOrUntrack imports the shard, catches it up, or untracks it.
func (c *strictChain) importOrUntrack(s *Store) error {
	_, known := s.view.Load().shards[lateShard]
	_, here := s.ShardAt(lateShard)
	if here = here && known; !here {
		return c.importShard(s)
	}
	if c.rng.IntN(12) == 0 {
		c.came = false
		return s.UntrackShard(lateShard, catchupAccounts)
	}
	for range 1 + c.rng.IntN(5) {
		next, prev, ok := c.nextCatchup(s)
		if !ok {
			return nil
		}
		if err := s.CommitShard(next, catchupChanges(prev.Height, next.Height), nil); err != nil {
			return err
		}
	}
	return nil
}

// nextCatchup returns the next block of the head's branch that lacks the shard.
func (c *strictChain) nextCatchup(s *Store) (next, prev BlockRef, ok bool) {
	at, _ := s.ShardAt(lateShard)
	for {
		ref, err := s.NextBlock(at.Height + 1)
		if err != nil {
			return next, prev, false
		}
		if has, err := s.hasShard(ref, lateShard); ref.Height <= s.Tip().FlatHead.Height || err != nil || !has {
			return ref, at, true
		}
		at = ref
	}
}

func (c *strictChain) importShard(s *Store) error {
	tip := s.Tip()
	if c.stageAt.Height < tip.Tail || c.stageAt.Height > tip.FlatHead.Height || c.rng.IntN(6) == 0 {
		c.stageAt = tip.FlatHead
	}
	if hash, err := s.HashAt(c.stageAt.Height); err != nil || hash != c.stageAt.Hash {
		c.stageAt = tip.FlatHead
	}
	done, err := s.Stage(lateShard, c.stageAt, catchupAccounts)
	if err != nil {
		return err
	}
	for n := uint64(len(done)); n < lateKeys; n++ { // they come in their order
		if err := c.stagePart(s, int(n)); err != nil {
			return err
		}
		if c.rng.IntN(4) == 0 {
			return nil
		}
	}
	if err := s.InstallShard(lateShard, []FrontierNode{{Path: []byte{2}, Hash: hashOf(c.stageAt), MemoryUsage: 3}}); err != nil {
		return err
	}
	c.came = true
	return nil
}

// stagePart stores a key of the shard that comes in.
func (c *strictChain) stagePart(s *Store, n int) error {
	return s.StagePart(lateShard, c.stageAt, uint64(n), func(put func(key, value []byte) error) error {
		if v := catchupValue(n, c.stageAt.Height); v != nil {
			return put(catchupName(n), v)
		}
		return nil
	})
}

// checkCatchup holds the shard to what it must be wherever it is.
func (c *strictChain) checkCatchup(s *Store) {
	cell, known := s.view.Load().shards[lateShard]
	if !known || cell.Untracked {
		if c.came {
			c.t.Fatal("a shard that came in is not here")
		}
		return
	}
	tip := s.Tip()
	at, _ := s.ShardAt(lateShard)
	for ref := at; ; {
		for i := range lateKeys {
			if ref.Height < max(cell.Since, tip.Tail) {
				break
			}
			got, err := s.ValueAt(ref, lateShard, catchupName(i))
			want := catchupValue(i, ref.Height)
			if string(got) != string(want) || want == nil != errors.Is(err, ErrNotFound) {
				c.t.Fatalf("%+v, %+v: late shard at %v, key %d = %q, %v, want %q", tip, cell, ref, i, got, err, want)
			}
		}
		next, err := s.NextBlock(ref.Height + 1)
		if err != nil || next.Height <= tip.FlatHead.Height {
			break
		}
		if has, err := s.hasShard(next, lateShard); err != nil {
			c.t.Fatal(err)
		} else if !has {
			break
		}
		ref = next
	}
	from := max(cell.Since+1, tip.Tail)
	for range 3 {
		if from > at.Height {
			break
		}
		h := from + primitives.Height(c.rng.Uint64N(uint64(at.Height-from+1)))
		hash, err := s.HashAt(h)
		if err != nil {
			continue
		}
		i := c.rng.IntN(lateKeys)
		got, err := s.ValueAt(BlockRef{h, hash}, lateShard, catchupName(i))
		if want := catchupValue(i, h); string(got) != string(want) {
			c.t.Fatalf("%+v, %+v: late shard at height %d, key %d = %q, %v, want %q", tip, cell, h, i, got, err, want)
		}
		found, err := s.Find().Outcome(hashOf("late", h))
		if err != nil || len(found) == 0 {
			c.t.Fatalf("late outcome of height %d: %v, %v", h, found, err)
		}
	}
}

// TestShardIsStagedAfterCutDeletion: after a power cut has interrupted the deletion of a shard, the
// shard is staged again, with further power cuts at any call and a garbage collection in between.
// Afterwards the parts that Stage returns are there.
func TestShardIsStagedAfterCutDeletion(t *testing.T) {
	left, staged := 0, 0
	for seed := uint64(1); seed <= 400; seed++ {
		c := &strictChain{t: t, rng: rand.New(rand.NewPCG(seed, 14)), disk: newStrictDisk(seed)}
		s, err := open(c.disk, c.options())
		for err == nil && !c.came {
			if err = c.grow(s, 3); err == nil {
				err = c.importShard(s)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		c.came = false
		c.disk.fail(1+c.rng.IntN(6), errDied)
		_ = s.UntrackShard(lateShard, catchupAccounts)
		again := func() {
			c.disk = c.disk.crash()
			_ = s.Close()
			if s, err = open(c.disk, c.options()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		again()
		cell := s.view.Load().shards[lateShard]
		if !cell.Untracked {
			_ = s.Close()
			continue
		}
		if cell.Deleting {
			left++
		}
		if c.stageAt = s.Tip().FlatHead; seed%2 == 0 { // all parts, and a collection before it enters
			_, err := s.Stage(lateShard, c.stageAt, catchupAccounts)
			for n := 0; n < lateKeys && err == nil; n++ {
				err = c.stagePart(s, n)
			}
			if err == nil {
				_, err = s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: 1 << 60, MaxHeights: 50})
			}
			if err == nil {
				err = s.InstallShard(lateShard, []FrontierNode{{Path: []byte{2}, Hash: hashOf(c.stageAt), MemoryUsage: 3}})
			}
			if c.came = true; err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		} else {
			c.disk.fail(4+c.rng.IntN(30), errDied)
			for err == nil && !c.came {
				if err = c.importShard(s); err == nil {
					_, err = s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: 1 << 60, MaxHeights: 50})
				}
			}
			if err != nil {
				staged++
			}
			for again(); err == nil && !c.came; {
				err = c.importShard(s)
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		c.checkCatchup(s)
		_ = s.Close()
	}
	if left < 40 || staged < 20 {
		t.Errorf("%d times it was cut off while it left, %d times while it came", left, staged)
	}
}
