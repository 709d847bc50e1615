package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/troupe-chain/troupe/primitives"
)

// sumsName is a cache file in the data folder. The file contains the hashes of large genesis files
// by size and modification time, so that a start need not read gigabytes again. The user may remove
// the file at any time.
const sumsName = "genesis.sums"

// minRemembered is the minimum file size in bytes for a hash to be cached. Reading and hashing a
// file of this size takes some 5 ms.
const minRemembered = 4 << 20

// fingerprints hashes files and caches the hashes of large files.
type fingerprints struct {
	known []byte // contents of the cache file when it was read
	lines []byte // new contents of the cache file
}

// readFingerprints reads the cache of a data folder. A missing or unreadable file gives an empty
// cache.
func readFingerprints(dir string) *fingerprints {
	known, _ := os.ReadFile(filepath.Join(dir, sumsName)) // if the cache cannot be read, all files are hashed
	return &fingerprints{known: known}
}

// of returns the hash of a file's size (8 bytes, little endian) and contents.
func (f *fingerprints) of(path string) (h primitives.Hash, err error) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return h, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return h, err
	}
	line := func() []byte { return fmt.Appendf(nil, "%d %d ", info.Size(), info.ModTime().UnixNano()) }
	if info.Size() >= minRemembered {
		if h, ok := f.find(line()); ok {
			f.remember(line(), h)
			return h, nil
		}
	}
	if h, err = hashSized(file, info); err != nil {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	if info.Size() >= minRemembered {
		f.remember(line(), h)
	}
	return h, nil
}

func hashSized(r io.Reader, info fs.FileInfo) (h primitives.Hash, err error) {
	sum := sha256.New()
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(info.Size()))
	_, _ = sum.Write(size[:]) // never fails
	if _, err := io.Copy(sum, r); err != nil {
		return h, err
	}
	sum.Sum(h[:0])
	return h, nil
}

// find returns the cached hash for a size and modification time.
func (f *fingerprints) find(key []byte) (h primitives.Hash, ok bool) {
	for line := range bytes.Lines(f.known) {
		rest, found := bytes.CutPrefix(line, key)
		if !found {
			continue
		}
		digest, err := hex.DecodeString(string(bytes.TrimSpace(rest)))
		if err == nil && len(digest) == len(h) {
			return primitives.Hash(digest), true
		}
	}
	return h, false
}

func (f *fingerprints) remember(key []byte, h primitives.Hash) {
	f.lines = append(hex.AppendEncode(append(f.lines, key...), h[:]), '\n')
}

// save writes the cache into the data folder. The caller must have checked that the folder belongs
// to this chain.
func (f *fingerprints) save(dir string) error {
	if bytes.Equal(f.known, f.lines) {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, sumsName), f.lines, 0o600)
}
