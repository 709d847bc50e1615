package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/syndtr/goleveldb/leveldb"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// ErrNone means that the store has no block at a height: the height is outside of Bounds, or the
// chain has no block there.
var ErrNone = errors.New("history: no block at this height")

// Defaults of Options, and bounds.
const (
	DefaultSegment = 256 << 20
	DefaultCache   = 64 << 20
	DefaultGroup   = 64

	groupBytes  = 16 << 20 // records that are gathered for one sync
	maxDecoders = 4        // documents that are decoded at the same time
	maxTables   = 64       // open tables of the index
	sentBlocks  = 1024     // highest blocks of which all receipts have rows; see addRows
	format      = 1
)

const (
	indexName   = "index"
	logName     = "log"
	segmentName = "%010d.seg"
)

// The kinds of rows, which are the first byte of a key.
const (
	rowMeta        = 'm' // meta, as JSON
	rowHeight      = 'h' // height -> place of the record
	rowBlock       = 'b' // block hash -> height
	rowChunk       = 'c' // chunk hash -> Place
	rowTransaction = 't' // transaction hash -> Place
	rowReceipt     = 'r' // receipt ID -> Place
	rowSent        = 's' // ID of a receipt without an outcome -> Place of the chunk that contains it
)

// Options configure a store. The zero value of each field but Genesis means its default.
type Options struct {
	// Genesis is the hash of the chain's genesis block. A store belongs to one chain.
	Genesis primitives.Hash
	// ReadOnly opens an existing store, which is not changed. Append then fails.
	ReadOnly bool
	// SegmentSize is the size in bytes at which a new segment begins. 0: DefaultSegment.
	SegmentSize int64
	// CacheBytes bounds the memory of decoded documents. 0: DefaultCache. Negative: no cache.
	CacheBytes int64
	// GroupBlocks is the number of blocks that are committed together. 0: DefaultGroup.
	GroupBlocks int

	anyChain bool // Genesis is not compared
}

// Block is a block by height and hash.
type Block struct {
	Height primitives.Height `json:"height"`
	Hash   primitives.Hash   `json:"hash"`
}

// Place is a shard of a block.
type Place struct {
	Height primitives.Height
	Shard  primitives.ShardID
}

// meta is the state of the store at a commit.
type meta struct {
	Format  int             `json:"format"`
	Genesis primitives.Hash `json:"genesis_hash"`
	// Segment and Offset are the end of the log.
	Segment uint32 `json:"segment"`
	Offset  int64  `json:"offset"`
	Bytes   int64  `json:"bytes"` // of all records
	Blocks  uint64 `json:"blocks"`
	Top     Block  `json:"top"`
	Low     Block  `json:"low"`
	// Below is the hash of the next block.
	Below    primitives.Hash `json:"below"`
	Progress []byte          `json:"progress,omitempty"`
}

// record is the place of a record in the log.
type record struct {
	segment uint32
	length  uint32
	offset  int64
}

// Store is a folder with old blocks. Safe for concurrent use; one process can open a folder.
type Store struct {
	dir   string
	o     Options
	slots chan struct{} // semaphore of decoders
	docs  cache
	coder coder

	mu     sync.RWMutex // guards the fields below
	db     *leveldb.DB
	files  lstorage.Storage
	at     meta // what is committed
	closed bool

	writer sync.Mutex // guards the fields below; taken before mu
	cur    *os.File   // segment that is written; nil: none
	next   meta       // at, with the gathered blocks
	batch  leveldb.Batch
	size   int64 // of the gathered records
	count  int   // of the gathered blocks
	// fresh is set after a failed write: the content of the segment after the committed end is
	// unknown, so the next record goes to another segment.
	fresh  bool
	reopen bool // a write to the index failed, and its result is unknown
	buf    []byte
}

// Open opens the store in the folder dir. Unless Options.ReadOnly is set, it creates the folder, and
// removes what a killed process has written without committing it. Errors: storage.ErrLocked,
// ErrForeign, ErrFormat, ErrDamaged, ErrFull; fs.ErrNotExist if a read-only store does not exist.
func Open(dir string, o Options) (*Store, error) {
	if o.SegmentSize <= 0 {
		o.SegmentSize = DefaultSegment
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCache
	}
	if o.GroupBlocks <= 0 {
		o.GroupBlocks = DefaultGroup
	}
	s := &Store{dir: dir, o: o, slots: make(chan struct{}, maxDecoders), docs: cache{limit: o.CacheBytes}}
	if o.ReadOnly {
		if _, err := os.Stat(filepath.Join(dir, indexName)); err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
	} else if err := os.MkdirAll(filepath.Join(dir, logName), 0o755); err != nil {
		return nil, wrap("create "+dir, err)
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return s, nil
}

// Exists returns whether the folder dir has a store.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, indexName, "CURRENT"))
	return err == nil
}

// ReadStats returns the figures of the store in the folder dir, of any chain, without changing it.
// Errors: those of Open of a read-only store, but ErrForeign.
func ReadStats(dir string) (Stats, error) {
	s, err := Open(dir, Options{ReadOnly: true, CacheBytes: -1, anyChain: true})
	if err != nil {
		return Stats{}, err
	}
	return s.Stats(), s.Close()
}

// open opens the index, reads meta and removes what is not committed. The caller holds mu and
// writer, or has the only reference.
func (s *Store) open() (err error) {
	files, err := lstorage.OpenFile(filepath.Join(s.dir, indexName), s.o.ReadOnly)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || errors.Is(err, lstorage.ErrLocked) {
		return fmt.Errorf("%w, or not accessible: %w", storage.ErrLocked, err)
	}
	if err != nil {
		return s.indexError("open", err)
	}
	defer func() {
		if err != nil {
			_ = files.Close()
		}
	}()
	db, err := leveldb.Open(files, &opt.Options{
		ReadOnly: s.o.ReadOnly, Filter: filter.NewBloomFilter(10), WriteBuffer: 16 << 20, BlockCacheCapacity: 8 << 20,
		OpenFilesCacheCapacity: maxTables, CompactionTableSize: 32 << 20, DisableSeeksCompaction: true,
		// With it, a batch that is larger than the write buffer stays one record of the journal.
		DisableLargeBatchTransaction: true,
	})
	if err != nil {
		return s.indexError("open", err)
	}
	defer func() {
		if err != nil {
			_ = db.Close()
		}
	}()
	at, err := s.readMeta(db)
	if err != nil {
		return err
	}
	if err := s.trim(at); err != nil {
		return err
	}
	s.db, s.files, s.at, s.next = db, files, *at, *at
	s.batch.Reset()
	s.size, s.count, s.reopen, s.fresh = 0, 0, false, false
	return nil
}

// readMeta reads meta, or writes that of a new store.
func (s *Store) readMeta(db *leveldb.DB) (*meta, error) {
	at := new(meta)
	text, err := db.Get([]byte{rowMeta}, nil)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, at); err != nil {
			return nil, s.damagedIndex("its state: %w", err)
		}
		if at.Format != format {
			return nil, fmt.Errorf("%w: %d, need %d: remove the folder, and the import begins again", storage.ErrFormat, at.Format, format)
		}
		if at.Genesis != s.o.Genesis && !s.o.anyChain {
			return nil, fmt.Errorf("%w: it is of the chain with the genesis block %v, and this one is %v", storage.ErrForeign, at.Genesis, s.o.Genesis)
		}
		if at.Offset < 0 || at.Blocks > 0 && at.Low.Height > at.Top.Height {
			return nil, s.damagedIndex("it states the range %d to %d", at.Low.Height, at.Top.Height)
		}
		return at, nil
	case !errors.Is(err, leveldb.ErrNotFound):
		return nil, s.indexError("read", err)
	}
	names, err := s.segments()
	if err != nil {
		return nil, err
	}
	if len(names) > 0 || s.o.ReadOnly {
		return nil, s.damagedIndex("it is empty, but log/ has %d segments", len(names))
	}
	at = &meta{Format: format, Genesis: s.o.Genesis}
	if text, err = json.Marshal(at); err != nil {
		return nil, err
	}
	return at, wrap("index write", db.Put([]byte{rowMeta}, text, &opt.WriteOptions{Sync: true}))
}

// segments returns the numbers of the segments.
func (s *Store) segments() (list map[uint32]int64, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, logName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, wrap("list log", err)
	}
	list = map[uint32]int64{}
	for _, e := range entries {
		var n uint32
		if _, err := fmt.Sscanf(e.Name(), segmentName, &n); err != nil || fmt.Sprintf(segmentName, n) != e.Name() {
			return nil, damaged("log/%s is not a segment: move the file away", e.Name())
		}
		info, err := e.Info()
		if err != nil {
			return nil, wrap("list log", err)
		}
		list[n] = info.Size()
	}
	return list, nil
}

// trim compares the segments with what is committed, and removes what is not.
func (s *Store) trim(at *meta) error {
	list, err := s.segments()
	if err != nil {
		return err
	}
	for n := uint32(0); at.Blocks > 0 && n <= at.Segment; n++ {
		if size, has := list[n]; !has || n == at.Segment && size < at.Offset {
			return damaged("log/"+segmentName+" is missing or shorter than the index states: remove the folder, and the import begins again", n)
		}
	}
	if s.o.ReadOnly {
		return nil
	}
	for n, size := range list {
		switch {
		case n > at.Segment || at.Blocks == 0:
			err = os.Remove(s.path(n))
		case n == at.Segment && size > at.Offset:
			err = os.Truncate(s.path(n), at.Offset)
		}
		if err != nil {
			return wrap("trim log", err)
		}
	}
	return nil
}

func (s *Store) path(segment uint32) string {
	return filepath.Join(s.dir, logName, fmt.Sprintf(segmentName, segment))
}

// Close commits the gathered blocks and closes the store. A second call returns storage.ErrClosed.
func (s *Store) Close() error {
	s.writer.Lock()
	defer s.writer.Unlock()
	err := s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("history: %w", storage.ErrClosed)
	}
	s.closed = true
	if s.cur != nil {
		err = errors.Join(err, s.cur.Close())
		s.cur = nil
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close(), s.files.Close())
	}
	return err
}

// Append adds a block below the lowest one, or the first block. d must have been verified. progress
// is stored together with the block. Append gathers blocks: they are readable and durable after
// Flush, Close, or after Options.GroupBlocks blocks. After an error the gathered blocks are
// forgotten, unless the write of the index failed after it had reached the disk. So the caller must call
// Flush. When that succeeds, the store is as Progress says, and the caller may append again from there.
//
// unproven are the shards whose outcomes nothing proves. Their ids may be those of transactions and
// receipts of other blocks. So such an id never replaces a place that is known, and is replaced by a
// later block that proves it. Errors: storage.ErrOrder: the block is not the next one; ErrFull; ErrClosed;
// blockdoc.ErrForm: no reader could decode the block. The last one changes nothing.
func (s *Store) Append(d *blockdoc.Document, progress []byte, unproven ...primitives.ShardID) error {
	s.writer.Lock()
	defer s.writer.Unlock()
	if err := s.ready(); err != nil {
		return err
	}
	if len(unproven) > 0 { // addRows looks ids up, and must see the gathered rows
		if err := s.flush(); err != nil {
			return err
		}
	}
	h := d.Block.Header
	if s.next.Blocks > 0 && (d.Hash != s.next.Below || h.Height >= s.next.Low.Height) {
		return fmt.Errorf("history: %w: block %d, %v does not follow below block %d", storage.ErrOrder, h.Height, d.Hash, s.next.Low.Height)
	}
	text, err := d.Stored()
	if err != nil {
		return fmt.Errorf("history: block %d is not stored: %w", h.Height, err)
	}
	rec := s.coder.appendRecord(s.buf[:0], h.Height, d.Hash, text)
	if s.buf = rec; cap(rec) > groupBytes {
		s.buf = nil
	}
	if len(rec) > maxRecord {
		return fmt.Errorf("history: the record of block %d has %d bytes, more than the format allows", h.Height, len(rec))
	}
	if err := s.write(rec); err != nil {
		return errors.Join(err, s.abandon())
	}
	at := record{s.next.Segment, uint32(len(rec)), s.next.Offset}
	s.next.Offset += int64(len(rec))
	s.next.Bytes += int64(len(rec))
	if err := s.addRows(d, at, unproven); err != nil {
		return errors.Join(err, s.abandon())
	}
	b := Block{h.Height, d.Hash}
	if s.next.Blocks++; s.next.Blocks == 1 {
		s.next.Top = b
	}
	s.next.Low, s.next.Below, s.next.Progress = b, h.PrevHash, append([]byte(nil), progress...)
	s.size += int64(len(rec))
	if s.count++; s.count >= s.o.GroupBlocks || s.size >= groupBytes {
		return s.flush()
	}
	return nil
}

// write writes a record at the end of the log. It begins a new segment if the record does not fit.
func (s *Store) write(rec []byte) error {
	if s.cur == nil && s.next.Blocks > 0 && !s.fresh {
		f, err := os.OpenFile(s.path(s.next.Segment), os.O_RDWR, 0)
		if err != nil {
			return wrap("log segment", err)
		}
		s.cur = f
	}
	if s.cur == nil || s.next.Offset > 0 && s.next.Offset+int64(len(rec)) > s.o.SegmentSize {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	_, err := s.cur.WriteAt(rec, s.next.Offset)
	return wrap("log write", err)
}

// rotate syncs the current segment and begins the next one.
func (s *Store) rotate() error {
	n := s.next.Segment
	if s.cur != nil {
		err := s.cur.Sync()
		if err = errors.Join(err, s.cur.Close()); err != nil {
			s.cur = nil
			return wrap("log sync", err)
		}
	}
	s.cur = nil
	if s.next.Blocks > 0 { // otherwise no segment has a block
		n++
	}
	f, err := os.OpenFile(s.path(n), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return wrap("log segment", err)
	}
	if err := storage.SyncDir(filepath.Join(s.dir, logName)); err != nil {
		_ = f.Close()
		return wrap("log segment", err)
	}
	s.cur, s.next.Segment, s.next.Offset, s.fresh = f, n, 0, false
	return nil
}

// addRows adds the rows of a block. Receipts have a row of the block that executed them. Those that no
// block of the store executes have one of the chunk that contains them: data receipts, which have no
// outcome, and all receipts of the highest sentBlocks blocks, since blocks above the store may execute
// them.
func (s *Store) addRows(d *blockdoc.Document, at record, unproven []primitives.ShardID) error {
	h := d.Block.Header.Height
	key, value := make([]byte, 0, 33), make([]byte, 0, 20)
	put := func(kind byte, id []byte, v []byte) {
		key = append(append(key[:0], kind), id...)
		s.batch.Put(key, v)
	}
	value = binary.BigEndian.AppendUint32(value, at.segment)
	value = binary.BigEndian.AppendUint64(value, uint64(at.offset))
	value = binary.BigEndian.AppendUint32(value, at.length)
	put(rowHeight, binary.BigEndian.AppendUint64(nil, uint64(h)), value)
	value = binary.AppendUvarint(value[:0], uint64(h))
	put(rowBlock, d.Hash[:], value)
	for _, proven := range []bool{false, true} { // the latter replace the former
		for i := range d.Shards {
			x := &d.Shards[i]
			if slices.Contains(unproven, x.ID) == proven {
				continue
			}
			value = binary.AppendUvarint(binary.AppendUvarint(value[:0], uint64(h)), uint64(x.ID))
			if hash, is := d.NewChunk(x.ID); is {
				put(rowChunk, hash[:], value)
			}
			for _, r := range x.Receipts {
				if _, executes := r.Body.(*primitives.ActionReceipt); !executes || s.next.Blocks < sentBlocks {
					put(rowSent, r.ID[:], value)
				}
			}
			for j := range x.Outcomes {
				id, kind := x.Outcomes[j].ID[:], byte(rowReceipt)
				if j < len(x.Transactions) {
					kind = rowTransaction
				}
				if !proven {
					known, err := s.known(id)
					if err != nil {
						return err
					}
					if known {
						continue
					}
				}
				put(kind, id, value)
			}
		}
	}
	return nil
}

// known returns whether the committed index has a transaction or receipt with an id.
func (s *Store) known(id []byte) (bool, error) {
	_, found, err := s.get(rowTransaction, id)
	if err == nil && !found {
		_, found, err = s.get(rowReceipt, id)
	}
	return found, err
}

// Flush commits the gathered blocks. After an error they are forgotten, as Append describes.
func (s *Store) Flush() error {
	s.writer.Lock()
	defer s.writer.Unlock()
	if err := s.ready(); err != nil {
		return err
	}
	return s.flush()
}

func (s *Store) flush() error {
	if s.count == 0 {
		return nil
	}
	if err := s.cur.Sync(); err != nil {
		return errors.Join(wrap("log sync", err), s.abandon())
	}
	text, err := json.Marshal(&s.next)
	if err != nil {
		return errors.Join(err, s.abandon())
	}
	s.batch.Put([]byte{rowMeta}, text)
	if err := s.db.Write(&s.batch, &opt.WriteOptions{Sync: true}); err != nil {
		s.reopen = true // the batch may be on disk or not
		s.drop()
		return wrap("index write", err)
	}
	s.mu.Lock()
	s.at = s.next
	s.mu.Unlock()
	s.batch.Reset()
	s.size, s.count = 0, 0
	return nil
}

// drop forgets the gathered blocks.
func (s *Store) drop() {
	if s.cur != nil {
		_ = s.cur.Close()
	}
	s.cur, s.next, s.size, s.count, s.fresh = nil, s.at, 0, 0, true
	s.batch.Reset()
}

// abandon forgets the gathered blocks and frees their room in the log.
func (s *Store) abandon() error {
	s.drop()
	return s.trim(&s.at)
}

// ready prepares a write: it returns an error if the store cannot be written, and opens the index
// anew after a failed write.
func (s *Store) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return fmt.Errorf("history: %w", storage.ErrClosed)
	case s.o.ReadOnly:
		return errors.New("history: the store is open for reading only")
	case !s.reopen:
		return nil
	}
	if s.db != nil { // errors of the old index have no effect, because all is read anew
		_ = s.db.Close()
		_ = s.files.Close()
		s.db = nil
	}
	return s.open()
}

// Progress returns what the last committed Append was given. nil: the store has no blocks.
func (s *Store) Progress() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]byte(nil), s.at.Progress...)
}

// Stats are figures of a store, of what is committed.
type Stats struct {
	Blocks uint64
	Top    Block // highest block; zero without blocks
	Low    Block // lowest block; zero without blocks
	Bytes  int64 // size of all records, without the index
	Index  int64 // approximate size of the index
}

// Stats returns the store's figures.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := Stats{Blocks: s.at.Blocks, Top: s.at.Top, Low: s.at.Low, Bytes: s.at.Bytes}
	var l leveldb.DBStats
	if s.db != nil && !s.closed && s.db.Stats(&l) == nil {
		for _, n := range l.LevelSizes {
			out.Index += n
		}
	}
	return out
}

// Bounds returns the lowest and the highest height of the store's blocks. They are contiguous on the
// chain. ok is false if the store has no blocks.
func (s *Store) Bounds() (lowest, highest primitives.Height, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.at.Low.Height, s.at.Top.Height, s.at.Blocks > 0
}

// Document returns the block at a height, with all its new chunks and without state changes. Other
// callers may have the same document: it must only be read, and its methods that complete or check it
// must not be called. Errors: ErrNone, storage.ErrDamaged, ErrClosed.
func (s *Store) Document(height primitives.Height) (*blockdoc.Document, error) {
	if d := s.docs.get(height); d != nil {
		return d, nil
	}
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	if d := s.docs.get(height); d != nil { // another reader was faster
		return d, nil
	}
	text, err := s.read(height)
	if err != nil {
		return nil, err
	}
	d, err := blockdoc.Parse(text)
	if err == nil {
		err = d.GatherChunks()
	}
	if err == nil && d.Block.Header.Height != height {
		err = fmt.Errorf("it is of height %d", d.Block.Header.Height)
	}
	if err != nil {
		return nil, s.broken(height, damaged("its document: %w", err))
	}
	s.docs.add(height, d, decodedSize*int64(len(text)))
	return d, nil
}

// JSON returns the block at a height as a StreamerMessage without state changes. Errors: those of
// Document.
func (s *Store) JSON(height primitives.Height) ([]byte, error) {
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	return s.read(height)
}

// read returns the JSON of the block at a height.
func (s *Store) read(height primitives.Height) ([]byte, error) {
	v, found, err := s.get(rowHeight, binary.BigEndian.AppendUint64(nil, uint64(height)))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNone
	}
	if len(v) != 16 {
		return nil, s.broken(height, damaged("its row in the index has %d bytes", len(v)))
	}
	at := record{binary.BigEndian.Uint32(v), binary.BigEndian.Uint32(v[12:]), int64(binary.BigEndian.Uint64(v[4:]))}
	if at.offset < 0 || at.length > maxRecord {
		return nil, s.broken(height, damaged("its row in the index states %d bytes", at.length))
	}
	f, err := os.Open(s.path(at.segment))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.broken(height, damaged("log/"+segmentName+" is missing", at.segment))
	}
	if err != nil {
		return nil, wrap("log read", err)
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, at.length)
	if _, err := f.ReadAt(b, at.offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = damaged("log/"+segmentName+" ends before byte %d", at.segment, at.offset+int64(at.length))
		}
		return nil, s.broken(height, wrap("log read", err))
	}
	got, _, text, err := s.coder.decodeRecord(b)
	if err == nil && got != height {
		err = damaged("the record is of height %d", got)
	}
	if err != nil {
		return nil, s.broken(height, err)
	}
	return text, nil
}

// broken adds the block and the remedy to an error.
func (s *Store) broken(height primitives.Height, err error) error {
	return fmt.Errorf("block %d: %w: stop the node and remove the folder %s; the import then begins again", height, err, s.dir)
}

// get returns a row of the index.
func (s *Store) get(kind byte, id []byte) (value []byte, found bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed || s.db == nil {
		return nil, false, fmt.Errorf("history: %w", storage.ErrClosed)
	}
	value, err = s.db.Get(append([]byte{kind}, id...), nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return nil, false, nil
	}
	return value, err == nil, wrap("index read", err)
}

// place returns the Place of a row.
func (s *Store) place(kind byte, id primitives.Hash) (p Place, found bool, err error) {
	v, found, err := s.get(kind, id[:])
	if err != nil || !found {
		return p, false, err
	}
	height, n := binary.Uvarint(v)
	shard, m := uint64(0), 0
	if n > 0 {
		shard, m = binary.Uvarint(v[n:])
	}
	if m <= 0 || n+m != len(v) {
		return p, false, damaged("the row of %v has %d bytes: remove the folder %s", id, len(v), s.dir)
	}
	return Place{primitives.Height(height), primitives.ShardID(shard)}, true, nil
}

// BlockHeight returns the height of a block by its hash. The bool is false for an unknown block.
func (s *Store) BlockHeight(hash primitives.Hash) (primitives.Height, bool, error) {
	v, found, err := s.get(rowBlock, hash[:])
	if err != nil || !found {
		return 0, false, err
	}
	height, n := binary.Uvarint(v)
	if n <= 0 || n != len(v) {
		return 0, false, damaged("the row of block %v has %d bytes: remove the folder %s", hash, len(v), s.dir)
	}
	return primitives.Height(height), true, nil
}

// Chunk returns the block that included a chunk, by the chunk's hash. The bool is false for an unknown
// chunk.
func (s *Store) Chunk(hash primitives.Hash) (Place, bool, error) { return s.place(rowChunk, hash) }

// Transaction returns where a transaction was executed: its outcome is in that shard of that block.
// The bool is false for an unknown transaction.
func (s *Store) Transaction(hash primitives.Hash) (Place, bool, error) {
	return s.place(rowTransaction, hash)
}

// Receipt returns where a receipt was executed: its outcome is in that shard of that block. The bool
// is false for an unknown receipt.
func (s *Store) Receipt(id primitives.Hash) (Place, bool, error) { return s.place(rowReceipt, id) }

// Sent returns the chunk that contains a receipt, for the receipts that Receipt does not find: those
// without an outcome, and those that a block above the store may have executed. The bool is false for an
// unknown receipt. Stores of older releases have none.
func (s *Store) Sent(id primitives.Hash) (Place, bool, error) { return s.place(rowSent, id) }

// indexError is wrap for the opening of the index. It adds the remedy if the index is damaged.
func (s *Store) indexError(what string, err error) error {
	if lerrors.IsCorrupted(err) {
		return s.damagedIndex("%s: %w", what, err)
	}
	return wrap(what+" index", err)
}

// wrap adds the failed operation and translates errors of the system and of goleveldb. A nil error
// stays nil.
func wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("history: %s: %w: %w", what, storage.ErrFull, err)
	case errors.Is(err, leveldb.ErrClosed):
		return fmt.Errorf("history: %s: %w", what, storage.ErrClosed)
	case lerrors.IsCorrupted(err):
		return fmt.Errorf("history: %s: %w: %w", what, storage.ErrDamaged, err)
	}
	return fmt.Errorf("history: %s: %w", what, err)
}
