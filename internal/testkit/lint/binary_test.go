package lint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestNoBinaryIsCommitted: no output of a compiler for a machine is committed.
func TestNoBinaryIsCommitted(t *testing.T) {
	for _, name := range tracked(t) {
		f, err := os.Open(filepath.Join("..", "..", "..", name))
		if err != nil {
			continue // deleted, and not committed yet
		}
		var head [4]byte
		n, _ := f.Read(head[:])
		_ = f.Close()
		for _, magic := range []string{"\x7fELF", "MZ\x90\x00", "\xcf\xfa\xed\xfe", "!<ar"} {
			if bytes.HasPrefix(head[:n], []byte(magic)) {
				t.Errorf("%s is a binary for a machine; build it, don't commit it", name)
			}
		}
	}
}
