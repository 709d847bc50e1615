package cache

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

// disk is a folder of artifacts with a subfolder per version. Each artifact has two files. KEY.info
// has the information about the code, and the length and checksum of the machine code. KEY.code has
// only the machine code, so that it can be mapped. Files are written under a temporary name and
// renamed, KEY.code first. An artifact whose two files do not match counts as missing.
type disk struct {
	dir   string
	limit int64

	mu    sync.Mutex
	total int64          // bytes of all files
	uses  map[Key]uint64 // number of uses since the process started; prune halves them
}

const (
	infoSuffix = ".info"
	codeSuffix = ".code"
	tempSuffix = ".tmp"
)

// An info file consists of: magic, the checksum of the rest, the length of the code plus 1 (0: no
// code), the checksum of the code, the length of the source, the info.
var magic = []byte("troupe artifact 2\n")

const headLen = 4 + 8 + 4 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDamaged = errors.New("cache: the file is damaged: its checksum does not match")

func openDisk(dir, version, versions string, limit int64) (*disk, error) {
	d := &disk{dir: filepath.Join(dir, version), limit: limit, uses: map[Key]uint64{}}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return nil, err
	}
	d.removeOthers(dir, version, versions)
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
		// A process that ended while it wrote left this file.
		if strings.HasSuffix(f.path, tempSuffix) || isCode && !known[stem+infoSuffix] {
			_ = os.Remove(f.path)
			continue
		}
		d.total += f.size
	}
	return d, nil
}

// removeOthers removes the folders of other versions, whose artifacts this version cannot load.
// Other programs may have files in the folder dir, so removeOthers removes only names that match
// the pattern versions. removeOthers ignores errors.
func (*disk) removeOthers(dir, version, versions string) {
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		if other, _ := filepath.Match(versions, e.Name()); other && e.IsDir() && e.Name() != version {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
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
		if e.IsDir() { // artifacts are files
			continue
		}
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
	return filepath.Join(d.dir, fmt.Sprintf("%x-%x%s", key.Code[:], key.Rules[:], suffix))
}

// keyOf parses the key in a file's name.
func keyOf(stem string) (key Key, ok bool) {
	n := 2 * len(key.Code)
	if len(stem) != n+1+2*len(key.Rules) || stem[n] != '-' {
		return key, false
	}
	_, err := hex.Decode(key.Code[:], []byte(stem[:n]))
	_, err2 := hex.Decode(key.Rules[:], []byte(stem[n+1:]))
	return key, err == nil && err2 == nil
}

// sumOf returns the checksum of an info file. The checksum covers the key too, so that a file under
// the wrong name counts as damaged.
func sumOf(key Key, b []byte) uint32 {
	return crc32.Update(crc32.Update(crc32.Checksum(key.Code[:], castagnoli), castagnoli, key.Rules[:]), castagnoli, b)
}

// found is an artifact on disk with valid checksums.
type found struct {
	info   []byte
	path   string // file of the machine code; empty: no code
	size   int64  // bytes of the machine code
	source int    // length of the contract's code, in bytes
}

func (d *disk) has(key Key) bool {
	_, err := os.Stat(d.path(key, infoSuffix))
	return err == nil
}

// find returns the artifact of a key; nil if there is none. If the artifact is damaged, find removes it
// and returns an error.
func (d *disk) find(key Key) (*found, error) {
	f, err := d.read(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		d.remove(key)
		return nil, err
	}
	d.use(key, 1)
	d.touch([]Key{key})
	return f, nil
}

// use adds n uses of an artifact.
func (d *disk) use(key Key, n uint64) {
	d.mu.Lock()
	d.uses[key] = min(d.uses[key]+n, mostHits)
	d.mu.Unlock()
}

// touch sets the time of last use of artifacts to now.
func (d *disk) touch(keys []Key) {
	now := time.Now()
	for _, key := range keys {
		_ = os.Chtimes(d.path(key, infoSuffix), now, now)
	}
}

func (d *disk) read(key Key) (*found, error) {
	b, err := os.ReadFile(d.path(key, infoSuffix))
	if err != nil {
		return nil, err
	}
	body, ok := bytes.CutPrefix(b, magic)
	if !ok || len(body) < headLen || binary.LittleEndian.Uint32(body) != sumOf(key, body[4:]) {
		return nil, errDamaged
	}
	f := &found{info: body[headLen:], source: int(binary.LittleEndian.Uint32(body[16:]))}
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

// put writes an artifact, or renames its temporary file, and returns the path of its code. If put
// fails, a temporary file has its original name again.
func (d *disk) put(key Key, a Artifact) (path string, err error) {
	head := make([]byte, headLen, headLen+len(a.Info))
	if a.File != "" {
		path = d.path(key, codeSuffix)
		if err := d.place(a.File, path, a.Size); err != nil {
			return "", err
		}
		binary.LittleEndian.PutUint64(head[4:], uint64(a.Size)+1)
		binary.LittleEndian.PutUint32(head[12:], a.Sum)
	} else if a.Code != nil {
		path = d.path(key, codeSuffix)
		if err := d.write(path, a.Code); err != nil {
			return "", err
		}
		binary.LittleEndian.PutUint64(head[4:], uint64(len(a.Code))+1)
		binary.LittleEndian.PutUint32(head[12:], crc32.Checksum(a.Code, castagnoli))
	}
	binary.LittleEndian.PutUint32(head[16:], uint32(a.Source))
	body := append(head, a.Info...)
	binary.LittleEndian.PutUint32(body, sumOf(key, body[4:]))
	if err := d.write(d.path(key, infoSuffix), append(append([]byte{}, magic...), body...)); err != nil {
		if a.File != "" && os.Rename(path, a.File) == nil { // the caller can still use the file
			d.mu.Lock()
			d.total -= a.Size
			d.mu.Unlock()
		}
		d.remove(key)
		return "", err
	}
	return path, nil
}

func (d *disk) full() bool { return d.bytes() > d.limit }

func (d *disk) write(path string, b []byte) error {
	t, err := d.temp()
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

// temp creates a temporary file in the folder.
func (d *disk) temp() (*os.File, error) {
	t, err := os.CreateTemp(d.dir, "*"+tempSuffix)
	if errors.Is(err, fs.ErrNotExist) && d.renew() == nil {
		t, err = os.CreateTemp(d.dir, "*"+tempSuffix)
	}
	return t, err
}

// renew creates the folder again if it is missing. Other processes may delete the folder at any
// time.
func (d *disk) renew() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := os.Stat(d.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.total = 0
	return os.MkdirAll(d.dir, 0o700)
}

// place renames a written file to its final name. If two builds made the same artifact, place
// replaces the first file.
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
	d.mu.Lock()
	delete(d.uses, key)
	d.mu.Unlock()
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

// stored is an artifact on disk with what prune needs to know.
type stored struct {
	key  Key
	info file
	size int64 // bytes of both files
	rank uint64
}

// prune removes the artifacts with the lowest rank until the rest takes at most three quarters of
// the limit. prune never removes keep. rank is the value of one use times the number of uses. Uses
// are counted since the start of the process, and each prune halves the counts. Uses before the
// start are estimated from the time of last use: up to 16 for the newest artifact.
func (d *disk) prune(keep Key) (gone []Key, err error) {
	const newest = 16
	all, err := d.stored()
	if err != nil {
		return nil, err
	}
	sort.Slice(all, func(i, j int) bool { return all[i].info.used.Before(all[j].info.used) })
	for i := range all {
		all[i].rank = worth(d.source(all[i].info.path), all[i].size)
	}
	d.mu.Lock()
	for i := range all {
		all[i].rank *= d.uses[all[i].key] + 1 + uint64((newest-1)*i/len(all))
	}
	for key, n := range d.uses {
		d.uses[key] = n / 2
	}
	d.mu.Unlock()
	sort.SliceStable(all, func(i, j int) bool { return all[i].rank < all[j].rank })
	for _, a := range all {
		if d.bytes() <= d.limit/4*3 {
			break
		}
		if a.key != keep {
			d.remove(a.key)
			gone = append(gone, a.key)
		}
	}
	return gone, nil
}

// stored returns all artifacts on disk.
func (d *disk) stored() ([]stored, error) {
	files, err := d.files()
	if err != nil {
		return nil, err
	}
	size := map[string]int64{} // bytes of both files of an artifact, by their common name
	var out []stored
	for _, f := range files {
		stem, suffix, _ := strings.Cut(filepath.Base(f.path), ".")
		size[stem] += f.size
		if key, ok := keyOf(stem); ok && "."+suffix == infoSuffix {
			out = append(out, stored{key: key, info: f})
		}
	}
	for i := range out {
		stem, _, _ := strings.Cut(filepath.Base(out[i].info.path), ".")
		out[i].size = size[stem]
	}
	return out, nil
}

// source reads from an info file the length of the contract's code; 0 if the info file states no
// length.
func (d *disk) source(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, len(magic)+headLen)
	if _, err := io.ReadFull(f, b); err != nil || !bytes.HasPrefix(b, magic) {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b[len(magic)+16:]))
}

func (d *disk) bytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}
