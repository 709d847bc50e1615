package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// disk is the folder of a store: plain files for the log and the format marker, and the storage of
// the index. osDisk is a folder of the operating system, MemDisk a folder in memory. Tests wrap
// either to inject faults.
type disk interface {
	openIndex() (lstorage.Storage, error) // opens the index, and locks it against other processes
	indexSize() int64                     // approximate size of its files in bytes
	removeCurrent() error                 // removes the CURRENT files, which name goleveldb's manifest
	createFile(name string) (file, error) // creates a file that must not exist; durable after syncNames
	// opens a file for reading and writing; fs.ErrNotExist if the file does not exist
	openFile(name string) (file, error)
	removeFile(name string) error
	listFiles() ([]string, error)    // returns the sorted names of segments
	syncNames() error                // makes created files durable in their folder
	readMark() ([]byte, error)       // reads the format marker; fs.ErrNotExist if there is no marker
	writeMark(b []byte) error        // writes the format marker atomically, and syncs it
	foreignNames() ([]string, error) // returns names in the folder that do not belong to the store
	probe(n int64) error             // returns an error if a temporary file of n bytes does not fit
	path() string                    // path of the folder, for error texts
}

// file is one segment of the log.
type file interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	// Reserve allocates up to size bytes of zeros beyond the file's end, so that a later sync need
	// not write a new file length. An implementation may do nothing.
	Reserve(size int64)
	Size() (int64, error)
	Sync() error
	Close() error
}

// Mark is the name of the file without which Open does not open a folder that has a chain.
const Mark = "FORMAT"

const (
	markName     = Mark
	indexName    = "index"
	logName      = "log"
	segmentSufix = ".seg"
	probeName    = "room"
)

// osDisk is a folder of the operating system.
type osDisk struct{ dir string }

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (d osDisk) path() string { return d.dir }

func (d osDisk) openIndex() (lstorage.Storage, error) {
	if err := os.MkdirAll(filepath.Join(d.dir, logName), 0o755); err != nil {
		return nil, err
	}
	s, err := lstorage.OpenFile(filepath.Join(d.dir, indexName), false)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) && d.exists() ||
		errors.Is(err, lstorage.ErrLocked) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return sharedFiles{s}, nil
}

func (d osDisk) indexSize() (sum int64) {
	entries, _ := os.ReadDir(filepath.Join(d.dir, indexName))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

func (d osDisk) removeCurrent() error {
	names, err := filepath.Glob(filepath.Join(d.dir, indexName, "CURRENT*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// exists returns whether the index folder can be listed. If the folder can be listed, EACCES from
// taking the lock means that another process holds the lock, not that a permission is missing.
func (d osDisk) exists() bool {
	_, err := os.ReadDir(filepath.Join(d.dir, indexName))
	return err == nil
}

func (d osDisk) createFile(name string) (file, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, logName, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d osDisk) syncNames() error { return SyncDir(filepath.Join(d.dir, logName)) }

func (d osDisk) openFile(name string) (file, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, logName, name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d osDisk) removeFile(name string) error { return os.Remove(filepath.Join(d.dir, logName, name)) }

func (d osDisk) listFiles() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.dir, logName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), segmentSufix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func (d osDisk) readMark() ([]byte, error) { return os.ReadFile(filepath.Join(d.dir, markName)) }

func (d osDisk) writeMark(b []byte) error {
	tmp := filepath.Join(d.dir, markName+".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, filepath.Join(d.dir, markName))
	}
	if err == nil {
		err = SyncDir(d.dir)
	}
	return err
}

func (d osDisk) foreignNames() ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		switch e.Name() {
		case markName, markName + ".tmp", indexName, logName:
		default:
			names = append(names, e.Name())
		}
	}
	// A folder with an index but without a marker is accepted, because a crash during the creation
	// of a folder may leave it in this state. open checks that such an index has no rows. A folder
	// with CURRENT or tables at its top belongs to another program that uses leveldb.
	return names, nil
}

// probe unlinks the file before it allocates, so that a crash leaves no large file.
func (d osDisk) probe(n int64) error {
	name := filepath.Join(d.dir, logName, probeName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = os.Remove(name)
	if err == nil {
		err = allocate(f, n)
	}
	return errors.Join(err, f.Close())
}

// fill writes n zero bytes to f and syncs f.
func fill(f *os.File, n int64) error {
	zeros := make([]byte, 64<<10)
	for at := int64(0); at < n; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), n-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}

// SyncDir makes the names in a folder durable: files that were created, renamed or removed there.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
