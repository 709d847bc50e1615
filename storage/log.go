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
// Problem: blocks, outcomes, receipts and changes never change and are most of the bytes. An LSM
// tree would write them about four times. And several blocks must be able to share one sync (group
// commit) without making a torn end of the log look like damage.
//
// Format: the log is a sequence of segments, files that only grow. A record is u32 length, u32
// CRC-32C of the payload, payload, little-endian. Records do not cross segments. The first segment
// holds genesis alone.
//
// Invariants: a record never changes. It is durable once flush returned nil. A segment is synced
// before the next one begins. A record that is appended while the one before it is not synced says
// so in its type (recordAfterUnsynced). So after a power cut a whole record after a torn one is
// damage, unless its type allows for it. What is torn at the end counts as never written.
//
// Outline: append writes one record in one write. flush syncs all appended records. recover scans
// from the position that the index names, cuts off a torn end, and reports a broken record with a
// later whole one as ErrDamaged. A store that was closed knows where its log ends. After a kill, a
// later fault of the disk can take the last group without a trace, as for any log.
//
// On a full disk the records since the last sync are cut off again and flush returns ErrFull. After
// any other failed sync the content on disk is unknown, so the log takes no more writes.
//
// Rejected: a sync for each block, which bounds throughput by the disk; a group record that holds
// several blocks, which cannot be read and shipped block by block.

// position is a place in the log: the start of a record, which is also the end of the one before.
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
	reserveStep    = 4 << 20 // bytes that a segment is allocated ahead of the writes
	maxOpenFiles   = 32      // old segments held open for reading
)

func segmentName(n uint32) string { return fmt.Sprintf("%010d%s", n, segmentSufix) }

// blockLog appends records and reads parts of them. One writer and any number of readers may use it
// at the same time.
type blockLog struct {
	disk        disk
	segmentSize int64
	sync        bool

	cur    file
	end    position // end of the last whole record
	synced int64    // end of the last synced record in the current segment
	// unsynced records were cut off for want of room while rotating; the next flush returns this
	// error
	dropErr  error
	reserved int64         // allocated bytes of the current segment
	written  atomic.Uint64 // bytes since opening
	dirty    bool          // there are unsynced records
	broken   error         // an append failed and could not be undone

	mu   sync.Mutex // guards the readers' files
	open map[uint32]*readFile
	use  uint64
}

type readFile struct {
	f    file
	refs int
	last uint64 // time of last use, for eviction
	gone bool   // to be closed when refs is 0
}

func newLog(d disk, o *Options) *blockLog {
	return &blockLog{disk: d, segmentSize: o.SegmentSize, sync: !o.NoSync, open: map[uint32]*readFile{}}
}

// recover opens the log, which must reach at least end, and calls f for each whole record from
// start on. It cuts off what a crash left after the last whole record. Once it returns, all whole
// records are durable. A broken record with whole ones after it is ErrDamaged.
func (l *blockLog) recover(start, end position, f func(at position, payload []byte) error) error {
	names, err := l.disk.listFiles()
	if err != nil {
		return wrapIndex("list log", err)
	}
	last := end.Segment
	for _, name := range names {
		var n uint32
		if _, err := fmt.Sscanf(name, "%010d"+segmentSufix, &n); err != nil || segmentName(n) != name {
			return damaged("log/%s: not a segment", name)
		}
		last = max(last, n)
	}
	if len(names) == 0 && end == (position{}) {
		return nil
	}
	for seg := start.Segment; ; seg++ {
		from := int64(0)
		if seg == start.Segment {
			from = start.Offset
		}
		fl, err := l.disk.openFile(segmentName(seg))
		if errors.Is(err, fs.ErrNotExist) {
			return damaged("log/%s is missing", segmentName(seg))
		}
		if err != nil {
			return wrapIndex("open log", err)
		}
		got, err := scanSegment(fl, from, func(off int64, payload []byte) error {
			return f(position{seg, off}, payload)
		})
		if err == nil && seg <= end.Segment && (seg < end.Segment || got < end.Offset) {
			err = l.checkShort(fl, seg, got, end)
		}
		if err != nil {
			_ = fl.Close()
			return fmt.Errorf("log/%s: %w", segmentName(seg), err)
		}
		if seg < last {
			_ = fl.Close()
			continue
		}
		if err := l.trimEnd(fl, got); err != nil {
			_ = fl.Close()
			return wrapWrite("cut log", err)
		}
		l.cur, l.end, l.synced = fl, position{seg, got}, got
		return nil
	}
}

// trimEnd cuts the last segment off after its whole records and syncs it. A process that was
// killed, or that failed to sync, leaves records that can be read but are not on the disk, and from
// now on they are reported to peers and clients.
func (l *blockLog) trimEnd(fl file, end int64) error {
	size, err := fl.Size()
	if err == nil && size > end {
		err = fl.Truncate(end)
	}
	if err == nil && (l.sync || size > end) {
		err = fl.Sync()
	}
	if err == nil && l.sync {
		err = l.disk.syncNames()
	}
	return err
}

// checkShort returns ErrDamaged if segment seg, whole up to got, lacks committed records: it ends
// before end, or it is not the last segment and has bytes after got.
func (l *blockLog) checkShort(fl file, seg uint32, got int64, end position) error {
	size, err := fl.Size()
	switch {
	case err != nil:
		return wrapIndex("size", err)
	case seg == end.Segment || size > got:
		return damaged("broken at byte %d, though records after it were committed", got)
	}
	return nil
}

// scanSegment calls f for each whole record from offset from on, and returns where they end. Zeros
// or a torn record at the end are no error. A broken record with a whole one after it is
// ErrDamaged.
func scanSegment(fl file, from int64, f func(off int64, payload []byte) error) (int64, error) {
	size, err := fl.Size()
	if err != nil {
		return 0, wrapIndex("size", err)
	}
	if from > size {
		return 0, damaged("%d bytes long, expected at least %d", size, from)
	}
	for off := from; ; {
		payload, err := readRecord(fl, off, size)
		if err != nil {
			return 0, err
		}
		if payload == nil {
			return off, probe(fl, off, size)
		}
		if err := f(off, payload); err != nil {
			return 0, err
		}
		off += recordHeader + int64(len(payload))
	}
}

// readRecord returns the payload of the record at off. Nil: there is no whole record.
func readRecord(fl file, off, size int64) ([]byte, error) {
	var header [recordHeader]byte
	if off+recordHeader > size {
		return nil, nil
	}
	if _, err := fl.ReadAt(header[:], off); err != nil && err != io.EOF {
		return nil, wrapIndex("read", err)
	}
	n := int64(binary.LittleEndian.Uint32(header[:]))
	if n == 0 || n > maxRecord || off+recordHeader+n > size {
		return nil, nil
	}
	payload := make([]byte, n)
	if _, err := fl.ReadAt(payload, off+recordHeader); err != nil && err != io.EOF {
		return nil, wrapIndex("read", err)
	}
	if checksum(payload) != binary.LittleEndian.Uint32(header[4:]) {
		return nil, nil
	}
	return payload, nil
}

// probe returns ErrDamaged if whole records follow the broken one at off, at the place where its
// length says that the next begins. A torn write at the end of the log, which was never
// acknowledged, has none after it, or only records that were written before it was synced.
func probe(fl file, off, size int64) error {
	var header [recordHeader]byte
	if off+recordHeader > size {
		return nil
	}
	if _, err := fl.ReadAt(header[:], off); err != nil && err != io.EOF {
		return wrapIndex("read", err)
	}
	for next := off + recordHeader + int64(binary.LittleEndian.Uint32(header[:])); ; {
		payload, err := readRecord(fl, next, size)
		if err != nil || payload == nil {
			return err
		}
		if !afterUnsynced(payload) {
			return damaged("record at byte %d is broken, with a whole one after it", off)
		}
		next += recordHeader + int64(len(payload))
	}
}

// writeBufs are buffers for records with their headers. All logs share them, since a process may
// have a thousand idle logs.
var writeBufs = sync.Pool{New: func() any { return new([]byte) }}

// append writes one record in one write. It is durable once flush has returned nil. append returns
// where the payload begins, and changes the first byte of payload if the record before is not
// synced. After an error the log is as it was, or broken for good.
func (l *blockLog) append(payload []byte) (position, error) {
	if l.broken != nil {
		return position{}, l.broken
	}
	if len(payload) > maxRecord {
		return position{}, fmt.Errorf("log: record of %d bytes", len(payload))
	}
	// The first segment holds genesis alone, which stays when all others are collected.
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

// flush syncs the appended records. Those of earlier segments were synced by rotate. On ErrFull all
// records since the last sync are removed.
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

func (l *blockLog) rotate() error {
	next := l.end.Segment
	if l.cur != nil {
		next++
		err := l.cur.Truncate(l.end.Offset) // reserved but unused space
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
	if l.cur != nil {
		_ = l.cur.Close() // synced; readers have their own files
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

// drop removes a file from the table. Its last reader closes it.
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

// reset removes all segments: there is no genesis.
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
	if IsFull(err) && !l.dirty { // all records are on the disk
		err = nil
	}
	return errors.Join(wrapWrite("log sync", err), l.cur.Close())
}
