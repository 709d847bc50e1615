package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A backup is a copy of the store as of one moment, in another folder, while commits, advances of
// the flat head and reads continue. indexMu and commitMu are held only while a snapshot of the
// index is taken. What is copied after that cannot change. All segments but the last are complete.
// The last segment is copied only up to the end that it had when the snapshot was taken. No segment
// is removed during the copy.

// BackupOptions configure a backup. The zero value copies everything.
type BackupOptions struct {
	// Link allows Backup to hard-link complete segments of the log, which never change, instead of
	// copying these segments, if the file system supports hard links. The index and the last
	// segment are always copied.
	Link     bool
	Progress func(done, all int64) // receives the bytes copied, and approximately the total; nil: not called
}

// ErrOccupied means that the target folder of a backup is not empty.
var ErrOccupied = errors.New("the folder for the snapshot is not empty")

// unfinished is a file that keeps Open from accepting a folder as a new store while a backup is
// written into the folder.
const unfinished = "UNFINISHED"

const (
	backupPiece = 1 << 20 // size in bytes of a piece of a file that is copied at a time
	backupBatch = 1 << 20 // size in bytes of a batch of rows that is written at a time
)

// Backup copies the store into dir and returns the tip of the copy. Backup creates dir if dir is
// absent. When Backup returns nil, everything is synced. Until then Open refuses the folder. After
// an error, or when ctx ends, the caller must remove what was written. Errors: ErrOccupied,
// ErrOrder for an overlay or an empty store, and errors of writing.
func (s *Store) Backup(ctx context.Context, dir string, o BackupOptions) (Tip, error) {
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	to := osDisk{dir}
	if err := to.begin(); err != nil {
		return Tip{}, err
	}
	m, err := s.freeze()
	if err != nil {
		return Tip{}, err
	}
	defer m.release()
	b := &backup{BackupOptions: o, s: s, to: to, all: s.disk.indexSize()}
	for _, name := range m.names {
		size, err := segmentSize(s.disk, name, m.end)
		if err != nil {
			return Tip{}, err
		}
		b.all += size
	}
	for _, name := range m.names {
		if err := b.segment(ctx, name, m.end); err != nil {
			return Tip{}, err
		}
	}
	if err := b.index(ctx, m.index); err != nil {
		return Tip{}, err
	}
	return m.tip, wrapWrite("backup", to.finish(s.o.Identity))
}

// frozenStore is a store as of one moment.
type frozenStore struct {
	s     *Store
	index snapshot
	names []string // names of the log segments
	end   position // end of the log
	tip   Tip
}

// freeze takes a snapshot of the store. No log segment is removed until release is called.
func (s *Store) freeze() (*frozenStore, error) {
	if s.parent != nil {
		return nil, fmt.Errorf("%w: an overlay store has no folder to back up", ErrOrder)
	}
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.writable(); err != nil {
		return nil, err
	}
	if s.view.Load().empty {
		return nil, fmt.Errorf("%w: the store has no genesis yet", ErrOrder)
	}
	names, err := s.disk.listFiles()
	if err != nil {
		return nil, wrapIndex("list log", err)
	}
	index, err := s.db.snapshot()
	if err != nil {
		return nil, err
	}
	s.segmentHolds++
	return &frozenStore{s: s, index: index, names: names, end: s.log.end, tip: s.Tip()}, nil
}

func (m *frozenStore) release() {
	m.index.release()
	m.s.indexMu.Lock()
	defer m.s.indexMu.Unlock()
	m.s.segmentHolds--
}

// segmentSize returns the size of a segment in a backup.
func segmentSize(d disk, name string, end position) (int64, error) {
	if name == segmentName(end.Segment) {
		return end.Offset, nil
	}
	f, err := d.openFile(name)
	if err != nil {
		return 0, wrapIndex("open log", err)
	}
	size, err := f.Size()
	return size, wrapIndex("size", errors.Join(err, f.Close()))
}

// backup is a backup in progress.
type backup struct {
	BackupOptions
	s         *Store
	to        osDisk
	done, all int64
}

func (b *backup) add(n int64) {
	b.done += n
	b.all = max(b.all, b.done)
	b.Progress(b.done, b.all)
}

// segment copies a segment, or links the segment if it is complete and Link is set.
func (b *backup) segment(ctx context.Context, name string, end position) error {
	size, err := segmentSize(b.s.disk, name, end)
	if err != nil {
		return err
	}
	if from, ok := b.s.disk.(osDisk); ok && b.Link && name != segmentName(end.Segment) {
		if os.Link(filepath.Join(from.dir, logName, name), filepath.Join(b.to.dir, logName, name)) == nil {
			b.add(size)
			return nil
		}
	}
	return b.copySegment(ctx, name, size)
}

func (b *backup) copySegment(ctx context.Context, name string, size int64) (err error) {
	from, err := b.s.disk.openFile(name)
	if err != nil {
		return wrapIndex("open log", err)
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(filepath.Join(b.to.dir, logName, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return wrapWrite("backup", err)
	}
	defer func() { err = errors.Join(err, wrapWrite("backup", to.Close())) }()
	piece := make([]byte, backupPiece)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := piece[:min(size-at, backupPiece)]
		if n, err := from.ReadAt(p, at); n < len(p) {
			return wrapIndex("log read", errors.Join(err, io.ErrUnexpectedEOF))
		}
		if _, err := to.Write(p); err != nil {
			return wrapWrite("backup", err)
		}
		at += int64(len(p))
		b.add(int64(len(p)))
	}
	return wrapWrite("backup", to.Sync())
}

// index writes the rows of a snapshot into a new index.
func (b *backup) index(ctx context.Context, from snapshot) (err error) {
	stor, err := b.to.openIndex()
	if err != nil {
		return wrapWrite("backup", err)
	}
	o := b.s.o
	db, err := openLevel(stor, &o, newDiskSpace(nil, 0))
	if err != nil {
		return errors.Join(err, stor.Close())
	}
	defer func() { err = errors.Join(err, db.close()) }()
	cur := from.iterate(nil, nil)
	defer func() { err = errors.Join(err, cur.done()) }()
	var batch Batch
	write := func(synced bool) error {
		size := int64(batch.Size())
		if err := db.write(&batch, synced); err != nil {
			return err
		}
		batch.Reset()
		b.add(size)
		return ctx.Err()
	}
	for cur.next() {
		if batch.Size() >= backupBatch {
			if err := write(false); err != nil {
				return err
			}
		}
		batch.put(cur.key(), cur.value())
	}
	return write(true) // a synced write, which syncs the writes before it too
}

// begin creates the folder of a backup, which Open refuses until finish.
func (d osDisk) begin() error {
	entries, err := os.ReadDir(d.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return wrapWrite("backup", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s: %w", d.dir, ErrOccupied)
	}
	if err := os.MkdirAll(filepath.Join(d.dir, logName), 0o755); err != nil {
		return wrapWrite("backup", err)
	}
	return wrapWrite("backup", os.WriteFile(filepath.Join(d.dir, unfinished), nil, 0o644))
}

// finish makes the folder a store by writing the format marker. Until the marker is written, the
// segments of the log keep Open from accepting the folder as a new store.
func (d osDisk) finish(id Identity) error {
	for _, dir := range []string{filepath.Join(d.dir, logName), filepath.Join(d.dir, indexName), d.dir} {
		if err := SyncDir(dir); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(d.dir, unfinished)); err != nil {
		return err
	}
	return d.writeMark(id.mark())
}

// Identity returns the chain of the store.
func (s *Store) Identity() Identity { return s.o.Identity }

// InUse returns ErrLocked if a process has the store in dir open. InUse returns nil if no process
// has the store open, or if dir contains nothing that could be locked.
func InUse(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, indexName)); err != nil {
		return nil
	}
	stor, err := osDisk{dir}.openIndex()
	if errors.Is(err, ErrLocked) {
		return err
	}
	if err != nil {
		return nil // the file is broken, but not used
	}
	return wrapIndex("unlock", stor.Close())
}
