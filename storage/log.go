package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// The block log.
//
// Problem: blocks, outcomes, receipts and state changes are immutable and are most of the data. An
// LSM tree would write this data about four times. In addition, several blocks must be able to
// share one sync (group commit). Nevertheless a torn end of the log must be distinguishable from
// damage.
//
// Format: the log is a sequence of segments, files that only grow. A record is u32 length, u32
// CRC-32C of the payload, payload, little-endian. Records do not cross segments. The first segment
// holds genesis alone.
//
// Invariants: a record never changes. A record is durable once flush returned nil. Before the first
// record of a segment is written, the segment before it is cut off after its last record and
// synced. A record that is appended while the record before it is not synced says so in its type
// (recordAfterUnsynced). So a whole record that follows a torn record is damage, unless the type of
// the whole record says that it was written before the torn record was synced. A torn record at the
// end counts as never written.
//
// Outline: append writes one record in one write. flush syncs all appended records. recover scans
// from the position that the index names, cuts off a torn end, and reports a broken record that a
// whole record follows as ErrDamaged. Close stores where the log ends. After a kill the end is
// unknown, so the loss of the last group by a disk fault goes unnoticed, as in any log.
//
// On a full disk, flush removes the records since the last sync and returns ErrFull. After any
// other failed sync the content on disk is unknown, so the log takes no more writes.
//
// Rejected: a sync for each block, which bounds throughput by the disk; a group record that holds
// several blocks, which cannot be read and shipped block by block.

// position is a place in the log: the start of a record, which is also the end of the record
// before.
type position struct {
	Segment uint32
	Offset  int64
}

func (p position) before(q position) bool {
	return p.Segment < q.Segment || p.Segment == q.Segment && p.Offset < q.Offset
}

// AppendBorsh appends 12 bytes.
func (p position) AppendBorsh(b []byte) []byte {
	return borsh.AppendUint64(borsh.AppendUint32(b, p.Segment), uint64(p.Offset))
}

// DecodeBorsh reads 12 bytes.
func (p *position) DecodeBorsh(r *borsh.Reader) {
	*p = position{r.Uint32(), int64(r.Uint64())}
	if p.Offset < 0 {
		r.Failf("log offset %d", p.Offset)
	}
}

const (
	recordHeader = 8
	// DefaultSegment is the default of Options.SegmentSize: the size at which a new segment begins.
	// Garbage collection frees whole segments.
	DefaultSegment = 32 << 20
	maxRecord      = 1 << 30
	reserveStep    = 4 << 20 // number of bytes that are allocated ahead of the writes at a time
	maxOpenFiles   = 32      // maximum number of old segments that are open for reading
)

func segmentName(n uint32) string { return fmt.Sprintf("%010d%s", n, segmentSufix) }

// blockLog appends records and reads parts of records. One writer and any number of readers may use
// a blockLog at the same time.
type blockLog struct {
	disk        disk
	segmentSize int64
	sync        bool

	cur    file
	end    position // end of the last complete record
	synced int64    // offset in the current segment up to which records are synced
	// dropErr is the error to be returned by the next flush, because rotate removed unsynced
	// records for lack of room. dropErr may be ErrFull or any other error.
	dropErr  error
	reserved int64         // number of allocated bytes of the current segment
	written  atomic.Uint64 // bytes written since opening
	dirty    bool          // true: there are unsynced records
	broken   error         // error of a failed append that could not be undone; nil: none

	mu   sync.Mutex // guards the readers' files
	open map[uint32]*readFile
	use  uint64
}

type readFile struct {
	f    file
	refs int
	last uint64 // time of the last use, for eviction
	gone bool   // true: close the file when refs becomes 0
}

func newLog(d disk, o *Options) *blockLog {
	return &blockLog{disk: d, segmentSize: o.SegmentSize, sync: !o.NoSync, open: map[uint32]*readFile{}}
}

// writeBufs are buffers for records with their headers. All logs of the process share the buffers,
// since a process may have a thousand logs, most of them idle.
var writeBufs = sync.Pool{New: func() any { return new([]byte) }}

// append writes one record in one write, and returns the position of its payload. The record is
// durable once flush has returned nil. If the record before is not synced yet, append changes the
// first byte of payload (recordAfterUnsynced). After an error the log is either unchanged or
// permanently broken.
func (l *blockLog) append(payload []byte) (position, error) {
	if l.broken != nil {
		return position{}, l.broken
	}
	if len(payload) > maxRecord {
		return position{}, fmt.Errorf("log: the record has %d bytes, more than the format allows", len(payload))
	}
	// The first segment has only the genesis, and stays when all other segments are collected.
	first := l.end.Segment == 0 && l.end.Offset > 0
	if l.cur == nil || first || l.end.Offset > 0 && l.end.Offset+recordHeader+int64(len(payload)) > l.segmentSize {
		if err := l.rotate(); err != nil {
			return position{}, err
		}
	}
	if need := l.end.Offset + recordHeader + int64(len(payload)); need > l.reserved && l.sync {
		l.reserved = max(need, min(l.end.Offset+reserveStep, l.segmentSize))
		l.cur.Reserve(l.reserved)
	}
	if l.dirty {
		payload[0] += recordAfterUnsynced
	}
	lent := writeBufs.Get().(*[]byte)
	buf := slices.Grow((*lent)[:0], recordHeader+len(payload))
	buf = borsh.AppendUint32(borsh.AppendUint32(buf, uint32(len(payload))), checksum(payload))
	buf = append(buf, payload...)
	_, err := l.cur.WriteAt(buf, l.end.Offset)
	if *lent = buf; cap(buf) <= maxBuffered {
		writeBufs.Put(lent)
	}
	if err != nil {
		err = wrapWrite("log write", err)
		l.reserved = 0
		if terr := l.cur.Truncate(l.end.Offset); terr != nil {
			l.broken = fmt.Errorf("%w: %w, then %w", ErrFailed, err, terr)
		}
		return position{}, err
	}
	at := position{l.end.Segment, l.end.Offset + recordHeader}
	l.end.Offset += int64(len(buf))
	l.dirty = l.sync
	l.written.Add(uint64(len(buf)))
	return at, nil
}

// flush syncs the appended records. rotate has already synced the records of all segments before
// the current one. On ErrFull all records since the last sync are removed.
func (l *blockLog) flush() error {
	if err := l.dropErr; err != nil {
		l.dropErr = nil
		return err
	}
	if l.broken != nil || !l.dirty {
		return l.broken
	}
	if err := l.cur.Sync(); err != nil {
		return l.unsynced(err)
	}
	l.dirty, l.synced = false, l.end.Offset
	return nil
}

// unsynced handles a failed sync. The content on disk is then unknown, and a second sync would
// report success wrongly. So nothing may be written any more, unless the disk was full and the
// unsynced records can be cut off.
func (l *blockLog) unsynced(err error) error {
	l.dirty = false
	err = wrapWrite("log sync", err)
	if IsFull(err) {
		terr := l.cur.Truncate(l.synced)
		if terr == nil {
			l.end.Offset, l.reserved = l.synced, 0
			return err
		}
		err = fmt.Errorf("%w, then %w", err, terr)
	}
	l.broken = fmt.Errorf("%w: %w", ErrFailed, err)
	return l.broken
}

// syncCut syncs the current segment after append or flush has cut a record off. If the sync fails,
// the log accepts no records any more.
func (l *blockLog) syncCut() error {
	if err := l.cur.Sync(); err != nil {
		err = wrapWrite("log sync", err)
		l.broken = fmt.Errorf("%w: %w", ErrFailed, err)
		return err
	}
	return nil
}

func (l *blockLog) rotate() error {
	next := l.end.Segment
	if l.cur != nil {
		next++
		err := l.cur.Truncate(l.end.Offset) // cuts off reserved space that is not used
		if err == nil {
			err = l.cur.Sync()
		}
		if err != nil {
			dirty := l.dirty
			if err = l.unsynced(err); dirty && l.broken == nil {
				l.dropErr = err
			}
			return err
		}
		l.dirty, l.synced = false, l.end.Offset
	}
	f, err := l.disk.createFile(segmentName(next))
	if err != nil {
		return wrapWrite("log segment", err)
	}
	if err := l.disk.syncNames(); err != nil {
		err = wrapWrite("log segment", err)
		_ = f.Close()
		// The next attempt would fail, because the file exists.
		if rerr := l.disk.removeFile(segmentName(next)); rerr != nil {
			l.broken = fmt.Errorf("%w: %w, then %w", ErrFailed, err, rerr)
			return l.broken
		}
		return err
	}
	if l.cur != nil {
		_ = l.cur.Close() // the file is synced, and readers use their own files
	}
	l.cur, l.end, l.synced, l.reserved, l.dirty = f, position{next, 0}, 0, 0, false
	return nil
}

// read returns n bytes from a position.
func (l *blockLog) read(at position, n int) ([]byte, error) {
	rf, err := l.acquire(at.Segment)
	if err != nil {
		return nil, err
	}
	defer l.release(rf)
	b := make([]byte, n)
	if _, err := rf.f.ReadAt(b, at.Offset); err != nil {
		if err == io.EOF {
			return nil, damaged("log/%s ends before byte %d", segmentName(at.Segment), at.Offset+int64(n))
		}
		return nil, wrapIndex("log read", err)
	}
	return b, nil
}

func (l *blockLog) acquire(seg uint32) (*readFile, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return nil, ErrClosed
	}
	l.use++
	if rf := l.open[seg]; rf != nil {
		rf.refs++
		rf.last = l.use
		return rf, nil
	}
	f, err := l.disk.openFile(segmentName(seg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("log/%s: %w", segmentName(seg), ErrGone)
	}
	if err != nil {
		return nil, wrapIndex("open log", err)
	}
	if len(l.open) >= maxOpenFiles {
		var oldest uint32
		var found *readFile
		for n, rf := range l.open {
			if found == nil || rf.last < found.last {
				oldest, found = n, rf
			}
		}
		l.drop(oldest, found)
	}
	rf := &readFile{f: f, refs: 1, last: l.use}
	l.open[seg] = rf
	return rf, nil
}

// drop removes a file from l.open. The last reader of the file closes it.
func (l *blockLog) drop(seg uint32, rf *readFile) {
	delete(l.open, seg)
	if rf.gone = true; rf.refs == 0 {
		_ = rf.f.Close()
	}
}

func (l *blockLog) release(rf *readFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rf.refs--; rf.gone && rf.refs == 0 {
		_ = rf.f.Close()
	}
}

// remove deletes a segment that no entry refers to any more.
func (l *blockLog) remove(seg uint32) error {
	l.mu.Lock()
	if rf := l.open[seg]; rf != nil {
		l.drop(seg, rf)
	}
	l.mu.Unlock()
	err := l.disk.removeFile(segmentName(seg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return wrapWrite("remove log segment", err)
}

// reset removes all segments. Call it only while the store has no genesis.
func (l *blockLog) reset() error {
	names, err := l.disk.listFiles()
	if err != nil {
		return wrapIndex("list log", err)
	}
	if l.cur != nil {
		_ = l.cur.Close()
	}
	l.cur, l.end, l.synced, l.reserved, l.dirty = nil, position{}, 0, 0, false
	for _, name := range names {
		if err := l.disk.removeFile(name); err != nil {
			return wrapWrite("remove log segment", err)
		}
	}
	return nil
}

// segmentNumber decodes the key of a row of column segments.
func segmentNumber(key []byte) uint32 {
	if len(key) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(key)
}

func (l *blockLog) close() error {
	l.mu.Lock()
	for n, rf := range l.open {
		l.drop(n, rf)
	}
	l.open = nil
	l.mu.Unlock()
	if l.cur == nil {
		return nil
	}
	var err error
	if l.broken == nil {
		err = errors.Join(l.cur.Truncate(l.end.Offset), l.cur.Sync())
	}
	if IsFull(err) && !l.dirty { // a full disk is no error if all records are synced
		err = nil
	}
	return errors.Join(wrapWrite("log sync", err), l.cur.Close())
}
