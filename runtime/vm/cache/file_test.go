package cache

import (
	"bytes"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inFile returns a build that writes code of size bytes for key n to a file of the cache (TempFile).
func inFile(t *testing.T, c *Cache[*value], n byte, size int, spoil func(path string, a *Artifact)) (*Entry[*value], error) {
	t.Helper()
	return c.Get(key(n), func(<-chan struct{}) (Artifact, error) {
		code := bytes.Repeat([]byte{n}, size)
		a := Artifact{Info: []byte{n}, File: c.TempFile(), Size: int64(size), Sum: crc32.Checksum(code, castagnoli)}
		if err := os.WriteFile(a.File, code, 0o600); err != nil {
			t.Error(err)
		}
		if spoil != nil {
			spoil(a.File, &a)
		}
		return a, nil
	})
}

// TestArtifactFileIsTakenOver checks artifacts in files: the cache renames the file, and the
// artifact then behaves like one that was built in memory. If the rename fails, the cache reads the
// file. A file with another length or checksum than stated is an error. No temporary files are
// left.
func TestArtifactFileIsTakenOver(t *testing.T) {
	const size = 5000
	dir := t.TempDir()
	c, _ := open(t, Options{Dir: dir})
	files := func() (names []string) {
		all, err := os.ReadDir(filepath.Join(dir, "v1"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			names = append(names, f.Name())
		}
		return names
	}
	e, err := inFile(t, c, 1, size, nil)
	if err != nil || len(e.Value.a.Code) != size || !e.Value.file {
		t.Fatalf("%v, %v", e, err)
	}
	e.Release()
	if all := files(); len(all) != 2 || strings.HasSuffix(strings.Join(all, " "), tempSuffix) {
		t.Errorf("files: %v", all)
	}
	if s := c.Stats(); s.Bytes != size+1+overhead || s.DiskBytes < size || s.DiskBytes > size+200 {
		t.Errorf("%+v", s)
	}
	c.Close()
	c, _ = open(t, Options{Dir: dir})
	e, built := get(t, c, 1, size)
	if e.Release(); built {
		t.Error("it was made again after a start")
	}

	block := c.disk.path(key(2), infoSuffix) // where no file can come
	if err := os.MkdirAll(filepath.Join(block, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if e, err = inFile(t, c, 2, size, nil); err != nil || len(e.Value.a.Code) != size || e.Value.file {
		t.Fatalf("an artifact that can't be put: %v, %v", e, err)
	}
	e.Release()
	if s := c.Stats(); s.DiskErrors != 1 || s.DiskBytes > size+200 {
		t.Errorf("%+v", s)
	}
	if err := os.RemoveAll(block); err != nil {
		t.Fatal(err)
	}

	for name, spoil := range map[string]func(string, *Artifact){
		"shorter": func(path string, _ *Artifact) { _ = os.Truncate(path, size-1) },
		"gone":    func(path string, _ *Artifact) { _ = os.Remove(path) },
	} {
		if _, err := inFile(t, c, 3, size, func(path string, a *Artifact) {
			spoil(path, a)
			if err := os.MkdirAll(c.disk.path(key(3), codeSuffix)+"/x", 0o700); err != nil {
				t.Error(err)
			}
		}); err == nil {
			t.Errorf("a file that is %s: no error", name)
		}
		if err := os.RemoveAll(c.disk.path(key(3), codeSuffix)); err != nil {
			t.Fatal(err)
		}
	}
	if all := files(); len(all) != 2 {
		t.Errorf("files: %v", all)
	}
	left := c.TempFile() // of a process that ends here
	c.Close()
	c, _ = open(t, Options{Dir: dir})
	defer c.Close()
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Error("an artifact file that was not taken over exists after a start")
	}
	if none, _ := open(t, Options{}); none.TempFile() != "" {
		t.Error("a cache without a folder makes a file")
	}
}
