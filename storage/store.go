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

// Options of a store. The zero value of each field is its default.
type Options struct {
	Identity         Identity
	WriteBuffer      int               // bytes; by the size of the index, DefaultWriteBuffer at least
	BlockCache       int               // bytes; DefaultBlockCache
	SegmentSize      int64             // bytes; DefaultSegment
	FlatHeadBytes    int               // bytes of pending changes at which FoldDue says so; DefaultFlatHeadBytes
	FlatHeadBlocks   int               // the same in final blocks; DefaultFlatHeadBlocks
	ResidentBlocks   int               // of what is not folded, the newest in memory with all they did; DefaultResidentBlocks
	ResidentBytes    int               // the same in bytes of changes; DefaultResidentBytes
	BucketHeights    primitives.Height // heights of history that are removed at once, at least; DefaultBucketHeights
	StaleReadSize    int64             // bytes of the index's tables from which loads read it as it was (index_stale.go); DefaultStaleReadSize
	NoCompression    bool              // compress no record: for stores that are in memory, and soon gone
	SpaceProbePeriod time.Duration     // between two looks whether a full disk has room; DefaultSpaceProbePeriod
	ReadOnlyIfFull   bool              // a folder whose index finds no room to be opened is opened for reads (Full.Reopen)
	NoSync           bool              // leave syncing to the operating system: survives kill -9, not a power cut
}

// Bounds of what waits to be folded. It is in memory, and a restart applies it to the trie again.
const (
	DefaultFlatHeadBytes  = 2 << 20
	DefaultFlatHeadBlocks = 16
)

func (o *Options) fill() {
	setDefault(&o.BlockCache, DefaultBlockCache)
	setDefault(&o.SegmentSize, DefaultSegment)
	setDefault(&o.FlatHeadBytes, DefaultFlatHeadBytes)
	setDefault(&o.FlatHeadBlocks, DefaultFlatHeadBlocks)
	setDefault(&o.ResidentBlocks, DefaultResidentBlocks)
	setDefault(&o.ResidentBytes, DefaultResidentBytes)
	setDefault(&o.BucketHeights, DefaultBucketHeights)
	setDefault(&o.StaleReadSize, DefaultStaleReadSize)
	setDefault(&o.SpaceProbePeriod, DefaultSpaceProbePeriod)
}

func setDefault[T int | int64 | primitives.Height | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Store is an open data folder. Reads may come from any goroutine; Commit and Write exclude each other, and so do Fold,
// Import and Collect. Import excludes everything: the caller sees to that.
type Store struct {
	o      Options
	parent *Store // of a child, see overlay.go; nil: it is none
	disk   disk
	db     index
	log    *blockLog
	space  *diskSpace

	commitMu   sync.Mutex // log, tree, segments, rows
	indexMu    sync.Mutex // the index: fold, steps; taken before commitMu
	view       atomic.Pointer[view]
	failed     atomic.Pointer[error]
	buckets    atomic.Pointer[[]primitives.Height] // ascending; written under indexMu
	hasCatchup atomic.Bool                         // there is a record of a shard that came in later
	tree       *tree
	cache      cache
	bodyCache  bodyCache
	snapshots  snapshotPool
	stale      staleState
	recent     recentOutcomes

	flatHead     flatHeadCell                 // under indexMu
	steps        uint64                       // written to the index; under indexMu
	historyRows  Batch                        // what is written before a fold; its memory is used again; under indexMu
	flatHeadRows Batch                        // what a fold writes; the same
	untrackSeq   uint64                       // shards that began to leave, or have left; under indexMu
	segmentHolds int                          // backups on their way, for which segments stay; under indexMu
	segments     map[uint32]primitives.Height // of the log, with the highest block since the last fold; under commitMu
	rows         []*Batch                     // by Write, since the last fold; under commitMu
	resident     residentBodies               // under commitMu
	pinnedUpTo   primitives.Height            // bodies up to here stay in memory: a fold reads them; under commitMu

	pendingReads atomic.Uint64 // changes of blocks above the folded one that were read from the log, one item each
	pendingSteps atomic.Uint64 // keys of such blocks that scans have passed
}

// Open opens or makes the data folder dir. Another process there is ErrLocked; a folder of something else, of another
// chain or of a newer format is ErrForeign or ErrFormat; a broken one is ErrDamaged: in all of these nothing is changed.
func Open(dir string, o Options) (*Store, error) { return open(osDisk{dir}, o) }

// Exists tells whether a folder is a store, or is said to be one.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, markName))
	return err == nil
}

// OpenMemory opens a folder in memory.
func OpenMemory(d *MemDisk, o Options) (*Store, error) { return open(d, o) }

func open(d disk, o Options) (*Store, error) {
	o.fill()
	fresh, err := checkMark(d, o.Identity)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.path(), err)
	}
	s := &Store{o: o, disk: d, space: newDiskSpace(d, o.SpaceProbePeriod), log: newLog(d, &o), tree: newTree(), segments: map[uint32]primitives.Height{}}
	if err := s.open(fresh); err != nil {
		return nil, fmt.Errorf("%s: %w", d.path(), err)
	}
	return s, nil
}

// checkMark reads the format marker. fresh: there is none, and nothing else in the folder either.
func checkMark(d disk, id Identity) (fresh bool, err error) {
	raw, err := d.readMark()
	if errors.Is(err, fs.ErrNotExist) {
		names, err := d.foreignNames()
		if err != nil {
			return false, wrapIndex("list", err)
		}
		if len(names) > 0 {
			return false, fmt.Errorf("%w: it has no %s file, but %q", ErrForeign, markName, names[0])
		}
		return true, nil
	}
	if err != nil {
		return false, wrapIndex("read "+markName, err)
	}
	got, format, err := parseMark(raw)
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: %w", ErrForeign, err)
	case format != formatVersion:
		return false, fmt.Errorf("%w: it has %d, this program reads and writes %d", ErrFormat, format, formatVersion)
	case got != id:
		return false, fmt.Errorf("%w: chain %q, genesis %v, numbering %q; this node is for %q, %v, %q", ErrForeign,
			got.ChainID, got.Genesis, got.Numbering, id.ChainID, id.Genesis, id.Numbering)
	}
	return false, nil
}

func (s *Store) open(fresh bool) (err error) {
	stor, err := s.disk.openIndex()
	if errors.Is(err, ErrLocked) {
		return err
	}
	if err != nil {
		return wrapWrite("open index", err)
	}
	if err := s.checkIndexFiles(stor, fresh); err != nil {
		_ = stor.Close()
		return err
	}
	if s.o.WriteBuffer == 0 {
		s.o.WriteBuffer = writeBuffer(s.disk.indexSize())
	}
	db, err := openLevel(stor, &s.o, s.space)
	if errors.Is(err, ErrFull) && s.o.ReadOnlyIfFull && !fresh {
		var rerr error
		if db, rerr = openLevelReads(stor, &s.o, s.space); rerr == nil {
			defer s.readOnly(&err, err, journalBytes(stor))
			err = nil
		} else {
			err = fmt.Errorf("%w, and for reads alone: %w", err, rerr)
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
			return fmt.Errorf("%w: it has an index with data but no %s file", ErrForeign, markName)
		}
	}
	if err := s.recover(); err != nil {
		return err
	}
	s.openStale()
	if !s.view.Load().empty {
		s.space.allowWaits()
	}
	if fresh { // last, so that a folder with a marker has an index
		return wrapWrite("write "+markName, s.disk.writeMark(s.o.Identity.mark()))
	}
	return nil
}

// checkIndexFiles keeps goleveldb from making a new index where one should be: in a folder with a marker.
// Without a marker an index may be there only as a crash during the very first start leaves it, without our blocks.
func (s *Store) checkIndexFiles(stor lstorage.Storage, fresh bool) error {
	fds, err := stor.List(lstorage.TypeManifest | lstorage.TypeTable)
	if err != nil {
		return wrapIndex("list index", err)
	}
	if !fresh && len(fds) == 0 {
		return damaged("the index is missing")
	}
	for _, fd := range fds {
		if fresh && fd.Type == lstorage.TypeTable {
			return fmt.Errorf("%w: it has an index but no %s file", ErrForeign, markName)
		}
	}
	names, err := s.disk.listFiles()
	if err != nil {
		return wrapIndex("list log", err)
	}
	if fresh && len(names) > 0 {
		return fmt.Errorf("%w: it has a log but no %s file", ErrForeign, markName)
	}
	if fresh {
		return s.removePartialIndex(stor)
	}
	return nil
}

// removePartialIndex removes what a crash in the middle of making an index leaves: a manifest, and a CURRENT that is not there or
// not whole, which goleveldb refuses. It makes a journal, where data could be, only behind them.
func (s *Store) removePartialIndex(stor lstorage.Storage) error {
	_, missing := stor.GetMeta()
	journals, err := stor.List(lstorage.TypeJournal)
	if err != nil {
		return wrapIndex("list index", err)
	}
	if missing == nil || len(journals) > 0 {
		return nil // opening tells what is wrong, if anything is
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
	return wrapWrite("remove the beginning of an index", s.disk.removeCurrent())
}

// fail remembers that a write failed half-way: what is in memory may differ from the disk, so nothing is written any more.
func (s *Store) fail(err error) error {
	if err == nil {
		return nil
	}
	failed := fmt.Errorf("%w: %w", ErrFailed, err)
	if IsFull(err) && !errors.Is(err, ErrFailed) { // of the index's files; once it is opened again it is as the disk has it
		failed = err
		if !errors.Is(err, ErrFull) {
			failed = wrapWrite("write", err)
		}
		s.space.noteFull(err, 0, true)
	}
	s.failed.CompareAndSwap(nil, &failed)
	return err
}

// readOnly ends the opening of a folder whose index found no room: it takes no writes until it is opened again, for which the journals'
// bytes are to go into tables. err is what the opening comes to.
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

// Close ends the store. Nothing is lost without it; with it the next Open knows how far the log went.
func (s *Store) Close() error {
	s.space.close()
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	err := s.noteEnd()
	closed := fmt.Errorf("%w", ErrClosed)
	s.failed.CompareAndSwap(nil, &closed)
	s.dropSnapshot()
	s.dropStale()
	err = errors.Join(err, s.log.close())
	if cerr := s.db.close(); !IsFull(cerr) { // else what the index did not write, the next start writes from the log
		err = errors.Join(err, cerr)
	}
	return err
}

// noteEnd tells the index where the log ends: without that a last record that the disk lost looks like one that was never whole.
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

// Tip is where the chain stands.
type Tip struct {
	Head, Final BlockRef
	FlatHead    BlockRef          // Flat and Frontier are of this block; a restart begins here. Of a child: where it begins
	Tail        primitives.Height // the lowest height that is kept
	Empty       bool              // there is no genesis yet: Import
}

// Tip returns where the chain stands.
func (s *Store) Tip() Tip {
	v := s.view.Load()
	tail := v.tail
	if s.parent != nil {
		tail = s.parent.Tip().Tail
	}
	return Tip{v.head, v.final, v.flatHead, tail, v.empty}
}
