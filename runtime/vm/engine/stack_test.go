//go:build linux && !noshim

package engine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestThreadPerRun: threads have stacks large enough for runs, whatever limit the process is started with.
func TestThreadPerRun(t *testing.T) {
	if os.Getenv("TROUPE_TEST_STACK") != "" {
		fmt.Println("thread per run:", ThreadPerRun())
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{"unlimited", "8192", "2048"} {
		c := exec.Command("sh", "-c", "ulimit -S -s "+limit+` && exec "$0" -test.run '^TestThreadPerRun$'`, self)
		c.Env = append(os.Environ(), "TROUPE_TEST_STACK=1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Skipf("ulimit -s %s: %v: %s", limit, err, out)
		}
		if !strings.Contains(string(out), "thread per run: false") {
			t.Errorf("ulimit -s %s: %s", limit, out)
		}
	}
}
