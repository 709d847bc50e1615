//go:build cgo

package sched

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// slack is the calling thread's, in nanoseconds.
func slack(t *testing.T) int {
	t.Helper()
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// TestThreadsHaveTimerSlackOf1ms: every thread of the process, Go's monitor among them, has a timer
// slack of one millisecond, unless the parent process has set another one.
func TestThreadsHaveTimerSlackOf1ms(t *testing.T) {
	if os.Getenv("TROUPE_TEST_SLACK") != "" {
		fmt.Printf("slack %d\n", slack(t))
		return
	}
	runtime.LockOSThread()
	was := slack(t)
	begun := func(ns int) string {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(ns), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		defer unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(was), 0, 0, 0)
		child := exec.Command(os.Args[0], "-test.run=^TestThreadsHaveTimerSlackOf1ms$", "-test.v")
		child.Env = append(os.Environ(), "TROUPE_TEST_SLACK=1")
		said, err := child.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: output %s", err, said)
		}
		_, rest, _ := strings.Cut(string(said), "slack ")
		return strings.Fields(rest)[0]
	}
	if has := begun(50_000); has != "1000000" {
		t.Errorf("begun with the kernel's own slack: %s ns, want 1000000", has)
	}
	if has := begun(300_000); has != "300000" {
		t.Errorf("begun with 300000 ns: %s ns", has)
	}
}
