package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

// disk is a folder of artifacts, a subfolder for each version, two files each: KEY.info says what is known and how long the
// machine code is and its checksum; KEY.code is the machine code, alone, so that it can be mapped. A file is written beside
// its place and renamed, code first; an info that does not fit its code is as none.
type disk struct {
	dir   string
	limit int64

	mu    sync.Mutex
	total int64
}

const (
	infoSuffix = ".info"
	codeSuffix = ".code"
	tempSuffix = ".tmp"
)

// magic begins an info; then the checksum of what follows, the length of the code plus 1 (0: none), its checksum, the info.
var magic = []byte("troupe artifact 1\n")

const headLen = 4 + 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDamaged = errors.New("cache: file is not as it was written")

func openDisk(dir, version string, limit int64) (*disk, error) {
	d := &disk{dir: filepath.Join(dir, version), limit: limit}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return nil, err
	}
	// What other versions left is of no use to anybody.
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.IsDir() && e.Name() != version {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	files, err := d.files()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, f := range files {
		known[f.path] = true
	}
	for _, f := range files {
		stem, isCode := strings.CutSuffix(f.path, codeSuffix)
		if strings.HasSuffix(f.path, tempSuffix) || isCode && !known[stem+infoSuffix] { // of a process that ended while it wrote
			_ = os.Remove(f.path)
			continue
		}
		d.total += f.size
	}
	return d, nil
}

type file struct {
	path string
	size int64
	used time.Time
}

func (d *disk) files() ([]file, error) {
	all, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, err
	}
	out := make([]file, 0, len(all))
	for _, e := range all {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, file{filepath.Join(d.dir, e.Name()), info.Size(), info.ModTime()})
	}
	return out, nil
}

func (d *disk) path(key Key, suffix string) string {
	return filepath.Join(d.dir, fmt.Sprintf("%x-%x%s", key.Code[:], key.Rules[:8], suffix))
}

// found is an artifact on disk whose checksums are right.
type found struct {
	info []byte
	path string // of the code; empty: there is none
	size int64  // of the code
}

func (d *disk) has(key Key) bool {
	_, err := os.Stat(d.path(key, infoSuffix))
	return err == nil
}

// find returns nil if there is nothing. A damaged artifact is removed.
func (d *disk) find(key Key) (*found, error) {
	f, err := d.read(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		d.remove(key)
		return nil, err
	}
	now := time.Now() // of the last use, for prune
	_ = os.Chtimes(d.path(key, infoSuffix), now, now)
	return f, nil
}

func (d *disk) read(key Key) (*found, error) {
	b, err := os.ReadFile(d.path(key, infoSuffix))
	if err != nil {
		return nil, err
	}
	body, ok := bytes.CutPrefix(b, magic)
	if !ok || len(body) < headLen || binary.LittleEndian.Uint32(body) != crc32.Checksum(body[4:], castagnoli) {
		return nil, errDamaged
	}
	f := &found{info: body[headLen:]}
	size := binary.LittleEndian.Uint64(body[4:])
	if size == 0 {
		return f, nil
	}
	f.size, f.path = int64(size-1), d.path(key, codeSuffix)
	sum, n, err := sumFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errDamaged
	}
	if err != nil {
		return nil, err
	}
	if n != f.size || sum != binary.LittleEndian.Uint32(body[12:]) {
		return nil, errDamaged
	}
	return f, nil
}

// put writes an artifact and returns the path of its code.
func (d *disk) put(key Key, a Artifact) (path string, err error) {
	head := make([]byte, headLen, headLen+len(a.Info))
	if a.Code != nil {
		path = d.path(key, codeSuffix)
		if err := d.write(path, a.Code); err != nil {
			return "", err
		}
		binary.LittleEndian.PutUint64(head[4:], uint64(len(a.Code))+1)
		binary.LittleEndian.PutUint32(head[12:], crc32.Checksum(a.Code, castagnoli))
	}
	body := append(head, a.Info...)
	binary.LittleEndian.PutUint32(body, crc32.Checksum(body[4:], castagnoli))
	if err := d.write(d.path(key, infoSuffix), append(append([]byte{}, magic...), body...)); err != nil {
		d.remove(key)
		return "", err
	}
	return path, d.prune(key)
}

func (d *disk) write(path string, b []byte) error {
	t, err := os.CreateTemp(d.dir, "*"+tempSuffix)
	if err != nil {
		return err
	}
	_, err = t.Write(b)
	if e := t.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = d.place(t.Name(), path, int64(len(b)))
	}
	if err != nil {
		_ = os.Remove(t.Name())
	}
	return err
}

// place moves a written file to where it belongs; there may be one, if two made the same.
func (d *disk) place(from, to string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, err := os.Stat(to); err == nil {
		size -= old.Size()
	}
	err := os.Rename(from, to)
	if err == nil {
		d.total += size
	}
	return err
}

func (d *disk) remove(key Key) {
	for _, suffix := range []string{infoSuffix, codeSuffix} {
		d.removeFile(d.path(key, suffix))
	}
}

func (d *disk) removeFile(path string) {
	info, err := os.Stat(path)
	if err != nil || os.Remove(path) != nil {
		return
	}
	d.mu.Lock()
	d.total -= info.Size()
	d.mu.Unlock()
}

// prune removes what was used longest ago until three quarters of the limit are left, if it is passed. keep stays.
func (d *disk) prune(keep Key) error {
	if d.bytes() <= d.limit {
		return nil
	}
	all, err := d.files()
	if err != nil {
		return err
	}
	size := map[string]int64{} // by stem
	var infos []file
	for _, f := range all {
		stem, suffix, _ := strings.Cut(filepath.Base(f.path), ".")
		size[stem] += f.size
		if "."+suffix == infoSuffix {
			infos = append(infos, f)
		}
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].used.Before(infos[j].used) })
	for _, f := range infos {
		if d.bytes() <= d.limit/4*3 {
			break
		}
		if f.path == d.path(keep, infoSuffix) {
			continue
		}
		d.removeFile(f.path)
		d.removeFile(strings.TrimSuffix(f.path, infoSuffix) + codeSuffix)
	}
	return nil
}

func (d *disk) bytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}
