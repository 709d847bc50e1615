package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/syndtr/goleveldb/leveldb/journal"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// journalSyncer syncs a journal before the next one begins. goleveldb does not, so that a power cut could take the end of
// one and leave the beginning of the next: a state that never was. With it, what a crash takes is always an end.
type journalSyncer struct {
	lstorage.Storage
	mu   sync.Mutex
	last lstorage.Writer
}

// Create begins a file.
func (s *journalSyncer) Create(fd lstorage.FileDesc) (lstorage.Writer, error) {
	if fd.Type != lstorage.TypeJournal {
		return s.Storage.Create(fd)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		if err := s.last.Sync(); err != nil {
			return nil, err
		}
	}
	w, err := s.Storage.Create(fd)
	s.last = w
	return w, err
}

// checkIndex looks at an index before goleveldb does, which repairs in silence: it skips what is broken in the middle of a
// journal or manifest and applies what follows, and it removes tables that the manifest does not name. It refuses
// an index with such a hole, or with a file missing, and changes nothing. A broken end is what a crash leaves, and passes.
func checkIndex(stor lstorage.Storage) error {
	fd, err := stor.GetMeta()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a new index, or goleveldb says that it is none
	}
	if err != nil {
		return wrapIndex("index", err)
	}
	m := manifest{tables: map[int64]bool{}}
	if _, err := readJournal(stor, fd, m.apply); err != nil {
		return fmt.Errorf("index/%v: %w", fd, err)
	}
	fds, err := stor.List(lstorage.TypeJournal | lstorage.TypeTable)
	if err != nil {
		return wrapIndex("list index", err)
	}
	present := map[int64]bool{}
	var journals []lstorage.FileDesc
	for _, fd := range fds {
		switch {
		case fd.Type == lstorage.TypeTable:
			present[fd.Num] = true
		case fd.Num >= m.journal:
			journals = append(journals, fd)
		}
	}
	for num := range m.tables {
		if !present[num] {
			return damaged("index/%v is missing", lstorage.FileDesc{Type: lstorage.TypeTable, Num: num})
		}
	}
	slices.SortFunc(journals, func(a, b lstorage.FileDesc) int { return cmp.Compare(a.Num, b.Num) })
	if m.journal > 0 && (len(journals) == 0 || journals[0].Num != m.journal) {
		return damaged("index/%v is missing", lstorage.FileDesc{Type: lstorage.TypeJournal, Num: m.journal})
	}
	return checkSequence(stor, journals, m.sequence)
}

// checkSequence follows the numbers of the writes through the journals: each batch says its first and how many it has.
func checkSequence(stor lstorage.Storage, journals []lstorage.FileDesc, last uint64) error {
	var broken error
	for _, fd := range journals {
		torn, err := readJournal(stor, fd, func(batch []byte) error {
			if broken != nil {
				return damaged("%w, though there are writes behind it", broken)
			}
			if len(batch) < 12 {
				return damaged("batch of %d bytes", len(batch))
			}
			first, n := binary.LittleEndian.Uint64(batch), binary.LittleEndian.Uint32(batch[8:])
			if first != last+1 {
				return damaged("write %d follows write %d", first, last)
			}
			last += uint64(n)
			return nil
		})
		if err != nil {
			return fmt.Errorf("index/%v: %w", fd, err)
		}
		if torn != nil {
			broken = fmt.Errorf("%v: %w", fd, torn)
		}
	}
	return nil
}

// dropNote remembers the first loss that a journal reader reports.
type dropNote struct{ first error }

// Drop is called for each lost part.
func (d *dropNote) Drop(err error) {
	if d.first == nil {
		d.first = err
	}
}

// readJournal calls f for each record of a journal or manifest. torn says how its end is broken; a record behind a broken
// part is an error.
func readJournal(stor lstorage.Storage, fd lstorage.FileDesc, f func([]byte) error) (torn, err error) {
	r, err := stor.Open(fd)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, damaged("missing")
		}
		return nil, wrapIndex("open", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var drops dropNote
	jr := journal.NewReader(r, &drops, false, true)
	for {
		rec, err := jr.Next()
		if err == io.EOF {
			return drops.first, nil
		}
		if err != nil {
			return nil, wrapIndex("read", err)
		}
		body, err := io.ReadAll(rec)
		if err != nil {
			continue // this record lost a part; drops has it
		}
		if drops.first != nil {
			return nil, damaged("%w, with intact records behind it", drops.first)
		}
		if err := f(body); err != nil {
			return nil, err
		}
	}
}

// manifest is what the records of goleveldb's manifest add up to, as far as it is checked.
type manifest struct {
	journal  int64  // older ones are in tables
	sequence uint64 // last write that is in tables
	tables   map[int64]bool
}

// Tags of a manifest record (goleveldb session_record.go).
const (
	recComparer    = 1
	recJournalNum  = 2
	recNextFileNum = 3
	recSeqNum      = 4
	recCompPtr     = 5
	recDelTable    = 6
	recAddTable    = 7
	recPrevJournal = 9
)

func (m *manifest) apply(record []byte) error {
	r := borsh.NewReader(record)
	num := func() uint64 {
		v, n := binary.Uvarint(r.Rest())
		if n <= 0 {
			r.Failf("malformed varint")
			return 0
		}
		r.Take(n)
		return v
	}
	bytes := func() { r.Take(int(min(num(), 1<<31))) }
	for r.Err() == nil && r.Remaining() > 0 {
		switch tag := num(); tag {
		case recComparer:
			bytes()
		case recJournalNum:
			m.journal = int64(num())
		case recSeqNum:
			m.sequence = num()
		case recNextFileNum, recPrevJournal:
			num()
		case recCompPtr:
			num()
			bytes()
		case recDelTable:
			num()
			delete(m.tables, int64(num()))
		case recAddTable:
			num()
			m.tables[int64(num())] = true
			num()
			bytes()
			bytes()
		default:
			r.Failf("tag %d", tag)
		}
	}
	if err := r.Err(); err != nil {
		return damaged("record: %w", err)
	}
	return nil
}
