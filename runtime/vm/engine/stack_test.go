//go:build linux && !noshim

package engine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestTooLittleAddressSpaceIsAnError checks that a process without enough address space for an
// engine gets an error. The library must not abort it, also not when the code generator is
// determined.
func TestTooLittleAddressSpaceIsAnError(t *testing.T) {
	if os.Getenv("TROUPE_TEST_SPACE") == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(self, "-test.run", "^TestTooLittleAddressSpaceIsAnError$")
		c.Env = append(os.Environ(), "TROUPE_TEST_SPACE=1")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "said: engine: no address space") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var pages uint64
	statm, err := os.ReadFile("/proc/self/statm")
	if _, scan := fmt.Sscan(string(statm), &pages); err != nil || scan != nil {
		t.Fatal(err, scan)
	}
	all := pages*uint64(os.Getpagesize()) + 200<<20
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: all, Max: all}); err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{})
	fmt.Println("said:", err)
}

// TestRunThreadsHaveLargeStacks checks that threads have large enough stacks for runs, whatever
// stack limit the process was started with.
func TestRunThreadsHaveLargeStacks(t *testing.T) {
	if os.Getenv("TROUPE_TEST_STACK") != "" {
		fmt.Println("thread per run:", ThreadPerRun())
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{"unlimited", "8192", "2048"} {
		c := exec.Command("sh", "-c", "ulimit -S -s "+limit+` && exec "$0" -test.run '^TestRunThreadsHaveLargeStacks$'`, self)
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
