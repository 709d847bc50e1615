package cache

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// TestTakeOverSurvivesLostFile checks that takeOver returns an entry even if the artifact's file is
// removed at the same time, by the eviction for another artifact or with the whole folder. A block
// may wait for the entry and must not fail because of the disk.
func TestTakeOverSurvivesLostFile(t *testing.T) {
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

// ended is a loader that fails after its cache was closed, which may happen during a load.
type ended struct {
	*loader
	end func() // nil: it goes on
}

var errEnded = errors.New("the engine has ended")

func (l *ended) Load(a Artifact) (*value, error) {
	if l.end != nil {
		l.end()
		return nil, errEnded
	}
	return l.loader.Load(a)
}

func (l *ended) LoadFile(info []byte, path string) (*value, error) {
	if l.end != nil {
		l.end()
		return nil, errEnded
	}
	return l.loader.LoadFile(info, path)
}

// TestClosedLoaderDoesNotDamageArtifact checks that an artifact stays on disk, and is not counted
// as damaged, if it cannot be loaded because the loader was closed.
func TestClosedLoaderDoesNotDamageArtifact(t *testing.T) {
	for name, first := range map[string]func(*testing.T, *Cache[*value]) error{
		"from disk": nil, // put there by an earlier one
		"in a file": func(t *testing.T, c *Cache[*value]) error {
			_, err := inFile(t, c, 1, 5000, func(string, *Artifact) {})
			return err
		},
		"as bytes": func(_ *testing.T, c *Cache[*value]) error {
			_, err := c.Get(key(1), func(<-chan struct{}) (Artifact, error) {
				return Artifact{Info: []byte{1}, Code: bytes.Repeat([]byte{1}, 5000)}, nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if first == nil {
				c, _ := open(t, Options{Dir: dir})
				e, _ := get(t, c, 1, 5000)
				e.Release()
				c.Close()
			}
			c, l := open(t, Options{Dir: dir})
			c.loader = &ended{l, c.Close}
			var err error
			if first == nil {
				_, err = c.Get(key(1), func(<-chan struct{}) (Artifact, error) {
					t.Error("it is made again")
					return Artifact{}, errEnded
				})
			} else {
				err = first(t, c)
			}
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%v, want that it is closed", err)
			}
			if s := c.Stats(); s.Damaged > 0 {
				t.Errorf("%d artifacts are counted as damaged, want none", s.Damaged)
			}
			c, _ = open(t, Options{Dir: dir})
			defer c.Close()
			if e, built := get(t, c, 1, 5000); built {
				t.Error("it has to be made again")
			} else {
				e.Release()
			}
		})
	}
}
