package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/troupe-chain/troupe/primitives"
)

// Options configure a store. The zero value of every field selects its default. Negative values are
// not valid. withDefaults sets the defaults.
type Options struct {
	// Identity is the chain of the folder. A new folder gets this identity. Open refuses an
	// existing folder of another chain with ErrForeign. The zero value is the identity of no real
	// chain.
	Identity Identity

	// Files and memory of the index and the log.

	// WriteBuffer is the memory table of the index, in bytes. 0: a 32nd of the index's size on
	// disk, between DefaultWriteBuffer and 64 MiB. Larger buffers make compactions rarer.
	WriteBuffer int
	// BlockCache is the memory for blocks of the index, in bytes. 0: DefaultBlockCache.
	BlockCache int
	// MaxBlockCache lets the block cache of a large index exceed BlockCache: it then has 3 % of the
	// index's size on disk, and at most MaxBlockCache. The capacity follows the index as it grows. 0:
	// the cache has BlockCache bytes.
	MaxBlockCache int
	// SegmentSize is the size in bytes at which the log begins a new segment. 0: DefaultSegment.
	// Garbage collection frees whole segments.
	SegmentSize int64
	// BucketHeights is the least number of heights of a history bucket, the unit in which garbage
	// collection removes history (history_bucket.go). 0: DefaultBucketHeights.
	BucketHeights primitives.Height
	// StaleReadSize is the size of the index on disk, in bytes, from which on loads of trie
	// subtrees use stale reads (index_stale.go). 0: DefaultStaleReadSize.
	StaleReadSize int64
	// NoCompression stores records uncompressed, for short-lived stores in memory. Default:
	// compress.
	NoCompression bool

	// Blocks above the flat head.

	// FlatHeadBytes is a number of bytes of state changes. FlatHeadDue returns true once the final
	// blocks above the flat head have that many. 0: DefaultFlatHeadBytes. The store holds these
	// changes in memory, and a restart replays them.
	FlatHeadBytes int
	// FlatHeadBlocks is the threshold of FlatHeadDue as a number of final blocks. 0:
	// DefaultFlatHeadBlocks.
	FlatHeadBlocks int
	// ResidentBlocks is how many of the newest blocks above the flat head have their bodies in
	// memory. Bodies of the remaining blocks are read from the log (block_evict.go). 0:
	// DefaultResidentBlocks.
	ResidentBlocks int
	// ResidentBytes is the limit of resident bodies as a number of bytes of state changes. 0:
	// DefaultResidentBytes.
	ResidentBytes int

	// The disk.

	// NoSync leaves syncing to the operating system. Commits then survive a kill of the process,
	// but not a power cut. Default: every commit is synced.
	NoSync bool
	// SpaceProbePeriod is the time between two probes of a full disk (disk_space.go).
	// 0: DefaultSpaceProbePeriod.
	SpaceProbePeriod time.Duration
	// ReadOnlyIfFull makes Open open an existing folder for reading only, if the disk has no room
	// to open the folder's index for writing. Full.Reopen becomes true once there is room. Without
	// ReadOnlyIfFull, Open fails with ErrFull.
	ReadOnlyIfFull bool
	// Converting is called when Open converts a folder of an older format, and after each batch of rows:
	// from and to are formats, rows is the number of rows converted since Open. nil: not called.
	Converting func(from, to int, rows int64)

	formats      *formats // nil: releasedFormats
	convertBytes int      // 0: convertBatch
}

// Defaults of Options.FlatHeadBytes and Options.FlatHeadBlocks.
const (
	DefaultFlatHeadBytes  = 2 << 20
	DefaultFlatHeadBlocks = 16
)

// withDefaults sets the fields that are zero.
func (o *Options) withDefaults() {
	setDefault(&o.BlockCache, DefaultBlockCache)
	setDefault(&o.SegmentSize, DefaultSegment)
	setDefault(&o.FlatHeadBytes, DefaultFlatHeadBytes)
	setDefault(&o.FlatHeadBlocks, DefaultFlatHeadBlocks)
	setDefault(&o.ResidentBlocks, DefaultResidentBlocks)
	setDefault(&o.ResidentBytes, DefaultResidentBytes)
	setDefault(&o.BucketHeights, DefaultBucketHeights)
	setDefault(&o.StaleReadSize, DefaultStaleReadSize)
	setDefault(&o.SpaceProbePeriod, DefaultSpaceProbePeriod)
	if o.formats == nil {
		o.formats = releasedFormats()
	}
}

func setDefault[T int | int64 | primitives.Height | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Store is an open data folder. Reads are safe for concurrent use. At most one call of Commit or
// Write runs at a time; further calls of Commit and Write wait. At most one call of
// AdvanceFlatHead, CollectGarbage or an import runs at a time; further such calls wait. During an
// import nothing else may use the store: the caller guarantees that.
type Store struct {
	o      Options
	parent *Store // store under this overlay (overlay.go); nil: this store is no overlay
	disk   disk
	db     index
	log    *blockLog
	space  *DiskSpace

	commitMu   sync.Mutex // guards log, tree, segments, rows
	indexMu    sync.Mutex // serializes writers of the index; locked before commitMu
	view       atomic.Pointer[view]
	failed     atomic.Pointer[error]
	buckets    bucketList
	hasCatchup atomic.Bool // true: the log has a catchup record of a shard
	tree       *tree
	cache      cache
	bodyCache  bodyCache
	snapshots  snapshotPool
	stale      staleState
	recent     recentOutcomes

	flatHead     flatHeadCell // guarded by indexMu
	steps        uint64       // number of writes to the index; guarded by indexMu
	historyRows  Batch        // scratch: rows written before an advance; guarded by indexMu
	flatHeadRows Batch        // scratch: rows of an advance; guarded by indexMu
	// untrackSeq counts the shards that were untracked or deleted; guarded by indexMu.
	untrackSeq uint64
	// segmentHolds is the number of running backups. Until it is 0, no segment is removed; under
	// indexMu.
	segmentHolds int
	// segments are the log segments written since the last advance, with their greatest height;
	// guarded by commitMu.
	segments map[uint32]primitives.Height
	rows     []*Batch       // written by Write since the last advance; guarded by commitMu
	resident residentBodies // guarded by commitMu
	// Bodies up to the height pinnedUpTo stay in memory while an advance reads them; under
	// commitMu.
	pinnedUpTo primitives.Height

	// pendingReads counts the single changes above the flat head that were read from the log.
	pendingReads atomic.Uint64
	pendingSteps atomic.Uint64 // number of keys above the flat head that scans have visited
}

// Open opens or creates the data folder dir. Errors: ErrLocked if another process has dir open,
// ErrForeign if dir belongs to another program or another chain, ErrFormat if the folder's format
// is newer than this program's or too old to be converted, ErrDamaged if the folder is broken. In all
// these cases the folder is unchanged. Open converts a folder of an older format (meta_convert.go).
func Open(dir string, o Options) (*Store, error) { return open(osDisk{dir}, o) }

// Exists returns whether a folder has a store's format marker.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, markName))
	return err == nil
}

// OpenMemory opens a folder in memory. The errors are the errors of Open.
func OpenMemory(d *MemDisk, o Options) (*Store, error) { return open(d, o) }

func open(d disk, o Options) (*Store, error) {
	o.withDefaults()
	mark, err := checkMark(d, o.Identity, o.formats)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.path(), err)
	}
	s := &Store{o: o, disk: d, space: newDiskSpace(d, o.SpaceProbePeriod), log: newLog(d, &o), tree: newTree(),
		segments: map[uint32]primitives.Height{}}
	if err := s.open(mark); err != nil {
		return nil, fmt.Errorf("%s: %w", d.path(), err)
	}
	return s, nil
}

// markState is what the format marker of a folder says.
type markState struct {
	fresh bool // there is no marker, and the folder has nothing else
	from  int  // format from which the folder must be converted; 0: it has the current format
	begun bool // a conversion was interrupted
}

// checkMark reads the format marker.
func checkMark(d disk, id Identity, f *formats) (markState, error) {
	raw, err := d.readMark()
	if errors.Is(err, fs.ErrNotExist) {
		names, err := d.foreignNames()
		if err != nil {
			return markState{}, wrapIndex("list", err)
		}
		if len(names) > 0 {
			return markState{}, fmt.Errorf("%w: it has no %s file, but contains %q", ErrForeign, markName, names[0])
		}
		return markState{fresh: true}, nil
	}
	if err != nil {
		return markState{}, wrapIndex("read "+markName, err)
	}
	got, from, begun, err := f.read(raw)
	switch {
	case err != nil:
		return markState{}, err
	case got != id:
		return markState{}, fmt.Errorf("%w: chain %q, genesis %v, numbering %q; this node runs chain %q, genesis %v, numbering %q",
			ErrForeign, got.ChainID, got.Genesis, got.Numbering, id.ChainID, id.Genesis, id.Numbering)
	}
	return markState{from: from, begun: begun}, nil
}

func (s *Store) open(mark markState) (err error) {
	fresh := mark.fresh
	stor, err := s.disk.openIndex()
	if errors.Is(err, ErrLocked) {
		return err
	}
	if err != nil {
		return wrapWrite("open index", err)
	}
	if err := checkIndexFiles(s.disk, stor, fresh); err != nil {
		_ = stor.Close()
		return err
	}
	if s.o.WriteBuffer == 0 {
		s.o.WriteBuffer = writeBuffer(s.disk.indexSize())
	}
	db, err := openLevel(stor, &s.o, s.space)
	if errors.Is(err, ErrFull) && s.o.ReadOnlyIfFull && !fresh && mark.from == 0 {
		var rerr error
		if db, rerr = openLevelReads(stor, &s.o, s.space); rerr == nil {
			defer s.readOnly(&err, err, journalBytes(stor))
			err = nil
		} else {
			err = fmt.Errorf("%w; opening it only for reads failed too: %w", err, rerr)
		}
	}
	if err != nil {
		_ = stor.Close()
		if errors.Is(err, lstorage.ErrLocked) {
			return ErrLocked
		}
		return err
	}
	s.db = db
	defer func() {
		if err != nil {
			s.space.close()
			_ = s.log.close()
			_ = s.db.close()
		}
	}()
	if fresh {
		cur := s.db.iterate(nil, nil)
		any := cur.next()
		if err := cur.done(); err != nil {
			return err
		}
		if any {
			return fmt.Errorf("%w: it contains an index with data but no %s file", ErrForeign, markName)
		}
	}
	if mark.from > 0 {
		if err := s.convert(mark.from, mark.begun); err != nil {
			return err
		}
	}
	if err := s.recover(); err != nil {
		return err
	}
	s.stale.open(s.db, s.steps, s.o.StaleReadSize)
	if !s.view.Load().empty {
		s.space.allowWaits()
	}
	if fresh { // write the marker last, so that a folder with a marker has an index
		return wrapWrite("write "+markName, s.disk.writeMark(s.o.Identity.mark()))
	}
	return nil
}

// checkIndexFiles keeps goleveldb from silently creating a new index in a folder with a format
// marker, where an index must exist. In a folder without a marker, an index can only be what a
// crash during the first start has left, so it must have no rows.
func checkIndexFiles(d disk, stor lstorage.Storage, fresh bool) error {
	fds, err := stor.List(lstorage.TypeManifest | lstorage.TypeTable)
	if err != nil {
		return wrapIndex("list index", err)
	}
	if !fresh && len(fds) == 0 {
		return damaged("the index is missing")
	}
	for _, fd := range fds {
		if fresh && fd.Type == lstorage.TypeTable {
			return fmt.Errorf("%w: it contains an index but no %s file", ErrForeign, markName)
		}
	}
	names, err := d.listFiles()
	if err != nil {
		return wrapIndex("list log", err)
	}
	if fresh && len(names) > 0 {
		return fmt.Errorf("%w: it contains a log but no %s file", ErrForeign, markName)
	}
	if fresh {
		return removePartialIndex(d, stor)
	}
	return nil
}

// removePartialIndex removes what a crash during the creation of an index leaves: a manifest, with
// CURRENT missing or torn. goleveldb refuses to open such an index. No rows can be lost, because
// goleveldb creates a journal only after manifest and CURRENT.
func removePartialIndex(d disk, stor lstorage.Storage) error {
	_, missing := stor.GetMeta()
	journals, err := stor.List(lstorage.TypeJournal)
	if err != nil {
		return wrapIndex("list index", err)
	}
	if missing == nil || len(journals) > 0 {
		return nil // opening the index will report the error of this call
	}
	fds, err := stor.List(lstorage.TypeAll)
	if err != nil {
		return wrapIndex("list index", err)
	}
	for _, fd := range fds {
		if err := stor.Remove(fd); err != nil {
			return wrapWrite("remove the beginning of an index", err)
		}
	}
	return wrapWrite("remove the beginning of an index", d.removeCurrent())
}

// fail records that a write has failed half-way. Memory may then differ from the disk, so the store
// takes no more writes. fail returns err.
func (s *Store) fail(err error) error {
	if err == nil {
		return nil
	}
	failed := fmt.Errorf("%w: %w", ErrFailed, err)
	// If the disk was full, the index on the disk is intact, and opening the store again is enough.
	if IsFull(err) && !errors.Is(err, ErrFailed) {
		failed = err
		if !errors.Is(err, ErrFull) {
			failed = wrapWrite("write", err)
		}
		s.space.noteFull(err, 0, true)
	}
	s.failed.CompareAndSwap(nil, &failed)
	return err
}

// readOnly completes the opening of a store whose index could only be opened for reading, because
// the disk is full. The store takes no writes until it is opened again. Opening again needs room to
// write the journals, of journals bytes, into tables. err points to the result of open: if that
// result is an error, readOnly does nothing. why is the error of the full disk.
func (s *Store) readOnly(err *error, why error, journals int64) {
	if *err != nil {
		return
	}
	s.space.allowWaits()
	s.space.noteFull(why, 2*journals, true)
	s.failed.Store(&why)
}

func (s *Store) writable() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// Close closes the store. A store that was not closed loses nothing, but only after Close does the
// next Open know where the log must end.
func (s *Store) Close() error {
	s.space.close()
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	err := s.noteEnd()
	closed := fmt.Errorf("%w", ErrClosed)
	s.failed.CompareAndSwap(nil, &closed)
	s.snapshots.drop()
	s.stale.drop()
	err = errors.Join(err, s.log.close())
	// What the index could not write for want of room is rebuilt from the log at the next start.
	if cerr := s.db.close(); !IsFull(cerr) {
		err = errors.Join(err, cerr)
	}
	return err
}

// noteEnd writes the end of the log to the index. Without this end, Open cannot distinguish a last
// record that the disk lost from a last record that was never written completely.
func (s *Store) noteEnd() error {
	if s.parent != nil || s.writable() != nil || s.view.Load().empty || s.flatHead.To == s.log.end {
		return nil
	}
	cell := s.flatHead
	cell.To = s.log.end
	var batch Batch
	putCell(&batch, cellFlatHead, &cell)
	return s.step(&batch)
}

// Tip is the state of the chain in a store.
type Tip struct {
	Head, Final BlockRef
	// FlatHead is the block whose state the methods Flat and Frontier read. A restart continues
	// from it. In an overlay (a store on top of a parent store), FlatHead is the block at which the
	// overlay begins.
	FlatHead BlockRef
	Tail     primitives.Height // lowest height whose data is kept
	Empty    bool              // true: the store has no genesis block yet, so call Import
}

// Tip returns the state of the chain. Safe for concurrent use.
func (s *Store) Tip() Tip {
	v := s.view.Load()
	tail := v.tail
	if s.parent != nil {
		tail = s.parent.Tip().Tail
	}
	return Tip{v.head, v.final, v.flatHead, tail, v.empty}
}
