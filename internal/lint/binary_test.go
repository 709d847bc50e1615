package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoBinaries: nothing that a compiler made for a machine is committed.
func TestNoBinaries(t *testing.T) {
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Skipf("git ls-files: %v: not a checkout", err)
	}
	for _, name := range strings.Split(strings.Trim(string(out), "\x00"), "\x00") {
		f, err := os.Open(filepath.Join(list.Dir, name))
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
