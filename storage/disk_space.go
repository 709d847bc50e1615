package storage

import (
	"errors"
	"sync"
	"syscall"
	"time"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// A full disk.
//
// Problem: a node must survive a full disk and continue by itself once there is room.
//
// Invariants: no acknowledged write is lost. After a failed sync nothing is assumed about what is
// on the disk.
//
// Outline: a log record that does not fit is undone. The record's writer gets ErrFull and repeats
// the write after a while. goleveldb cannot undo a write that it began, so a write to the index's
// files (waitingFiles) blocks until there is room. Meanwhile a goroutine probes once a period
// whether a file can be written again (probeLoop). The probe's first success lets all writers
// continue.
//
// Two cases need the folder to be closed and opened again: a start that found no room to open the
// index for writing (Options.ReadOnlyIfFull), and a failed sync of the index, after which the
// content of the index files is unknown. In these cases Full.Reopen is set once there is room.
//
// Rejected: closing and opening the index of a running store, because readers hold cursors and
// snapshots of that index.

// DefaultSpaceProbePeriod is the default of Options.SpaceProbePeriod.
const DefaultSpaceProbePeriod = time.Second

// Size of the probe file: the size of the write that found no room, counted as at most probeMax,
// plus probeExtra.
const (
	probeExtra = 128 << 10
	probeMax   = 256 << 20
)

// Full describes a full disk. While the disk is full, the store writes nothing.
type Full struct {
	Since time.Time
	Err   error // wraps ErrFull and says which write failed
	// Reopen is set once there is room again, if the store must be closed and opened before it
	// takes writes.
	Reopen bool
}

// DiskSpace is the state of a store regarding the room on its disk.
type DiskSpace struct {
	disk   disk
	period time.Duration

	mu         sync.Mutex
	full       *Full         // nil: no write was refused
	need       int64         // size of the largest refused write in bytes
	needReopen bool          // free space is not enough: the store must be opened again
	noWait     bool          // writers do not wait: during an import, or after CancelWaits
	canceled   bool          // CancelWaits was called
	syncErr    error         // error of a failed sync of the index, which then takes no more writes
	room       chan struct{} // closed when full becomes nil, or noWait becomes true
	released   bool          // room has been closed
	closed     chan struct{}
	probes     sync.WaitGroup
	watch      func(*Full)
	watchMu    sync.Mutex // guarantees the order of the calls of watch
}

func newDiskSpace(d disk, period time.Duration) *DiskSpace {
	return &DiskSpace{disk: d, period: period, noWait: true, closed: make(chan struct{})}
}

// IsFull returns whether an error reports a disk without room: ENOSPC, EDQUOT or ErrFull.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, ErrFull)
}

// allowWaits makes writers wait for room from now on, unless CancelWaits was called.
func (s *DiskSpace) allowWaits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noWait = s.canceled
	if !s.noWait && s.full != nil && s.released {
		s.room, s.released = make(chan struct{}), false
	}
}

// release wakes all waiters, once for each time that the disk was full. The caller holds mu.
func (s *DiskSpace) release() {
	if !s.released {
		s.released = true
		close(s.room)
	}
}

// noteFull records that a write of need bytes found no room. shut is set if the result of previous
// writes is unknown, so that the store must be opened again.
func (s *DiskSpace) noteFull(err error, need int64, shut bool) {
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	s.mu.Lock()
	s.need, s.needReopen = max(s.need, min(need, probeMax)), s.needReopen || shut
	first := s.full == nil
	if first {
		if !errors.Is(err, ErrFull) {
			err = wrapWrite("index write", err)
		}
		s.full, s.room, s.released = &Full{Since: time.Now(), Err: err}, make(chan struct{}), false
		if s.noWait {
			s.release()
		}
		s.probes.Go(s.probeLoop)
	}
	now, watch := s.full, s.watch
	s.mu.Unlock()
	if first && watch != nil {
		watch(now)
	}
}

// probeLoop probes the disk until there is room or the store is closed.
func (s *DiskSpace) probeLoop() {
	tick := time.NewTicker(s.period)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		need := s.need + probeExtra
		s.mu.Unlock()
		if s.disk.probe(need) == nil && s.endFull() {
			return
		}
	}
}

// endFull ends the full state, or sets Full.Reopen. endFull returns whether probing is done.
func (s *DiskSpace) endFull() bool {
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	s.mu.Lock()
	if s.needReopen {
		reopen := *s.full
		reopen.Reopen = true
		s.full = &reopen
	} else {
		s.full, s.need = nil, 0
		s.release()
	}
	now, watch := s.full, s.watch
	s.mu.Unlock()
	if watch != nil {
		watch(now)
	}
	return true
}

// retry calls f until f succeeds or fails for a reason other than a full disk. Before each
// repetition it waits for room. need is the number of bytes that f writes. f must be repeatable.
func (s *DiskSpace) retry(need int64, f func() error) error {
	for {
		s.mu.Lock()
		hasty, err := s.noWait, s.syncErr
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if err = f(); err == nil || !IsFull(err) || hasty {
			return err
		}
		if s.noteFull(err, need, false); !s.Await() {
			return err
		}
	}
}

// close cancels all waits and stops the probes.
func (s *DiskSpace) close() {
	s.CancelWaits()
	s.mu.Lock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	s.mu.Unlock()
	s.probes.Wait()
}

// Full returns the state of a full disk. The bool is false if no write failed for lack of room.
// Safe for concurrent use.
func (s *DiskSpace) Full() (Full, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full == nil {
		return Full{}, false
	}
	return *s.full, true
}

// Watch registers f, which is called when the disk becomes full, when there is room again (with
// nil), and when Full.Reopen becomes true. Watch calls f at once if the disk is full now. f must
// not block. A second call replaces f.
func (s *DiskSpace) Watch(f func(*Full)) {
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	s.mu.Lock()
	s.watch = f
	now := s.full
	s.mu.Unlock()
	if now != nil {
		f(now)
	}
}

// Await waits until the disk has room and returns true. Await returns true at once if no write has
// failed for lack of room. It returns false if waits are canceled (CancelWaits, Close of the
// store), or if the store must be opened again. Safe for concurrent use.
func (s *DiskSpace) Await() bool {
	s.mu.Lock()
	now, room := s.full, s.room
	s.mu.Unlock()
	if now != nil {
		<-room
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full == nil || !s.noWait
}

// CancelWaits ends all present and future waits for room with the error of the write, which is
// ErrFull, so that the node can stop. CancelWaits has no effect while there is room.
func (s *DiskSpace) CancelWaits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canceled, s.noWait = true, true
	if s.full != nil {
		s.release()
	}
}

// DiskSpace returns the watch over the room on the store's disk.
func (s *Store) DiskSpace() *DiskSpace { return s.space }

// waitingFiles wraps the files of an index: a write to a full disk waits for room.
type waitingFiles struct {
	lstorage.Storage
	space *DiskSpace
}

// Create makes a file, and waits while the disk is full. During this wait, as during writes,
// goleveldb holds no lock that readers need.
func (p waitingFiles) Create(fd lstorage.FileDesc) (w lstorage.Writer, err error) {
	err = p.space.retry(0, func() error {
		w, err = p.Storage.Create(fd)
		return err
	})
	if err != nil {
		return nil, err
	}
	return waitingWriter{w, p.space}, nil
}

// SetMeta makes fd the manifest. SetMeta waits while the disk is full.
func (p waitingFiles) SetMeta(fd lstorage.FileDesc) error {
	return p.space.retry(0, func() error { return p.Storage.SetMeta(fd) })
}

// Rename renames a file. Rename waits while the disk is full.
func (p waitingFiles) Rename(from, to lstorage.FileDesc) error {
	return p.space.retry(0, func() error { return p.Storage.Rename(from, to) })
}

type waitingWriter struct {
	lstorage.Writer
	space *DiskSpace
}

// Write writes b. If the disk fills up, Write waits for room and continues after the part that was
// written.
func (w waitingWriter) Write(b []byte) (n int, err error) {
	err = w.space.retry(int64(len(b)), func() error {
		done, err := w.Writer.Write(b[n:])
		n += done
		return err
	})
	return n, err
}

// Sync makes all writes before it durable. After a failed sync the content on disk is unknown, and
// a second sync would report success wrongly. So nothing more is written until the index is opened
// again; opening rewrites all live data into new files.
func (w waitingWriter) Sync() error {
	w.space.mu.Lock()
	err := w.space.syncErr
	w.space.mu.Unlock()
	if err != nil {
		return err
	}
	if err = w.Writer.Sync(); err == nil || !IsFull(err) {
		return err
	}
	w.space.mu.Lock()
	w.space.syncErr = err
	w.space.mu.Unlock()
	w.space.noteFull(err, 0, true)
	return err
}
