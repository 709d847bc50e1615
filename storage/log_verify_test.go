package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckLogFindsChangedByte: a changed byte anywhere in the log is found, whether Open reads
// that record or not.
func TestCheckLogFindsChangedByte(t *testing.T) {
	files := sound(t)
	open := func(dir string) (int, error) {
		s, err := Open(dir, testOptions())
		if err != nil {
			return 0, err
		}
		defer func() { _ = s.Close() }()
		return s.Log().Check(t.Context(), nil)
	}
	dir := t.TempDir()
	writeDir(t, dir, files)
	n, err := open(dir)
	if err != nil || n < 61 { // blocks; genesis is one
		t.Fatalf("%d records, %v", n, err)
	}
	segments, found := 0, 0
	for name, text := range files {
		if !strings.HasPrefix(name, logName+"/") {
			continue
		}
		segments++
		for _, at := range []int{0, 5, len(text) / 3, len(text) / 2} {
			dir := t.TempDir()
			writeDir(t, dir, files)
			b := []byte(text)
			b[at] ^= 0x40
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
			// Open has cut off what looked like the torn end of the log, so there are fewer records
			// then.
			if n, err := open(dir); err == nil && n >= 61 || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("%s byte %d: %d records, %v", name, at, n, err)
			} else if err != nil && strings.Contains(err.Error(), name) {
				found++
			}
		}
	}
	if segments < 3 || found < segments {
		t.Errorf("%d segments, %d named", segments, found)
	}
}
