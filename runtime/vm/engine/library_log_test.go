//go:build !noshim

package engine

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestLibraryDoesNotLogWhatRustLogAsksFor: with RUST_LOG the library is silent while it compiles, and
// the variable is still there for the node. The engine of the public API leaves the log on.
func TestLibraryDoesNotLogWhatRustLogAsksFor(t *testing.T) {
	if os.Getenv("TROUPE_LIBRARY_LOG") != "" {
		load(t, newEngine(t), all)
		if level := os.Getenv("RUST_LOG"); level != "debug" {
			t.Errorf("RUST_LOG is %q, want debug", level)
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "TROUPE_LIBRARY_LOG=1", "RUST_LOG=debug")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || !strings.Contains(stdout.String(), "--- PASS") {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("the library logged: %s", stderr.String())
	}
}
