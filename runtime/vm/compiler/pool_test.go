package compiler

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// childEnv is the environment variable that makes this test binary a child.
const childEnv = "TROUPE_TEST_COMPILER"

func TestMain(m *testing.M) {
	if version := os.Getenv(childEnv); version != "" {
		os.Exit(Main(version, runScript))
	}
	os.Exit(m.Run())
}

// runScript is the compiler of a child. It does what the text in place of the module says: words,
// of which the first may be a condition.
func runScript(r *Request) ([]byte, error) {
	words := strings.Fields(string(r.Wasm))
	if words[0] == "until" { // what follows is done as long as there are fewer files than that
		files, err := os.ReadDir(words[1])
		if err != nil {
			return nil, err
		}
		if fmt.Sprint(len(files)) >= words[2] {
			return []byte("made"), nil
		}
		if _, err := os.CreateTemp(words[1], ""); err != nil {
			return nil, err
		}
		words = words[3:]
	}
	if words[0] == "once" { // what follows is done the first time only
		if _, err := os.Stat(words[1]); err == nil {
			return []byte("made"), nil
		}
		if err := os.WriteFile(words[1], nil, 0o600); err != nil {
			return nil, err
		}
		words = words[2:]
	}
	switch words[0] {
	case "make":
		return bytes.Repeat([]byte("x"), len(r.Wasm)), nil
	case "nice":
		n, err := syscall.Getpriority(syscall.PRIO_PROCESS, syscall.Gettid())
		return []byte(fmt.Sprint(20 - n)), err // as the system call has it
	case "threads-nice":
		threads, err := os.ReadDir("/proc/self/task")
		var all []byte
		for _, x := range threads {
			id, _ := strconv.Atoi(x.Name())
			n, _ := syscall.Getpriority(syscall.PRIO_PROCESS, id)
			all = fmt.Appendf(all, "%d ", 20-n)
		}
		return all, err
	case "pid":
		return []byte(fmt.Sprint(os.Getpid())), nil
	case "refuse":
		return nil, errors.New("no such luck")
	case "abort":
		_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
		select {}
	case "panic":
		panic("oh")
	case "threads":
		panic("runtime: failed to create new OS thread (have 9 already; errno=11)")
	case "memory":
		panic("memory allocation of 65536 bytes failed")
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {}
	case "sleep":
		select {}
	case "spin":
		for i := 0; ; i++ {
			runtime.KeepAlive(i)
		}
	case "eat": // in one piece: Go, where it comes to the end in small ones, sometimes crashes for want of memory and does not say so
		_, err := syscall.Mmap(-1, 0, int(3*r.Limits.Memory), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			panic(err)
		}
	case "grow":
		all := bytes.Repeat([]byte{1}, 200<<20)
		return all[:1], nil
	case "flood":
		for at := int64(0); ; at += 1 << 10 {
			f, err := os.OpenFile(words[1], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			if err != nil {
				return nil, err
			}
			if _, err := f.Write(make([]byte, 1<<10)); err != nil {
				return nil, err
			}
			if err := f.Close(); err != nil || at > 4*r.Limits.Output {
				return nil, err
			}
		}
	case "long":
		return make([]byte, r.Limits.Output+1), nil
	}
	return nil, fmt.Errorf("what is %q", words)
}

// open returns a pool whose children run this test binary.
func newPool(t *testing.T, change func(*Options)) *Pool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Pause: time.Millisecond, Command: Command{Path: self, Env: []string{childEnv + "=v1"}}, Version: "v1",
		Compile: func([]byte) ([]byte, error) { return []byte("here"), nil },
		Alarm:   func(err error) { t.Log("alarm:", err) },
	}
	if change != nil {
		change(&o)
	}
	p := New(o)
	t.Cleanup(func() {
		p.Close()
		deadline := time.Now().Add(time.Minute)
		for len(p.Children()) > 0 && time.Now().Before(deadline) {
			runtime.Gosched()
		}
		if n := p.Stats().Running; n != 0 {
			t.Errorf("%d run after the end", n)
		}
	})
	return p
}

func job(name, does string) *Job {
	return &Job{Name: name, Code: primitives.Hash{1}, Size: 100, Prepare: func() ([]byte, error) { return []byte(does), nil }}
}

// TestChildServesConsecutiveRequests checks that one child serves consecutive requests, that
// another one is started for a concurrent request, and that none is started before it is needed.
func TestChildServesConsecutiveRequests(t *testing.T) {
	p := newPool(t, nil)
	if s := p.Stats(); s.Started != 0 || s.Children != 0 {
		t.Fatalf("%+v before the first compilation, want no child", s)
	}
	for i := range 20 {
		code, err := p.Compile(job("a", "make"+strings.Repeat(" ", i*1000)))
		if err != nil || len(code) != 4+i*1000 {
			t.Fatalf("%d bytes, %v", len(code), err)
		}
	}
	// Stacks of threads that the child's runtime starts count as its memory, so that one may
	// retire.
	if s := p.Stats(); s.Started-s.Retired != 1 || s.Children != 1 || s.Deaths != 0 || s.Retired > 10 {
		t.Errorf("%+v, want one child at a time", s)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if code, err := p.Compile(job(fmt.Sprint(i), "make")); err != nil || string(code) != "xxxx" {
				t.Errorf("got code %q, %v, want %q", code, err, "made")
			}
		})
	}
	all.Wait()
	if s := p.Stats(); s.Started-s.Retired > uint64(p.o.Total) {
		t.Errorf("%+v, at most %d compile at a time", s, p.o.Total)
	}
}

// TestEachChildFailureIsNamedAndRetried checks for each kind of failure of a child that Compile
// returns an Error that names it, after the right number of attempts, and that the next compilation
// works.
func TestEachChildFailureIsNamedAndRetried(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some twenty processes")
	}
	for _, c := range []struct {
		does, says string
		urgent     int // attempts
		background int
		limits     bool
	}{
		{"refuse", "no such luck", 2, 1, false},
		{"abort", "SIGABRT", 3, 2, false},
		{"panic", "oh", 3, 2, false},
		{"kill", "killed", 20, 5, false},
		{"long", "an artifact of", 2, 1, true},
		{"sleep", "stood still", 3, 2, false},
		{"stop", "stood still", 3, 2, false},
		{"spin", "processor time", 2, 1, true},
		{"eat", "cannot allocate memory", 6, 1, true},
	} {
		t.Run(c.does, func(t *testing.T) {
			if c.does == "eat" && runtime.GOOS != "linux" {
				t.Skip("memory is limited on Linux only")
			}
			p := newPool(t, func(o *Options) {
				if c.does == "sleep" || c.does == "stop" {
					o.Hang = 700 * time.Millisecond
				}
				o.Limits = func(int, bool) Limits {
					return Limits{CPU: 300 * time.Millisecond, Memory: 100 << 20, Output: 10_000}
				}
			})
			for _, background := range []bool{true, false} {
				j := job("bad", c.does)
				j.Background = background
				want := c.urgent
				if background {
					want = c.background
				}
				_, err := p.Compile(j)
				var e *Error
				if !errors.As(err, &e) || !strings.Contains(e.Reason, c.says) || e.Attempts != want || e.Limits != c.limits {
					t.Errorf("background %v: got %v, want %d attempts and %q", background, err, want, c.says)
				}
			}
			j := job("bad", c.does) // now it is known
			j.Background = true
			_, err := p.Compile(j)
			var e *Error
			if !errors.As(err, &e) || e.Attempts != 0 {
				t.Errorf("tried again in the background: %v", err)
			}
			if code, err := p.Compile(job("good", "make")); err != nil || string(code) != "xxxx" {
				t.Errorf("afterwards %q, %v", code, err)
			}
			if s := p.Stats(); s.Failed != 2 || s.Refused != 1 || s.Quarantined != 1 || s.Deaths != uint64(c.urgent+c.background) || s.InProcess != 0 {
				t.Errorf("%+v", s)
			}
			// A block's attempt succeeds and clears the mark.
			if _, err := p.Compile(job("bad", "make")); err != nil {
				t.Error(err)
			}
			if _, err := p.Compile(j); err == nil || p.Stats().Refused != 1 {
				t.Errorf("still refused after a success: %v", err)
			}
		})
	}
}

// TestRetriedFailureShowsOnlyInCounts checks that a failure of a single attempt shows in the counts
// only.
func TestRetriedFailureShowsOnlyInCounts(t *testing.T) {
	dir := t.TempDir()
	for i, does := range []string{"abort", "panic", "kill", "refuse", "long"} {
		p := newPool(t, nil)
		code, err := p.Compile(job("a", fmt.Sprintf("once %s/%d %s", dir, i, does)))
		if err != nil || string(code) != "made" {
			t.Errorf("%s: %q, %v", does, code, err)
		}
		if s := p.Stats(); s.Retries != 1 || s.Deaths != 1 || s.Failed != 0 || s.Quarantined != 0 {
			t.Errorf("%s: %+v", does, s)
		}
	}
}

// TestKilledChildrenAreRetriedForBlocks checks that a compilation for a block succeeds if children
// are killed or get no memory for some seconds, that this leaves no mark, and that there are pauses
// between the attempts.
func TestKilledChildrenAreRetriedForBlocks(t *testing.T) {
	for does, times := range map[string]int{"threads": 5, "memory": 5, "kill": 9} {
		t.Run(does, func(t *testing.T) {
			p := newPool(t, func(o *Options) { o.Pause = 20 * time.Millisecond })
			begun := time.Now()
			code, err := p.Compile(job("a", fmt.Sprintf("until %s %d %s", t.TempDir(), times, does)))
			if err != nil || string(code) != "made" {
				t.Errorf("got code %q, %v, want %q", code, err, "made")
			}
			if s := p.Stats(); s.Retries != uint64(times) || s.Failed+s.InProcess != 0 || s.Quarantined != 0 {
				t.Errorf("got %+v, want %d retries and no failure", s, times)
			}
			if took := time.Since(begun); took < 500*time.Millisecond {
				t.Errorf("all attempts took %v, want at least 500ms", took)
			}
		})
	}
	p := newPool(t, func(o *Options) { o.Pause = time.Hour })
	j, cancel := job("a", "memory"), make(chan struct{})
	j.Cancel = cancel
	time.AfterFunc(time.Second, func() { close(cancel) })
	if _, err := p.Compile(j); !errors.Is(err, ErrCancelled) {
		t.Errorf("cancelled in a pause: %v", err)
	}
	time.AfterFunc(time.Second, p.Close)
	if _, err := p.Compile(job("a", "memory")); !errors.Is(err, ErrClosed) {
		t.Errorf("closed in a pause: %v", err)
	}
}

// TestIdleChildIsEnded checks that an idle child is ended after a while, and that a child that was
// killed while idle is not a failure.
func TestIdleChildIsEnded(t *testing.T) {
	p := newPool(t, func(o *Options) { o.Idle = 200 * time.Millisecond })
	pid := func() string {
		code, err := p.Compile(job("a", "pid"))
		if err != nil {
			t.Fatal(err)
		}
		return string(code)
	}
	first := pid()
	if again := pid(); again != first {
		t.Errorf("process %s, then %s", first, again)
	}
	waitFor(t, "the child to end", func() bool { return len(p.Children()) == 0 })
	if again := pid(); again == first {
		t.Error("an ended process answered")
	}
	if err := syscall.Kill(p.Children()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	pid()
	if s := p.Stats(); s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestGrownChildIsEndedAfterRequest checks that a child whose memory has grown is ended after its
// request.
func TestGrownChildIsEndedAfterRequest(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the size of a process is known on Linux only")
	}
	p := newPool(t, nil)
	if _, err := p.Compile(job("a", "grow")); err != nil {
		t.Fatal(err)
	}
	if n := len(p.Children()); n != 0 {
		t.Errorf("%d children", n)
	}
}

// TestBackgroundChildrenHaveLowPriority checks that background compilations run with low priority
// and those for blocks with the ordinary one, each kind in a child of its own.
func TestBackgroundChildrenHaveLowPriority(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have priorities on Linux only")
	}
	p := newPool(t, nil)
	own, err := syscall.Getpriority(syscall.PRIO_PROCESS, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		j := job("a", "nice")
		j.Background = i%2 == 0
		want := 20 - own
		if j.Background {
			want = backgroundNice
		}
		if code, err := p.Compile(j); err != nil || string(code) != fmt.Sprint(want) {
			t.Errorf("background %v: nice %s, %v, want %d", j.Background, code, err, want)
		}
	}
	if s := p.Stats(); s.Started != 2 { // one for each
		t.Errorf("%+v", s)
	}
	// All threads of a child have its priority, those of the library and of the runtime too.
	for i := range 2 {
		j := job("a", "threads-nice")
		j.Background = i == 0
		want := fmt.Sprint(20 - own)
		if j.Background {
			want = fmt.Sprint(backgroundNice)
		}
		code, err := p.Compile(j)
		all := strings.Fields(string(code))
		if err != nil || len(all) < 2 {
			t.Errorf("background %v: %s, %v", j.Background, code, err)
		}
		for _, nice := range all {
			if nice != want {
				t.Errorf("background %v: threads with nice %s, want %s", j.Background, code, want)
				break
			}
		}
	}
}

// TestCancelledJobEndsAtOnce checks that a cancelled job ends at once, whether it waits or runs,
// that it is not a failure, and that it leaves no mark.
func TestCancelledJobEndsAtOnce(t *testing.T) {
	dir := t.TempDir()
	p := newPool(t, func(o *Options) { o.Total, o.Dir = 2, dir })
	cancel := make(chan struct{})
	var all sync.WaitGroup
	for i := range 3 { // one runs
		all.Go(func() {
			j := job(fmt.Sprint(i), "sleep")
			j.Background, j.Cancel = true, cancel
			if _, err := p.Compile(j); !errors.Is(err, ErrCancelled) {
				t.Errorf("err = %v, want ErrCancelled", err)
			}
		})
	}
	waitFor(t, "one to run and two to wait", func() bool {
		p.gate.mu.Lock()
		waiting := len(p.gate.background)
		p.gate.mu.Unlock()
		s := p.Stats()
		return waiting == 2 && s.Running == 1 && s.Children == 1
	})
	// Meanwhile a compilation for a block can run.
	if _, err := p.Compile(job("urgent", "make")); err != nil {
		t.Error(err)
	}
	close(cancel)
	all.Wait()
	if s := p.Stats(); s.Cancelled != 3 || s.Failed != 0 || s.Quarantined != 0 {
		t.Errorf("%+v", s)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("marks %v, %v", files, err)
	}
}

// TestCloseEndsAllCompilations checks that Close ends running and waiting compilations.
func TestCloseEndsAllCompilations(t *testing.T) {
	p := newPool(t, func(o *Options) { o.Total = 2 })
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			if _, err := p.Compile(job(fmt.Sprint(i), "sleep")); !errors.Is(err, ErrClosed) {
				t.Errorf("err = %v, want ErrClosed", err)
			}
		})
	}
	waitFor(t, "two to run", func() bool { return p.Stats().Running == 2 && len(p.Children()) == 2 })
	p.Close()
	all.Wait()
	if _, err := p.Compile(job("a", "make")); !errors.Is(err, ErrClosed) {
		t.Errorf("err = %v, want ErrClosed", err)
	}
}

// TestPreparePanicIsCompilerFailure checks that a panic of Job.Prepare is a failure of the
// compiler, and that an error of Job.Prepare is returned unchanged.
func TestPreparePanicIsCompilerFailure(t *testing.T) {
	p := newPool(t, nil)
	j := job("a", "")
	j.Prepare = func() ([]byte, error) { panic("oh") }
	var e *Error
	if _, err := p.Compile(j); !errors.As(err, &e) || !strings.Contains(e.Reason, "prepare: oh") {
		t.Errorf("err = %v", err)
	}
	oh := errors.New("oh")
	j.Prepare = func() ([]byte, error) { return nil, oh }
	if _, err := p.Compile(j); !errors.Is(err, oh) {
		t.Errorf("err = %v, want %v", err, oh)
	}
	j.Prepare = func() ([]byte, error) { return nil, nil }
	if code, err := p.Compile(j); code != nil || err != nil {
		t.Errorf("got code %q, %v, want %q", code, err, "made")
	}
	if s := p.Stats(); s.Started != 0 {
		t.Errorf("%+v", s)
	}
}

// TestProcessCompilesWithoutChildren checks that this process compiles if no child can be started
// or the child is of another version, and that this is reported once.
func TestProcessCompilesWithoutChildren(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"none":            func(o *Options) { o.Command = Command{} },
		"no such file":    func(o *Options) { o.Command.Path = "/nowhere" },
		"not ours":        func(o *Options) { o.Command = Command{Path: "/bin/true"} },
		"another version": func(o *Options) { o.Version = "v2" },
	} {
		t.Run(name, func(t *testing.T) {
			alarms := 0
			p := newPool(t, func(o *Options) {
				change(o)
				o.Alarm = func(error) { alarms++ }
			})
			for range 2 {
				if code, err := p.Compile(job("a", "make")); err != nil || string(code) != "here" {
					t.Errorf("got code %q, %v, want %q", code, err, "made")
				}
			}
			want := 1
			if name == "none" {
				want = 0
			}
			if s := p.Stats(); alarms != want || s.InProcess != 2 {
				t.Errorf("%d alarms, %+v", alarms, s)
			}
		})
	}
}

// TestChildEndsWithKilledParent checks that a child ends when its parent process is killed.
func TestChildEndsWithKilledParent(t *testing.T) {
	if os.Getenv("TROUPE_TEST_PARENT") != "" {
		p := newPool(t, nil)
		go func() { _, _ = p.Compile(job("a", "spin")) }()
		waitFor(t, "a child", func() bool { return len(p.Children()) == 1 })
		fmt.Println("child", p.Children()[0])
		select {}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestChildEndsWithKilledParent$")
	cmd.Env = append(os.Environ(), "TROUPE_TEST_PARENT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "child %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	waitFor(t, "the child to end", func() bool { return !runs(pid) })
}

// runs returns whether a process exists and has not ended. An ended process may remain as a zombie.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}
