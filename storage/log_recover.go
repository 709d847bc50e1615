package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// recover opens the log, which must reach at least end, and calls f for each whole record from
// start on. recover cuts off what a crash left after the last whole record. Once recover has
// returned, all whole records are durable. If whole records follow a broken record, recover returns
// ErrDamaged.
func (l *blockLog) recover(start, end position, f func(at position, payload []byte) error) error {
	names, err := l.disk.listFiles()
	if err != nil {
		return wrapIndex("list log", err)
	}
	last := end.Segment
	for _, name := range names {
		var n uint32
		if _, err := fmt.Sscanf(name, "%010d"+segmentSufix, &n); err != nil || segmentName(n) != name {
			return damaged("log/%s: the file is not a log segment", name)
		}
		last = max(last, n)
	}
	if len(names) == 0 && end == (position{}) {
		return nil
	}
	var ragged []position // ends of the last record in segments with trailing bytes
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
			if len(ragged) > 0 {
				return damaged("log/%s is broken at byte %d, although log/%s has records", segmentName(ragged[0].Segment),
					ragged[0].Offset, segmentName(seg))
			}
			return f(position{seg, off}, payload)
		})
		var size int64
		if err == nil {
			if size, err = fl.Size(); err != nil {
				err = wrapIndex("size", err)
			}
		}
		if err == nil && seg <= end.Segment && (seg < end.Segment && got < size || seg == end.Segment && got < end.Offset) {
			err = damaged("broken at byte %d, although records after it were committed", got)
		}
		if err != nil {
			_ = fl.Close()
			return fmt.Errorf("log/%s: %w", segmentName(seg), err)
		}
		if seg < last {
			_ = fl.Close()
			if got < size {
				ragged = append(ragged, position{seg, got})
			}
			continue
		}
		if err := l.trimSegments(ragged); err != nil {
			_ = fl.Close()
			return err
		}
		if err := l.trimEnd(fl, got); err != nil {
			_ = fl.Close()
			return wrapWrite("cut log", err)
		}
		l.cur, l.end, l.synced = fl, position{seg, got}, got
		return nil
	}
}

// trimSegments cuts each segment off after its last record and syncs the segment. Empty segments
// may follow, left by a failed creation whose cleanup was lost in a power cut.
func (l *blockLog) trimSegments(ends []position) error {
	for _, end := range ends {
		fl, err := l.disk.openFile(segmentName(end.Segment))
		if err != nil {
			return wrapIndex("open log", err)
		}
		if err := errors.Join(l.trimEnd(fl, end.Offset), fl.Close()); err != nil {
			return wrapWrite("cut log/"+segmentName(end.Segment), err)
		}
	}
	return nil
}

// trimEnd cuts the last segment off after its whole records and syncs the segment. The sync is
// needed because a process that was killed, or whose sync failed, leaves records that can be read
// but may not be on the disk yet. From now on the node reports the contents of these records to
// peers and clients, so the records must be durable.
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

// scanSegment calls f for each whole record at or after the offset `from`, and returns the offset
// at which the whole records end. Zeros or a torn record at the end are no error. If a whole record
// follows a broken record, scanSegment returns ErrDamaged.
func scanSegment(fl file, from int64, f func(off int64, payload []byte) error) (int64, error) {
	size, err := fl.Size()
	if err != nil {
		return 0, wrapIndex("size", err)
	}
	if from > size {
		return 0, damaged("the segment has %d bytes, expected at least %d", size, from)
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

// readRecord returns the payload of the record at offset off, or nil if there is no whole record.
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

// probe decides whether the broken record at offset off is damage. probe looks at the place where
// the next record begins, according to the broken record's length. If whole records follow there
// that were written after a sync of the broken record, probe returns ErrDamaged. A torn record at
// the end of the log was never synced: no records follow it, or only records that were written
// before any sync of the torn record.
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
			return damaged("the record at byte %d is broken, and a whole record follows it", off)
		}
		next += recordHeader + int64(len(payload))
	}
}
