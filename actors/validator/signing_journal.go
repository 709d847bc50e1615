package validator

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/troupe-chain/troupe/storage"
)

// Journal stores what a validator has signed, so that the validator signs nothing contradictory
// after a restart (double signing).
//
// Problem: the record must survive a crash in the middle of a write. Each write delays approvals.
//
// Invariants:
//   - At any time at least one of the two slots holds a whole row.
//   - When Write returns, the row is on disk.
//   - A journal that has data but no readable row is an error. Such a journal is never treated as empty.
//
// Outline: two files, the slots, are written alternately. A slot contains a sequence number, the
// length of the row, a SHA-256 of these two and the row, the row, and zeros up to a multiple of
// slotGrain. The valid slot with the highest sequence number counts; a slot is valid if its hash
// matches. The file's length rarely changes, so a write syncs only data. The first write goes to
// slot 1. So an empty slot 0 means that at most the first write was begun. In that case the
// validator has sent no unrecorded signature, because it sends messages after the write.
//
// Rejected: appending to one file. That file grows and must be truncated. Rejected: renaming a new
// file over the old one. Each write would need a sync of the folder.
//
// Not safe for concurrent use.
type Journal struct {
	slots [2]*os.File
	seq   uint64 // sequence number of the newest row
	row   []byte
}

// slotHead is the size of a slot's header: sequence number, row length, hash.
const (
	slotHead = 8 + 8 + 32
	maxRow   = 1 << 24
	// slotGrain is a size in bytes. The length of each slot file is a multiple of slotGrain.
	slotGrain = 4096
)

// OpenJournal opens or creates the files path.0 and path.1. OpenJournal fails if these files
// contain data but no readable row.
func OpenJournal(path string) (_ *Journal, err error) {
	f := new(Journal)
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	made, held, first := false, false, false
	for i := range f.slots {
		name := fmt.Sprintf("%s.%d", path, i)
		if info, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			made = true
			// An empty slot 0 is valid, because the first write goes to slot 1 and the second one
			// to slot 0.
		} else if err == nil && i == 0 {
			first = info.Size() == 0
		}
		if f.slots[i], err = os.OpenFile(filepath.Clean(name), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return nil, err
		}
		seq, row, size, err := readSlot(f.slots[i])
		if err != nil {
			return nil, err
		}
		held = held || size > 0
		if seq > f.seq {
			f.seq, f.row = seq, row
		}
	}
	if held && f.seq == 0 && !first {
		return nil, errUnreadable(path)
	}
	if made { // sync the names of new files before writing their contents
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer func() { _ = dir.Close() }()
		if err := dir.Sync(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func errUnreadable(path string) error {
	return fmt.Errorf(
		"%s.0 and %s.1: neither can be read, so what this validator has signed is unknown: restore a copy of them; without one, "+
			"remove them when the chain is some epochs on",
		path,
		path,
	)
}

// readSlot reads a slot. A seq of 0 means that the slot contains no complete row. size is the
// file's size in bytes.
func readSlot(f *os.File) (seq uint64, row []byte, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, nil, 0, err
	}
	if info.Size() < slotHead || info.Size() > slotHead+maxRow+slotGrain {
		return 0, nil, info.Size(), nil
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return 0, nil, 0, err
	}
	seq, n := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if n > uint64(len(b)-slotHead) {
		return 0, nil, info.Size(), nil
	}
	row = b[slotHead : slotHead+n]
	if sum := sumOf(b[:16], row); string(sum[:]) != string(b[16:slotHead]) {
		return 0, nil, info.Size(), nil
	}
	return seq, row, info.Size(), nil
}

func sumOf(head, row []byte) (sum [32]byte) {
	h := sha256.New()
	_, _ = h.Write(head)
	_, _ = h.Write(row)
	h.Sum(sum[:0])
	return sum
}

// Row returns the newest row, or nil if nothing was signed. The caller must not change the row.
func (f *Journal) Row() []byte { return f.row }

// Write stores a new row. The row is on disk when Write returns. The journal keeps row.
func (f *Journal) Write(row []byte) error {
	b := binary.LittleEndian.AppendUint64(nil, f.seq+1)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(row)))
	sum := sumOf(b, row)
	b = append(append(b, sum[:]...), row...)
	b = append(b, make([]byte, -len(b)&(slotGrain-1))...)
	slot := f.slots[(f.seq+1)%2]
	if _, err := slot.WriteAt(b, 0); err != nil {
		return err
	}
	if err := storage.SyncData(slot); err != nil {
		return err
	}
	f.seq, f.row = f.seq+1, row
	return nil
}

// Close closes the files.
func (f *Journal) Close() {
	for _, s := range f.slots {
		if s != nil {
			_ = s.Close()
		}
	}
}

// Signed returns the sequence number of the newest row in the journal files at path, which may be
// copies. 0 means that no row is readable. Signed opens the files for reading only.
func Signed(path string) (seq uint64, err error) {
	seq, _, _, err = newest(path)
	return seq, err
}

// ReadRow returns the newest row in the journal files at path, or nil if nothing was signed.
// ReadRow returns an error if the files contain data but no readable row. It opens the files for
// reading only.
func ReadRow(path string) ([]byte, error) {
	seq, row, lost, err := newest(path)
	if err == nil && seq == 0 && lost {
		err = errUnreadable(path)
	}
	return row, err
}

// newest returns the newest row. lost means that the files contain data of rows. If lost is true
// and seq is 0, these rows are unreadable.
func newest(path string) (seq uint64, row []byte, lost bool, err error) {
	first := false
	for i := range 2 {
		f, err := os.Open(filepath.Clean(fmt.Sprintf("%s.%d", path, i)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, nil, false, err
		}
		n, r, size, err := readSlot(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return 0, nil, false, err
		}
		lost = lost || size > 0
		first = first || i == 0 && size == 0 // only the first write can have begun (see OpenJournal)
		if n > seq {
			seq, row = n, r
		}
	}
	return seq, row, lost && !first, nil
}
