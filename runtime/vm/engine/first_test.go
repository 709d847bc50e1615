//go:build linux && !noshim

package engine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

const firstThread = "TROUPE_TEST_FIRST_THREAD"

func init() {
	if os.Getenv(firstThread) != "" {
		runtime.LockOSThread()
	}
}

// TestMain runs as the child process of TestSmallFirstThreadIsNotUsed if the environment variable
// is set. It then runs on the main goroutine, which init has locked to the process's first thread.
func TestMain(m *testing.M) {
	if os.Getenv(firstThread) == "" {
		os.Exit(m.Run())
	}
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		panic(err)
	}
	t := new(testing.B)
	e := newEngine(t)
	module := load(t, e, all)
	n := 0
	h := host(func(int, []uint64, []byte, int64) (uint64, int64, bool) { n++; return 0, 0, true })
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if _, err := module.Run(Call{Method: "nothing", Gas: 1, Host: h}); err != nil {
			panic(err)
		}
	}
	pprof.StopCPUProfile()
	fmt.Println("profiled", profile.Len() > 0)
}

// TestSmallFirstThreadIsNotUsed checks that contracts run on another thread if the stack of the
// process's first thread is too small, and that a CPU profile of such a run does not crash the
// process.
func TestSmallFirstThreadIsNotUsed(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", `ulimit -S -s 8192 && exec "$0"`, self)
	c.Env = append(os.Environ(), firstThread+"=1")
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "profiled true") {
		t.Errorf("%v: %s", err, out)
	}
}
