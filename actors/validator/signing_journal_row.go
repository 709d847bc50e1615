package validator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Signed returns the number of the newest row in the files of a path, which may be a copy; 0: none is whole. Nothing is made or changed.
func Signed(path string) (seq uint64, err error) {
	seq, _, _, err = newest(path)
	return seq, err
}

// ReadRow returns the newest row in the files of a path; nil: nothing was signed. As OpenJournal does, it refuses files of which none is whole; nothing is made or
// changed.
func ReadRow(path string) ([]byte, error) {
	seq, row, lost, err := newest(path)
	if err == nil && seq == 0 && lost {
		err = unknown(path)
	}
	return row, err
}

// newest finds the newest row; lost: there was one, if none is whole.
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
		first = first || i == 0 && size == 0 // as in OpenJournal
		if n > seq {
			seq, row = n, r
		}
	}
	return seq, row, lost && !first, nil
}
