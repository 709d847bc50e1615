package cache

import (
	"container/list"
	"errors"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// Key names code compiled by some rules.
type Key struct {
	Code  primitives.Hash
	Rules primitives.Hash
}

// Artifact is what a build makes: what is to be known of the code, and the machine code, nil if there is none because the
// code breaks a rule.
type Artifact struct{ Info, Code []byte }

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

// Build makes an artifact. Its error is nobody's code's fault, and is not remembered.
type Build func() (Artifact, error)

// Options are what a cache is made of.
type Options struct {
	Memory   int64  // bytes of artifacts to keep loaded
	Dir      string // where artifacts are kept; empty: nowhere
	Disk     int64  // bytes to keep there
	Version  string // of all that makes artifacts: others of the folder are removed
	Builders int    // builds at a time, at least 1, but for those in the background
}

// Entry is a value that is held.
type Entry[V Value] struct {
	Value V

	c    *Cache[V]
	key  Key
	size int64
	refs int // holders, and one of the cache as long as it is in it
	at   *list.Element
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
	done       chan struct{}
	waits      int  // that want an entry each
	background bool // at a low priority
	entry      *Entry[V]
	err        error
}

// Stats count since the start, but for Entries and Bytes.
type Stats struct {
	Hits, Loads, Builds, Failures uint64 // from memory, from disk, made; builds that failed
	Damaged, DiskErrors           uint64 // files that were not as written; that could not be written
	Evictions                     uint64
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
	build  chan struct{}

	mu      sync.Mutex
	entries map[Key]*Entry[V]
	order   *list.List // of *Entry, last used first
	flights map[Key]*flight[V]
	closed  bool
	stats   Stats
}

// ErrClosed is the error of a cache that was closed.
var ErrClosed = errors.New("cache: closed")

// New opens a cache.
func New[V Value](l Loader[V], o Options) (*Cache[V], error) {
	c := &Cache[V]{
		loader: l, limit: o.Memory, build: make(chan struct{}, max(o.Builders, 1)),
		entries: map[Key]*Entry[V]{}, order: list.New(), flights: map[Key]*flight[V]{},
	}
	if o.Dir != "" {
		var err error
		if c.disk, err = openDisk(o.Dir, o.Version, o.Disk); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Get returns the value of key, held: from memory, from disk, or made. Of many that ask at once, one makes it.
func (c *Cache[V]) Get(key Key, build Build) (*Entry[V], error) { return c.get(key, build, false) }

// GetInBackground is Get for threads of a low priority: those of Get don't wait for it, neither for the same value nor for their turn.
// So a value can be made twice; the second one is dropped.
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
		c.order.MoveToFront(e.at)
		e.refs++
		c.mu.Unlock()
		return e, nil
	}
	if f := c.flights[key]; f != nil && (background || !f.background) {
		f.waits++
		c.mu.Unlock()
		<-f.done
		return f.entry, f.err
	}
	f := &flight[V]{done: make(chan struct{}), waits: 1, background: background}
	c.flights[key] = f // if there was one in the background, it ends beside this one
	c.mu.Unlock()

	f.err = errors.New("cache: the build did not return") // unless it does
	defer func() {
		c.land(key, f)
		e, err = f.entry, f.err
	}()
	f.entry, f.err = c.make(key, build, background)
	return
}

// land ends a flight: the entry goes into the memory, and to all that wait.
func (c *Cache[V]) land(key Key, f *flight[V]) {
	var gone []*Entry[V]
	c.mu.Lock()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	if e := c.entries[key]; f.err == nil && e != nil { // it was made twice
		gone = append(gone, f.entry)
		f.entry = e
		e.refs += f.waits
	} else if f.err == nil {
		e = f.entry
		e.refs = f.waits
		if !c.closed {
			e.refs++
			e.at = c.order.PushFront(e)
			c.entries[key] = e
			c.stats.Bytes += e.size
			gone = c.evict()
		}
	}
	c.mu.Unlock()
	close(f.done)
	for _, e := range gone {
		e.Value.Close()
	}
}

// evict takes entries out until the rest fits; it returns those that nobody holds.
func (c *Cache[V]) evict() (gone []*Entry[V]) {
	for c.stats.Bytes > c.limit && c.order.Len() > 1 {
		e := c.order.Back().Value.(*Entry[V])
		c.stats.Evictions++
		if c.remove(e) {
			gone = append(gone, e)
		}
	}
	return gone
}

func (c *Cache[V]) remove(e *Entry[V]) (last bool) {
	c.order.Remove(e.at)
	delete(c.entries, e.key)
	c.stats.Bytes -= e.size
	return e.drop()
}

// overhead is what an entry takes besides its artifact, about.
const overhead = 1 << 10

func (c *Cache[V]) entry(key Key, v V, info, code int64) *Entry[V] {
	return &Entry[V]{Value: v, c: c, key: key, size: info + code + overhead}
}

// make loads the value from disk, or builds it.
func (c *Cache[V]) make(key Key, build Build, background bool) (*Entry[V], error) {
	if c.disk != nil {
		if f, err := c.disk.find(key); err != nil {
			c.count(func(s *Stats) { s.Damaged++ })
		} else if f != nil {
			v, err := c.loadFile(f)
			if err == nil {
				c.count(func(s *Stats) { s.Loads++ })
				return c.entry(key, v, int64(len(f.info)), f.size), nil
			}
			c.count(func(s *Stats) { s.Damaged++ })
			c.disk.remove(key)
		}
	}
	a, err := c.compile(build, background)
	if err != nil {
		return nil, err
	}
	if c.disk != nil {
		path, err := c.disk.put(key, a)
		if err == nil && a.Code != nil {
			// Mapped from the file the code takes no memory that the system cannot have back.
			if v, err := c.loader.LoadFile(a.Info, path); err == nil {
				return c.entry(key, v, int64(len(a.Info)), int64(len(a.Code))), nil
			}
		}
		if err != nil {
			c.count(func(s *Stats) { s.DiskErrors++ })
		}
	}
	v, err := c.loader.Load(a)
	if err != nil {
		return nil, err
	}
	return c.entry(key, v, int64(len(a.Info)), int64(len(a.Code))), nil
}

func (c *Cache[V]) loadFile(f *found) (V, error) {
	if f.path == "" {
		return c.loader.Load(Artifact{Info: f.info})
	}
	return c.loader.LoadFile(f.info, f.path)
}

// compile runs a build, in the background at once, else when it is its turn.
func (c *Cache[V]) compile(build Build, background bool) (Artifact, error) {
	if !background {
		c.build <- struct{}{}
		defer func() { <-c.build }()
	}
	start := time.Now()
	a, err := build()
	c.count(func(s *Stats) {
		s.Builds++
		s.BuildTime += time.Since(start)
		if err != nil {
			s.Failures++
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
	for c.order.Len() > 0 {
		if e := c.order.Back().Value.(*Entry[V]); c.remove(e) {
			gone = append(gone, e)
		}
	}
	c.mu.Unlock()
	for _, e := range gone {
		e.Value.Close()
	}
}
