package contracts

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWasmIsBuiltFromCurrentSources: the committed wasm was built from the current sources.
func TestWasmIsBuiltFromCurrentSources(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(BuiltFrom(), "\n"), "\n")
	if len(lines) < 3 || lines[1] != strings.Join(Flags, " ") {
		t.Fatalf("c/BUILT names other flags; `make contracts` builds anew")
	}
	listed := map[string]string{}
	for _, l := range lines[2:] {
		sum, name, _ := strings.Cut(l, "  ")
		listed[name] = sum
	}
	files, err := filepath.Glob("c/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != listed[name] {
			t.Errorf("%s is %s, c/BUILT says %q; `make contracts` builds anew", name, got, listed[name])
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("c/BUILT lists %s, which does not exist", name)
	}
	for _, s := range Sources {
		if b := C(s.Name); !bytes.HasPrefix(b, []byte("\x00asm\x01\x00\x00\x00")) {
			t.Errorf("%s is no wasm", s.Name)
		}
	}
}

// TestRebuildGivesTheSameBytes: the same compiler makes the same bytes. It is skipped if the
// compiler is not installed, and unless all tests are to run.
func TestRebuildGivesTheSameBytes(t *testing.T) {
	if os.Getenv("TROUPE_REPLAY") != "all" {
		t.Skip("skipped: `make check` builds them again")
	}
	version, err := exec.Command("clang", "--version").Output()
	if err != nil || !strings.HasPrefix(string(version), strings.SplitN(BuiltFrom(), "\n", 2)[0]+"\n") {
		t.Skip("skipped: the compiler of c/BUILT is not installed")
	}
	number, err := exec.Command("clang", "-dumpversion").Output()
	if err != nil {
		t.Fatal(err)
	}
	major, _, _ := strings.Cut(string(number), ".")
	_, plain := exec.LookPath("wasm-ld")
	if _, err := exec.LookPath("wasm-ld-" + major); err != nil && plain != nil {
		t.Skip("skipped: the linker of clang for wasm (wasm-ld) is not installed")
	}
	dir := t.TempDir()
	for _, s := range Sources {
		out := filepath.Join(dir, s.Name+".wasm")
		c := exec.Command("clang", append(append(append([]string{}, Flags...), s.Defines...), "-o", out, s.File)...)
		c.Dir = "c"
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: error %v\noutput:\n%s", s.File, err, said)
		}
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, C(s.Name)) {
			t.Errorf("%s: another build gives other bytes", s.Name)
		}
	}
}
