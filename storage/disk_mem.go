package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// MemDisk is a folder in memory, for tests and short-lived chains. A MemDisk can be opened again
// after its Store was closed, or after the Store was dropped without Close to simulate a crash. The
// zero value is not usable: call NewMemDisk.
type MemDisk struct {
	// Fault is called before each write to the log, with the length of the write, and before each
	// sync, with 0. The write or sync fails with the error that Fault returns. Fault may block. Nil
	// means a disk without faults. Set it only while nothing is written.
	Fault func(bytes int) error

	mu    sync.Mutex
	files map[string]*memFile
	mark  []byte
	index *memIndex
}

// NewMemDisk returns an empty folder.
func NewMemDisk() *MemDisk { return &MemDisk{files: map[string]*memFile{}} }

// memIndex is goleveldb's memory storage, which stays usable after Close.
type memIndex struct{ lstorage.Storage }

func (memIndex) Close() error { return nil }

// memFile grows by pages, so that its content is never copied.
type memFile struct {
	disk  *MemDisk
	mu    sync.RWMutex
	pages [][]byte // pages of pageSize bytes each
	size  int64
}

const pageSize = 64 << 10

func (d *MemDisk) fault(bytes int) error {
	if d.Fault == nil {
		return nil
	}
	return d.Fault(bytes)
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	want := p[:max(0, min(int64(len(p)), f.size-off))]
	f.each(off, len(want), func(at int, page []byte) { copy(want[at:], page) })
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(want), nil
}

// each visits the n bytes from offset off, page by page. each calls the function do with each piece
// and the piece's offset among the n bytes.
func (f *memFile) each(off int64, n int, do func(at int, page []byte)) {
	for at := 0; at < n; {
		page := f.pages[(off+int64(at))/pageSize][(off+int64(at))%pageSize:]
		page = page[:min(len(page), n-at)]
		do(at, page)
		at += len(page)
	}
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.disk.fault(len(p)); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reach(off + int64(len(p)))
	f.each(off, len(p), func(at int, page []byte) { copy(page, p[at:]) })
	return len(p), nil
}

// reach extends the file with zeros to at least size bytes.
func (f *memFile) reach(size int64) {
	for int64(len(f.pages))*pageSize < size {
		f.pages = append(f.pages, make([]byte, pageSize))
	}
	f.size = max(f.size, size)
}

func (f *memFile) Truncate(size int64) error {
	if size < 0 {
		return &fs.PathError{Op: "truncate", Path: "memory", Err: fs.ErrInvalid}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// When a write after the cut begins beyond the new end, zeros must fill the gap, as in a real
	// file.
	if f.reach(size); size < f.size {
		f.each(size, int(f.size-size), func(_ int, page []byte) { clear(page) })
		n := (size + pageSize - 1) / pageSize
		clear(f.pages[n:])
		f.pages, f.size = f.pages[:n], size
	}
	return nil
}

// Reserve does nothing.
func (f *memFile) Reserve(int64) {}

func (f *memFile) Size() (int64, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.size, nil
}

func (f *memFile) Sync() error  { return f.disk.fault(0) }
func (f *memFile) Close() error { return nil }

func (d *MemDisk) path() string { return "memory" }

// openIndex takes no lock: goleveldb locks the storage itself, and a Store that was dropped without
// Close must not keep the folder locked.
func (d *MemDisk) openIndex() (lstorage.Storage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.index == nil {
		d.index = &memIndex{lstorage.NewMemStorage()}
	}
	return d.index, nil
}

// indexSize returns 0: an index in memory is small.
func (d *MemDisk) indexSize() int64 { return 0 }

// removeCurrent does nothing: in memory goleveldb's pointer to its manifest cannot be torn.
func (d *MemDisk) removeCurrent() error { return nil }

func (d *MemDisk) createFile(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] != nil {
		return nil, fs.ErrExist
	}
	f := &memFile{disk: d}
	d.files[name] = f
	return f, nil
}

// syncNames does nothing.
func (d *MemDisk) syncNames() error { return nil }

func (d *MemDisk) openFile(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.files[name]; f != nil {
		return f, nil
	}
	return nil, fs.ErrNotExist
}

func (d *MemDisk) removeFile(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, name)
	return nil
}

func (d *MemDisk) listFiles() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]string, 0, len(d.files))
	for name := range d.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (d *MemDisk) readMark() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mark == nil {
		return nil, fs.ErrNotExist
	}
	return d.mark, nil
}

func (d *MemDisk) writeMark(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mark = slices.Clone(b)
	return nil
}

func (d *MemDisk) foreignNames() ([]string, error) { return nil, nil }

// probe calls Fault as a write of n bytes does.
func (d *MemDisk) probe(n int64) error { return d.fault(int(n)) }

// Save writes the folder to a new folder of the operating system, which Open opens. Save serves to
// inspect what a test has left. Nothing may write to d meanwhile.
func (d *MemDisk) Save(dir string) error {
	for _, sub := range []string{indexName, logName} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, f := range d.files {
		if err := f.save(filepath.Join(dir, logName, name)); err != nil {
			return err
		}
	}
	if d.index != nil {
		if err := copyIndex(filepath.Join(dir, indexName), d.index); err != nil {
			return err
		}
	}
	if d.mark == nil { // a folder that was never opened has no marker
		return nil
	}
	return os.WriteFile(filepath.Join(dir, markName), d.mark, 0o644)
}

// save writes a file page by page.
func (f *memFile) save(path string) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	f.each(0, int(f.size), func(_ int, page []byte) {
		if err == nil {
			_, err = to.Write(page)
		}
	})
	return errors.Join(err, to.Close())
}

func copyIndex(dir string, from lstorage.Storage) error {
	to, err := lstorage.OpenFile(dir, false)
	if err != nil {
		return err
	}
	copyAll := func() error {
		fds, err := from.List(lstorage.TypeAll)
		if err != nil {
			return err
		}
		for _, fd := range fds {
			r, err := from.Open(fd)
			if err != nil {
				return err
			}
			w, err := to.Create(fd)
			if err == nil {
				_, err = io.Copy(w, r)
				err = errors.Join(err, w.Close())
			}
			if err = errors.Join(err, r.Close()); err != nil {
				return err
			}
		}
		at, err := from.GetMeta()
		if err != nil {
			return err
		}
		return to.SetMeta(at)
	}
	return errors.Join(copyAll(), to.Close())
}
