package cache

import (
	"os"
	"testing"
)

// TestFileLost: an artifact that another removes while it is taken over, to make room on disk or with the whole folder, is an entry all the
// same: a block may wait for it, and no error of the disk's is to reach that.
func TestFileLost(t *testing.T) {
	const size = 5000
	for name, lose := range map[string]func(t *testing.T, c *Cache[*value], l *loader, path string){
		"when it has its place": func(_ *testing.T, c *Cache[*value], l *loader, _ string) {
			l.before = func() { // as a prune does that keeps another
				l.before = nil
				c.disk.remove(key(1))
			}
		},
		"before": func(t *testing.T, _ *Cache[*value], _ *loader, path string) {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		},
		"with its folder": func(t *testing.T, c *Cache[*value], _ *loader, _ string) {
			if err := os.RemoveAll(c.disk.dir); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, l := open(t, Options{Dir: t.TempDir()})
			defer c.Close()
			times := 0
			e, err := inFile(t, c, 1, size, func(path string, _ *Artifact) {
				if times++; times == 1 {
					lose(t, c, l, path)
				}
			})
			if err != nil || len(e.Value.a.Code) != size {
				t.Fatalf("%v, %v", e, err)
			}
			e.Release()
			if times > 2 {
				t.Errorf("it was made %d times", times)
			}
		})
	}
}
