package badchunk

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Bounds, in bytes except MaxFiles.
const (
	MaxFiles = 8
	MaxState = 64 << 20 // maximum bytes of state in a file
	MaxFile  = 1 << 30  // maximum size of an uncompressed file in bytes
)

// ErrFormat means that a file was not written by this version of this package.
var ErrFormat = errors.New("badchunk: this is not a valid file of a failed chunk")

const (
	pattern = "chunk-*.json.gz"
	half    = "new-*"
)

// Write writes f to a new file in a folder and returns its path. Write creates the folder if
// necessary. If there are then more than MaxFiles files, Write removes the oldest files, but never
// the new file.
func Write(dir string, f *File) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	halves, _ := filepath.Glob(filepath.Join(dir, half)) // files that a killed process did not complete
	for _, name := range halves {
		_ = os.Remove(name)
	}
	path = filepath.Join(dir, fmt.Sprintf("chunk-%010d-s%d-%.8s.json.gz", f.Height, f.Shard, f.Block))
	tmp, err := os.CreateTemp(dir, half)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // has no effect after the rename
	z := gzip.NewWriter(tmp)
	err = errors.Join(json.NewEncoder(z).Encode(f), z.Close(), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", err
	}
	Prune(dir, pattern, path, MaxFiles)
	return path, nil
}

// Prune removes the oldest files in a folder that match pattern, until at most `most` files remain.
// It never removes the file keep, even if the clock was set back and keep looks old.
func Prune(dir, pattern, keep string, most int) {
	names, _ := filepath.Glob(filepath.Join(dir, pattern))
	names = slices.DeleteFunc(names, func(name string) bool { return name == keep })
	age := func(name string) int64 {
		info, err := os.Stat(name)
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(age(a), age(b)), cmp.Compare(a, b)) })
	for _, name := range names[:max(len(names)+1-most, 0)] {
		_ = os.Remove(name)
	}
}

// Is reports whether the file at path starts like the files that Write creates.
func Is(path string) bool {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return false
	}
	want := []byte(`{"failed_chunk":`)
	got := make([]byte, len(want))
	_, err = io.ReadFull(z, got)
	return err == nil && bytes.Equal(got, want)
}

// Read reads the file at path. It returns ErrFormat if Write did not create the file.
func Read(path string) (*File, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	out := new(File)
	if err := json.NewDecoder(io.LimitReader(z, MaxFile)).Decode(out); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if out.Format != format {
		return nil, fmt.Errorf("%w: it has format version %d, need %d: use the version of troupe that wrote it",
			ErrFormat, out.Format, format)
	}
	return out, nil
}
