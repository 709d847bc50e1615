package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestChecksumIsStaleAfterModification changes the middle of a file without changing its size:
// because of the new modification time the stored checksum is not used.
func TestChecksumIsStaleAfterModification(t *testing.T) {
	for name, size := range map[string]int{"small": 100, "large": minRemembered} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "genesis.json")
			content := bytes.Repeat([]byte{'a'}, size)
			at := time.Unix(1_700_000_000, 0)
			write := func() {
				t.Helper()
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
				at = at.Add(time.Second)
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			sum := func() (h [32]byte, known bool) {
				t.Helper()
				f := readFingerprints(dir)
				h, err := f.of(path)
				if err != nil {
					t.Fatal(err)
				}
				known = len(f.known) > 0 && bytes.Equal(f.known, f.lines)
				if err := f.save(dir); err != nil {
					t.Fatal(err)
				}
				return h, known
			}
			write()
			first, known := sum()
			if known {
				t.Error("has a cached checksum before the first read")
			}
			if again, known := sum(); again != first || known != (size >= minRemembered) {
				t.Errorf("second checksum %x, cached %v; first %x", again, known, first)
			}
			content[size/2] = 'b'
			write()
			other, known := sum()
			if other == first || known {
				t.Errorf("changed in the middle: checksum %x is unchanged, cached %v", other, known)
			}
		})
	}
}

func TestInvalidChecksumFileIsIgnored(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "genesis.json")
	if err := os.WriteFile(path, make([]byte, minRemembered), 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := readFingerprints(dir).of(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("%d %d ", info.Size(), info.ModTime().UnixNano())
	for _, text := range []string{"", "\n\n", key + "zz\n", key + "00\n", key, "1 2 3\n"} {
		if err := os.WriteFile(filepath.Join(dir, sumsName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readFingerprints(dir).of(path); err != nil || got != want {
			t.Errorf("%q: %x, %v; want %x", text, got, err, want)
		}
	}
}
