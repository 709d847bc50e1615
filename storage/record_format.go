package storage

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// kind says what a section of a record holds. The numbers are on disk and never reused.
type kind byte

const (
	kindHeader       kind = 1 // one item: the header
	kindBody         kind = 2 // one item: the rest of the block
	kindInfo         kind = 3 // one item: BlockInfo
	kindMerkleTree   kind = 4 // one item: PartialMerkleTree of the blocks before this one
	kindPuts         kind = 5 // writes to columns of the index: key, value
	kindChunk        kind = 6 // one item: Chunk.Header
	kindTransactions kind = 7 // transactions of a chunk
	// receipts of a chunk (prev_outgoing_receipts), unless they equal the outgoing receipts of
	// other blocks
	kindReceipts   kind = 8
	kindExtra      kind = 9  // one item: ChunkExtra
	kindOutcomeIDs kind = 10 // one item: 32 bytes each
	kindOutcomes   kind = 11
	kindOutgoing   kind = 12 // receipts for other chunks that applying the chunk made
	kindLocal      kind = 13 // receipts that were made and executed within one chunk: local and instant receipts
	kindIncoming   kind = 14 // proofs of incoming receipts, for a node that receives these receipts from peers
	kindChanges    kind = 15 // changes of the state, sorted by key
	kindOther      kind = 16 // one item: opaque data of the engine for the chunk
	// 17 was the kind of data that the engine kept with a block. No new kind may use the number 17.
	kindPatch   kind = 18 // one item: the state patch that a sandbox applied with the block
	kindDelayed kind = 19 // receipts that the chunk took off the queue and processed; absent in older records
	kindOrigins kind = 20 // one item: origins, 64 bytes each; absent in older records
)

// dense returns whether a frame of n bytes consists of hashes and signatures, which cannot be
// compressed. An attempt would take longer than everything else in the commit of a small block.
func (k kind) dense(n int) bool {
	switch k {
	case kindOutcomeIDs, kindOrigins:
		return true
	case kindHeader, kindBody, kindMerkleTree, kindChunk:
		return n < 4<<10
	}
	return false
}

// frameSize is the number of bytes of items that are compressed together. To read one item, a
// reader decompresses the item's whole frame.
const frameSize = 32 << 10

// head is the directory of a record. The index holds a copy.
type head struct {
	Ref       BlockRef
	Prev      BlockRef
	Timestamp uint64 // ns since 1970
	Ordinal   uint64
	Epoch     primitives.EpochID
	Final     BlockRef // last final block as of this block
	IsHead    bool     // true: the block became the head when it was committed
	Shards    []shardHead
	Splits    []Split // splits of shards of the parent's layout
	Sections  []section
}

// shardHead is the part of the head about one shard.
type shardHead struct {
	ID       primitives.ShardID
	HasChunk bool            // true: the block has a new chunk in the shard
	Chunk    primitives.Hash // hash of the new chunk
	// ReceiptsOf: the chunk's receipts are the outgoing receipts of these blocks for this shard,
	// concatenated.
	ReceiptsOf []BlockRef
}

// section is a list of items.
type section struct {
	Kind   kind
	Shard  primitives.ShardID
	Frames []frame
	offset int // offset in the record's data of the section's first frame; computed, not stored
}

// frame is a compressed run of items.
type frame struct {
	Items, Stored, Raw int
	Method             byte
	CRC                uint32 // CRC of the stored bytes
	RawCRC             uint32 // CRC of the uncompressed bytes; equal to CRC if Method is plain
}

const headVersion = 3 // version of the head's encoding; 1 and 2 belong to folder format 1

// AppendBorsh appends the head. Counts and sizes are varints.
func (h *head) AppendBorsh(b []byte) []byte {
	b = appendRef(append(b, headVersion), h.Ref)
	b = appendRef(b, h.Prev)
	b = borsh.AppendUint64(b, h.Timestamp)
	b = borsh.AppendUint64(b, h.Ordinal)
	b = append(b, h.Epoch[:]...)
	b = appendRef(b, h.Final)
	b = borsh.AppendBool(b, h.IsHead)
	b = binary.AppendUvarint(b, uint64(len(h.Shards)))
	for i := range h.Shards {
		s := &h.Shards[i]
		b = binary.AppendUvarint(b, uint64(s.ID))
		b = borsh.AppendBool(b, s.HasChunk)
		if s.HasChunk {
			b = append(b, s.Chunk[:]...)
		}
		b = binary.AppendUvarint(b, uint64(len(s.ReceiptsOf)))
		for _, ref := range s.ReceiptsOf {
			b = appendRef(b, ref)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(h.Splits)))
	for i := range h.Splits {
		b = h.Splits[i].AppendBorsh(b)
	}
	b = binary.AppendUvarint(b, uint64(len(h.Sections)))
	for i := range h.Sections {
		s := &h.Sections[i]
		b = append(b, byte(s.Kind))
		b = binary.AppendUvarint(b, uint64(s.Shard))
		b = binary.AppendUvarint(b, uint64(len(s.Frames)))
		for _, f := range s.Frames {
			b = binary.AppendUvarint(b, uint64(f.Items))
			b = binary.AppendUvarint(b, uint64(f.Stored))
			b = binary.AppendUvarint(b, uint64(f.Raw))
			b = borsh.AppendUint32(append(b, f.Method), f.CRC)
			if f.Method != plain {
				b = borsh.AppendUint32(b, f.RawCRC)
			}
		}
	}
	return b
}

// DecodeBorsh reads a head.
func (h *head) DecodeBorsh(r *borsh.Reader) {
	if version := r.Byte(); version != headVersion {
		r.BadTag("record head", version)
		return
	}
	*h = head{Ref: readRef(r), Prev: readRef(r), Timestamp: r.Uint64(), Ordinal: r.Uint64(), Epoch: primitives.ReadHash(r),
		Final: readRef(r), IsHead: r.Bool()}
	for range readCount(r, 3) {
		s := shardHead{ID: primitives.ShardID(readUvarint(r)), HasChunk: r.Bool()}
		if s.HasChunk {
			s.Chunk = primitives.ReadHash(r)
		}
		for range readCount(r, refLen) {
			s.ReceiptsOf = append(s.ReceiptsOf, readRef(r))
		}
		h.Shards = append(h.Shards, s)
	}
	for range readCount(r, 3) {
		var x Split
		x.DecodeBorsh(r)
		h.Splits = append(h.Splits, x)
	}
	offset := 0
	for range readCount(r, 3) {
		s := section{Kind: kind(r.Byte()), Shard: primitives.ShardID(readUvarint(r)), offset: offset}
		for range readCount(r, 8) {
			f := frame{Items: readInt(r), Stored: readInt(r), Raw: readInt(r), Method: r.Byte(), CRC: r.Uint32()}
			if f.RawCRC = f.CRC; f.Method != plain {
				f.RawCRC = r.Uint32()
			}
			s.Frames = append(s.Frames, f)
			offset += f.Stored
		}
		h.Sections = append(h.Sections, s)
	}
}

func readRef(r *borsh.Reader) BlockRef {
	ref, _ := parseRef(append(make([]byte, 0, refLen), r.Take(refLen)...))
	return ref
}

// readUvarint reads a varint, which must be in its shortest form.
func readUvarint(r *borsh.Reader) uint64 {
	v, n := binary.Uvarint(r.Rest())
	if n <= 0 || n > 1 && v>>(7*(n-1)) == 0 {
		r.Failf("malformed varint")
		return 0
	}
	r.Take(n)
	return v
}

// readInt reads a size or an index.
func readInt(r *borsh.Reader) int {
	v := readUvarint(r)
	if v > maxFrame {
		r.Failf("size %d", v)
		return 0
	}
	return int(v)
}

// readCount reads a count of elements of at least least bytes each.
func readCount(r *borsh.Reader, least int) int {
	n := readUvarint(r)
	if n > uint64(r.Remaining()/least) {
		r.Fail(borsh.ErrEOF)
		return 0
	}
	return int(n)
}

func readVarBytes(r *borsh.Reader) []byte { return r.Take(readCount(r, 1)) }

func appendVarBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// A block record consists of its type, the length of the head as u32, the head, and the frames. A
// record of rows consists of its type and a batch of rows that belong to no block. The log itself
// stores length and checksum before each record.
const (
	recordBlock = 1
	recordRows  = 3
	// recordCatchup has the results of a block in a shard that was caught up after the block's
	// commit. It has the format of recordBlock, with only that shard.
	recordCatchup = 5
	recordRewind  = 7 // a record that removes blocks (see rewind.go)
	// recordAfterUnsynced is added to a record's type if the record before it was not synced yet
	// when this record was written. A power cut may then preserve this record and lose the record
	// before it. See log.go.
	recordAfterUnsynced = 1
)

// afterUnsynced returns whether a record was written while the record before it was not synced.
func afterUnsynced(payload []byte) bool { return payload[0]%2 == 0 }

// isRows returns whether a record holds rows of Write.
func isRows(payload []byte) bool {
	return payload[0] == recordRows || payload[0] == recordRows+recordAfterUnsynced
}

// isCatchup returns whether a record holds results in a shard that was caught up after the block's
// commit.
func isCatchup(payload []byte) bool {
	return payload[0] == recordCatchup || payload[0] == recordCatchup+recordAfterUnsynced
}

// recordWriter collects the sections of a record.
type recordWriter struct {
	head          head
	data          []byte // encoded frames
	raw           []byte // uncompressed items of the frame that is being filled
	noCompression bool   // true: frames are not compressed
	n             int    // number of items in raw
	cur           section
}

func (w *recordWriter) begin(k kind, shard primitives.ShardID) {
	w.cur = section{Kind: k, Shard: shard, offset: len(w.data)}
}

func (w *recordWriter) add(item []byte) {
	w.raw = appendVarBytes(w.raw, item)
	if w.n++; len(w.raw) >= frameSize {
		w.flush()
	}
}

func (w *recordWriter) flush() {
	if w.n == 0 {
		return
	}
	start := len(w.data)
	var method byte
	if w.noCompression || w.cur.Kind.dense(len(w.raw)) {
		w.data = append(w.data, w.raw...)
	} else {
		w.data, method = compress(w.data, w.raw)
	}
	stored := w.data[start:]
	f := frame{Items: w.n, Stored: len(stored), Raw: len(w.raw), Method: method, CRC: checksum(stored)}
	if f.RawCRC = f.CRC; method != plain {
		f.RawCRC = checksum(w.raw)
	}
	w.cur.Frames = append(w.cur.Frames, f)
	w.raw, w.n = w.raw[:0], 0
}

// end closes the section. An empty section is omitted.
func (w *recordWriter) end() {
	w.flush()
	if len(w.cur.Frames) > 0 {
		w.head.Sections = append(w.head.Sections, w.cur)
	}
}

// one writes a section of a single item. A nil item is omitted.
func (w *recordWriter) one(k kind, shard primitives.ShardID, item []byte) {
	if item != nil {
		w.begin(k, shard)
		w.add(item)
		w.end()
	}
}

// bytes returns the payload of the record and the length of the record's head.
func (w *recordWriter) bytes() (payload []byte, headLen int) { return w.appendTo(nil) }

// appendTo appends the record to payload. headLen is the length of the record's head.
func (w *recordWriter) appendTo(payload []byte) (_ []byte, headLen int) {
	h := w.head.AppendBorsh(make([]byte, 0, 1<<10))
	payload = slices.Grow(payload, recordPrefix+len(h)+len(w.data))
	payload = borsh.AppendUint32(append(payload, recordBlock), uint32(len(h)))
	payload = append(append(payload, h...), w.data...)
	return payload, len(h)
}

const recordPrefix = 1 + 4

// recordBuffers is reusable memory for encoding records.
type recordBuffers struct{ data, raw, payload []byte }

var recordBufs = sync.Pool{New: func() any { return new(recordBuffers) }}

// maxBuffered is the greatest total capacity of recordBuffers that are reused, in bytes.
const maxBuffered = 4 << 20

// done returns the buffers to the pool. The caller must not use w or payload afterwards.
func (b *recordBuffers) done(w *recordWriter, payload []byte) {
	if b.data, b.raw, b.payload = w.data, w.raw, payload; cap(b.data)+cap(b.raw)+cap(b.payload) <= maxBuffered {
		recordBufs.Put(b)
	}
}

// parseRecord returns the head of a payload, the head's encoding, and the frames.
func parseRecord(payload []byte) (h head, raw, data []byte, err error) {
	r := borsh.NewReader(payload)
	if tag := r.Byte(); r.Err() == nil && tag != recordBlock && tag != recordBlock+recordAfterUnsynced &&
		tag != recordCatchup && tag != recordCatchup+recordAfterUnsynced {
		return h, nil, nil, damaged("the record has the unknown type %d", tag)
	}
	raw = r.Take(int(r.Uint32()))
	data = r.Rest()
	if r.Err() == nil {
		err = borsh.Unmarshal(raw, &h)
	} else {
		err = r.Err()
	}
	if err != nil {
		return h, nil, nil, damaged("record head: %w", err)
	}
	return h, raw, data, nil
}

// unpackFrame checks and unpacks a frame, and returns its items.
func unpackFrame(f frame, stored []byte) ([][]byte, error) {
	if len(stored) != f.Stored || checksum(stored) != f.CRC {
		return nil, damaged("a frame does not match its checksum")
	}
	raw, err := decompress(stored, f.Method, f.Raw)
	if err != nil {
		return nil, err
	}
	if f.Method != plain && checksum(raw) != f.RawCRC {
		return nil, damaged("a frame of %d bytes decompresses to other contents than were compressed", f.Stored)
	}
	r := borsh.NewReader(raw)
	items := make([][]byte, 0, min(f.Items, len(raw)))
	for range f.Items {
		items = append(items, readVarBytes(r))
		if r.Err() != nil {
			break
		}
	}
	if err := r.Close(); err != nil {
		return nil, damaged("frame items: %w", err)
	}
	return items, nil
}

func (k kind) String() string {
	names := [...]string{"", "header", "body", "info", "merkle tree", "puts", "chunk", "transactions", "receipts", "extra",
		"outcome ids", "outcomes", "outgoing", "local", "incoming", "changes", "other", "", "patch", "delayed", "origins"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", byte(k))
}
