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

// Key names code compiled by some rules.
type Key struct {
	Code  primitives.Hash
	Rules primitives.Hash
}

// Artifact is what a build makes: what is to be known of the code, and the machine code, nil if
// there is none because the code breaks a rule.
type Artifact struct {
	Info, Code []byte
	File       string // has the machine code in place of Code: one of TempFile's, which the cache takes over
	Size       int64  // of what is in File
	Sum        uint32 // and its CRC-32C
	// bytes of the code that it was made of: how large an artifact may be before it is the first to
	// go
	Source int
}

// Value is a loaded artifact.
type Value interface {
	Close() // called once nobody holds the value
}

// Loader makes values.
type Loader[V Value] interface {
	Load(a Artifact) (V, error)
	// LoadFile is Load with the machine code in a file that will not change.
	LoadFile(info []byte, path string) (V, error)
}

// Build makes an artifact. Its error is nobody's code's fault, and is not remembered. It may give
// up when cancel is closed: another build of the same has come to an end.
type Build func(cancel <-chan struct{}) (Artifact, error)

// Options are what a cache is made of.
type Options struct {
	Memory  int64  // bytes of artifacts to keep loaded
	Dir     string // where artifacts are kept; empty: nowhere
	Disk    int64  // bytes to keep there
	Version string // of all that makes artifacts
	// Versions is the pattern (filepath.Match) of all versions' names: folders of others in Dir are
	// removed, and nothing else.
	Versions string
	// DiskFailed is called with the first error of a write to Dir, and with the next one that
	// follows a write without an error. It may be called by many goroutines. nil: errors are only
	// counted.
	DiskFailed func(error)
}

// Entry is a value that is held.
type Entry[V Value] struct {
	Value V

	c    *Cache[V]
	key  Key
	size int64
	refs int // holders, and one of the cache as long as it is in it
	rank rank
	uses uint64 // that the disk was not told of
}

// Release gives the value back.
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

// flight is a value in the making.
type flight[V Value] struct {
	done   chan struct{}
	cancel chan struct{} // closed when another flight has brought the value
	waits  int           // that want an entry each
	landed bool          // by the other flight
	entry  *Entry[V]
	err    error
}

// Stats count since the start, but for Entries and Bytes.
type Stats struct {
	Hits, Loads, Builds, Failures uint64 // from memory, from disk, made; builds that failed
	Rebuilds                      uint64 // of Builds those of what had been there and was evicted
	Damaged, DiskErrors           uint64 // files that were not as written; that could not be written
	Evictions, DiskEvictions      uint64
	BuildTime                     time.Duration
	Entries                       int
	Bytes                         int64 // of artifacts in memory
	DiskBytes                     int64
}

// Cache is safe for use by many goroutines.
type Cache[V Value] struct {
	loader Loader[V]
	limit  int64
	disk   *disk // nil: none
	// diskFailed is Options.DiskFailed.
	diskFailed func(error)

	mu      sync.Mutex
	entries map[Key]*Entry[V]
	order   order[V]
	urgent  map[Key]*flight[V]
	later   map[Key]*flight[V] // in the background
	evicted map[Key]struct{}   // of late, from where it has to be made again
	closed  bool
	stats   Stats
	// diskFails is whether the last write to disk failed.
	diskFails bool
	asked     uint      // hits since the disk was told of them
	told      time.Time // when it was
}

// What was evicted is remembered for Stats up to mostEvicted keys. The disk is told of what was
// used when it was written to, and else every tellAfter, which is looked at each tellHits hits.
const (
	mostEvicted = 1 << 16
	tellHits    = 1 << 12
	tellAfter   = 5 * time.Minute
)

// ErrClosed is the error of a cache that was closed.
var ErrClosed = errors.New("cache: closed")

// New opens a cache.
func New[V Value](l Loader[V], o Options) (*Cache[V], error) {
	c := &Cache[V]{
		loader: l, limit: o.Memory, entries: map[Key]*Entry[V]{}, urgent: map[Key]*flight[V]{}, later: map[Key]*flight[V]{},
		evicted: map[Key]struct{}{}, told: time.Now(), diskFailed: o.DiskFailed,
	}
	if o.Dir != "" {
		var err error
		if c.disk, err = openDisk(o.Dir, o.Version, o.Versions, o.Disk); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Get returns the value of key, held: from memory, from disk, or made. Of many that ask at once,
// one makes it.
func (c *Cache[V]) Get(key Key, build Build) (*Entry[V], error) { return c.get(key, build, false) }

// GetInBackground is Get for threads of a low priority: those of Get don't wait for it. So a value
// can be in the making twice; the first to come serves all, and the other is cancelled.
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
		tell := c.disk != nil && c.asked%tellHits == 0 && time.Since(c.told) > tellAfter
		c.mu.Unlock()
		if tell {
			c.tell()
		}
		return e, nil
	}
	own := c.urgent
	f := own[key]
	if background && f == nil {
		own = c.later
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
	madeErr := errors.New("cache: the build did not return") // unless it does
	defer func() {
		c.land(key, f, own, made, madeErr)
		e, err = f.entry, f.err
	}()
	made, madeErr = c.make(key, build, f.cancel)
	return
}

// land ends a flight: the entry goes into the memory, and to all that wait, also for the other
// flight to the same.
func (c *Cache[V]) land(key Key, f *flight[V], own map[Key]*flight[V], made *Entry[V], err error) {
	var gone []*Entry[V]
	c.mu.Lock()
	if f.landed { // by the other
		c.mu.Unlock()
		if made != nil {
			made.Value.Close()
		}
		return
	}
	delete(own, key)
	if f.err = err; err == nil {
		e := c.entries[key]
		if e != nil { // it was made twice
			gone = append(gone, made)
		} else if e = made; !c.closed {
			e.refs++
			c.entries[key] = e
			c.stats.Bytes += e.size
			c.order.push(e)
		}
		f.entry = e
		e.refs += f.waits
		for _, other := range []map[Key]*flight[V]{c.urgent, c.later} {
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

// evict takes entries out until the rest fits; it returns those that nobody holds. The last one
// stays.
func (c *Cache[V]) evict() (gone []*Entry[V]) {
	for c.stats.Bytes > c.limit && len(c.order.heap) > 1 {
		e := c.order.least()
		c.stats.Evictions++
		if c.disk == nil {
			c.lost(e.key)
		}
		if c.remove(e) {
			gone = append(gone, e)
		}
	}
	return gone
}

// lost notes what would have to be made again.
func (c *Cache[V]) lost(key Key) {
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

// tell lets the disk know what was used in memory, so that it does not take it for old.
func (c *Cache[V]) tell() {
	var used []Key
	c.mu.Lock()
	c.told = time.Now()
	for key, e := range c.entries {
		if e.uses > 0 {
			c.disk.use(key, e.uses)
			used, e.uses = append(used, key), 0
		}
	}
	c.mu.Unlock()
	c.disk.touch(used)
}

// overhead is what an entry takes besides its artifact, about.
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
			if c.isClosed() { // and so is what loads: the file is as good as it was
				return nil, ErrClosed
			}
			c.count(func(s *Stats) { s.Damaged++ })
			c.disk.remove(key)
		}
	}
	a, err := c.compile(key, build, cancel)
	for again := 0; err == nil && a.File != ""; again++ {
		e, lost := c.takeOver(key, a)
		if lost == nil || again == mostLost || errors.As(lost, new(*notLoaded)) || errors.Is(lost, ErrClosed) {
			return e, lost
		}
		a, err = c.compile(key, build, cancel) // somebody took the file away
	}
	if err != nil {
		return nil, err
	}
	if c.disk != nil {
		path, err := c.write(key, a)
		if err == nil && a.Code != nil {
			// Mapped from the file the code takes no memory that the system cannot have back.
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

// mostLost is how often an artifact is made again whose file is not there or not as it was said:
// the folder may be deleted at any time, and a block may wait.
const mostLost = 2

// notLoaded is the loader's error of what is as it was made: to make it again changes nothing.
type notLoaded struct{ err error }

func (e *notLoaded) Error() string { return e.err.Error() }
func (e *notLoaded) Unwrap() error { return e.err }

// takeOver makes an entry of an artifact in a file: it is put where it belongs, or read if that is
// not possible. It is held open, since from its place it may be removed before it is loaded, if at
// the same time another is put there and needs the room.
func (c *Cache[V]) takeOver(key Key, a Artifact) (*Entry[V], error) {
	f, err := os.Open(a.File)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	path, _ := c.write(key, a) // counted and reported
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

// TempFile makes an empty file where artifacts are kept, and returns its name; empty: there is no
// such place. Whoever fills it gives it back as Artifact.File, or removes it; if neither comes to
// pass, the next New does.
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

// write puts an artifact on disk, and makes room for it there. It counts an error, and reports the
// first after a success.
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
	c.tell()
	gone, err := c.disk.prune(key)
	c.mu.Lock()
	c.stats.DiskEvictions += uint64(len(gone))
	for _, key := range gone {
		c.lost(key)
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

// compile runs a build.
func (c *Cache[V]) compile(key Key, build Build, cancel <-chan struct{}) (Artifact, error) {
	start := time.Now()
	a, err := build(cancel)
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

// Has tells whether Get would not have to build.
func (c *Cache[V]) Has(key Key) bool {
	c.mu.Lock()
	_, ok := c.entries[key]
	c.mu.Unlock()
	return ok || c.disk != nil && c.disk.has(key)
}

// Making tells whether a Get is making it.
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

// Close gives up what the cache holds. What others hold lives until they release it.
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
