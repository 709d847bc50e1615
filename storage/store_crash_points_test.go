package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// strictChain is the crash chain on a strict disk, with what was acknowledged to its client.
type strictChain struct {
	t      *testing.T
	rng    *rand.Rand
	disk   *strictDisk
	values [][crashKeys][]byte // by height: what each key is
	acked  []BlockRef          // the head's branch, as far as it was acknowledged
	rows   int                 // the last number that was acknowledged
	wrote  int                 // the last that was tried
	points int                 // at which the disk failed
	// Header rows: the last acknowledged number, the last attempted one, and the number of
	// acknowledged ones.
	headers, wroteHeader, toldHeaders int
	// Going back, in place of a third shard that comes.
	rewinds bool
	back    BlockRef   // where to, if it is not known whether that has happened
	gone    []BlockRef // blocks that were acknowledged, and then removed by a rewind
	went    int
	// A third shard: see shard_stage_crash_test.go.
	came    bool     // it must be here
	stageAt BlockRef // where it comes in
	// Number of additional outcomes of a block. If it is large, an advance of the flat head writes
	// more than a journal can lose at once.
	fat int
}

func fatOutcome(h primitives.Height, i int) primitives.Hash { return hashOf("fat", h, i) }

// value is crashValue, once for each height.
func (c *strictChain) value(i int, h primitives.Height) []byte {
	for n := primitives.Height(len(c.values)); n <= h; n++ {
		var at [crashKeys][]byte
		if n <= 1 {
			for i := range at {
				at[i] = crashValue(i, 1)
			}
		} else {
			at = c.values[n-1]
			written, removed := crashSet(n)
			for _, i := range removed {
				at[i] = nil
			}
			for _, i := range written {
				at[i] = crashValue(i, n)
			}
		}
		c.values = append(c.values, at)
	}
	return c.values[h][i]
}

func (c *strictChain) block(prev, final BlockRef, head bool) *Block {
	b := crashBlock(c.rng, prev, final, head)
	for i := range c.fat {
		b.Shards[0].Outcomes = append(b.Shards[0].Outcomes, Outcome{fatOutcome(b.Ref.Height, i), []byte("fat")})
	}
	for i := range b.Shards {
		s := &b.Shards[i]
		for j := range s.Changes { // crashBlock looks through all heights for it
			for k := range crashKeys {
				if _, key := crashKey(k); string(key) == string(s.Changes[j].Key) {
					s.Changes[j].Old = c.value(k, prev.Height)
				}
			}
		}
	}
	return b
}

// grow commits, advances the flat head, writes and collects until something fails.
func (c *strictChain) grow(s *Store, steps int) error {
	if s.Tip().Empty {
		err := s.Import(&Block{Ref: BlockRef{1, hashOf("g")}, Epoch: hashOf(0), Head: true}, nil, func(put func(Pair) error) error {
			for i := range crashKeys {
				shard, key := crashKey(i)
				if err := put(Pair{shard, key, crashValue(i, 1)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		c.acked = []BlockRef{s.Tip().Head}
	}
	c.catchUp(s)
	for range steps {
		tip := s.Tip()
		final := tip.Final
		if rec, err := s.Block(tip.Head); err != nil {
			return err
		} else if prev := rec.Prev(); prev.Height > final.Height && c.rng.IntN(8) > 0 {
			final = prev
		}
		switch op := c.rng.IntN(46); {
		case op >= 40 && c.rewinds:
			if err := c.rewind(s); err != nil {
				return err
			}
		case op >= 40:
			if err := c.importOrUntrack(s); err != nil {
				return err
			}
		case op < 24:
			all := []*Block{c.block(tip.Head, final, true)}
			for len(all) < 1+op%4 {
				last := all[len(all)-1]
				all = append(all, c.block(last.Ref, last.Prev, true))
			}
			n, err := s.CommitAll(all)
			for _, b := range all[:n] {
				c.acked = append(c.acked, b.Ref)
			}
			if err != nil {
				return err
			}
		case op < 28: // beside the head's branch
			if err := s.Commit(c.block(tip.Head, tip.Final, false)); err != nil {
				return err
			}
		case op < 36:
			if err := s.AdvanceFlatHead(tip.Final, nil); err != nil && !errors.Is(err, ErrOrder) {
				return err
			}
		case op < 38:
			if _, err := s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: 1 << 60, MaxHeights: 50}); err != nil {
				return err
			}
		default:
			c.wrote++
			var b Batch
			row := Raw(strconv.Itoa(c.wrote))
			Misc.Put(&b, "rows", &row)
			if err := s.Write(&b); err != nil {
				return err
			}
			c.rows = c.wrote
			if c.rng.IntN(2) == 0 {
				continue
			}
			c.wroteHeader++
			b.Reset()
			cell := Raw(strconv.Itoa(c.wroteHeader))
			HeaderCell.Put(&b, "n", &cell)
			HeaderHeight.Put(&b, BlockRef{primitives.Height(c.wroteHeader), hashOf("header", c.wroteHeader)}, &cell)
			if err := s.PutHeaders(&b); err != nil {
				return err
			}
			c.headers = c.wroteHeader
			c.toldHeaders++
		}
	}
	return nil
}

func (c *strictChain) options() Options {
	o := Options{Identity: testIdentity, WriteBuffer: 8 << 10, SegmentSize: 16 << 10, FlatHeadBlocks: 4, ResidentBlocks: 3, BucketHeights: 5, StaleReadSize: 1}
	if c.fat > 0 {
		o.WriteBuffer = 1 << 20
	}
	return o
}

// fail makes one of the next calls fail.
func (c *strictChain) fail(within int) {
	n := 1 + c.rng.IntN(within)
	c.disk.fail(n, [...]error{errDied, errDied, errDied, errIO, errRoom}[c.rng.IntN(5)])
}

// failed counts a failure, if there was one, and returns whether an error is caused by it.
func (c *strictChain) failed(err error) bool {
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	if c.disk.at == 0 || c.disk.calls < c.disk.at {
		return err == nil
	}
	c.points++
	return err == nil || errors.Is(err, errDied) || errors.Is(err, syscall.EIO) || errors.Is(err, ErrFull) || errors.Is(err, ErrFailed)
}

// round works until the disk fails or the work is done, and then may cut the power. It does the
// same again while the store recovers.
func (c *strictChain) round() {
	c.fail(1 + c.rng.IntN(200))
	for again := true; again; again = c.rng.IntN(2) == 0 {
		s, err := open(c.disk, c.options())
		if err == nil {
			err = c.grow(s, c.rng.IntN(30))
		}
		if !c.failed(err) {
			c.t.Fatalf("%d calls, failing at %d: %v", c.disk.calls, c.disk.at, err)
		}
		if s != nil && c.rng.IntN(4) == 0 {
			_ = s.Close()
		}
		if c.disk.dead || c.rng.IntN(2) == 0 {
			c.disk = c.disk.crash()
		} else {
			c.disk.fail(0, c.disk.how)
		}
		if s != nil {
			_ = s.Close()
		}
		c.fail(1 + c.rng.IntN(30))
	}
	c.disk.fail(0, c.disk.how)
	c.check()
}

// catchUp adds what was written and not acknowledged.
func (c *strictChain) catchUp(s *Store) {
	if len(c.acked) == 0 {
		c.acked = []BlockRef{{1, hashOf("g")}}
	}
	if to := c.back; !to.IsZero() && to == s.Tip().Head {
		c.forget(to)
	}
	c.back = BlockRef{}
	head, last := s.Tip().Head, c.acked[len(c.acked)-1]
	if head.Height < last.Height {
		c.t.Fatalf("head %v, but %v was acked", head, last)
	}
	for h := last.Height + 1; h <= head.Height; h++ {
		hash, err := s.HashAt(h)
		if err != nil {
			c.t.Fatal(err)
		}
		c.acked = append(c.acked, BlockRef{h, hash})
	}
}

// rewind rewinds to a block at or above the flat head.
func (c *strictChain) rewind(s *Store) error {
	tip := s.Tip()
	height := tip.FlatHead.Height + primitives.Height(c.rng.IntN(int(tip.Head.Height-tip.FlatHead.Height)+1))
	c.back = c.acked[height-1]
	err := s.Rewind(c.back)
	if err == nil {
		c.forget(c.back)
		c.back = BlockRef{}
		c.went++
	}
	return err
}

// forget removes what comes after a block from what was acknowledged.
func (c *strictChain) forget(to BlockRef) {
	c.gone = append(c.gone, c.acked[to.Height:]...)
	c.acked = c.acked[:to.Height:to.Height]
}

// check opens the folder, which must be sound and have everything that was acknowledged.
func (c *strictChain) check() {
	s, err := open(c.disk, c.options())
	if err != nil {
		c.t.Fatalf("a sound folder: %v", err)
	}
	defer func() { _ = s.Close() }()
	tip := s.Tip()
	if tip.Empty {
		if len(c.acked) > 0 {
			c.t.Fatal("the folder is empty, though genesis was stored")
		}
		return
	}
	if n := storedRows(c.t, s); n < c.rows || n > c.wrote {
		c.t.Fatalf("row %d, but %d was acked and %d the last that was tried", n, c.rows, c.wrote)
	}
	c.checkHeaders(s)
	c.catchUp(s)
	c.checkCatchup(s)
	for _, ref := range c.gone {
		if _, err := s.BlockByHash(ref.Hash); !errors.Is(err, ErrNotFound) {
			c.t.Fatalf("%+v: block %v was gone back behind: %v", tip, ref, err)
		}
	}
	for range 3 {
		ref := c.acked[len(c.acked)-1-c.rng.IntN(min(len(c.acked), int(tip.Head.Height-tip.Tail)+1))]
		if got, err := s.HashAt(ref.Height); err != nil || got != ref.Hash {
			c.t.Fatalf("%+v: height %d is %v, %v, and %v was acked", tip, ref.Height, got, err, ref.Hash)
		}
		rec, err := s.Block(ref)
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := EpochInfo.Get(s.Reader(), rec.Epoch()); ref.Height > 1 && err != nil {
			c.t.Fatal(err)
		}
		for i := range crashKeys {
			shard, key := crashKey(i)
			got, err := s.ValueAt(ref, shard, key)
			want := c.value(i, ref.Height)
			if string(got) != string(want) || want == nil != errors.Is(err, ErrNotFound) {
				c.t.Fatalf("%+v: height %d key %d = %q, %v, want %q", tip, ref.Height, i, got, err, want)
			}
		}
		if c.fat > 0 && ref.Height > 1 {
			id := fatOutcome(ref.Height, c.rng.IntN(c.fat))
			at, err := s.Find().Outcome(id)
			if err != nil || !slices.ContainsFunc(at, func(p Place) bool { return p.Block.Ref() == ref && p.Canonical }) {
				c.t.Fatalf("%+v: fat outcome of height %d: %v, %v", tip, ref.Height, at, err)
			}
		}
		shard := primitives.ShardID(c.rng.IntN(2))
		at, err := s.Find().Outcome(hashOf("o", ref.Height, shard))
		if ref.Height > 1 && (err != nil || !slices.ContainsFunc(at, func(p Place) bool { return p.Block.Ref() == ref && p.Canonical })) {
			c.t.Fatalf("outcome of height %d: %v, %v", ref.Height, at, err)
		}
		if ref.Height > 1 {
			checkCrashReceipts(c.t, s, ref, shard)
		}
	}
}

// checkHeaders: acknowledged header rows are present, and each batch of them is present as a whole.
func (c *strictChain) checkHeaders(s *Store) {
	n, rows := 0, 0
	if raw, err := HeaderCell.Get(s.Reader(), "n"); err == nil {
		n, _ = strconv.Atoi(string(raw))
	} else if !errors.Is(err, ErrNotFound) {
		c.t.Fatal(err)
	}
	if err := s.HeadersUpTo(1<<40, func(BlockRef, Raw) bool { rows++; return true }); err != nil {
		c.t.Fatal(err)
	}
	if n < c.headers || n > c.wroteHeader || rows < c.toldHeaders || rows > n {
		c.t.Fatalf("header %d and %d rows, but %d was acked and %d the last that was tried", n, rows, c.headers, c.wroteHeader)
	}
}

// TestUnsyncedTailIsSyncedAtOpen: a process whose sync failed leaves records that the next process
// can read, although they may not be on the disk. The head that the next process reports, and
// writes to the index when it ends, survives a power cut.
func TestUnsyncedTailIsSyncedAtOpen(t *testing.T) {
	kept := 0
	for seed := uint64(1); seed <= 300; seed++ {
		c := &strictChain{t: t, rng: rand.New(rand.NewPCG(seed, 13)), disk: newStrictDisk(seed)}
		s, err := open(c.disk, c.options())
		if err == nil {
			err = c.grow(s, 5)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := s.Tip().Head
		// Fail the sync of a record that needs a new segment: no space is reserved after that
		// record, so no space has to be cut off.
		c.disk.fail(6, errIO)
		c.fat = 1000
		if err := s.Commit(c.block(before, before, true)); err == nil {
			continue // another call took the fault
		}
		c.fat = 0
		_ = s.Close()
		c.disk.fail(0, c.disk.how)
		if s, err = open(c.disk, c.options()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if head := s.Tip().Head; head != before {
			kept++
			c.acked = append(c.acked, head)
		}
		if seed%2 == 0 { // it ends, and the power goes meanwhile
			c.disk.fail(1+c.rng.IntN(4), errDied)
			_ = s.Close()
		}
		c.disk = c.disk.crash()
		c.check()
	}
	if kept < 50 {
		t.Fatalf("the next process read the record %d times", kept)
	}
}

// TestRepeatedFaultsLoseNothingSynced makes calls of every kind fail, repeatedly, while the store
// works and while it recovers. Everything that was synced is there afterwards, and no intact folder
// is refused. TROUPE_CRASH_POINTS sets the number of failures.
func TestRepeatedFaultsLoseNothingSynced(t *testing.T) {
	points := 1000
	if testing.Short() || testutil.Racing {
		points = 300
	}
	if n, err := strconv.Atoi(os.Getenv("TROUPE_CRASH_POINTS")); err == nil {
		points = n
	}
	begun, done, went := time.Now(), 0, 0
	for seed := uint64(1); done < points; seed++ {
		c := &strictChain{t: t, rng: rand.New(rand.NewPCG(seed, 12)), disk: newStrictDisk(seed)}
		if seed%4 == 0 {
			c.fat = 200
		}
		c.rewinds = seed%2 == 1
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			c.t = t
			for len(c.acked) < 300 && done+c.points < points {
				c.round()
			}
		})
		went += c.went
		if done += c.points; t.Failed() {
			break
		}
	}
	if went == 0 {
		t.Error("it never went back")
	}
	t.Logf("%d points in %.0f s, %d times back", done, time.Since(begun).Seconds(), went)
}
