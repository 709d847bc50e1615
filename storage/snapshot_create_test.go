package storage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// copied opens a backup of a store and gives it to f.
func copied(t *testing.T, s *Store, o BackupOptions, f func(c *Store)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	tip, err := s.Backup(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	so := s.o
	so.WriteBuffer = 64 << 10
	c, err := Open(dir, so)
	if err != nil {
		t.Fatalf("the copy: %v", err)
	}
	if got := c.Tip(); got != tip {
		t.Errorf("the copy's tip is %+v, Backup said %+v", got, tip)
	}
	f(c)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestBackupEqualsItsStore: copies of a store contain the same data as the store, whatever was done
// with it before. They accept further blocks, which do not affect the store.
func TestBackupEqualsItsStore(t *testing.T) {
	for seed := range uint64(2) {
		dir := t.TempDir()
		m := newModel(t, 40+seed)
		o := testOptions()
		o.NoSync = seed > 0 // else the last segment is longer than what is in it
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		importGenesis(t, s, m)
		for i := range 80 {
			switch op := m.rng.IntN(20); {
			case op < 11:
				m.commit(s, m.head, true)
			case op < 14:
				m.commit(s, m.randomOpen(), m.rng.IntN(2) == 0)
			case op < 17:
				m.advance(s)
			case op < 18:
				m.collect(s)
			}
			if i%20 != 19 {
				continue
			}
			before := readDir(t, filepath.Join(dir, logName))
			copied(t, s, BackupOptions{Link: i%40 == 39}, func(c *Store) {
				m.check(c)
				if i == 79 {
					copied(t, c, BackupOptions{}, m.check) // of the copy
				}
				if err := c.Commit(m.overlay(m.head, true)); err != nil {
					t.Errorf("a block on the copy: %v", err)
				}
			})
			if after := readDir(t, filepath.Join(dir, logName)); !maps.Equal(before, after) {
				t.Error("the log has changed by being copied, or by what the copy did")
			}
		}
		m.check(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBackupOfRunningStoreIsConsistent: copies are made while blocks are committed, the flat head
// advances and blocks are collected. Each copy is consistent as of one moment. Segments that would
// be removed during a copy are removed after it.
func TestBackupOfRunningStoreIsConsistent(t *testing.T) {
	dir := t.TempDir()
	if _, err := growCrashChain(t, osDisk{dir}, 150); err != nil {
		t.Fatal(err)
	}
	o := testOptions()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for !stop.Load() {
			if upto, due := s.FlatHeadDue(); due {
				if err := s.AdvanceFlatHead(upto, nil); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: 1 << 60, MaxHeights: 100}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() {
		rng := rand.New(rand.NewPCG(5, 5))
		for !stop.Load() {
			time.Sleep(500 * time.Microsecond) // as many as are collected
			head := s.Tip().Head
			final := head
			if rec, err := s.Block(head); err == nil && !rec.Prev().IsZero() {
				final = rec.Prev()
			}
			if err := s.Commit(crashBlock(rng, head, final, true)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	segments := func() int {
		names, err := s.disk.listFiles()
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	for i := range 12 {
		to := filepath.Join(t.TempDir(), "copy")
		begun := s.Tip()
		var during atomic.Bool
		_, err := s.Backup(t.Context(), to, BackupOptions{Link: i%2 == 0, Progress: func(int64, int64) {
			if during.CompareAndSwap(false, true) { // blocks go on
				for h := s.Tip().Head.Height; s.Tip().Head.Height < h+3 && !t.Failed(); {
					time.Sleep(time.Millisecond)
				}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		checkCrashed(t, to, i, begun.Head.Height, 0)
	}
	stop.Store(true)
	all.Wait()
	held := func() { // nothing goes while a copy is on its way
		t.Helper()
		m, err := s.freeze()
		if err != nil {
			t.Fatal(err)
		}
		before, tail := segments(), s.Tip().Tail
		grow(t, s, 200)
		if got := segments(); got < before || s.Tip().Tail == tail {
			t.Errorf("%d segments, %d before; tail %d, %d before", got, before, s.Tip().Tail, tail)
		}
		before = segments()
		m.release()
		grow(t, s, 60) // until an epoch goes
		if got := segments(); got >= before {
			t.Errorf("%d segments when the copy is made, %d before", got, before)
		}
	}
	held()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// grow commits n blocks, advances the flat head and collects.
func grow(t *testing.T, s *Store, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, uint64(s.Tip().Head.Height)))
	for range n {
		head := s.Tip().Head
		rec, err := s.Block(head)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(crashBlock(rng, head, rec.Prev(), true)); err != nil {
			t.Fatal(err)
		}
		if upto, due := s.FlatHeadDue(); due {
			if err := s.AdvanceFlatHead(upto, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for more := true; more; {
		done, err := s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: 1 << 60, MaxHeights: 1000})
		if err != nil {
			t.Fatal(err)
		}
		more = done.More
	}
}

// TestBackupIntoOccupiedFolderIsRefused: if a store cannot be copied, or not into the given folder,
// Backup returns an error that says so, and changes nothing.
func TestBackupIntoOccupiedFolderIsRefused(t *testing.T) {
	empty, err := Open(t.TempDir(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = empty.Close() }()
	if _, err := empty.Backup(t.Context(), filepath.Join(t.TempDir(), "x"), BackupOptions{}); !errors.Is(err, ErrOrder) {
		t.Errorf("a store without a genesis: %v, want ErrOrder", err)
	}
	dir := t.TempDir()
	writeDir(t, dir, sound(t))
	s, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	occupied := t.TempDir()
	writeDir(t, occupied, map[string]string{"a": "b"})
	if _, err := s.Backup(t.Context(), occupied, BackupOptions{}); !errors.Is(err, ErrOccupied) || len(readDir(t, occupied)) != 1 {
		t.Errorf("into a folder with a file: %v, now %v", err, readDir(t, occupied))
	}
	if _, err := s.Backup(t.Context(), dir, BackupOptions{}); !errors.Is(err, ErrOccupied) {
		t.Errorf("into itself: %v", err)
	}
}

// TestUnfinishedBackupCannotBeOpened: a copy that was interrupted at any point cannot be opened,
// and Open does not turn its folder into a new store.
func TestUnfinishedBackupCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	writeDir(t, dir, sound(t))
	s, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for steps := 0; ; steps++ {
		to := filepath.Join(t.TempDir(), "copy")
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		if steps == 0 {
			cancel()
		}
		_, err := s.Backup(ctx, to, BackupOptions{Progress: func(int64, int64) {
			if n++; n == steps {
				cancel()
			}
		}})
		cancel()
		if err == nil {
			if steps < 4 {
				t.Errorf("it was ended at %d places only", steps)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("ended at %d: %v", steps, err)
		}
		refused(t, to)
	}
}

// refused checks that a folder does not open and stays as it is.
func refused(t *testing.T, dir string) {
	t.Helper()
	before := readDir(t, dir)
	c, err := Open(dir, testOptions())
	if err == nil {
		t.Errorf("half a copy opens at %+v: it has %d files", c.Tip(), len(before))
		_ = c.Close()
		return
	}
	if !errors.Is(err, ErrForeign) {
		t.Errorf("half a copy: %v, want ErrForeign", err)
	}
	if after := readDir(t, dir); !maps.Equal(before, after) {
		t.Error("opening half a copy has changed it")
	}
}

// backupDir is where a child makes copies, of the store that lies beside them.
const backupDir = "TROUPE_STORAGE_BACKUP_DIR"

// TestBackupChildCopiesUntilKilled is a process of TestKilledBackupLeavesStoreIntact.
func TestBackupChildCopiesUntilKilled(t *testing.T) {
	dir := os.Getenv(backupDir)
	if dir == "" {
		t.Skip("for TestKilledBackupLeavesStoreIntact")
	}
	s, err := Open(filepath.Join(dir, "store"), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		fmt.Println("begin", i)
		if _, err := s.Backup(t.Context(), filepath.Join(dir, fmt.Sprint("copy", i)), BackupOptions{Link: i%2 == 0}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKilledBackupLeavesStoreIntact kills a process that makes copies, at random moments. Finished
// copies can be opened, the last one possibly not, and the store itself is unchanged.
func TestKilledBackupLeavesStoreIntact(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	height := 0
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 4))
	half := 0
	for range rounds {
		dir := t.TempDir()
		h, err := growCrashChain(t, osDisk{filepath.Join(dir, "store")}, 60)
		if err != nil {
			t.Fatal(err)
		}
		height = int(h)
		cmd := exec.Command(os.Args[0], "-test.run", "^TestBackupChildCopiesUntilKilled$")
		cmd.Env = append(os.Environ(), backupDir+"="+dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		last, lines := -1, bufio.NewScanner(out)
		for lines.Scan() {
			if _, err := fmt.Sscanf(lines.Text(), "begin %d", &last); err != nil {
				t.Fatalf("child said %q and %s", lines.Text(), stderr.String())
			}
			if last == 0 {
				time.AfterFunc(time.Duration(rng.IntN(60_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
			}
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("child ended by itself: %v %s", err, stderr.String())
		}
		for i := range last + 1 {
			to := filepath.Join(dir, fmt.Sprint("copy", i))
			if i == last && !Exists(to) {
				if _, err := os.Stat(filepath.Join(to, unfinished)); err == nil {
					half++
					refused(t, to)
				}
				continue
			}
			wholeHead(t, readDir(t, to), to, h)
		}
		wholeHead(t, readDir(t, filepath.Join(dir, "store")), "the store", h)
	}
	t.Logf("%d of %d kills left half a copy, of a chain of %d blocks", half, rounds, height)
}
