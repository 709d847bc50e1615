package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Log shipping. The log of a store records the order in which blocks were stored, on all branches,
// and the rewinds of a sandbox between these blocks. A replica that applies the same records in the
// same order reaches the same state.

// LogPlace is the position at which a record begins in a log. Positions grow along a log. The zero
// value is the beginning.
type LogPlace struct {
	Segment uint32
	Offset  uint64
}

// Compare orders positions.
func (p LogPlace) Compare(q LogPlace) int {
	return cmp.Or(cmp.Compare(p.Segment, q.Segment), cmp.Compare(p.Offset, q.Offset))
}

// String returns the form that ParseLogPlace reads.
func (p LogPlace) String() string { return fmt.Sprintf("%d.%d", p.Segment, p.Offset) }

// ParseLogPlace parses the result of String.
func ParseLogPlace(s string) (p LogPlace, err error) {
	if _, err = fmt.Sscanf(s, "%d.%d", &p.Segment, &p.Offset); err == nil && p.String() != s {
		err = errors.New("must be SEGMENT.OFFSET")
	}
	if err != nil {
		return LogPlace{}, fmt.Errorf("log position %q: %w", s, err)
	}
	return p, nil
}

// AppendBorsh appends 12 bytes.
func (p LogPlace) AppendBorsh(b []byte) []byte {
	return borsh.AppendUint64(borsh.AppendUint32(b, p.Segment), p.Offset)
}

// DecodeBorsh reads 12 bytes.
func (p *LogPlace) DecodeBorsh(r *borsh.Reader) { *p = LogPlace{r.Uint32(), r.Uint64()} }

// LogRecord is a record of the log.
type LogRecord struct {
	At   LogPlace // place in the log at which the record begins
	Next LogPlace // place in the log at which the next record begins
	// Ref is the stored block. For a rewind, Ref is the block that becomes the head again.
	Ref  BlockRef
	Prev BlockRef // parent of the block Ref; zero for a rewind
	// Rewind means that the record is a rewind. The rewind removes all blocks after Ref on the
	// branch of Ref, and all other branches.
	Rewind bool
	// Payload is the record's bytes. Each reading of a record returns equal bytes.
	Payload []byte
}

// logEnd returns the end of the log. Everything before that position is on disk.
func (s *Store) logEnd() (position, error) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.writable(); err != nil {
		return position{}, err
	}
	return s.log.end, nil
}

// LogReader reads the log of a store in the order in which it was written. Safe for concurrent use.
type LogReader struct {
	log     *blockLog
	disk    disk
	overlay bool                     // true: the store is an overlay, whose log nothing else may read
	end     func() (position, error) // returns the end of the part of the log that is on disk
}

// Log returns the reader of the store's log.
func (s *Store) Log() LogReader {
	return LogReader{log: s.log, disk: s.disk, overlay: s.parent != nil, end: s.logEnd}
}

// Records calls f for the records of blocks and rewinds from a position on. Records skips the
// genesis and all records of other kinds. Records ends when f returns false, or at the end of
// the log. It returns the position at which the next call should continue.
//
// Errors: ErrGone: garbage collection has removed that part of the log; Start returns where the
// present log begins. ErrDamaged: no record begins at `from`. ErrOrder: an overlay has no log.
func (l LogReader) Records(from LogPlace, f func(LogRecord) bool) (next LogPlace, err error) {
	if l.overlay {
		return from, fmt.Errorf("%w: an overlay store has no log", ErrOrder)
	}
	end, err := l.end()
	if err != nil {
		return from, err
	}
	at := position{from.Segment, int64(from.Offset)}
	if end.before(at) {
		return from, damaged("the log ends at %v, before %v", placeOf(end), from)
	}
	for at.before(end) {
		payload, after, err := l.log.recordAt(at)
		if err != nil {
			return placeOf(at), err
		}
		if payload == nil { // no further record in this segment
			at = position{at.Segment + 1, 0}
			continue
		}
		x, ok, err := logRecordOf(payload)
		if err != nil {
			return placeOf(at), err
		}
		x.At, x.Next = placeOf(at), placeOf(after)
		at = after
		if ok && !f(x) {
			break
		}
	}
	return placeOf(at), nil
}

func placeOf(p position) LogPlace { return LogPlace{p.Segment, uint64(p.Offset)} }

// logRecordOf decodes a record. ok is false for records that concern this store only.
func logRecordOf(payload []byte) (x LogRecord, ok bool, err error) {
	if afterUnsynced(payload) {
		payload = bytes.Clone(payload)
		payload[0] -= recordAfterUnsynced
	}
	x.Payload = payload
	switch payload[0] {
	case recordRewind:
		x.Rewind = true
		x.Ref, err = rewindOf(payload)
		return x, err == nil, err
	case recordBlock:
		h, _, _, err := parseRecord(payload)
		x.Ref, x.Prev = h.Ref, h.Prev
		return x, err == nil && !h.Prev.IsZero(), err
	}
	return x, false, nil
}

// recordAt returns the record at a position and where the record ends. It returns nil at the end of
// the segment.
func (l *blockLog) recordAt(at position) ([]byte, position, error) {
	rf, err := l.acquire(at.Segment)
	if err != nil {
		return nil, at, err
	}
	defer l.release(rf)
	size, err := rf.f.Size()
	if err != nil {
		return nil, at, wrapIndex("size", err)
	}
	if at.Offset == size {
		return nil, at, nil
	}
	payload, err := readRecord(rf.f, at.Offset, size)
	if err == nil && payload == nil {
		err = damaged("log/%s: no record at byte %d", segmentName(at.Segment), at.Offset)
	}
	if err != nil {
		return nil, at, err
	}
	return payload, position{at.Segment, at.Offset + recordHeader + int64(len(payload))}, nil
}

// Start returns the position from which on the log is complete, and about how many bytes of log
// follow it.
func (l LogReader) Start() (at LogPlace, size int64, err error) {
	end, err := l.end()
	if err != nil {
		return at, 0, err
	}
	names, err := l.disk.listFiles()
	if err != nil {
		return at, 0, wrapIndex("list log", err)
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	n := end.Segment
	for n > 0 && there[segmentName(n-1)] {
		n--
	}
	return LogPlace{Segment: n}, int64(end.Segment-n)*l.log.segmentSize + end.Offset, nil
}

// AboveFlatHead returns the position of the first record above the flat head.
func (s *Store) AboveFlatHead() LogPlace {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	return placeOf(s.flatHead.From)
}

// End returns the end of the log.
func (l LogReader) End() (LogPlace, error) {
	end, err := l.end()
	return placeOf(end), err
}

// Unpack decodes the record of a block that was received from elsewhere. Unpack checks that all
// parts are well formed, and checks the checksums within the record.
func Unpack(payload []byte) (*Block, error) {
	h, raw, data, err := parseRecord(payload)
	if err != nil {
		return nil, err
	}
	if payload[0] != recordBlock {
		return nil, damaged("the record has the unknown type %d", payload[0])
	}
	e := &entry{headLen: len(raw), head: h}
	if e.size() != int64(len(payload)) {
		return nil, damaged("the record has %d bytes, but its parts have %d", len(payload), e.size())
	}
	r := &Record{s: new(Store), e: e, data: data}
	b := &Block{Ref: h.Ref, Prev: h.Prev, Timestamp: h.Timestamp, Ordinal: h.Ordinal, Epoch: h.Epoch,
		Final: h.Final, Head: h.IsHead, Splits: h.Splits}
	for _, part := range []struct {
		get  func() ([]byte, error)
		into *[]byte
	}{{r.Header, &b.Header}, {r.Body, &b.Body}, {r.Info, &b.Info}, {r.MerkleTree, &b.MerkleTree}, {r.Patch, &b.Patch}} {
		if *part.into, err = part.get(); err != nil && !isAbsent(err) {
			return nil, err
		}
	}
	rows, err := r.one(kindPuts, 0)
	if err == nil {
		b.Puts, err = parseBatch(rows)
	}
	if err != nil && !isAbsent(err) {
		return nil, err
	}
	b.Shards = make([]Shard, len(h.Shards))
	for i := range h.Shards {
		if err := r.unpackShard(&h.Shards[i], &b.Shards[i]); err != nil {
			return nil, err
		}
	}
	return b, b.check()
}

func (r *Record) unpackShard(sh *shardHead, s *Shard) (err error) {
	s.ID = sh.ID
	for _, part := range []struct {
		get  func(primitives.ShardID) ([]byte, error)
		into *[]byte
	}{{r.Extra, &s.Extra}, {r.Incoming, &s.Incoming}, {r.Other, &s.Other}} {
		if *part.into, err = part.get(sh.ID); err != nil && !isAbsent(err) {
			return err
		}
	}
	if s.Outcomes, err = r.Outcomes(sh.ID); err != nil {
		return err
	}
	if s.Outgoing, err = r.Outgoing(sh.ID); err != nil {
		return err
	}
	if s.Local, err = r.Local(sh.ID); err != nil {
		return err
	}
	if s.Delayed, err = r.Delayed(sh.ID); err != nil {
		return err
	}
	if s.Origins, err = r.Origins(sh.ID); err != nil {
		return err
	}
	if s.Changes, err = r.Changes(sh.ID); err != nil || !sh.HasChunk {
		return err
	}
	c := &Chunk{Hash: sh.Chunk, ReceiptsOf: sh.ReceiptsOf}
	s.Chunk = c
	if c.Header, err = r.Chunk(sh.ID); err != nil {
		return err
	}
	if c.Transactions, err = r.Transactions(sh.ID); err != nil {
		return err
	}
	return r.each(kindReceipts, sh.ID, func(_ int, item []byte) error {
		c.Receipts = append(c.Receipts, item)
		return nil
	})
}

// Pack encodes a block as a record that Unpack reads.
func Pack(b *Block) []byte {
	payload, _ := b.encode().bytes()
	return payload
}

// RewindTarget decodes the record of a rewind that was received from elsewhere.
func RewindTarget(payload []byte) (BlockRef, error) {
	if len(payload) == 0 || payload[0] != recordRewind {
		return BlockRef{}, damaged("the record is not a rewind")
	}
	return rewindOf(payload)
}
