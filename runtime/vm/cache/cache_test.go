package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// value is a loaded artifact that counts how often it was closed.
type value struct {
	a      Artifact
	file   bool
	closed atomic.Int32
}

func (v *value) Close() { v.closed.Add(1) }

// loader is a Loader that stores the values it has loaded, and refuses code that begins with "bad".
type loader struct {
	mu     sync.Mutex
	all    []*value
	before func() // it loads a file; nil: nothing
}

func (l *loader) load(a Artifact, file bool) (*value, error) {
	if bytes.HasPrefix(a.Code, []byte("bad")) {
		return nil, errors.New("bad code")
	}
	v := &value{a: a, file: file}
	l.mu.Lock()
	l.all = append(l.all, v)
	l.mu.Unlock()
	return v, nil
}

func (l *loader) Load(a Artifact) (*value, error) { return l.load(a, false) }

func (l *loader) LoadFile(info []byte, path string) (*value, error) {
	if l.before != nil {
		l.before()
	}
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return l.load(Artifact{Info: info, Code: code}, true)
}

func open(t *testing.T, o Options) (*Cache[*value], *loader) {
	t.Helper()
	l := &loader{}
	if o.Memory == 0 {
		o.Memory = 1 << 20
	}
	if o.Disk == 0 {
		o.Disk = 1 << 20
	}
	o.Version, o.Versions = "v1", "v[0-9]"
	c, err := New(l, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}

func key(n byte) Key { return Key{Code: primitives.Hash{n}, Rules: primitives.Hash{1}} }

// get calls Get for key n with a build that makes code of size bytes.
func get(t *testing.T, c *Cache[*value], n byte, size int) (e *Entry[*value], built bool) {
	t.Helper()
	e, err := c.Get(key(n), func(<-chan struct{}) (Artifact, error) {
		built = true
		a := Artifact{Info: []byte{n}}
		if size > 0 {
			a.Code = bytes.Repeat([]byte{n}, size)
		}
		return a, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if e.Value.a.Info[0] != n || len(e.Value.a.Code) != size || size > 0 && e.Value.a.Code[0] != n {
		t.Fatalf("key %d gives %v", n, e.Value.a)
	}
	return e, built
}

func TestMemoryIsBoundedByEviction(t *testing.T) {
	const size = 10_000
	c, l := open(t, Options{Memory: 3 * (size + overhead + 1)})
	held, _ := get(t, c, 1, size)
	for n := byte(2); n < 10; n++ {
		e, built := get(t, c, n, size)
		if !built {
			t.Errorf("key %d was not built, want a build", n)
		}
		e.Release()
	}
	if s := c.Stats(); s.Entries != 3 || s.Bytes > 3*(size+overhead+1) || s.Evictions != 6 || s.Builds != 9 {
		t.Errorf("%+v", s)
	}
	if e, built := get(t, c, 9, size); built {
		t.Error("the last was evicted")
	} else {
		e.Release()
	}
	if held.Value.closed.Load() != 0 {
		t.Error("a held value was closed")
	}
	held.Release()
	c.Close()
	for i, v := range l.all {
		if n := v.closed.Load(); n != 1 {
			t.Errorf("value %d was closed %d times", i, n)
		}
	}
	if _, err := c.Get(key(1), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("err = %v, want ErrClosed", err)
	}
}

func TestConcurrentCallersShareOneBuild(t *testing.T) {
	c, l := open(t, Options{Memory: 1})
	var builds, running atomic.Int32
	start := make(chan struct{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			e, err := c.Get(key(1), func(<-chan struct{}) (Artifact, error) {
				builds.Add(1)
				if running.Add(1) > 1 {
					t.Error("two builds at a time")
				}
				<-start
				running.Add(-1)
				return Artifact{Info: []byte{1}}, nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			if e.Value.closed.Load() != 0 {
				t.Error("closed while held")
			}
			e.Release()
		})
	}
	close(start)
	all.Wait()
	if builds.Load() != 1 {
		t.Errorf("%d builds", builds.Load())
	}
	c.Close()
	for _, v := range l.all {
		if v.closed.Load() != 1 {
			t.Errorf("closed %d times", v.closed.Load())
		}
	}
}

// TestBackgroundBuildDelaysNoUrgentCaller checks that a background build delays no urgent caller,
// of the same key or of another. A background caller of the same key waits for the build in
// progress.
func TestBackgroundBuildDelaysNoUrgentCaller(t *testing.T) {
	dir := t.TempDir()
	c, l := open(t, Options{Dir: dir})
	begun, end := make(chan struct{}), make(chan struct{})
	slow := func(<-chan struct{}) (Artifact, error) {
		close(begun)
		<-end
		return Artifact{Info: []byte{1}, Code: []byte{1}}, nil
	}
	var background *Entry[*value]
	var ended sync.WaitGroup
	ended.Go(func() {
		var err error
		if background, err = c.GetInBackground(key(1), slow); err != nil {
			t.Error(err)
		}
	})
	<-begun
	other, built := get(t, c, 2, 1)
	if !built {
		t.Error("key 2 was not built, want a build")
	}
	e, built := get(t, c, 1, 1)
	if !built {
		t.Error("waited for the background")
	}
	if again, built := get(t, c, 1, 1); built || again != e {
		t.Error("key 1 was built again, want the cached value")
	}
	close(end)
	ended.Wait()
	if background != e || background.Value.closed.Load() != 0 {
		t.Error("the background caller got another value than the urgent ones")
	}
	if late, err := c.GetInBackground(key(1), nil); err != nil || late != e {
		t.Errorf("later %v, %v", late, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) != 4 {
		t.Errorf("files %v, %v; want two for each of two", files, err)
	}
	var size int64
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if got := c.Stats().DiskBytes; got != size {
		t.Errorf("%d bytes on disk are counted, want %d", got, size)
	}
	for range 4 {
		e.Release()
	}
	other.Release()
	c.Close()
	if len(l.all) != 3 {
		t.Errorf("%d values, want 3", len(l.all))
	}
	for _, v := range l.all {
		if v.closed.Load() != 1 {
			t.Errorf("%v closed %d times", v.a.Info, v.closed.Load())
		}
	}
}

// TestBuildErrorIsNotCached checks that the error or panic of a build reaches all waiting callers,
// and that the next call builds again.
func TestBuildErrorIsNotCached(t *testing.T) {
	c, _ := open(t, Options{})
	oh := errors.New("oh")
	if _, err := c.Get(key(1), func(<-chan struct{}) (Artifact, error) { return Artifact{}, oh }); !errors.Is(err, oh) {
		t.Errorf("err = %v, want %v", err, oh)
	}
	if _, err := c.Get(key(1), func(<-chan struct{}) (Artifact, error) { return Artifact{Code: []byte("bad")}, nil }); err == nil {
		t.Error("bad code was loaded")
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Get(key(1), func(<-chan struct{}) (Artifact, error) { panic("oh") })
	}()
	e, built := get(t, c, 1, 10)
	if !built {
		t.Error("not built")
	}
	e.Release()
}

func TestArtifactsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "v0", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "data", "log") // the folder may be one that has other things in it
	if err := os.MkdirAll(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	c, _ := open(t, Options{Dir: dir})
	for n, size := range map[byte]int{1: 5000, 2: 0} {
		e, built := get(t, c, n, size)
		if !built || e.Value.file != (size > 0) {
			t.Errorf("key %d: built %v, from file %v", n, built, e.Value.file)
		}
		e.Release()
	}
	c.Close()
	if _, err := os.Stat(filepath.Join(dir, "v0")); err == nil {
		t.Error("the folder of another version was not removed")
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Error("a folder that belongs to no version was removed")
	}
	if err := os.WriteFile(filepath.Join(dir, "v1", "a.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ = open(t, Options{Dir: dir})
	if !c.Has(key(1)) || c.Has(key(3)) {
		t.Error("Has is wrong")
	}
	for n, size := range map[byte]int{1: 5000, 2: 0} {
		e, built := get(t, c, n, size)
		if built || e.Value.file != (size > 0) {
			t.Errorf("key %d: built %v, from file %v", n, built, e.Value.file)
		}
		e.Release()
	}
	if s := c.Stats(); s.Loads != 2 || s.Builds != 0 || s.DiskBytes < 5000 || s.DiskBytes > 5200 {
		t.Errorf("%+v", s)
	}
	c.Close()
	files, _ := os.ReadDir(filepath.Join(dir, "v1"))
	if len(files) != 3 {
		t.Errorf("%d files, want 3", len(files))
	}
}

// TestDamagedFileIsBuiltAgain checks that every changed or missing file is detected and the
// artifact built again.
func TestDamagedFileIsBuiltAgain(t *testing.T) {
	dir := t.TempDir()
	damage := func(name string, change func(path string, b []byte) error) {
		t.Run(name, func(t *testing.T) {
			c, _ := open(t, Options{Dir: dir})
			e, _ := get(t, c, 1, 5000)
			e.Release()
			c.Close()
			hit := false
			files, _ := os.ReadDir(filepath.Join(dir, "v1"))
			for _, f := range files {
				if strings.HasSuffix(f.Name(), name[:strings.IndexByte(name, ' ')]) {
					path := filepath.Join(dir, "v1", f.Name())
					b, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					if err := change(path, b); err != nil {
						t.Fatal(err)
					}
					hit = true
				}
			}
			if !hit {
				t.Fatal("no file to damage")
			}
			c, _ = open(t, Options{Dir: dir})
			e, built := get(t, c, 1, 5000)
			if !built {
				t.Error("a damaged artifact was loaded")
			}
			e.Release()
			c.Close()
			c, _ = open(t, Options{Dir: dir})
			if e, built = get(t, c, 1, 5000); built {
				t.Error("the artifact built again was not kept")
			}
			e.Release()
			c.Close()
		})
	}
	flip := func(at int) func(string, []byte) error {
		return func(path string, b []byte) error {
			if at < 0 {
				at += len(b)
			}
			b[at] ^= 1
			return os.WriteFile(path, b, 0o600)
		}
	}
	for _, suffix := range []string{infoSuffix, codeSuffix} {
		for _, at := range []int{0, 20, 30, -1} {
			damage(fmt.Sprintf("%s flipped at %d", suffix, at), flip(at))
		}
		damage(suffix+" gone", func(path string, _ []byte) error { return os.Remove(path) })
		damage(suffix+" empty", func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) })
		damage(suffix+" cut", func(path string, b []byte) error { return os.WriteFile(path, b[:len(b)-1], 0o600) })
		damage(suffix+" longer", func(path string, b []byte) error { return os.WriteFile(path, append(b, 0), 0o600) })
	}
}

func TestDiskIsBoundedByEviction(t *testing.T) {
	dir := t.TempDir()
	c, _ := open(t, Options{Dir: dir, Disk: 20_000, Memory: 1})
	for n := range byte(50) {
		e, _ := get(t, c, n, 1000)
		e.Release()
		if s := c.Stats(); s.DiskBytes > 20_000 {
			t.Fatalf("%d bytes on disk after %d", s.DiskBytes, n)
		}
	}
	e, built := get(t, c, 49, 1000)
	if built {
		t.Error("the newest artifact was evicted")
	}
	e.Release()
	files, err := c.disk.files()
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, f := range files {
		sum += f.size
	}
	if sum != c.disk.bytes() {
		t.Errorf("counted %d bytes, there are %d", c.disk.bytes(), sum)
	}
}

// TestUnwritableFolderKeepsCacheInMemory checks that the cache works in memory if its folder cannot
// be written.
func TestUnwritableFolderKeepsCacheInMemory(t *testing.T) {
	dir := t.TempDir()
	c, _ := open(t, Options{Dir: dir})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e, built := get(t, c, 1, 100)
	if !built || e.Value.file {
		t.Error("not from memory")
	}
	e.Release()
	if s := c.Stats(); s.DiskErrors != 1 {
		t.Errorf("%+v", s)
	}
}

// TestDiskErrorIsReportedOncePerFailure checks that of several failed writes in succession only the
// first is reported, and that the next failure after a successful write is reported again.
func TestDiskErrorIsReportedOncePerFailure(t *testing.T) {
	dir := t.TempDir()
	var reported []error
	c, _ := open(t, Options{Dir: dir, DiskFailed: func(err error) { reported = append(reported, err) }})
	broken := func(is bool) {
		t.Helper()
		err := os.RemoveAll(dir)
		if err == nil && is {
			err = os.WriteFile(dir, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for n, step := range []struct {
		broken   bool
		reported int
	}{{false, 0}, {true, 1}, {true, 1}, {false, 1}, {true, 2}} {
		broken(step.broken)
		e, _ := get(t, c, byte(n), 100)
		e.Release()
		if len(reported) != step.reported {
			t.Errorf("step %d: reported %v, want %d", n, reported, step.reported)
		}
	}
	if s := c.Stats(); s.DiskErrors != 3 {
		t.Errorf("%d disk errors counted, want 3", s.DiskErrors)
	}
}

// TestDeletedFolderIsCreatedAgain checks that a folder that was deleted is created again by the
// next write, and that the cache does not count its former files any more.
func TestDeletedFolderIsCreatedAgain(t *testing.T) {
	dir := t.TempDir()
	c, _ := open(t, Options{Dir: dir})
	for n, size := range []int{5000, 300} {
		if n == 1 {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		e, _ := get(t, c, byte(n), size)
		e.Release()
	}
	if s := c.Stats(); s.DiskErrors != 0 || s.DiskBytes < 300 || s.DiskBytes > 500 {
		t.Errorf("%+v", s)
	}
	c.Close()
	c, _ = open(t, Options{Dir: dir})
	if e, built := get(t, c, 1, 300); built {
		t.Error("an artifact stored after the deletion was not kept")
	} else {
		e.Release()
	}
}

// FuzzInfo checks that the bytes of an info file are accepted only if they are a valid encoding.
func FuzzInfo(f *testing.F) {
	f.Add([]byte("troupe artifact 2\n0123456789abcdef0123"))
	dir := f.TempDir()
	d, err := openDisk(dir, "v1", "v[0-9]", 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := d.put(key(1), Artifact{Info: []byte("info")}); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(d.path(key(1), infoSuffix))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(d.path(key(2), infoSuffix), b, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := d.read(key(2))
		if err != nil {
			return
		}
		if _, err := d.put(key(2), Artifact{Info: got.info, Source: got.source}); err != nil {
			t.Fatal(err)
		}
		again, _ := os.ReadFile(d.path(key(2), infoSuffix))
		if !bytes.Equal(again, b) {
			t.Errorf("%x was taken as %x", b, again)
		}
	})
}

// source calls Get for key n and releases the value. The build makes code of size bytes from source bytes.
func source(t *testing.T, c *Cache[*value], n, source, size int) (built bool) {
	t.Helper()
	k := Key{Code: primitives.Hash{byte(n), byte(n >> 8)}, Rules: primitives.Hash{1}}
	e, err := c.Get(k, func(<-chan struct{}) (Artifact, error) {
		built = true
		return Artifact{Info: []byte{byte(n)}, Code: make([]byte, size), Source: source}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Release()
	return built
}

// TestContractsInUseAreNotEvicted checks that contracts in use are not evicted from memory or disk
// by any number of other contracts: by artifacts that are large compared with their source, called
// alternately or twice in succession, or by artifacts of ordinary size. After a restart, large
// artifacts do not evict contracts that were in use before.
func TestContractsInUseAreNotEvicted(t *testing.T) {
	const (
		kb      = 1 << 10
		hot     = 10 // contracts of 4 KB, 20 KB compiled
		rounds  = 120
		memory  = 2560 * kb
		onDisk  = 20480 * kb
		perHot  = 20 * kb
		perBomb = 168 * kb // of 57 bytes, a hundredth of what was met; as memory and disk are
		others  = 15       // between two uses of hot ones
	)
	cold := map[string]func(t *testing.T, c *Cache[*value], round int){
		"16 large, alternating": func(t *testing.T, c *Cache[*value], i int) {
			for j := range 3 {
				source(t, c, 1000+(3*i+j)%16, 57, perBomb)
			}
		},
		"256 large, alternating": func(t *testing.T, c *Cache[*value], i int) {
			for j := range 3 {
				source(t, c, 1000+(3*i+j)%256, 57, perBomb)
			}
		},
		"256 large, twice": func(t *testing.T, c *Cache[*value], i int) {
			for j := range 6 {
				source(t, c, 1000+(3*i+j/2)%256, 57, perBomb)
			}
		},
		"always new": func(t *testing.T, c *Cache[*value], i int) {
			for j := range others {
				source(t, c, 1000+others*i+j, 4*kb, perHot)
			}
		},
		"always new, twice": func(t *testing.T, c *Cache[*value], i int) {
			for j := range 2 * others {
				source(t, c, 1000+others*i+j/2, 4*kb, perHot)
			}
		},
	}
	for name, next := range cold {
		for _, dir := range []string{"", t.TempDir()} {
			if dir != "" && name == "always new, twice" {
				continue // to the disk that is the same as once
			}
			t.Run(fmt.Sprintf("%s, disk %v", name, dir != ""), func(t *testing.T) {
				c, _ := open(t, Options{Memory: memory, Disk: onDisk, Dir: dir})
				builds := 0
				for i := range rounds {
					if source(t, c, i%hot, 4*kb, perHot) { // each of the hot once in ten rounds
						builds++
					}
					next(t, c, i)
				}
				// After the first calls the cache cannot know yet that more will follow.
				if builds > 3*hot || dir != "" && builds != hot {
					t.Errorf("the hot were compiled %d times, want %d", builds, hot)
				}
				s := c.Stats()
				if s.Bytes > memory || dir != "" && s.DiskBytes > onDisk {
					t.Errorf("%+v", s)
				}
				if s.Evictions == 0 && name != "16 large, alternating" {
					t.Errorf("nothing was evicted, so nothing was tried: %+v", s)
				}
				if s.Hits < rounds-3*hot {
					t.Errorf("the hot were in memory less than %d times: %+v", rounds-3*hot, s)
				}
				c.Close()
				if dir == "" || name == "always new" {
					return
				}
				c, _ = open(t, Options{Memory: memory, Disk: onDisk, Dir: dir})
				defer c.Close()
				for i := range rounds {
					next(t, c, rounds+i)
				}
				for n := range hot {
					if source(t, c, n, 4*kb, perHot) {
						t.Errorf("key %d is not cached after a restart and further artifacts", n)
					}
				}
			})
		}
	}
}

// TestMemoryHitsCountAsDiskUses checks that uses in memory count as uses on disk.
func TestMemoryHitsCountAsDiskUses(t *testing.T) {
	dir := t.TempDir()
	c, _ := open(t, Options{Dir: dir, Disk: 20_000, Memory: 1 << 20})
	source(t, c, 0, 100, 1000)
	for n := 1; n < 60; n++ {
		source(t, c, n, 100, 1000)
		source(t, c, 0, 100, 1000)
	}
	c.Close()
	c, _ = open(t, Options{Dir: dir, Disk: 20_000, Memory: 1 << 20})
	if source(t, c, 0, 100, 1000) {
		t.Error("an artifact in constant use was evicted from disk")
	}
	if s := c.Stats(); s.DiskBytes > 20_000 {
		t.Errorf("%+v", s)
	}
	for n := 1; n < 60; n++ {
		source(t, c, n, 100, 1000)
	}
	if s := c.Stats(); s.DiskEvictions == 0 {
		t.Errorf("%+v", s)
	}
	c.Close()
	c, _ = open(t, Options{Memory: 3000})
	for range 2 {
		for n := range 3 {
			source(t, c, n, 100, 1000)
		}
	}
	if s := c.Stats(); s.Rebuilds == 0 {
		t.Errorf("%+v: want some made again", s)
	}
}

// TestFirstFlightCancelsTheOther checks that of two flights for the same key the first to finish
// cancels the other, whichever is urgent.
func TestFirstFlightCancelsTheOther(t *testing.T) {
	for _, backgroundFirst := range []bool{true, false} {
		c, _ := open(t, Options{})
		come := [2]chan struct{}{make(chan struct{}), make(chan struct{})} // to bring it
		begun := make(chan struct{})
		cancelled := make(chan bool, 2)
		build := func(i int) Build {
			return func(cancel <-chan struct{}) (Artifact, error) {
				begun <- struct{}{}
				select {
				case <-come[i]:
					return Artifact{Info: []byte{1}}, nil
				case <-cancel:
					cancelled <- i == 1
					return Artifact{}, errors.New("cancelled")
				}
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			e, err := c.GetInBackground(key(1), build(1))
			if err != nil {
				t.Error(err)
				return
			}
			e.Release()
		})
		<-begun
		all.Go(func() {
			e, err := c.Get(key(1), build(0))
			if err != nil {
				t.Error(err)
				return
			}
			e.Release()
		})
		<-begun
		first := 0
		if backgroundFirst {
			first = 1
		}
		close(come[first])
		if was := <-cancelled; was == backgroundFirst {
			t.Errorf("background first %v: the wrong one was cancelled", backgroundFirst)
		}
		all.Wait()
		c.Close()
	}
}

// BenchmarkHit measures Get and Release of a value in memory.
func BenchmarkHit(b *testing.B) {
	c, err := New(&loader{}, Options{Memory: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	build := func(<-chan struct{}) (Artifact, error) { return Artifact{Info: []byte{1}}, nil }
	for b.Loop() {
		e, err := c.Get(key(1), build)
		if err != nil {
			b.Fatal(err)
		}
		e.Release()
	}
}
