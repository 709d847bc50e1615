package cache

import (
	"errors"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// Key identifies an artifact: the hash of the code, and the hash of the rules by which the code was
// compiled.
type Key struct {
	Code  primitives.Hash
	Rules primitives.Hash
}

// Artifact is the result of a build: information about the code, and the machine code. Code is nil
// if the code breaks a rule and so was not compiled, or if File is set.
type Artifact struct {
	Info, Code []byte
	File       string // name of a TempFile with the machine code, which the cache moves or removes; empty: none
	Size       int64  // size of File in bytes
	Sum        uint32 // CRC-32C of the content of File
	// Source is the length in bytes of the contract's code. Artifacts that are large compared with
	// Source are evicted first.
	Source int
}

// Value is a loaded artifact.
type Value interface {
	Close() // called once, when no user holds the value any more
}

// Loader loads artifacts.
type Loader[V Value] interface {
	Load(a Artifact) (V, error)
	// LoadFile does the same as Load for an artifact whose machine code is in the file `path`. The
	// file must not change.
	LoadFile(info []byte, path string) (V, error)
}

// Build makes an artifact. An error means that the node failed, not that the code is wrong; the
// cache does not store errors. When a second build of this build's key has finished first, the
// cache closes cancel. Build may then return early with an error. Build may also return
// ErrElsewhere.
type Build func(cancel <-chan struct{}) (Artifact, error)

// Options configure a cache.
type Options struct {
	Memory  int64  // maximum bytes of loaded artifacts
	Dir     string // folder for artifacts; empty: memory only
	Disk    int64  // maximum bytes of artifacts on disk
	Version string // identifies everything except the key on which artifacts depend
	// Versions is a pattern (filepath.Match) that matches the folder names of all versions. In Dir,
	// New removes the folders that match Versions, except the folder of Version.
	Versions string
	// DiskFailed is called with the error of a write to Dir, unless the previous write failed too.
	// DiskFailed must be safe for concurrent use. nil: errors are only counted.
	DiskFailed func(error)
}

// Entry is a reference to a value. The user of the value must call Release.
type Entry[V Value] struct {
	Value V

	c    *Cache[V]
	key  Key
	size int64
	refs int // number of users, plus one while the entry is in the cache
	rank rank
	uses uint64 // number of uses that are not yet recorded on disk
}

// Release releases the value, which the caller must not use afterwards. The caller must call
// Release once.
func (e *Entry[V]) Release() {
	e.c.mu.Lock()
	last := e.drop()
	e.c.mu.Unlock()
	if last {
		e.Value.Close()
	}
}

func (e *Entry[V]) drop() (last bool) {
	e.refs--
	return e.refs == 0
}

// flight is the lookup of a key that is not in memory: it loads the artifact from disk or builds
// it. Urgent and background callers of a key have separate flights. All urgent callers of a key
// wait for one flight, and all background callers of a key wait for one flight.
type flight[V Value] struct {
	done   chan struct{}
	cancel chan struct{} // closed when the other flight of the key has produced the value
	waits  int           // number of callers that wait for an entry
	landed bool          // the other flight of the key produced the value first
	entry  *Entry[V]
	err    error
}

// Stats are counts since the start, except for Entries and Bytes.
type Stats struct {
	Hits                     uint64 // values found in memory
	Loads                    uint64 // values loaded from disk
	Builds                   uint64 // values built
	Failures                 uint64 // failed builds
	Rebuilds                 uint64 // builds of artifacts that had been evicted
	Damaged                  uint64 // corrupt files
	DiskErrors               uint64 // failed writes
	Evictions, DiskEvictions uint64
	BuildTime                time.Duration
	Entries                  int
	Bytes                    int64 // size of the artifacts in memory
	DiskBytes                int64
}

// Cache keeps compiled contracts in memory and on disk. Safe for concurrent use.
//
// The problem: compiling a contract takes milliseconds to seconds; loading its artifact takes
// microseconds to milliseconds. Every contract that is called must be ready when a block needs it,
// and any account can deploy or call contracts that fill the cache.
//
// Invariants:
//   - At most two builds per key run at a time: one for callers that a block waits for (urgent),
//     and one for background callers. A caller of Get never waits for a background thread, which
//     may have a low priority. The first of two builds to finish serves all waiters; the
//     cache cancels the second build.
//   - An entry is closed only after the cache and all users have released it.
//   - A failed build is not cached, because the compiler may succeed the next time. Code that
//     breaks a rule is cached as an artifact without machine code.
//   - The cache affects only the time until a result is available, never the result.
//
// Outline: get looks up the key in memory, then joins or starts a flight. The flight reads the
// artifact from disk, or builds it and writes it to disk. The machine code is mapped from the file,
// so that the system can reclaim its memory. land gives the entry to all waiters and evicts other
// entries until the limit holds. Memory and disk evict in the order of rank: value per byte times
// recent uses, see eviction_order.go.
//
// Rejected: least recently used. A stream of contracts that are each called once would evict
// contracts that are called often, and the node would have to compile the evicted contracts again.
// Also rejected: one flight for both kinds of callers. A block would wait for a low-priority
// thread.
type Cache[V Value] struct {
	loader Loader[V]
	limit  int64
	disk   *disk // artifacts on disk; nil: artifacts are only in memory
	// diskFailed is Options.DiskFailed; may be nil.
	diskFailed func(error)

	mu         sync.Mutex
	entries    map[Key]*Entry[V]
	order      order[V]
	urgent     map[Key]*flight[V]
	background map[Key]*flight[V]
	evicted    map[Key]struct{} // keys of recently evicted artifacts, which must be built again
	closed     bool
	stats      Stats
	// diskFails is whether the last write to disk failed.
	diskFails bool
	asked     uint      // number of hits since the cache was opened
	notedAt   time.Time // time when uses were last recorded on disk
}

// The cache remembers at most mostEvicted evicted keys, for Stats.Rebuilds. The cache records on
// disk which artifacts were used in memory, whenever the cache writes an artifact and at least
// every noteAfter. To avoid reading the clock often, only every noteHits-th hit checks noteAfter.
const (
	mostEvicted = 1 << 16
	noteHits    = 1 << 12
	noteAfter   = 5 * time.Minute
)

// ErrClosed is the error of a closed cache.
var ErrClosed = errors.New("cache: the contract cache is closed")

// ErrElsewhere is the error of a Build that made no artifact, because the artifact belongs under
// another key, where the artifact may already be. The caller of Get looks up that key next. Stats
// do not count such a call as a build.
var ErrElsewhere = errors.New("cache: the artifact of this code belongs under another key: look up that key")

// New opens a cache. New removes folders of other versions of the artifacts, and temporary files of
// ended processes.
func New[V Value](l Loader[V], o Options) (*Cache[V], error) {
	c := &Cache[V]{
		loader: l, limit: o.Memory, entries: map[Key]*Entry[V]{}, urgent: map[Key]*flight[V]{}, background: map[Key]*flight[V]{},
		evicted: map[Key]struct{}{}, notedAt: time.Now(), diskFailed: o.DiskFailed,
	}
	if o.Dir != "" {
		var err error
		if c.disk, err = openDisk(o.Dir, o.Version, o.Versions, o.Disk); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Get returns the value of key, which the caller must release. Get finds the value in memory, loads
// it from disk, or calls build. Concurrent calls with one key share one build.
func (c *Cache[V]) Get(key Key, build Build) (*Entry[V], error) { return c.get(key, build, false) }

// GetInBackground does the same as Get, for threads of a low priority. Callers of Get do not wait
// for such threads, so two builds of one key can run at a time. The first build to finish serves
// all callers, and the cache cancels the second build.
func (c *Cache[V]) GetInBackground(key Key, build Build) (*Entry[V], error) {
	return c.get(key, build, true)
}

func (c *Cache[V]) get(key Key, build Build, background bool) (e *Entry[V], err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	if e := c.entries[key]; e != nil {
		c.stats.Hits++
		c.order.touch(e)
		e.uses++
		e.refs++
		c.asked++
		tell := c.disk != nil && c.asked%noteHits == 0 && time.Since(c.notedAt) > noteAfter
		c.mu.Unlock()
		if tell {
			c.noteUses()
		}
		return e, nil
	}
	own := c.urgent
	f := own[key]
	if background && f == nil {
		own = c.background
		f = own[key]
	}
	if f != nil {
		f.waits++
		c.mu.Unlock()
		<-f.done
		return f.entry, f.err
	}
	f = &flight[V]{done: make(chan struct{}), cancel: make(chan struct{}), waits: 1}
	own[key] = f
	c.mu.Unlock()

	var made *Entry[V]
	madeErr := errors.New("cache: the compilation panicked") // replaced unless build panics
	defer func() {
		c.land(key, f, own, made, madeErr)
		e, err = f.entry, f.err
	}()
	made, madeErr = c.make(key, build, f.cancel)
	return
}

// land ends a flight. It adds the entry to memory and passes the entry to all waiters, including
// the waiters of the key's second flight.
func (c *Cache[V]) land(key Key, f *flight[V], own map[Key]*flight[V], made *Entry[V], err error) {
	var gone []*Entry[V]
	c.mu.Lock()
	if f.landed { // the other flight has produced the value
		c.mu.Unlock()
		if made != nil {
			made.Value.Close()
		}
		return
	}
	delete(own, key)
	if f.err = err; err == nil {
		e := c.entries[key]
		if e != nil { // both flights built the artifact
			gone = append(gone, made)
		} else if e = made; !c.closed {
			e.refs++
			c.entries[key] = e
			c.stats.Bytes += e.size
			c.order.push(e)
		}
		f.entry = e
		e.refs += f.waits
		for _, other := range []map[Key]*flight[V]{c.urgent, c.background} {
			if o := other[key]; o != nil {
				o.entry, o.landed = e, true
				e.refs += o.waits
				close(o.cancel)
				close(o.done)
				delete(other, key)
			}
		}
		gone = append(gone, c.evict()...)
	}
	c.mu.Unlock()
	close(f.done)
	for _, e := range gone {
		e.Value.Close()
	}
}

// evict removes entries until the limit holds, but always keeps one entry. evict returns the
// removed entries that have no users; the caller must close these entries.
func (c *Cache[V]) evict() (gone []*Entry[V]) {
	for c.stats.Bytes > c.limit && len(c.order.heap) > 1 {
		e := c.order.least()
		c.stats.Evictions++
		if c.disk == nil {
			c.noteEvicted(e.key)
		}
		if c.remove(e) {
			gone = append(gone, e)
		}
	}
	return gone
}

// noteEvicted remembers a key that will have to be built again, for Stats.Rebuilds.
func (c *Cache[V]) noteEvicted(key Key) {
	if len(c.evicted) >= mostEvicted {
		clear(c.evicted)
	}
	c.evicted[key] = struct{}{}
}

func (c *Cache[V]) remove(e *Entry[V]) (last bool) {
	c.order.remove(e)
	delete(c.entries, e.key)
	c.stats.Bytes -= e.size
	if c.disk != nil && e.uses > 0 {
		c.disk.use(e.key, e.uses)
	}
	return e.drop()
}

// noteUses records on disk which artifacts were used in memory. Otherwise disk.prune would treat
// them as unused.
func (c *Cache[V]) noteUses() {
	var used []Key
	c.mu.Lock()
	c.notedAt = time.Now()
	for key, e := range c.entries {
		if e.uses > 0 {
			c.disk.use(key, e.uses)
			used, e.uses = append(used, key), 0
		}
	}
	c.mu.Unlock()
	c.disk.touch(used)
}

// overhead is the approximate memory of an entry besides its artifact, in bytes.
const overhead = 1 << 10

func (c *Cache[V]) entry(key Key, v V, info, code int64, source int) *Entry[V] {
	e := &Entry[V]{Value: v, c: c, key: key, size: info + code + overhead}
	e.rank.worth = worth(source, e.size)
	return e
}

// make loads the value from disk, or builds it.
func (c *Cache[V]) make(key Key, build Build, cancel <-chan struct{}) (*Entry[V], error) {
	if c.disk != nil {
		if f, err := c.disk.find(key); err != nil {
			c.count(func(s *Stats) { s.Damaged++ })
		} else if f != nil {
			v, err := c.loadFile(f)
			if err == nil {
				c.count(func(s *Stats) { s.Loads++ })
				return c.entry(key, v, int64(len(f.info)), f.size, f.source), nil
			}
			if c.isClosed() { // the loader may have failed because the cache is closed, so the file may be intact
				return nil, ErrClosed
			}
			c.count(func(s *Stats) { s.Damaged++ })
			c.disk.remove(key)
		}
	}
	a, err := c.compile(key, build, cancel)
	for again := 0; err == nil && a.File != ""; again++ {
		e, lost := c.takeOver(key, a)
		if lost == nil || again == maxRebuilds || errors.As(lost, new(*notLoaded)) || errors.Is(lost, ErrClosed) {
			return e, lost
		}
		a, err = c.compile(key, build, cancel) // the file is missing or damaged
	}
	if err != nil {
		return nil, err
	}
	if c.disk != nil {
		path, err := c.write(key, a)
		if err == nil && a.Code != nil {
			// The system can reclaim the memory of code that is mapped from a file.
			if v, err := c.loader.LoadFile(a.Info, path); err == nil {
				return c.entry(key, v, int64(len(a.Info)), int64(len(a.Code)), a.Source), nil
			}
		}
	}
	v, err := c.loader.Load(a)
	if err != nil && c.isClosed() {
		return nil, ErrClosed
	}
	if err != nil {
		if c.disk != nil {
			c.disk.remove(key)
		}
		return nil, err
	}
	return c.entry(key, v, int64(len(a.Info)), int64(len(a.Code)), a.Source), nil
}

func (c *Cache[V]) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// maxRebuilds is how often an artifact is built again if its file is missing or damaged. Other
// processes may delete the folder at any time, while a block waits for the artifact.
const maxRebuilds = 2

// notLoaded is a loader's error for an intact artifact. Another build would fail in the same way.
type notLoaded struct{ err error }

func (e *notLoaded) Error() string { return e.err.Error() }
func (e *notLoaded) Unwrap() error { return e.err }

// takeOver makes an entry from an artifact in a temporary file. takeOver renames the file to its
// final name and maps the file. If mapping fails, takeOver reads the file into memory. takeOver
// keeps the file open, because another artifact that needs space on disk may evict the file before
// the loader has mapped it.
func (c *Cache[V]) takeOver(key Key, a Artifact) (*Entry[V], error) {
	f, err := os.Open(a.File)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	path, _ := c.write(key, a) // write counts and reports the error
	if path != "" {
		if v, err := c.loader.LoadFile(a.Info, path); err == nil {
			return c.entry(key, v, int64(len(a.Info)), a.Size, a.Source), nil
		}
		if c.isClosed() {
			return nil, ErrClosed
		}
	}
	a.Code = make([]byte, a.Size)
	_, err = io.ReadFull(f, a.Code)
	_ = os.Remove(a.File)
	c.disk.remove(key)
	if err == nil && crc32.Checksum(a.Code, castagnoli) != a.Sum {
		err = errDamaged
	}
	if err != nil {
		return nil, err
	}
	v, err := c.loader.Load(a)
	if err != nil {
		return nil, &notLoaded{err}
	}
	return c.entry(key, v, int64(len(a.Info)), a.Size, a.Source), nil
}

// TempFile creates an empty file in the cache's folder and returns its name; empty if the cache has
// no folder. The caller writes the machine code to the file, and either returns the name as
// Artifact.File or removes the file. New removes such files of ended processes.
func (c *Cache[V]) TempFile() string {
	if c.disk == nil {
		return ""
	}
	f, err := c.disk.temp()
	if err != nil {
		return ""
	}
	_ = f.Close()
	return f.Name()
}

// write stores an artifact on disk and evicts other artifacts there if needed. write counts errors,
// and reports an error only if the previous write succeeded.
func (c *Cache[V]) write(key Key, a Artifact) (path string, err error) {
	path, err = c.writePruned(key, a)
	c.mu.Lock()
	first := err != nil && !c.diskFails
	if c.diskFails = err != nil; err != nil {
		c.stats.DiskErrors++
	}
	c.mu.Unlock()
	if first && c.diskFailed != nil {
		c.diskFailed(err)
	}
	return path, err
}

func (c *Cache[V]) writePruned(key Key, a Artifact) (path string, err error) {
	if path, err = c.disk.put(key, a); err != nil || !c.disk.full() {
		return path, err
	}
	c.noteUses()
	gone, err := c.disk.prune(key)
	c.mu.Lock()
	c.stats.DiskEvictions += uint64(len(gone))
	for _, key := range gone {
		c.noteEvicted(key)
	}
	c.mu.Unlock()
	return path, err
}

func (c *Cache[V]) loadFile(f *found) (V, error) {
	if f.path == "" {
		return c.loader.Load(Artifact{Info: f.info})
	}
	return c.loader.LoadFile(f.info, f.path)
}

// compile calls build and counts the call in the stats.
func (c *Cache[V]) compile(key Key, build Build, cancel <-chan struct{}) (Artifact, error) {
	start := time.Now()
	a, err := build(cancel)
	if errors.Is(err, ErrElsewhere) {
		return a, err
	}
	c.count(func(s *Stats) {
		s.Builds++
		s.BuildTime += time.Since(start)
		if err != nil {
			s.Failures++
		} else if _, again := c.evicted[key]; again {
			s.Rebuilds++
			delete(c.evicted, key)
		}
	})
	return a, err
}

func (c *Cache[V]) count(f func(*Stats)) {
	c.mu.Lock()
	f(&c.stats)
	c.mu.Unlock()
}

// Has returns whether the artifact of key is in memory or on disk, so that Get would not build it.
func (c *Cache[V]) Has(key Key) bool {
	c.mu.Lock()
	_, ok := c.entries[key]
	c.mu.Unlock()
	return ok || c.disk != nil && c.disk.has(key)
}

// Making returns whether a call of Get is loading or building the artifact of key.
func (c *Cache[V]) Making(key Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.urgent[key] != nil
}

// Stats returns the counts.
func (c *Cache[V]) Stats() Stats {
	c.mu.Lock()
	s := c.stats
	s.Entries = len(c.entries)
	c.mu.Unlock()
	if c.disk != nil {
		s.DiskBytes = c.disk.bytes()
	}
	return s
}

// Close releases all entries. An entry that has users stays valid until its users have released the
// entry.
func (c *Cache[V]) Close() {
	c.mu.Lock()
	c.closed = true
	var gone []*Entry[V]
	var used []Key
	for key, e := range c.entries {
		if e.uses > 0 {
			used = append(used, key)
		}
		if c.remove(e) {
			gone = append(gone, e)
		}
	}
	c.mu.Unlock()
	if c.disk != nil {
		c.disk.touch(used)
	}
	for _, e := range gone {
		e.Value.Close()
	}
}
