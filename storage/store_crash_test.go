package storage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// The heights of the crash chain determine its state, so a reader need not know what the writer has
// done.
const (
	crashDir  = "TROUPE_STORAGE_CRASH_DIR"
	crashKeys = 40
)

func crashKey(i int) (primitives.ShardID, []byte) {
	if i%4 == 0 {
		return primitives.ShardID(i % 2), append([]byte{byte(primitives.ColDelayedReceipt)}, byte(i))
	}
	return primitives.ShardID(i % 2), fmt.Appendf(nil, "\x09acc%d,key", i)
}

// crashSet returns the keys that the block of a height writes. A removed key is in the second
// result.
func crashSet(h primitives.Height) (written, removed []int) {
	rng := rand.New(rand.NewPCG(uint64(h), 7))
	for i := range crashKeys {
		switch rng.IntN(8) {
		case 0:
			written = append(written, i)
		case 1:
			removed = append(removed, i)
		}
	}
	return written, removed
}

// crashValue returns what a key must be at a height; nil: absent.
func crashValue(i int, h primitives.Height) []byte {
	for ; h > 1; h-- {
		w, r := crashSet(h)
		if slices.Contains(w, i) {
			return fmt.Appendf(nil, "value %d of %d, with a tail of some length", i, h)
		}
		if slices.Contains(r, i) {
			return nil
		}
	}
	return fmt.Appendf(nil, "genesis %d", i)
}

func crashBlock(rng *rand.Rand, prev BlockRef, final BlockRef, head bool) *Block {
	h := prev.Height + 1
	b := &Block{Ref: BlockRef{h, hashOf("crash", rng.Uint64())}, Prev: prev, Timestamp: uint64(h), Ordinal: uint64(h), Epoch: hashOf(h / 30), Head: head, Final: final, Header: make([]byte, 300)}
	written, removed := crashSet(h)
	for shard := range primitives.ShardID(2) {
		s := Shard{ID: shard, Outcomes: []Outcome{{hashOf("o", h, shard), []byte("outcome")}}, Extra: []byte("extra")}
		s.Outgoing = []Receipt{{hashOf("sent", h, shard), []byte("sent")}}
		s.Local = []Receipt{{hashOf("local", h, shard), []byte("local")}}
		s.Delayed = []Receipt{{hashOf("queued", h, shard), []byte("queued")}}
		s.Origins = []Origin{{Receipt: hashOf("made", h, shard), Parent: hashOf("o", h, shard)}}
		for i := range crashKeys {
			on, key := crashKey(i)
			if on != shard {
				continue
			}
			c := Change{KeyChanges: primitives.KeyChanges{Key: key, Changes: []primitives.StateChange{{}}}, Old: crashValue(i, h-1)}
			if slices.Contains(written, i) {
				c.Changes[0].Value = crashValue(i, h)
			} else if !slices.Contains(removed, i) {
				continue
			}
			s.Changes = append(s.Changes, c)
		}
		slices.SortFunc(s.Changes, func(a, b Change) int { return bytes.Compare(a.Key, b.Key) })
		b.Shards = append(b.Shards, s)
	}
	b.Puts = &Batch{}
	info := Raw(fmt.Append(nil, h))
	EpochInfo.Put(b.Puts, b.Epoch, &info)
	return b
}

// checkCrashReceipts compares the lookup of the receipts and origins of a block on the head's
// branch with crashBlock.
func checkCrashReceipts(t *testing.T, s *Store, ref BlockRef, shard primitives.ShardID) {
	t.Helper()
	for _, kind := range []string{"sent", "local", "queued"} {
		at, err := s.Find().Receipt(hashOf(kind, ref.Height, shard))
		i := slices.IndexFunc(at, func(p Place) bool { return p.Block.Ref() == ref && p.Canonical && p.Shard == shard })
		if err != nil || i < 0 {
			t.Fatalf("%+v: %s receipt of %v: %v, %v", s.Tip(), kind, ref, at, err)
		}
		if x, err := at[i].Receipt(); err != nil || string(x.Value) != kind {
			t.Fatalf("%+v: %s receipt of %v: %q, %v", s.Tip(), kind, ref, x.Value, err)
		}
	}
	at, err := s.Find().Origin(hashOf("made", ref.Height, shard))
	i := slices.IndexFunc(at, func(p Place) bool { return p.Block.Ref() == ref && p.Canonical && p.Shard == shard })
	if err != nil || i < 0 {
		t.Fatalf("%+v: origin in %v: %v, %v", s.Tip(), ref, at, err)
	}
	if o, err := at[i].Origin(); err != nil || o.Parent != hashOf("o", ref.Height, shard) {
		t.Fatalf("%+v: origin in %v: %v, %v", s.Tip(), ref, o, err)
	}
}

// TestCrashChildWritesUntilKilled is the body of the process that
// TestKilledProcessLosesNoReportedBlock kills. It is skipped in a normal run.
func TestCrashChildWritesUntilKilled(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("only as a child of TestKilledProcessLosesNoReportedBlock")
	}
	o := testOptions()
	o.NoSync = false
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if s.Tip().Empty {
		g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: hashOf(0), Head: true}
		err := s.Import(g, nil, func(put func(Pair) error) error {
			for i := range crashKeys {
				shard, key := crashKey(i)
				if err := put(Pair{shard, key, crashValue(i, 1)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("open", s.Tip().Head.Height)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	rows := storedRows(t, s)
	for {
		tip := s.Tip()
		final := tip.Head
		if rec, err := s.Block(tip.Head); err != nil {
			t.Fatal(err)
		} else if !rec.Prev().IsZero() {
			final = rec.Prev()
		}
		if final.Height < tip.Final.Height {
			final = tip.Final
		}
		switch op := rng.IntN(60); {
		case op < 40:
			all := []*Block{crashBlock(rng, tip.Head, final, true)}
			for len(all) < 1+op%4 {
				last := all[len(all)-1]
				all = append(all, crashBlock(rng, last.Ref, last.Prev, true))
			}
			if _, err := s.CommitAll(all); err != nil {
				t.Fatal(err)
			}
			fmt.Println("head", all[len(all)-1].Ref.Height)
		case op < 46:
			b := crashBlock(rng, tip.Head, tip.Final, false)
			if err := s.Commit(b); err != nil {
				t.Fatal(err)
			}
		case op < 57:
			if err := s.AdvanceFlatHead(tip.Final, nil); err != nil && !errors.Is(err, ErrOrder) {
				t.Fatal(err)
			}
		case op < 58:
			if _, err := s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: 1 << 60, MaxHeights: 50}); err != nil {
				t.Fatal(err)
			}
		default:
			rows++
			var b Batch
			row := Raw(fmt.Append(nil, rows))
			Misc.Put(&b, "rows", &row)
			if err := s.Write(&b); err != nil {
				t.Fatal(err)
			}
			fmt.Println("rows", rows)
		}
	}
}

// TestKilledProcessLosesNoReportedBlock kills, at random moments, a process that commits, advances
// the flat head, writes rows and collects garbage, and then checks the folder that is left.
func TestKilledProcessLosesNoReportedBlock(t *testing.T) {
	rounds := 16
	if testing.Short() {
		rounds = 5
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	rows := 0
	for round := range rounds {
		acked, n := runAndKill(t, dir, time.Duration(rng.IntN(120))*time.Millisecond)
		rows = max(rows, n)
		checkCrashed(t, dir, round, acked, rows)
		if t.Failed() {
			return
		}
	}
}

// storedRows is the number that the child wrote last as a row.
func storedRows(t *testing.T, s *Store) (n int) {
	t.Helper()
	raw, err := Misc.Get(s.Reader(), "rows")
	if err == nil {
		_, err = fmt.Sscan(string(raw), &n)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	return n
}

// runAndKill runs the child and kills it. It returns what the child had reported: a height that its
// head had reached at least, and the number of its last row.
func runAndKill(t *testing.T, dir string, after time.Duration) (acked primitives.Height, rows int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestCrashChildWritesUntilKilled$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for started := false; lines.Scan(); {
		var word string
		var h primitives.Height
		if _, err := fmt.Sscan(lines.Text(), &word, &h); err != nil || !slices.Contains([]string{"open", "head", "rows"}, word) {
			t.Fatalf("child said %q and %s", lines.Text(), stderr.String())
		}
		if word == "rows" {
			rows = int(h)
		} else {
			acked = h
		}
		if !started {
			started = true
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("child ended by itself: %v %s", err, stderr.String())
	}
	return acked, rows
}

func checkCrashed(t *testing.T, dir string, round int, acked primitives.Height, rows int) {
	t.Helper()
	o := testOptions()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	defer func() { _ = s.Close() }()
	if n := storedRows(t, s); n < rows {
		t.Errorf("round %d: row %d, but the child had reported %d", round, n, rows)
	}
	tip := s.Tip()
	if tip.Head.Height < acked {
		t.Errorf("round %d: head %d, but the child had reported %d", round, tip.Head.Height, acked)
	}
	for h := tip.Tail; h <= tip.Head.Height; h++ {
		hash, err := s.HashAt(h)
		if err != nil {
			t.Errorf("round %d: %v", round, err)
			continue
		}
		rec, err := s.BlockByHash(hash)
		if err != nil {
			t.Errorf("round %d: %v", round, err)
			continue
		}
		if _, err := EpochInfo.Get(s.Reader(), rec.Epoch()); h > 1 && err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		for i := range crashKeys {
			shard, key := crashKey(i)
			got, err := s.ValueAt(BlockRef{h, hash}, shard, key)
			want := crashValue(i, h)
			if !bytes.Equal(got, want) || want == nil != errors.Is(err, ErrNotFound) {
				t.Fatalf("round %d, %+v: height %d key %d = %q, %v, want %q", round, tip, h, i, got, err, want)
			}
		}
		for shard := range primitives.ShardID(2) {
			if at, err := s.Find().Outcome(hashOf("o", h, shard)); h > 1 && (err != nil || len(in(BlockRef{h, hash}, at)) != 1) {
				t.Errorf("round %d: outcome of height %d: %v, %v", round, h, at, err)
			}
			if h > 1 {
				checkCrashReceipts(t, s, BlockRef{h, hash}, shard)
			}
		}
	}
	if ref, err := s.NextBlock(tip.Head.Height + 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("round %d: block %v above the head, %v", round, ref, err)
	}
}
