//go:build linux && !noshim

package engine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestThreadPerRun: a process that is started with another limit of its stack knows what its threads have.
func TestThreadPerRun(t *testing.T) {
	if os.Getenv("TROUPE_TEST_STACK") != "" {
		fmt.Println("thread per run:", ThreadPerRun())
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[string]bool{"unlimited": true, "8192": false, "2048": true} {
		c := exec.Command("sh", "-c", "ulimit -S -s "+limit+` && exec "$0" -test.run '^TestThreadPerRun$'`, self)
		c.Env = append(os.Environ(), "TROUPE_TEST_STACK=1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Skipf("ulimit -s %s: %v: %s", limit, err, out)
		}
		if !strings.Contains(string(out), fmt.Sprint("thread per run: ", want)) {
			t.Errorf("ulimit -s %s: %s, want %v", limit, out, want)
		}
	}
}
