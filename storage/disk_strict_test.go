package storage

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// strictDisk is a folder with the worst behaviour that a file system may have. In a power cut, each
// page that was not synced may be lost or torn, independently of the others, and removed files may
// come back. The disk fails at the call with a chosen number: once, for some calls, or for good.
// The power may be cut at a later call.
type strictDisk struct {
	mu      sync.Mutex
	rng     *rand.Rand
	files   map[string]*strictFile // of the log
	tables  map[lstorage.FileDesc]*strictFile
	meta    lstorage.FileDesc
	mark    []byte
	removed []func(d *strictDisk) // bring back what was removed and not synced

	calls  int    // that change the disk, so far
	at     int    // the call that fails; 0: none
	how    error  // errDied: and all that follow; else it alone, and those of lasts
	lasts  int    // how many calls fail in place of one; 0: one
	kind   string // what calls fail; empty: of any kind
	cut    int    // the call at which the power goes; 0: none
	diedAt int    // the call at which it went
	dead   bool
	what   string // the kind of the call that failed first
	reads  int    // so far
	readAt int    // the read that fails, once; 0: none
}

var (
	errDied = errors.New("the power is gone")
	errIO   = &fs.PathError{Op: "test", Path: "disk", Err: syscall.EIO}
	errRoom = &fs.PathError{Op: "test", Path: "disk", Err: syscall.ENOSPC}
)

const strictPage, strictSector = 4096, 512

type strictFile struct {
	d       *strictDisk
	kind    string
	now     []byte // as the process sees it
	safe    []byte // as it was synced
	there   bool   // its name was synced
	changed map[int]bool
}

func newStrictDisk(seed uint64) *strictDisk {
	return &strictDisk{rng: rand.New(rand.NewPCG(seed, 11)), files: map[string]*strictFile{}, tables: map[lstorage.FileDesc]*strictFile{}}
}

// fail has the call fail that is the nth from now on. 0: none.
func (d *strictDisk) fail(n int, how error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.how, d.lasts, d.kind, d.cut, d.readAt = 0, how, 0, "", 0, 0
	if n > 0 {
		d.at = d.calls + n
	}
}

// failThenCut makes lasts calls fail, beginning with the nth call from now on; with n = 0 none
// fails. If kind is not empty, the first call that fails is instead the next one of this kind. The
// power is cut `then` calls after the nth.
func (d *strictDisk) failThenCut(n int, kind string, how error, lasts, then int) {
	d.fail(n, how)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lasts, d.kind, d.cut, d.what = lasts, kind, d.calls+n+then, ""
}

// failRead has the read fail that is the nth from now on, or the next one of this kind.
func (d *strictDisk) failRead(n int, kind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readAt, d.kind = d.reads+n, kind
}

// read counts a read; its error is the disk's. Under mu.
func (d *strictDisk) read(what string) error {
	if d.dead {
		return errDied
	}
	what += " read"
	if d.reads++; d.kind != "" && what != d.kind && d.what == "" && d.reads >= d.readAt && d.readAt > 0 {
		d.readAt++
	}
	if d.reads != d.readAt {
		return nil
	}
	if d.what == "" {
		d.what = what
	}
	return errIO
}

// call counts a call that changes the disk; its error is the disk's. Under mu.
func (d *strictDisk) call(what string) error {
	if d.dead {
		return errDied
	}
	d.calls++
	if d.kind != "" && what != d.kind && d.what == "" && d.at > 0 && d.calls >= d.at { // it has not come yet
		d.at, d.cut = d.at+1, d.cut+1
	}
	if d.calls == d.cut || d.calls == d.at && d.how == errDied {
		d.dead, d.diedAt = true, d.calls
		return errDied
	}
	if d.at == 0 || d.calls < d.at || d.calls >= d.at+max(d.lasts, 1) {
		return nil
	}
	if d.what == "" {
		d.what = what
	}
	return d.how
}

// isDead returns whether the power was cut or the process was killed.
func (d *strictDisk) isDead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// passed returns whether the calls that fail are over.
func (d *strictDisk) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls >= d.at+d.lasts && d.reads >= d.readAt
}

// dying returns whether an error is of the call at which the power goes. Under mu.
func (d *strictDisk) dying(err error) bool { return err == errDied && d.calls == d.diedAt }

// kill returns what a process that is killed leaves: everything that it has written.
func (d *strictDisk) kill() *strictDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	out := &strictDisk{rng: d.rng, files: map[string]*strictFile{}, tables: map[lstorage.FileDesc]*strictFile{}, meta: d.meta, mark: d.mark,
		removed: d.removed, calls: d.calls, at: d.at, how: d.how, lasts: d.lasts, kind: d.kind, cut: d.cut, what: d.what, reads: d.reads, readAt: d.readAt}
	copyOf := func(f *strictFile) *strictFile {
		return &strictFile{d: out, kind: f.kind, now: bytes.Clone(f.now), safe: bytes.Clone(f.safe), there: f.there, changed: maps.Clone(f.changed)}
	}
	for name, f := range d.files {
		out.files[name] = copyOf(f)
	}
	for fd, f := range d.tables {
		out.tables[fd] = copyOf(f)
	}
	return out
}

// crash returns what a power cut leaves.
func (d *strictDisk) crash() *strictDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	out := &strictDisk{rng: d.rng, files: map[string]*strictFile{}, tables: map[lstorage.FileDesc]*strictFile{}, meta: d.meta, mark: d.mark}
	for name, f := range d.files {
		if left := f.left(out); left != nil {
			out.files[name] = left
		}
	}
	for fd, f := range d.tables {
		if left := f.left(out); left != nil {
			out.tables[fd] = left
		}
	}
	for _, back := range d.removed {
		if d.rng.IntN(2) == 0 {
			back(out)
		}
	}
	return out
}

// left returns what a power cut leaves of a file. Nil: not even its name.
func (f *strictFile) left(d *strictDisk) *strictFile {
	if !f.there && d.rng.IntN(2) == 0 {
		return nil
	}
	size := len(f.safe)
	if n := len(f.now); n != size {
		switch d.rng.IntN(4) {
		case 0:
			size = n
		case 1:
			size = min(size, n) + d.rng.IntN(max(size, n)-min(size, n)+1)
		case 2:
			size = min(max(size, n), (min(size, n)/strictPage+1)*strictPage)
		}
	}
	b := make([]byte, size)
	copy(b, f.safe)
	for page := range f.changed {
		lo, hi := page*strictPage, min((page+1)*strictPage, size)
		if lo >= hi {
			continue
		}
		was := make([]byte, hi-lo)
		if lo < len(f.safe) {
			copy(was, f.safe[lo:])
		}
		now := make([]byte, hi-lo)
		if lo < len(f.now) {
			copy(now, f.now[lo:])
		}
		switch d.rng.IntN(3) {
		case 0:
			copy(b[lo:hi], was)
		case 1:
			copy(b[lo:hi], now)
		case 2:
			for at := 0; at < hi-lo; at += strictSector {
				from, end := was, min(at+strictSector, hi-lo)
				if d.rng.IntN(2) == 0 {
					from = now
				}
				copy(b[lo+at:lo+end], from[at:end])
			}
		}
	}
	return &strictFile{d: d, kind: f.kind, now: b, safe: bytes.Clone(b), there: true, changed: map[int]bool{}}
}

func (f *strictFile) touch(from, to int) {
	for page := from / strictPage; page*strictPage < to; page++ {
		f.changed[page] = true
	}
}

func (f *strictFile) writeAt(p []byte, off int) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	err := f.d.call(f.kind + " write")
	if err != nil {
		if err == errDied && !f.d.dying(err) {
			return 0, err
		}
		p = p[:f.d.rng.IntN(len(p)+1)] // as far as it came
	}
	if end := off + len(p); end > len(f.now) {
		f.now = append(f.now, make([]byte, end-len(f.now))...)
	}
	f.touch(off, off+len(p))
	return copy(f.now[off:], p), err
}

// WriteAt is a call.
func (f *strictFile) WriteAt(p []byte, off int64) (int, error) { return f.writeAt(p, int(off)) }

// ReadAt reads what was written.
func (f *strictFile) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.read(f.kind); err != nil {
		return 0, err
	}
	if off >= int64(len(f.now)) {
		return 0, io.EOF
	}
	n := copy(p, f.now[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Truncate is a call.
func (f *strictFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.call(f.kind + " truncate"); err != nil {
		return err
	}
	n := int(size)
	f.touch(min(n, len(f.now)), max(n, len(f.now)))
	if n <= len(f.now) {
		f.now = f.now[:n:n]
	} else {
		f.now = append(f.now, make([]byte, n-len(f.now))...)
	}
	return nil
}

// Reserve makes the file longer, as zeros.
func (f *strictFile) Reserve(size int64) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if n := int(size); !f.d.dead && n > len(f.now) {
		f.touch(len(f.now), n)
		f.now = append(f.now, make([]byte, n-len(f.now))...)
	}
}

// Size is that of what was written.
func (f *strictFile) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.dead {
		return 0, errDied
	}
	return int64(len(f.now)), nil
}

// Sync counts as a call. If it fails, the pages may or may not be on the disk, and a later Sync
// does not write them again.
func (f *strictFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	err := f.d.call(f.kind + " sync")
	if err == errDied {
		return err
	}
	if err != nil {
		half := f.left(f.d)
		if half == nil {
			half = &strictFile{}
		}
		f.safe, f.changed = half.now, map[int]bool{}
		return err
	}
	f.safe, f.there, f.changed = bytes.Clone(f.now), true, map[int]bool{}
	return nil
}

// Close forgets nothing.
func (f *strictFile) Close() error { return nil }

func (d *strictDisk) path() string { return "strict" }

func (d *strictDisk) createFile(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] != nil {
		return nil, fs.ErrExist
	}
	err := d.call("log create")
	if err == nil || d.dying(err) && d.rng.IntN(2) == 0 {
		d.files[name] = &strictFile{d: d, kind: "log", changed: map[int]bool{}}
	}
	if err != nil {
		return nil, err
	}
	return d.files[name], nil
}

func (d *strictDisk) syncNames() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.call("log names")
	if err == nil {
		for _, f := range d.files {
			f.there = true
		}
	}
	return err
}

func (d *strictDisk) openFile(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errDied
	}
	if f := d.files[name]; f != nil {
		return f, nil
	}
	return nil, fs.ErrNotExist
}

func (d *strictDisk) removeFile(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	if f == nil {
		return fs.ErrNotExist
	}
	if err := d.call("log remove"); err != nil {
		return err
	}
	delete(d.files, name)
	d.removed = append(d.removed, func(to *strictDisk) {
		if left := f.left(to); left != nil && to.files[name] == nil {
			to.files[name] = left
		}
	})
	return nil
}

func (d *strictDisk) listFiles() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errDied
	}
	return slices.Sorted(maps.Keys(d.files)), nil
}

func (d *strictDisk) readMark() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errDied
	}
	if d.mark == nil {
		return nil, fs.ErrNotExist
	}
	return d.mark, nil
}

func (d *strictDisk) writeMark(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.call("mark")
	if err == nil || d.dying(err) && d.rng.IntN(2) == 0 {
		d.mark = bytes.Clone(b)
	}
	return err
}

func (d *strictDisk) foreignNames() ([]string, error) { return nil, nil }
func (d *strictDisk) probe(int64) error               { return nil }
func (d *strictDisk) indexSize() int64                { return 0 }
func (d *strictDisk) removeCurrent() error            { return nil }

func (d *strictDisk) openIndex() (lstorage.Storage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errDied
	}
	return sharedFiles{&strictStorage{d: d}}, nil
}

// strictStorage is goleveldb's folder on such a disk.
type strictStorage struct{ d *strictDisk }

type strictLock struct{}

// Unlock does nothing: a process that died holds no lock.
func (strictLock) Unlock() {}

// Lock is never refused.
func (s *strictStorage) Lock() (lstorage.Locker, error) { return strictLock{}, nil }

// Log says nothing.
func (s *strictStorage) Log(string) {}

// SetMeta is atomic and synced, as goleveldb's own is.
func (s *strictStorage) SetMeta(fd lstorage.FileDesc) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	err := s.d.call("meta")
	if err == nil || s.d.dying(err) && s.d.rng.IntN(2) == 0 {
		s.d.meta = fd
	}
	return err
}

// GetMeta is what SetMeta set.
func (s *strictStorage) GetMeta() (lstorage.FileDesc, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	switch {
	case s.d.dead:
		return lstorage.FileDesc{}, errDied
	case s.d.meta.Zero():
		return lstorage.FileDesc{}, fs.ErrNotExist
	}
	return s.d.meta, nil
}

// List lists files.
func (s *strictStorage) List(types lstorage.FileType) (out []lstorage.FileDesc, err error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.dead {
		return nil, errDied
	}
	for fd := range s.d.tables {
		if fd.Type&types != 0 {
			out = append(out, fd)
		}
	}
	return out, nil
}

type strictReader struct {
	*bytes.Reader
	f *strictFile
}

// Read reads on.
func (r strictReader) Read(p []byte) (int, error) {
	if err := r.counted(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// ReadAt reads a part.
func (r strictReader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.counted(); err != nil {
		return 0, err
	}
	return r.Reader.ReadAt(p, off)
}

func (r strictReader) counted() error {
	r.f.d.mu.Lock()
	defer r.f.d.mu.Unlock()
	return r.f.d.read(r.f.kind)
}

// Close does nothing.
func (strictReader) Close() error { return nil }

// Open reads a file as it is now.
func (s *strictStorage) Open(fd lstorage.FileDesc) (lstorage.Reader, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.dead {
		return nil, errDied
	}
	f := s.d.tables[fd]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return strictReader{bytes.NewReader(bytes.Clone(f.now)), f}, nil
}

type strictWriter struct{ *strictFile }

// Write appends.
func (w strictWriter) Write(p []byte) (int, error) {
	w.d.mu.Lock()
	off := len(w.now)
	w.d.mu.Unlock()
	return w.writeAt(p, off)
}

// Create begins a file; its name is synced with its contents.
func (s *strictStorage) Create(fd lstorage.FileDesc) (lstorage.Writer, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if err := s.d.call(fd.Type.String() + " create"); err != nil {
		return nil, err
	}
	f := &strictFile{d: s.d, kind: fd.Type.String(), changed: map[int]bool{}}
	s.d.tables[fd] = f
	return strictWriter{f}, nil
}

// Remove removes a file. A power cut may bring it back.
func (s *strictStorage) Remove(fd lstorage.FileDesc) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	f := s.d.tables[fd]
	if f == nil {
		return fs.ErrNotExist
	}
	if err := s.d.call(fd.Type.String() + " remove"); err != nil {
		return err
	}
	delete(s.d.tables, fd)
	s.d.removed = append(s.d.removed, func(to *strictDisk) {
		if left := f.left(to); left != nil && to.tables[fd] == nil {
			to.tables[fd] = left
		}
	})
	return nil
}

// Rename renames a file.
func (s *strictStorage) Rename(from, to lstorage.FileDesc) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if err := s.d.call(from.Type.String() + " rename"); err != nil {
		return err
	}
	s.d.tables[to] = s.d.tables[from]
	delete(s.d.tables, from)
	return nil
}

// Close does nothing.
func (s *strictStorage) Close() error { return nil }
