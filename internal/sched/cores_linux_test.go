package sched

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestThreadsFollowTheCores: if the process gets fewer cores, Go uses fewer threads, both while
// there is a spare thread and after it is gone.
func TestThreadsFollowTheCores(t *testing.T) {
	if os.Getenv("TROUPE_TEST_CORES") == "" {
		if runtime.NumCPU() < 2 {
			t.Skip("there is one core")
		}
		child := exec.Command(os.Args[0], "-test.run=^TestThreadsFollowTheCores$")
		child.Env = []string{"TROUPE_TEST_CORES=1"}
		if said, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v: output %s", err, said)
		}
		return
	}
	s := newSpare()
	s.linger, s.renewal = 10*time.Millisecond, 10*time.Millisecond
	s.Need()()
	is := func(want int) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); runtime.GOMAXPROCS(0) != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d threads, want %d", runtime.GOMAXPROCS(0), want)
			}
		}
	}
	is(runtime.NumCPU())
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for i := range 1024 {
		if all.IsSet(i) && one.Count() == 0 {
			one.Set(i)
		}
	}
	on := func(cores *unix.CPUSet) {
		t.Helper()
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			if id, err := strconv.Atoi(thread.Name()); err != nil {
				t.Fatal(err)
			} else if err = unix.SchedSetaffinity(id, cores); err != nil && err != unix.ESRCH {
				t.Fatal(err)
			}
		}
	}
	on(&one)
	is(1)
	done := s.Need()
	is(2)
	on(&all)
	is(runtime.NumCPU() + 1)
	done()
	is(runtime.NumCPU())
}
