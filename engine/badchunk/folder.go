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

// Bounds.
const (
	MaxFiles = 8
	MaxState = 64 << 20
	MaxFile  = 1 << 30 // unpacked
)

// ErrFormat says that something is no file of a failed chunk, or one of another version.
var ErrFormat = errors.New("failed: not the file of a failed chunk")

const (
	pattern = "chunk-*.json.gz"
	half    = "new-*"
)

// Write puts f into a folder, which it makes if need be, and returns the path. Beyond MaxFiles the oldest are removed, never f.
func Write(dir string, f *File) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	halves, _ := filepath.Glob(filepath.Join(dir, half)) // of a process that ended while it wrote
	for _, name := range halves {
		_ = os.Remove(name)
	}
	path = filepath.Join(dir, fmt.Sprintf("chunk-%010d-s%d-%.8s.json.gz", f.Height, f.Shard, f.Block))
	tmp, err := os.CreateTemp(dir, half)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // unless it was renamed
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

// Prune removes the oldest files of a pattern in a folder beyond most, but not keep: the clock may have gone back.
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

// Is tells whether a file begins as those of this package do.
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

// Read reads a file.
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
		return nil, fmt.Errorf("%w: version %d, this program reads %d", ErrFormat, out.Format, format)
	}
	return out, nil
}
