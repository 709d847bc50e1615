package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/troupe-chain/troupe/primitives"
)

// readDir returns all files of a folder, but for goleveldb's own diary and lock.
func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOG" || d.Name() == "LOG.old" || d.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func writeDir(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(b), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// sound returns the files of an undamaged folder with the crash chain. It has tables, several
// segments and pending blocks.
func sound(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	growCrashChain(t, osDisk{dir}, 60)
	return readDir(t, dir)
}

// growCrashChain commits n blocks or as many as go, and returns the highest that was committed.
func growCrashChain(t *testing.T, d disk, n int) (primitives.Height, error) {
	t.Helper()
	o := testOptions()
	o.WriteBuffer = 16 << 10
	s, err := open(d, o)
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close() }()
	s.DiskSpace().CancelWaits()
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
			return 0, err
		}
	}
	rng := rand.New(rand.NewPCG(3, uint64(s.Tip().Head.Height))) // hashes that no earlier run used
	for range n {
		head := s.Tip().Head
		final := head
		if rec, err := s.Block(head); err == nil && !rec.Prev().IsZero() {
			final = rec.Prev()
		}
		if err := s.Commit(crashBlock(rng, head, final, true)); err != nil {
			return head.Height, err
		}
		if upto, due := s.FlatHeadDue(); due {
			if err := s.AdvanceFlatHead(upto, nil); err != nil {
				return s.Tip().Head.Height, err
			}
		}
	}
	return s.Tip().Head.Height, nil
}

func TestFolderIsLockedUntilClose(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, testOptions()); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second Open: %v, want ErrLocked with the folder's name", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(dir, testOptions())
	if err != nil {
		t.Fatalf("Open after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(&Block{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Commit after Close: %v, want ErrClosed", err)
	}
}

func TestForeignFolderIsRefused(t *testing.T) {
	good := sound(t)
	with := func(changes map[string]string) map[string]string {
		out := maps.Clone(good)
		maps.Copy(out, changes)
		return out
	}
	other := testIdentity
	other.Genesis = hashOf("another")
	renumbered := testIdentity
	renumbered.Numbering = primitives.NumberingRelease
	for name, c := range map[string]struct {
		files map[string]string
		want  error
	}{
		"another program's files": {map[string]string{"CURRENT": "MANIFEST-000001\n", "000003.log": "x"}, ErrForeign},
		"another genesis":         {with(map[string]string{markName: string(other.mark())}), ErrForeign},
		"another numbering":       {with(map[string]string{markName: string(renumbered.mark())}), ErrForeign},
		"newer format":            {with(map[string]string{markName: strings.Replace(good[markName], "format 3", "format 4", 1)}), ErrFormat},
		"broken marker":           {with(map[string]string{markName: "Troupe"}), ErrForeign},
		"index without marker":    {map[string]string{"index/CURRENT": good["index/CURRENT"], "index/000007.ldb": "x", "index/MANIFEST-000000": "x"}, ErrForeign},
		"log without marker":      {map[string]string{"log/0000000000.seg": "x"}, ErrForeign},
		"marker without index":    {map[string]string{markName: good[markName], "log/0000000000.seg": good["log/0000000000.seg"]}, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeDir(t, dir, c.files)
			before := readDir(t, dir)
			s, err := Open(dir, testOptions())
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("err = %v, want %v", err, c.want)
			}
			if after := readDir(t, dir); !maps.Equal(before, after) {
				t.Errorf("the refused folder was changed")
			}
		})
	}
}

// TestDamageNeverGivesWrongValue damages each file in turn, at random places. Open and reads may
// return ErrDamaged, or the correct result, but never a wrong value.
func TestDamageNeverGivesWrongValue(t *testing.T) {
	good := sound(t)
	rng := rand.New(rand.NewPCG(5, 6))
	tries := 4
	if testing.Short() {
		tries = 1
	}
	for name, content := range good {
		for try := range tries {
			for _, how := range []string{"flip", "cut", "gone"} {
				if how == "gone" && try > 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", strings.ReplaceAll(name, "/", "_"), how, try), func(t *testing.T) {
					files := maps.Clone(good)
					switch at := rng.IntN(len(content)); how {
					case "flip":
						b := []byte(content)
						b[at] ^= 1 << rng.IntN(8)
						files[name] = string(b)
					case "cut":
						files[name] = content[:at]
					case "gone":
						delete(files, name)
					}
					dir := t.TempDir()
					writeDir(t, dir, files)
					checkDamaged(t, dir)
				})
			}
		}
	}
}

func checkDamaged(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(dir, testOptions())
	known := func(err error) bool {
		return errors.Is(err, ErrDamaged) || errors.Is(err, ErrForeign) || errors.Is(err, ErrFormat)
	}
	if err != nil {
		if !known(err) {
			t.Errorf("Open: %v, want one of the declared errors", err)
		}
		return
	}
	defer func() { _ = s.Close() }()
	tip := s.Tip()
	if tip.Head.Height != 61 {
		t.Errorf("head %d, want 61 or an error", tip.Head.Height)
	}
	for h := tip.Tail; h <= tip.Head.Height; h++ {
		hash, err := s.HashAt(h)
		if err != nil {
			if !known(err) {
				t.Errorf("HashAt(%d): %v", h, err)
			}
			continue
		}
		for i := range crashKeys {
			shard, key := crashKey(i)
			got, err := s.ValueAt(BlockRef{h, hash}, shard, key)
			want := crashValue(i, h)
			if err != nil && known(err) {
				continue
			}
			if !bytes.Equal(got, want) || want == nil != errors.Is(err, ErrNotFound) {
				t.Fatalf("height %d key %d = %q, %v, want %q", h, i, got, err, want)
			}
		}
	}
}

// faultDisk is a folder that is full after so many bytes.
type faultDisk struct {
	disk
	left atomic.Int64
}

func (d *faultDisk) spend(n int) error {
	if d.left.Add(-int64(n)) < 0 {
		return &os.PathError{Op: "write", Path: "test", Err: syscall.ENOSPC}
	}
	return nil
}

type faultFile struct {
	file
	d *faultDisk
}

func (f faultFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.d.spend(len(p)); err != nil {
		n, _ := f.file.WriteAt(p[:len(p)/2], off) // as far as it went
		return n, err
	}
	return f.file.WriteAt(p, off)
}

// probe finds room if there is some.
func (d *faultDisk) probe(n int64) error {
	if d.left.Load() < n {
		return syscall.ENOSPC
	}
	return nil
}

func (d *faultDisk) createFile(name string) (file, error) {
	f, err := d.disk.createFile(name)
	return faultFile{f, d}, err
}

func (d *faultDisk) openFile(name string) (file, error) {
	f, err := d.disk.openFile(name)
	return faultFile{f, d}, err
}

func (d *faultDisk) openIndex() (lstorage.Storage, error) {
	s, err := d.disk.openIndex()
	if err != nil {
		return nil, err
	}
	return faultStorage{s, d}, nil
}

type faultStorage struct {
	lstorage.Storage
	d *faultDisk
}

func (s faultStorage) Create(fd lstorage.FileDesc) (lstorage.Writer, error) {
	w, err := s.Storage.Create(fd)
	if err != nil {
		return nil, err
	}
	return faultWriter{w, s.d}, nil
}

type faultWriter struct {
	lstorage.Writer
	d *faultDisk
}

func (w faultWriter) Write(p []byte) (int, error) {
	if err := w.d.spend(len(p)); err != nil {
		n, _ := w.Writer.Write(p[:len(p)/2])
		return n, err
	}
	return w.Writer.Write(p)
}

// TestFullDiskKeepsStoredBlocks fills the disk at many moments. The writer gets an error, and the
// folder can be opened again with everything that was stored before.
func TestFullDiskKeepsStoredBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for try := range 12 {
		dir := t.TempDir()
		d := &faultDisk{disk: osDisk{dir}}
		d.left.Store(int64(rng.IntN(180_000)))
		reached, err := growCrashChain(t, d, 120)
		if err == nil {
			continue // it was enough
		}
		if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("try %d: %v, want ErrFull", try, err)
		}
		if reached == 0 {
			if _, err := growCrashChain(t, osDisk{dir}, 5); err != nil {
				t.Errorf("try %d: after the disk was full during the start: %v", try, err)
			}
			continue
		}
		checkCrashed(t, dir, try, reached, 0)
		if _, err := growCrashChain(t, osDisk{dir}, 20); err != nil {
			t.Errorf("try %d: with room again: %v", try, err)
		}
		checkCrashed(t, dir, try, reached, 0)
	}
}

// TestFullLogAcceptsBlockLater: if only the write to the log finds no room, the store is unchanged
// and accepts the block later.
func TestFullLogAcceptsBlockLater(t *testing.T) {
	d := &faultDisk{disk: osDisk{t.TempDir()}}
	d.left.Store(1 << 40)
	s, err := open(d, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := newModel(t, 1)
	importGenesis(t, s, m)
	m.commit(s, m.head, true)
	m.commit(s, m.head, true)
	b := m.overlay(m.head, true)
	d.left.Store(10)
	if err := s.Commit(b); !errors.Is(err, ErrFull) {
		t.Fatalf("Commit on a full disk: %v, want ErrFull", err)
	}
	m.check(s)
	d.left.Store(1 << 40)
	if err := s.Commit(b); err != nil {
		t.Fatalf("Commit with room again: %v", err)
	}
	m.add(b)
	m.check(s)
}

// TestInterruptedImportRestarts interrupts an import. The folder then still counts as empty, and
// the next import starts from the beginning.
func TestInterruptedImportRestarts(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(t, 3)
	stop := errors.New("stop")
	err = s.Import(m.blocks[m.genesis].block, nil, func(put func(Pair) error) error {
		for i := range 100_000 {
			if err := put(Pair{0, fmt.Appendf(nil, "\x00old%d", i), make([]byte, 100)}); err != nil {
				return err
			}
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatalf("err = %v, want that of the pairs", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, testOptions()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if !s.Tip().Empty {
		t.Fatal("an unfinished import counts as a genesis")
	}
	importGenesis(t, s, m)
	m.commit(s, m.head, true)
	m.check(s)
	if err := s.Import(m.blocks[m.genesis].block, nil, nil); !errors.Is(err, ErrOrder) {
		t.Errorf("second genesis: %v, want ErrOrder", err)
	}
}
