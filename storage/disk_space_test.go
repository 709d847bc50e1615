package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/troupe-chain/troupe/primitives"
)

// stepDisk counts the calls that change a folder, and fails each call from one on until it is given
// room. A write that fails in the middle has written half of its bytes.
type stepDisk struct {
	disk
	errno syscall.Errno
	syncs bool // what was written is on the disk: a sync does not fail

	mu    sync.Mutex
	steps int
	from  int    // 0: none fails
	kind  string // the first that fails is of this kind; empty: of any
	what  string
}

func (d *stepDisk) step(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps++
	if d.from == 0 || d.steps < d.from || d.syncs && strings.HasSuffix(what, "sync") {
		return nil
	}
	if d.what == "" {
		if d.kind != "" && d.kind != what {
			return nil
		}
		d.what = what
	}
	return &os.PathError{Op: what, Path: "test", Err: d.errno}
}

// first is the step that failed first.
func (d *stepDisk) first() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.what
}

func (d *stepDisk) room() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.from = 0
}

func (d *stepDisk) probe(int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.from > 0 {
		return d.errno
	}
	return nil
}

func (d *stepDisk) createFile(name string) (file, error) {
	if err := d.step("log create"); err != nil {
		return nil, err
	}
	f, err := d.disk.createFile(name)
	return stepFile{f, d}, err
}

func (d *stepDisk) syncNames() error {
	if err := d.step("log names"); err != nil {
		return err
	}
	return d.disk.syncNames()
}

func (d *stepDisk) openFile(name string) (file, error) {
	f, err := d.disk.openFile(name)
	return stepFile{f, d}, err
}

func (d *stepDisk) openIndex() (lstorage.Storage, error) {
	s, err := d.disk.openIndex()
	return stepStorage{s, d}, err
}

type stepFile struct {
	file
	d *stepDisk
}

func (f stepFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.d.step("log write"); err != nil {
		n, _ := f.file.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	return f.file.WriteAt(p, off)
}

func (f stepFile) Sync() error {
	if err := f.d.step("log sync"); err != nil {
		return err
	}
	return f.file.Sync()
}

type stepStorage struct {
	lstorage.Storage
	d *stepDisk
}

func (s stepStorage) Create(fd lstorage.FileDesc) (lstorage.Writer, error) {
	if err := s.d.step(fd.Type.String() + " create"); err != nil {
		return nil, err
	}
	w, err := s.Storage.Create(fd)
	return stepWriter{w, s.d, fd.Type.String()}, err
}

func (s stepStorage) SetMeta(fd lstorage.FileDesc) error {
	if err := s.d.step("meta"); err != nil {
		return err
	}
	return s.Storage.SetMeta(fd)
}

type stepWriter struct {
	lstorage.Writer
	d    *stepDisk
	kind string
}

func (w stepWriter) Write(p []byte) (int, error) {
	if len(p) == 0 { // goleveldb does, with a lock that reads need
		return 0, nil
	}
	if err := w.d.step(w.kind + " write"); err != nil {
		n, _ := w.Writer.Write(p[:len(p)/2])
		return n, err
	}
	return w.Writer.Write(p)
}

func (w stepWriter) Sync() error {
	if err := w.d.step(w.kind + " sync"); err != nil {
		return err
	}
	return w.Writer.Sync()
}

// fail has the steps from the nth on from here fail.
func (d *stepDisk) fail(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.from = d.steps + n
}

// fullChain writes the crash chain on a disk that fills up, as a node does: it waits for room, and
// opens the store again if that is needed.
type fullChain struct {
	t    *testing.T
	disk *stepDisk
	from int                                     // the step after the start at which it is; 0: none
	full func(s *Store, acked primitives.Height) // called once, when it is first full; nil: never mind

	acked   primitives.Height
	closing bool
}

func fullOptions() Options {
	o := testOptions()
	o.WriteBuffer, o.NoSync, o.SegmentSize, o.SpaceProbePeriod, o.ReadOnlyIfFull = 16<<10, false, 12<<10, time.Millisecond, true
	return o
}

func (c *fullChain) open() (*Store, chan *Full) {
	s, err := open(c.disk, fullOptions())
	if err != nil {
		c.t.Fatal(err)
	}
	events := make(chan *Full, 1024)
	s.DiskSpace().Watch(func(f *Full) { events <- f })
	return s, events
}

// grow writes blocks up to a height, in groups, and advances the flat head.
func (c *fullChain) grow(upto primitives.Height) {
	s, events := c.open()
	if c.from > 0 {
		c.disk.fail(c.from)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	work := func() bool { // returns whether the store must be opened again
		done := make(chan bool, 1)
		go func() { done <- c.write(s, rng, upto) }()
		for {
			select {
			case again := <-done:
				return again
			case e := <-events:
				if e != nil && !e.Reopen && c.full != nil {
					c.full(s, c.acked)
					c.full = nil
				}
				if e != nil && e.Reopen {
					s.DiskSpace().CancelWaits()
				}
			}
		}
	}
	for work() {
		// Where a sync of the index failed, closing says that what it holds is in doubt.
		if err := s.Close(); err != nil && !errors.Is(err, ErrFull) {
			c.t.Errorf("close a store that is full: %v", err)
		}
		s, events = c.open()
	}
	c.closing = c.disk.first() == ""
	if err := s.Close(); err != nil {
		c.t.Error(err)
	}
}

func (c *fullChain) write(s *Store, rng *rand.Rand, upto primitives.Height) (again bool) {
	for s.Tip().Head.Height < upto {
		tip := s.Tip()
		final := tip.Head
		if rec, err := s.Block(tip.Head); err == nil && !rec.Prev().IsZero() {
			final = rec.Prev()
		}
		all := []*Block{crashBlock(rng, tip.Head, final, true)}
		for len(all) < 4 {
			last := all[len(all)-1]
			all = append(all, crashBlock(rng, last.Ref, last.Prev, true))
		}
		for len(all) > 0 {
			n, err := s.CommitAll(all)
			if all = all[n:]; n > 0 {
				c.acked = s.Tip().Head.Height
			}
			switch {
			case err == nil:
			case !errors.Is(err, ErrFull):
				c.t.Errorf("commit: %v, want ErrFull", err)
				return false
			case !s.DiskSpace().Await():
				return true
			}
		}
		if due, ok := s.FlatHeadDue(); ok {
			if err := s.AdvanceFlatHead(due, nil); errors.Is(err, ErrFull) {
				for s.DiskSpace().Await() { // CancelWaits comes when there is room
					time.Sleep(time.Millisecond)
				}
				return true
			} else if err != nil {
				c.t.Errorf("fold: %v", err)
				return false
			}
		}
	}
	return false
}

// TestFullDiskAtAnyStepLosesNothing fills the disk at each step of all writes. No acknowledged
// write is lost, and reads continue. If the process is killed then, its folder can be opened again.
// A folder on a full disk can be opened for reading. Once there is room, writing continues by
// itself.
func TestFullDiskAtAnyStepLosesNothing(t *testing.T) {
	const upto = 44
	begin := func(t *testing.T) string {
		dir := t.TempDir()
		if _, err := growCrashChain(t, osDisk{dir}, 4); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	count := &stepDisk{disk: osDisk{begin(t)}}
	(&fullChain{t: t, disk: count}).grow(upto) // with those of the start, so they are some more
	stride := 3
	if testing.Short() {
		stride = 11
	}
	kinds := map[string]int{}
	fill := func(from int, kind string) (more bool) {
		errno := syscall.ENOSPC
		if from%2 == 0 {
			errno = syscall.EDQUOT
		}
		dir := begin(t)
		d := &stepDisk{disk: osDisk{dir}, errno: errno, kind: kind}
		c := &fullChain{t: t, disk: d, from: from}
		c.full = func(s *Store, acked primitives.Height) {
			what := fmt.Sprintf("step %d, %s", from, d.first())
			if now, ok := s.DiskSpace().Full(); !ok || !errors.Is(now.Err, ErrFull) || !errors.Is(now.Err, errno) || now.Since.IsZero() {
				t.Errorf("%s: the store says %+v, %v of its disk", what, now, ok)
			}
			checkReads(t, s, what, acked)
			files := readDir(t, dir)
			killed := t.TempDir()
			writeDir(t, killed, files)
			checkCrashed(t, killed, from, acked, 0)
			readFull(t, files, what, acked)
			d.room()
		}
		c.grow(upto)
		if d.first() == "" {
			return false // after the last step
		}
		if c.acked < upto || c.full != nil && !c.closing {
			t.Errorf("step %d, %s: written up to %d; full: %v", from, d.first(), c.acked, c.full == nil)
		}
		kinds[d.first()]++
		checkCrashed(t, dir, from, c.acked, 0)
		return !t.Failed()
	}
	for from := 1; from <= count.steps && fill(from, ""); from += stride {
	}
	for _, kind := range []string{"log create", "log names", "log write", "log sync", "journal create", "journal write", "journal sync",
		"table create", "table write", "table sync", "manifest write", "manifest sync"} {
		if kinds[kind] == 0 && !t.Failed() { // goleveldb compacts at its own times: a stride may pass over a kind
			fill(1, kind)
		}
		if kinds[kind] == 0 && !t.Failed() {
			t.Errorf("no step %q among %v", kind, kinds)
		}
	}
	t.Logf("%v", kinds)
}

// readFull opens a copy of a folder on a disk that stays full.
func readFull(t *testing.T, files map[string]string, what string, acked primitives.Height) {
	t.Helper()
	dir := t.TempDir()
	writeDir(t, dir, files)
	d := &stepDisk{disk: osDisk{dir}, errno: syscall.ENOSPC, from: 1, syncs: true}
	o := fullOptions()
	o.NoSync = true
	s, err := open(d, o)
	if err != nil {
		t.Errorf("%s: open on a full disk: %v", what, err)
		return
	}
	now, ok := s.DiskSpace().Full()
	if !ok || now.Reopen || !errors.Is(now.Err, ErrFull) {
		t.Errorf("%s: opened on a full disk: %+v, %v", what, now, ok)
	}
	checkReads(t, s, what, acked)
	tip := s.Tip()
	b := crashBlock(rand.New(rand.NewPCG(1, 2)), tip.Head, tip.Final, true)
	if err := s.Commit(b); !errors.Is(err, ErrFull) || errors.Is(err, ErrFailed) {
		t.Errorf("%s: commit to a folder that is read: %v, want ErrFull", what, err)
	}
	reopen := make(chan struct{})
	s.DiskSpace().Watch(func(f *Full) {
		if f != nil && f.Reopen {
			close(reopen)
		}
	})
	d.room()
	<-reopen
	if err := s.Close(); err != nil {
		t.Errorf("%s: close a folder that is read: %v", what, err)
	}
	if s, err = open(d, o); err != nil {
		t.Errorf("%s: open with room again: %v", what, err)
		return
	}
	defer func() { _ = s.Close() }()
	if err := s.Commit(b); err != nil {
		t.Errorf("%s: commit with room again: %v", what, err)
	}
}

// checkReads reads what was acknowledged of the crash chain.
func checkReads(t *testing.T, s *Store, what string, acked primitives.Height) {
	t.Helper()
	tip := s.Tip()
	if tip.Head.Height < acked {
		t.Errorf("%s: head %d, acked %d", what, tip.Head.Height, acked)
	}
	for h := tip.Tail; h <= tip.Head.Height; h++ {
		hash, err := s.HashAt(h)
		if err != nil {
			t.Errorf("%s: block %d: %v", what, h, err)
			continue
		}
		for i := range crashKeys {
			shard, key := crashKey(i)
			got, err := s.ValueAt(BlockRef{h, hash}, shard, key)
			want := crashValue(i, h)
			if string(got) != string(want) || want == nil != errors.Is(err, ErrNotFound) {
				t.Errorf("%s: height %d key %d = %q, %v, want %q", what, h, i, got, err, want)
				return
			}
		}
	}
}

// TestBrokenDiskIsNotFull: after a disk error other than a lack of room the store takes no more
// writes, and no writer waits.
func TestBrokenDiskIsNotFull(t *testing.T) {
	for _, from := range []int{1, 2, 9, 20, 33} {
		dir := t.TempDir()
		if _, err := growCrashChain(t, osDisk{dir}, 4); err != nil {
			t.Fatal(err)
		}
		d := &stepDisk{disk: osDisk{dir}, errno: syscall.EIO}
		s, err := open(d, fullOptions())
		if err != nil {
			t.Fatal(err)
		}
		d.fail(from)
		rng := rand.New(rand.NewPCG(3, 4))
		for err == nil {
			tip := s.Tip()
			rec, rerr := s.Block(tip.Head)
			if rerr != nil {
				t.Fatal(rerr)
			}
			if err = s.Commit(crashBlock(rng, tip.Head, rec.Prev(), true)); err == nil {
				if due, ok := s.FlatHeadDue(); ok {
					err = s.AdvanceFlatHead(due, nil)
				}
			}
		}
		if now, ok := s.DiskSpace().Full(); ok || errors.Is(err, ErrFull) || !errors.Is(err, syscall.EIO) {
			t.Errorf("step %d, %s: %v; full: %+v, %v", from, d.first(), err, now, ok)
		}
		d.room()
		_ = s.Close()
	}
}

// TestFullDiskAtOpenEndsWaitOnce: if the disk was full while the store was opened, writers wait
// once the store is open. When there is room they continue, and the end of the wait is reported
// once.
func TestFullDiskAtOpenEndsWaitOnce(t *testing.T) {
	s := newDiskSpace(NewMemDisk(), time.Hour)
	s.noteFull(ErrFull, 1, false)
	if s.Await() {
		t.Error("wait blocks while the store is opened")
	}
	s.allowWaits()
	select {
	case <-s.room:
		t.Error("the end of the wait is reported before there is space")
	default:
	}
	s.CancelWaits()
	s.CancelWaits()
	if s.Await() {
		t.Error("Await returns true after CancelWaits")
	}
	s.close()
}
