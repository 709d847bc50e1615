package storage

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// A snapshot stream is a store as one stream of bytes: the marker, the rows of the index, the log,
// and a hash of all these bytes. A stream can be made while the node runs. The rows are read from a
// snapshot of the index, and the log only grows. The stream holds the segments open, so that the
// segments stay readable even if garbage collection removes their files.

// streamMagic begins a stream. streamMagic is part of the format.
const streamMagic = "troupe clone 1\n"

// SnapshotStream is a store as of one moment.
type SnapshotStream struct {
	s     *Store
	index snapshot
	files []streamFile
	// End is the end of the log in the stream.
	End LogPlace
}

type streamFile struct {
	f      file
	number uint32
	size   int64
}

// maxStreamFiles bounds the segments that are held open: 128 GiB of log.
const maxStreamFiles = 4096

// SnapshotStream takes a snapshot of the store, which WriteTo writes. The caller must close the
// SnapshotStream. Commits and advances of the flat head wait while the files of the snapshot are
// opened. The method returns ErrOrder for an overlay or an empty store.
func (s *Store) SnapshotStream() (c *SnapshotStream, err error) {
	if s.parent != nil {
		return nil, fmt.Errorf("%w: an overlay store has no folder", ErrOrder)
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
	if err := s.flushLog(); err != nil {
		return nil, err
	}
	c = &SnapshotStream{s: s, End: placeOf(s.log.end)}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	names, err := s.disk.listFiles()
	if err != nil {
		return nil, wrapIndex("list log", err)
	}
	if len(names) > maxStreamFiles {
		return nil, fmt.Errorf("the log has %d segments, more than the %d that a snapshot stream can have", len(names), maxStreamFiles)
	}
	for _, name := range names {
		x := streamFile{}
		if _, err := fmt.Sscanf(name, "%010d"+segmentSufix, &x.number); err != nil || segmentName(x.number) != name {
			return nil, damaged("log/%s: the file is not a log segment", name)
		}
		if x.f, err = s.disk.openFile(name); err != nil {
			return nil, wrapIndex("open log", err)
		}
		c.files = append(c.files, x)
		if x.size, err = x.f.Size(); err != nil {
			return nil, wrapIndex("size", err)
		}
		if x.number == s.log.end.Segment {
			// The rest of the file is reserved space.
			x.size = s.log.end.Offset
		}
		c.files[len(c.files)-1] = x
	}
	c.index, err = s.db.snapshot()
	return c, err
}

// Close releases the snapshot and the open segments.
func (c *SnapshotStream) Close() {
	if c.index != nil {
		c.index.release()
	}
	for _, x := range c.files {
		_ = x.f.Close() // an error is ignored: the file was only read
	}
}

// WriteTo writes the stream.
func (c *SnapshotStream) WriteTo(to io.Writer) (int64, error) {
	w := &hashWriter{w: bufio.NewWriterSize(to, 256<<10), h: sha256.New()}
	w.bytes([]byte(streamMagic))
	w.part(c.s.o.Identity.mark())
	cur := c.index.iterate(nil, nil)
	for w.err == nil && cur.next() {
		w.part(cur.key())
		w.part(cur.value())
	}
	if err := cur.done(); err != nil {
		return w.n, err
	}
	w.part(nil) // an empty key marks the end of the rows
	buf := make([]byte, 256<<10)
	for _, x := range c.files {
		if w.err != nil {
			break
		}
		w.bytes(borsh.AppendUint64(borsh.AppendUint32(nil, x.number), uint64(x.size)))
		for off := int64(0); off < x.size && w.err == nil; {
			n, err := x.f.ReadAt(buf[:min(int64(len(buf)), x.size-off)], off)
			if n == 0 {
				return w.n, wrapIndex("log read", err)
			}
			w.bytes(buf[:n])
			off += int64(n)
		}
	}
	w.bytes(borsh.AppendUint32(nil, math.MaxUint32))
	if w.err == nil {
		_, w.err = w.w.Write(w.h.Sum(nil))
	}
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.n, w.err
}

// hashWriter writes and hashes until an error occurs, and then does nothing.
type hashWriter struct {
	w   *bufio.Writer
	h   hash.Hash
	n   int64
	err error
}

func (w *hashWriter) bytes(b []byte) {
	if w.err == nil {
		_, _ = w.h.Write(b) // never fails
		_, w.err = w.w.Write(b)
		w.n += int64(len(b))
	}
}

func (w *hashWriter) part(b []byte) {
	w.bytes(binary.AppendUvarint(nil, uint64(len(b))))
	w.bytes(b)
}

// maxStreamPart bounds a key or value of a stream.
const maxStreamPart = 1 << 30

// Receive creates a store in dir from a stream. The stream must be of the chain that id names. dir
// must not contain a store yet. After an error the caller must remove dir. Errors: ErrForeign,
// ErrFormat, ErrDamaged, and errors of writing.
func Receive(dir string, id Identity, from io.Reader) error {
	if Exists(dir) {
		return fmt.Errorf("%w: %s already contains a store", ErrForeign, dir)
	}
	d := osDisk{dir}
	r := &hashReader{r: bufio.NewReaderSize(from, 256<<10), h: sha256.New()}
	if string(r.take(len(streamMagic))) != streamMagic {
		return errors.Join(damaged("the data is not a snapshot stream"), r.err)
	}
	got, format, err := parseMark(r.part())
	switch {
	case r.err != nil:
		return r.err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrForeign, err)
	case format != formatVersion:
		return fmt.Errorf("%w: the snapshot stream has format %d, this program uses format %d", ErrFormat, format,
			formatVersion)
	case got != id:
		return fmt.Errorf("%w: the snapshot stream is of chain %q, genesis %v, protocol numbering (troupe.numbering) %q; "+
			"this node is for %q, %v, %q",
			ErrForeign, got.ChainID, got.Genesis, got.Numbering, id.ChainID, id.Genesis, id.Numbering)
	}
	if err := receiveIndex(d, r); err != nil {
		return err
	}
	if err := receiveLog(d, r); err != nil {
		return err
	}
	sum := r.h.Sum(nil)
	var want [sha256.Size]byte
	if _, err := io.ReadFull(r.r, want[:]); err != nil {
		return fmt.Errorf("the snapshot stream ends too early: %w", err)
	}
	if [sha256.Size]byte(sum) != want {
		return damaged("the snapshot stream does not match its hash")
	}
	return wrapWrite("write "+markName, d.writeMark(id.mark()))
}

func receiveIndex(d osDisk, r *hashReader) (err error) {
	stor, err := d.openIndex()
	if err != nil {
		return wrapWrite("open index", err)
	}
	o := Options{WriteBuffer: maxWriteBuffer}
	o.withDefaults()
	db, err := openLevel(stor, &o, newDiskSpace(nil, 0))
	if err != nil {
		_ = stor.Close()
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	var batch Batch
	for {
		key := r.part()
		if r.err != nil {
			return r.err
		}
		if len(key) == 0 {
			return db.write(&batch, true)
		}
		value := r.part()
		if batch.put(key, value); batch.Size() > 4<<20 {
			if err := db.write(&batch, false); err != nil {
				return err
			}
			batch.Reset()
		}
	}
}

func receiveLog(d osDisk, r *hashReader) error {
	for {
		head := borsh.NewReader(r.take(4))
		number := head.Uint32()
		if r.err != nil || number == math.MaxUint32 {
			return r.err
		}
		head = borsh.NewReader(r.take(8))
		size := head.Uint64()
		if r.err != nil {
			return r.err
		}
		f, err := d.createFile(segmentName(number))
		if errors.Is(err, fs.ErrExist) {
			err = damaged("the snapshot stream has log segment %d twice", number)
		}
		if err != nil {
			return wrapWrite("log segment", err)
		}
		buf := make([]byte, 256<<10)
		for off := uint64(0); off < size && err == nil; {
			n := min(uint64(len(buf)), size-off)
			r.into(buf[:n])
			if err = r.err; err == nil {
				_, err = f.WriteAt(buf[:n], int64(off))
			}
			off += n
		}
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return wrapWrite("log write", err)
		}
	}
}

// hashReader reads and hashes until an error occurs, and then does nothing.
type hashReader struct {
	r   *bufio.Reader
	h   hash.Hash
	err error
}

func (r *hashReader) into(b []byte) {
	if r.err != nil {
		return
	}
	if _, err := io.ReadFull(r.r, b); err != nil {
		r.err = fmt.Errorf("the snapshot stream ends too early: %w", err)
		return
	}
	_, _ = r.h.Write(b) // never fails
}

func (r *hashReader) take(n int) []byte {
	b := make([]byte, n)
	r.into(b)
	return b
}

// part reads bytes with a preceding length. Memory grows only as bytes arrive.
func (r *hashReader) part() []byte {
	var b [1]byte
	var raw []byte
	for r.err == nil {
		if r.into(b[:]); r.err == nil {
			raw = append(raw, b[0])
			if b[0] < 0x80 || len(raw) > binary.MaxVarintLen64 {
				break
			}
		}
	}
	n, _ := binary.Uvarint(raw)
	if r.err == nil && n > maxStreamPart {
		r.err = damaged("the snapshot stream has a part of %d bytes", n)
	}
	if r.err != nil {
		return nil
	}
	out := make([]byte, 0, min(n, 64<<10))
	for uint64(len(out)) < n && r.err == nil {
		k := min(n-uint64(len(out)), 1<<20)
		out = append(out, r.take(int(k))...)
	}
	return out
}

// RemoveUnfinishedSnapshot removes what an interrupted Receive left.
func RemoveUnfinishedSnapshot(dir string) error {
	for _, name := range []string{markName, markName + ".tmp", indexName, logName} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
