package storage

import (
	"errors"
	"sync"
	"syscall"
	"time"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// A full disk ends nothing. A record of the log that finds no room is undone, and its writer gets ErrFull and tries again later. The
// index cannot undo what it began to write, so its files wait inside the write until there is room (waitingFiles). Meanwhile a
// goroutine tries once a period whether the disk takes a file again; that ends the state for all writers. Rejected: to close and
// open the index in a store that runs, since readers hold cursors and snapshots of it.
//
// Two cases need the folder to be opened again: a start that found no room to open the index for writing (Options.ReadOnlyIfFull), and
// a sync of the index that failed for want of room, behind which nobody knows what is on the disk. Then Full.Reopen says so once
// there is room.

// DefaultSpaceProbePeriod is how often a full disk is tried.
const DefaultSpaceProbePeriod = time.Second

// Bounds of the file by which the disk is tried, beyond what did not fit.
const (
	probeExtra = 128 << 10
	probeMax   = 256 << 20
)

// Full says that the disk has no room, and nothing is written.
type Full struct {
	Since time.Time
	Err   error // ErrFull, with what could not be written
	// Reopen: there is room again, and the store takes writes once it is closed and opened.
	Reopen bool
}

// diskSpace is what a store knows of its disk's room.
type diskSpace struct {
	disk   disk
	period time.Duration

	mu         sync.Mutex
	full       *Full         // nil: nothing was refused
	need       int64         // bytes of the largest write that was
	needReopen bool          // room is not enough: the store is to be opened again
	noWait     bool          // nobody waits any more, or yet
	canceled   bool          // nor will anybody
	syncErr    error         // of a sync of the index: nothing more is written there
	room       chan struct{} // closed where now ends, and where hasty begins
	released   bool          // room is closed
	closed     chan struct{}
	probes     sync.WaitGroup
	watch      func(*Full)
	watchMu    sync.Mutex // watch is called in the order of what happened
}

func newDiskSpace(d disk, period time.Duration) *diskSpace {
	return &diskSpace{disk: d, period: period, noWait: true, closed: make(chan struct{})}
}

// IsFull returns whether an error is that of a disk without room: ENOSPC, EDQUOT or ErrFull.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, ErrFull)
}

// allowWaits has writers wait from here on.
func (s *diskSpace) allowWaits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noWait = s.canceled
	if !s.noWait && s.full != nil && s.released {
		s.room, s.released = make(chan struct{}), false
	}
}

// release lets go on all that waits for room, once for each time that the disk was full. The caller holds mu.
func (s *diskSpace) release() {
	if !s.released {
		s.released = true
		close(s.room)
	}
}

// noteFull notes that a write of some bytes found no room. shut: what was written before is in doubt.
func (s *diskSpace) noteFull(err error, need int64, shut bool) {
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

// probeLoop looks for room until there is some.
func (s *diskSpace) probeLoop() {
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

// endFull ends the state, or says that the store is to be opened again. It returns whether there is nothing more to look for.
func (s *diskSpace) endFull() bool {
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

// wait returns once there is room. false: there is none, and nobody is to wait for it.
func (s *diskSpace) wait() bool {
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

// retry calls f again for as long as it fails for want of room. f is of something that can be done twice.
func (s *diskSpace) retry(need int64, f func() error) error {
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
		if s.noteFull(err, need, false); !s.wait() {
			return err
		}
	}
}

// cancelWaits has nobody wait any more: who does gets the error.
func (s *diskSpace) cancelWaits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canceled, s.noWait = true, true
	if s.full != nil {
		s.release()
	}
}

// close ends the tries too.
func (s *diskSpace) close() {
	s.cancelWaits()
	s.mu.Lock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	s.mu.Unlock()
	s.probes.Wait()
}

// Full returns since when the disk has no room for what is to be written, and why; false: it has, as far as anybody has tried. Safe
// from any goroutine.
func (s *Store) Full() (Full, bool) {
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	if s.space.full == nil {
		return Full{}, false
	}
	return *s.space.full, true
}

// WatchDiskSpace has f called when the disk is full, when there is room again (nil), and where Full.Reopen comes true; at once if it is
// full now. f must not block, and there is one of it.
func (s *Store) WatchDiskSpace(f func(*Full)) {
	s.space.watchMu.Lock()
	defer s.space.watchMu.Unlock()
	s.space.mu.Lock()
	s.space.watch = f
	now := s.space.full
	s.space.mu.Unlock()
	if now != nil {
		f(now)
	}
}

// AwaitDiskSpace returns once the disk has room, which is at once where nobody has found that it has none. false: nobody is to wait
// (CancelSpaceWaits, Close), or the store is to be opened again. Safe from any goroutine.
func (s *Store) AwaitDiskSpace() bool { return s.space.wait() }

// CancelSpaceWaits has all that waits for room end with ErrFull, now and from here on: the node stops. With room it changes nothing.
func (s *Store) CancelSpaceWaits() { s.space.cancelWaits() }

// waitingFiles are the files of an index. Writes that find no room wait for it.
type waitingFiles struct {
	lstorage.Storage
	space *diskSpace
}

// Create makes a file. goleveldb holds no lock that reads need while it does, or while it writes.
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

// SetMeta names the manifest.
func (p waitingFiles) SetMeta(fd lstorage.FileDesc) error {
	return p.space.retry(0, func() error { return p.Storage.SetMeta(fd) })
}

// Rename renames a file.
func (p waitingFiles) Rename(from, to lstorage.FileDesc) error {
	return p.space.retry(0, func() error { return p.Storage.Rename(from, to) })
}

type waitingWriter struct {
	lstorage.Writer
	space *diskSpace
}

// Write goes on behind what of it found room.
func (w waitingWriter) Write(b []byte) (n int, err error) {
	err = w.space.retry(int64(len(b)), func() error {
		done, err := w.Writer.Write(b[n:])
		n += done
		return err
	})
	return n, err
}

// Sync has what was written be on disk. What a failed one left there is unknown, and a second one would lie: so for want of room nothing
// more is written before the index is opened again, which makes new files of all that counts.
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
